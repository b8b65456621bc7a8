"""aryl on GPUs of several types: who stands where, exactness by type, what always holds."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.aryl import Aryl
from policies.aryl_base import allocate_base
from policies.aryl_gpus import Fleet
from policies.aryl_mixing import grow_mixed
from policies.aryl_objectives import WORTH
from policies.problem import NO_MEMORY, PlacementRule, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.policies.test_ffdl import with_batches
from tests.strategies import problems

V100S, T4S = training(4, "V100"), on_loan(4, "T4", 0.25)


def decide(jobs, servers=(V100S, T4S), policy=Aryl(), **kwargs):  # noqa: B008 - frozen
    return policy.decide(problem(jobs, servers, **kwargs), NO_MEMORY)[0]


def sizes(decision):
    """Workers and type of each job."""
    return {name: (each.workers, each.gpu_type) for name, each in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


class TestWhere:
    def test_a_job_that_asks_for_a_type_gets_no_other(self):
        decision = decide([job("a", 2, gpu_type="T4"), job("b", 3, gpu_type="T4")])
        assert sizes(decision) == {"a": (2, "T4"), "b": (0, None)}
        assert why(decision, "b") == (
            "waits: needs 3 T4 GPUs, 2 are left by the base demands of running jobs and of "
            "1 shorter ones; 40 s to go at its minimum"
        )

    def test_one_that_asks_for_a_type_which_is_not_there_waits(self):
        decision = decide([job("a", 1, gpu_type="A100")])
        assert sizes(decision) == {"a": (0, None)}
        assert "needs 1 A100 GPUs, 0 are left" in why(decision, "a")

    def test_inelastic_jobs_stand_on_training_gpus_if_they_fit_else_on_loan(self):
        jobs = [job("short", 3, epoch_s=1), job("long", 3, epoch_s=2)]
        decision = decide(jobs)
        assert sizes(decision) == {"short": (3, "V100"), "long": (3, "T4")}
        assert why(decision, "long") == (
            "starts on 3 workers with T4 GPUs, 8 s to go; its size is fixed"
        )

    def test_elastic_jobs_that_are_not_kept_apart_are_placed_like_others(self):
        decision = decide([job("a", (3, 4))], policy=Aryl(apart=False))
        assert sizes(decision) == {"a": (4, "V100")}
        assert decision.allocations["a"].placement is PlacementRule.PACK

    def test_elastic_jobs_stand_on_loan_first(self):
        jobs = [job("short", (3, 4), epoch_s=1), job("long", (3, 4), epoch_s=2)]
        assert sizes(decide(jobs)) == {"short": (4, "T4"), "long": (4, "V100")}

    def test_free_gpus_of_two_types_are_no_room_for_one_job(self):
        decision = decide([job("a", 5)])
        assert sizes(decision) == {"a": (0, None)}
        assert "needs 5 GPUs of one type, 4 of one are left" in why(decision, "a")

    def test_flexible_workers_stay_on_the_type_of_the_base(self):
        jobs = [job("a", (1, 8), running=1, on={"t1": 1}), job("b", (1, 8), on={"l1": 1})]
        assert sizes(decide(jobs)) == {"a": (4, "V100"), "b": (4, "T4")}

    def test_a_running_job_keeps_its_type(self):
        assert sizes(decide([job("a", 2, on={"l1": 2})])) == {"a": (2, "T4")}

    def test_one_type_is_not_named(self):
        assert sizes(decide([job("a", 2)], [training(4, "T4", 0.25)])) == {"a": (2, None)}


class TestOrder:
    def test_shortest_first_by_the_time_where_a_job_would_start(self):
        """`elastic` aims at T4s, for 40 s. `typed` takes them, and so it aims at V100s: 10 s."""
        jobs = [
            job("elastic", (3, 4), epoch_s=10),
            job("fixed", 3, epoch_s=25),
            job("typed", 3, epoch_s=5, gpu_type="T4"),
        ]
        assert sizes(decide(jobs)) == {
            "elastic": (4, "V100"),
            "fixed": (0, None),
            "typed": (3, "T4"),
        }

    def test_jobs_that_mix_types_come_last(self):
        jobs = [job("mixes", 5, epoch_s=1, mixes_gpus=True), job("long", 4, epoch_s=900)]
        decision = decide(jobs)
        assert sizes(decision) == {"mixes": (0, None), "long": (4, "V100")}
        assert "needs 5 GPUs of any types, 4 are left" in why(decision, "mixes")

    def test_of_those_the_shorter_starts_first(self):
        jobs = [job(name, 5, epoch_s=s, mixes_gpus=True) for name, s in (("long", 9), ("short", 1))]
        assert sizes(decide(jobs)) == {"long": (0, None), "short": (5, None)}


class TestMixing:
    def test_the_base_stands_on_training_gpus_first(self):
        decision = decide([job("a", 6, epoch_s=10, mixes_gpus=True)])
        assert sizes(decision) == {"a": (6, None)}
        # 4 workers at 1 and 2 at 1/4, at 70 % of their mean.
        assert decision.allocations["a"].reason.numbers["left_s"] == pytest.approx(
            10 / (0.7 * 4.5 / 6)
        )
        assert "with V100 and T4 GPUs" in why(decision, "a")

    @pytest.mark.parametrize(("mixing", "workers"), [(0.7, 4), (1.0, 8)])
    def test_a_few_slow_workers_may_cost_more_than_they_bring(self, mixing, workers):
        """4 V100s are worth 4; with 4 T4s, 0.7 x 5 = 3.5, or 5 where mixing is ideal."""
        jobs = [job("a", (4, 8), epoch_s=10, mixes_gpus=True)]
        assert sizes(decide(jobs, policy=Aryl(mixing=mixing))) == {"a": (workers, None)}

    def test_flexible_workers_stand_on_loan_first(self):
        """4 T4s, then 2 V100s: 2 + 2 + 4 / 4 = 5."""
        jobs = [job("a", (2, 8), epoch_s=10, mixes_gpus=True), job("b", 1, gpu_type="V100")]
        decision = decide(jobs, policy=Aryl(mixing=1.0))
        assert sizes(decision) == {"a": (7, None), "b": (1, "V100")}
        assert decision.allocations["a"].reason.numbers["left_s"] == pytest.approx(10 * 2 / 4)

    def test_a_share_is_refused_that_is_none(self):
        with pytest.raises(PolicyError, match="mixing is 0; use more than 0, up to 1"):
            Aryl(mixing=0)


class TestTuned:
    """Aryl+TunedJobs (§7.1). 64 is the job's own batch size; 128 is better on 2 workers."""

    curve = {64: [10, 8], 128: [12, 5]}  # noqa: RUF012

    def test_the_best_batch_size_of_each_size_is_told(self):
        for gpus, batch_size in ((1, 64), (2, 128)):
            case = with_batches(problem([job("a", (1, 2))], [training(gpus)]), self.curve)
            given = Aryl(tuned=True).decide(case, NO_MEMORY)[0].allocations["a"]
            assert (given.workers, given.batch_size) == (gpus, batch_size)

    def test_sizes_are_weighed_by_their_best_batch(self):
        """With 128 a GPU saves 10 - 5 s for a, 7 - 3.5 s for b; with 64, 2 s for a."""
        jobs = [job("a", (1, 2)), job("b", (1, 2))]
        case = with_batches(problem(jobs, [training(3)]), self.curve, {64: [7, 3.5]})
        for tuned, winner in ((True, "a"), (False, "b")):
            assert sizes(Aryl(tuned=tuned).decide(case, NO_MEMORY)[0])[winner] == (2, None)

    def test_untuned_the_batch_size_is_left_as_it_is(self):
        case = with_batches(problem([job("a", (1, 2))], [training(2)]), self.curve)
        given = Aryl().decide(case, NO_MEMORY)[0].allocations["a"]
        assert (given.workers, given.batch_size) == (2, None)


class TestMemory:
    """Appendix E: 32 GiB on a V100, 16 on a T4."""

    servers = (training(4, "V100", 1.0, 32.0), on_loan(4, "T4", 0.25, 16.0))
    curve = {32: [14], 64: [10]}  # noqa: RUF012

    def decide(self, gpu_type, gib, policy=Aryl()):  # noqa: B008 - frozen
        jobs = [job("a", 1, gpu_type=gpu_type, gpu_memory_gib=gib)]
        case = with_batches(problem(jobs, self.servers), self.curve)
        return policy.decide(case, NO_MEMORY)[0].allocations["a"]

    @pytest.mark.parametrize("policy", [Aryl(), Aryl(tuned=True)])
    def test_where_memory_is_half_so_is_the_batch(self, policy):
        given = self.decide("T4", 32.0, policy)
        assert (given.workers, given.gpu_type, given.batch_size) == (1, "T4", 32)
        assert given.reason.numbers["left_s"] == pytest.approx(14 * 4)

    @pytest.mark.parametrize(("gpu_type", "gib"), [("V100", 32.0), ("T4", 16.0), ("T4", np.nan)])
    def test_where_it_fits_it_stays(self, gpu_type, gib):
        given = self.decide(gpu_type, gib)
        assert (given.workers, given.batch_size) == (1, None)

    def test_a_job_does_not_stand_where_no_batch_fits(self):
        assert self.decide("T4", 33.0).workers == 0
        assert self.decide("", 33.0).gpu_type == "V100"


class TestLostServers:
    def test_a_job_moves_to_another_type_that_has_room(self):
        jobs = [job("stays", 4, on={"l1": 4}), job("moves", 2, on={"l2": 2})]
        decision = decide(jobs, [V100S, T4S, on_loan(0, "T4", 0.25)])
        assert sizes(decision) == {"stays": (4, "T4"), "moves": (2, "V100")}
        assert why(decision, "moves").startswith(
            "moves from 2 to 2 workers with V100 GPUs: 10 s to go, not 40 s"
        )

    def test_of_equally_many_preemptions_those_that_lose_less(self):
        jobs = [job("saves", 2, running=2), job("loses", 2, running=2, checkpoints=False)]
        assert sizes(decide(jobs, [training(2)])) == {"saves": (0, None), "loses": (2, None)}

    def test_but_no_more_preemptions_to_spare_progress(self):
        jobs = [
            job("a", 1, running=1),
            job("b", 1, running=1),
            job("loses", 2, running=2, checkpoints=False),
        ]
        assert sizes(decide(jobs, [training(2)])) == {
            "a": (1, None),
            "b": (1, None),
            "loses": (0, None),
        }


def literal_base(fleet):
    """Who starts where: at each step the job that would take the least time where it would start,
    among those that fit at all. Jobs that mix types apart."""
    jobs, free = fleet.problem.jobs, fleet.gpus.copy()
    waiting = [row for row in range(len(jobs)) if not jobs.workers[row] and not fleet.mixes[row]]
    starts: dict[int, int] = {}
    while True:
        line = []
        for row in waiting:
            fitting = [at for at in fleet.preferred(row) if jobs.base_gpus[row] <= free[at]]
            if fitting:
                left_s = jobs.remaining_s(row, int(jobs.min_workers[row]))
                line.append((left_s / fleet.types[fitting[0]].rate, row, fitting[0]))
        if not line:
            return starts
        _, row, at = min(line)
        free[at] -= jobs.base_gpus[row]
        starts[row] = at
        waiting.remove(row)


@given(problems(gpu_types=True))
def test_phase_1_equals_the_literal_search(case):
    assume(not (case.jobs.workers > 0).any())
    fleet = Fleet.of(case, mixing=0.7, tuned=False)
    base = allocate_base(fleet)
    alone = np.flatnonzero(base.runs & ~fleet.mixes)
    assert dict(zip(alone.tolist(), base.gpu_type[alone].tolist(), strict=True)) == literal_base(
        fleet
    )


@pytest.mark.parametrize("objective", ["mckp", "recip"])
@given(seed=st.integers(0, 2**32 - 1))
def test_phase_2_equals_brute_force_on_each_type(objective, seed):
    rng = np.random.default_rng(seed)
    jobs = []
    for number in range(int(rng.integers(2, 5))):
        low, server = int(rng.integers(1, 3)), ["t1", "l1"][int(rng.integers(2))]
        high = low + int(rng.integers(0, 4))
        epoch_s = np.exp(rng.uniform(3, 6, high - low + 1)).tolist()
        gpus = int(rng.integers(1, 3))
        jobs.append(job(f"j{number}", (low, high), epoch_s=epoch_s, gpus=gpus, on={server: low}))
    servers = [training(10, "V100"), on_loan(12, "T4", 0.25)]
    room = {"t1": 10, "l1": 12}
    for each in jobs:
        room[next(iter(each.on))] -= each.workers[0] * each.gpus
    assume(min(room.values()) >= 0)
    decision = decide(jobs, servers, Aryl(objective=objective))

    def worth(left_s):
        return -left_s if objective == "mckp" else 1 / left_s

    best = 0.0
    for extra in product(*(range(each.workers[1] - each.workers[0] + 1) for each in jobs)):
        used, value = {"t1": 0, "l1": 0}, 0.0
        for each, more in zip(jobs, extra, strict=True):
            server = next(iter(each.on))
            rate = 1.0 if server == "t1" else 0.25
            used[server] += more * each.gpus
            value += worth(each.epoch_s[more] / rate) - worth(each.epoch_s[0] / rate)
        if all(used[server] <= room[server] for server in room):
            best = max(best, value)
    assert decision.objective == pytest.approx(best)
    assert decision.bound == pytest.approx(best)


def room_by_type(case):
    room = dict.fromkeys(case.servers.gpu_type, 0)
    for gpu_type, gpus in zip(case.servers.gpu_type, case.servers.gpus.tolist(), strict=True):
        room[gpu_type] += gpus
    return room


@pytest.mark.parametrize("objective", ["mckp", "recip", "rollout"])
@given(case=problems(gpu_types=True, lost_servers=True))
def test_within_the_capacity_of_each_type(objective, case):
    decision = Aryl(objective=objective).decide(case, NO_MEMORY)[0]
    room, jobs = room_by_type(case), case.jobs
    mixed_gpus = 0
    for row, name in enumerate(jobs.ids):
        each = decision.allocations[name]
        assert each.workers == 0 or jobs.min_workers[row] <= each.workers <= jobs.max_workers[row]
        gpus = each.workers * int(jobs.gpus_per_worker[row])
        if len(room) > 1 and gpus and not jobs.mixes_gpus[row]:
            assert each.gpu_type is not None and jobs.gpu_type[row] in ("", each.gpu_type)
            room[each.gpu_type] -= gpus
        else:
            assert each.gpu_type is None
            mixed_gpus += gpus
    assert all(gpus >= 0 for gpus in room.values())
    assert mixed_gpus <= sum(room.values())
    assert all(str(each.reason) for each in decision.allocations.values())


@given(case=problems(gpu_types=True), mixing=st.sampled_from([0.5, 0.7, 1.0]))
def test_flexible_workers_of_a_job_that_mixes_types_shorten_its_time(case, mixing):
    fleet = Fleet.of(replace(case, resize_s=0.0), mixing, tuned=False)
    base = allocate_base(fleet)
    grown = grow_mixed(fleet, base.workers, base.free_gpus, WORTH["mckp"])
    rows = np.flatnonzero(fleet.mixes & base.runs)
    more = grown[rows].sum(axis=1) > base.workers[rows].sum(axis=1)
    rows = rows[more & (case.jobs.remaining_epochs[rows] > 0)]
    assert (fleet.left_s(rows, grown[rows]) < fleet.left_s(rows, base.workers[rows])).all()
    used = (grown * case.jobs.gpus_per_worker[:, None]).sum(axis=0)
    assert (used <= fleet.gpus).all()
    assert (grown.sum(axis=1) <= case.jobs.max_workers).all()


@given(problems(gpu_types=True))
def test_who_runs_goes_on_running_on_its_type(case):
    decision = Aryl().decide(case, NO_MEMORY)[0]
    for row, name in enumerate(case.jobs.ids):
        stands = {case.servers.gpu_type[at] for at in np.flatnonzero(case.placed[row]).tolist()}
        if stands:
            each = decision.allocations[name]
            assert each.workers > 0
            assert each.gpu_type is None or stands == {each.gpu_type}


@pytest.mark.parametrize("objective", ["mckp", "recip", "rollout"])
@given(case=problems(lost_servers=True))
def test_a_cluster_of_slow_gpus_is_one_of_fast_ones_with_longer_epochs(objective, case):
    """All at a quarter of the speed, and four times shorter epochs: as if nothing were said."""
    assume(case.servers.ids)
    policy = Aryl(objective=objective)
    curves = replace(case.jobs.curves, epoch_s=case.jobs.curves.epoch_s / 4)
    slow = replace(
        case,
        jobs=replace(case.jobs, curves=curves),
        servers=replace(case.servers, gpu_rate=np.full(len(case.servers.ids), 0.25)),
    )
    assert policy.decide(slow, NO_MEMORY) == policy.decide(case, NO_MEMORY)
