"""afs by hand, in both readings, and against plain loops."""

import numpy as np
import pytest
from hypothesis import given

from policies.baselines.afs import Afs
from policies.problem import Policy, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.strategies import problems

ARYL, ORIGINAL = Afs(), Afs(reading="afs_l")


def test_is_a_policy():
    assert isinstance(Afs(), Policy)
    assert (Afs().name, Afs().default_loaning, Afs().interval_s) == ("afs", "off", None)


def test_an_unknown_reading_is_refused():
    with pytest.raises(PolicyError, match="reading is 'afs_p'; use aryl or afs_l"):
        Afs(reading="afs_p")  # type: ignore[arg-type]


def test_bad_problems_are_refused_by_job_and_field():
    for policy in (ARYL, ORIGINAL):
        with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
            policy.decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), {})


class TestAryl:
    def test_base_demands_in_the_order_of_arrival_passing_over_what_does_not_fit(self):
        jobs = [job("a", (2, 4)), job("big", 4), job("c", (1, 2))]
        decision = decided(ARYL, problem(jobs, [training(3)]))
        assert sizes(decision) == {"a": 2, "big": 0, "c": 1}
        assert why(decision, "big") == "waits: others come first; it needs 4 GPUs, 0 are free"

    def test_who_runs_keeps_the_base_demand_but_not_the_rest(self):
        jobs = [job("new", 2), job("runs", (2, 4), running=4)]
        assert sizes(decided(ARYL, problem(jobs, [training(4)]))) == {"new": 2, "runs": 2}
        assert sizes(decided(ARYL, problem(jobs, [training(3)]))) == {"new": 0, "runs": 3}

    def test_each_worker_goes_where_the_throughput_rises_most(self):
        """Factors (1, 1.9, 2.5) and (1, 1.6, 2.4): gains .9, .6 and .6, .8."""
        jobs = [
            job("a", (1, 3), epoch_s=[19, 10, 7.6]),
            job("b", (1, 3), epoch_s=[24, 15, 10]),
        ]
        for gpus, expected in ((3, (2, 1)), (4, (3, 1)), (5, (3, 2)), (6, (3, 3))):
            decision = decided(ARYL, problem(jobs, [training(gpus)]))
            assert tuple(sizes(decision).values()) == expected
        decision = decided(ARYL, problem(jobs, [training(4)]))
        assert why(decision, "a") == "starts on 3 workers: it can use no more"
        assert why(decision, "b") == (
            "starts on 1 workers: the next GPU would add 0.60 of one; it needs 1 GPUs, 0 are free"
        )

    def test_under_linear_scaling_the_earliest_submitted_grows_first(self):
        jobs = [job("a", (1, 3), epochs=9), job("b", (1, 7)), job("c", (1, 3), gpus=2)]
        assert sizes(decided(ARYL, problem(jobs, [training(8)]))) == {"a": 3, "b": 3, "c": 1}

    def test_gains_count_by_gpu(self):
        """A worker of 2 GPUs that adds 1.6 loses to one of 1 GPU that adds .9."""
        jobs = [job("wide", (1, 2), gpus=2, epoch_s=[18, 10]), job("b", (1, 2), epoch_s=[19, 10])]
        assert sizes(decided(ARYL, problem(jobs, [training(5)]))) == {"wide": 1, "b": 2}

    def test_a_step_that_adds_nothing_is_not_taken(self):
        decision = decided(ARYL, problem([job("a", (1, 3), epoch_s=[8, 5, 6])], [training(3)]))
        assert sizes(decision) == {"a": 2}
        assert why(decision, "a").endswith("the next GPU would add -0.27 of one")

    @given(problems(lost_servers=True))
    def test_no_gpu_idles_that_a_job_below_its_maximum_could_use(self, case):
        jobs, decision = case.jobs, decided(ARYL, case)
        workers = np.array([*sizes(decision).values()], dtype=int)
        free = case.servers.total_gpus - (workers * jobs.gpus_per_worker).sum()
        step = np.where(workers > 0, 1, jobs.min_workers) * jobs.gpus_per_worker
        assert (step > free)[workers < jobs.max_workers].all()  # curves of `problems` are linear

    @given(problems())
    def test_base_demands_of_running_jobs_are_never_preempted(self, case):
        workers = np.array([*sizes(decided(ARYL, case)).values()], dtype=int)
        assert (workers[case.jobs.workers > 0] > 0).all()


class TestOriginal:
    def test_two_linear_jobs_step_by_step(self):
        """a (10 s of work) leads: b's first GPU is worth 1, no more than a's second (2 - 1) / 1.

        Then 1 > (3 - 2) / 2 for b; a again, as (2 - 1) / 2 is not above 1 / 2; then b, as 1 / 2
        is above 1 / 3; and so on in turn.
        """
        jobs = [job("b", (1, 9), epoch_s=20), job("a", (1, 9), epoch_s=10)]
        expected = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
        for gpus, (b, a) in enumerate(expected, 1):
            decision = decided(ORIGINAL, problem(jobs, [training(gpus)]))
            assert sizes(decision) == {"b": b, "a": a}

    def test_remaining_work_counts_and_nobody_is_kept(self):
        jobs = [job("long", 1, epochs=5, running=1), job("short", 1, epochs=4)]
        decision = decided(ORIGINAL, problem(jobs, [on_loan(1)]))
        assert sizes(decision) == {"long": 0, "short": 1}
        assert why(decision, "long") == (
            "gives up its 1 workers: others come first; it needs 1 GPUs, 0 are free"
        )

    def test_a_start_counts_as_one_whatever_its_gpus(self):
        """b needs 4 GPUs to start, and gets them before a's third."""
        jobs = [job("a", (1, 9)), job("b", (2, 9), gpus=2, epochs=9)]
        assert sizes(decided(ORIGINAL, problem(jobs, [training(6)]))) == {"a": 2, "b": 2}

    def test_nobody_starves_while_others_grow(self):
        """The shortest takes its second worker first, then all start before anyone's third."""
        jobs = [job(f"j{n}", (1, 9), epochs=epochs) for n, epochs in enumerate((9, 2, 8, 4, 1, 7))]
        for gpus in range(2, 13):
            workers = sizes(decided(ORIGINAL, problem(jobs, [training(gpus)])))
            assert sum(n > 0 for n in workers.values()) == min(gpus - 1, 6)
            assert workers["j4"] >= 2

    def test_ties_go_to_the_earliest_submitted(self):
        jobs = [job(name, 1) for name in "abc"]
        assert sizes(decided(ORIGINAL, problem(jobs, [training(2)]))) == {"a": 1, "b": 1, "c": 0}

    @given(problems(lost_servers=True))
    def test_agrees_with_the_rule_in_plain_python(self, case):
        assert [*sizes(decided(ORIGINAL, case)).values()] == by_the_rule(case)

    @given(problems(lost_servers=True))
    def test_no_gpu_idles_that_a_job_below_its_maximum_could_use(self, case):
        jobs, decision = case.jobs, decided(ORIGINAL, case)
        workers = np.array([*sizes(decision).values()], dtype=int)
        free = case.servers.total_gpus - (workers * jobs.gpus_per_worker).sum()
        step = np.where(workers > 0, 1, jobs.min_workers) * jobs.gpus_per_worker
        assert (step > free)[workers < jobs.max_workers].all()


LESS = 1 - 1e-9  # rounding decides nothing


def by_the_rule(case):
    """AFS-L for linear curves, with throughputs k: comparisons of fractions, no kernel."""
    jobs, free = case.jobs, case.servers.total_gpus
    low, high, gpus = (
        column.tolist() for column in (jobs.min_workers, jobs.max_workers, jobs.gpus_per_worker)
    )
    work = [jobs.remaining_s(row, low[row]) * low[row] for row in range(len(jobs))]
    size = [0] * len(jobs)

    def step(j):
        return 1 if size[j] else low[j]

    def better(j, best):
        left = {x: work[x] / size[x] for x in (j, best)}
        a, b = (j, best) if left[j] < left[best] * LESS else (best, j)
        # 1 / (size + 1) / GPUs of a worker > 1 / size / GPUs of a worker
        return (b if size[a] * gpus[a] > (size[b] + 1) * gpus[b] else a) == j

    while True:
        fits = [j for j in range(len(jobs)) if size[j] < high[j] and step(j) * gpus[j] <= free]
        best = waits = None
        for j in fits:
            if size[j]:
                best = j if best is None or better(j, best) else best
            elif waits is None or work[j] / low[j] < work[waits] / low[waits] * LESS:
                waits = j
        if waits is not None and (best is None or size[best] * gpus[best] > 1):
            best = waits
        if best is None:
            return size
        free -= step(best) * gpus[best]
        size[best] += step(best)
