"""What is measured of OASiS: its utility beside other schemes, to the optimum, at wrong prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policies.oasis.market import Cluster, Estimate, empty_cluster
from policies.oasis.model import PsJobs
from policies.oasis.offline import optimum
from policies.oasis.schedule import offer
from raysched.durations import HOUR_S
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.metrics import metrics
from raysched.simulator.models import Costs, Settings
from raysched.simulator.reproductions.experiment import Measured
from raysched.simulator.scenario import Scenario, training_servers
from raysched.simulator.workloads.oasis import Workload, arrivals, ps_jobs, servers

PRICE_FLOOR = 1e-4
"""L is at least this share of U. As printed, L is the least that any job could still be worth at
the end of the span: for a time-critical one 0 to all digits, and prices then rise from nothing."""

SLOTS = 100
"""Of an hour, in which jobs arrive: the paper has 100 to 300."""


BACKSTOP_S = 600.0
"""For one optimum; most take a second."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A policy, and what of its parameters is not the same for all."""

    policy: str
    parameters: Mapping[str, object] = field(default_factory=dict)


SCHEMES = {
    "oasis": Scheme("oasis", {"price_floor": PRICE_FLOOR}),
    "oasis, L as printed": Scheme("oasis", {"least_share": 0.0}),
    "fifo": Scheme("fifo"),
    "drf": Scheme("drf"),
    "rrh": Scheme("rrh"),
    "dorm": Scheme("dorm"),
}


def share_cluster(scheme: str, jobs: int, seed: int) -> Measured:
    """Total utility and lateness under a scheme: its policy over the live engine, in virtual time.

    GPUs are the one resource, and the 256 of 16 servers stand for the 50 servers of the paper: an
    integer program of `dorm` has a variable for each job and server. Jobs arrive over 100 slots and
    all that are admitted run to their end. `lateness`: completion minus target, by kind of job.
    """
    chosen, workload = SCHEMES[scheme], Workload(jobs=jobs, slots=SLOTS)
    given: dict[str, object] = {}
    if chosen.policy in ("oasis", "rrh"):
        given["slot_s"] = workload.slot_s
    if chosen.policy == "oasis":
        given |= {"horizon_slots": SLOTS, "grain": 1}  # work in worker-slots, as the paper has it
    settings = Settings(
        policy=chosen.policy,
        policy_parameters={**given, **chosen.parameters},
        costs=Costs(at_boundaries=False),  # an epoch is much shorter than a slot (002 §III-C)
    )
    scenario = Scenario(arrivals(workload, seed), training_servers(16, 16))
    outcome = Simulator(scenario, settings).run()
    found = metrics(outcome)
    return {
        **{name: found[name] for name in ("utility", "completed", "dropped", "gpu_use")},
        "lateness": _lateness(outcome, workload),
    }


def beside_optimum(servers_each: int, most_worth: float, seed: int) -> Measured:
    """The optimum in hindsight and the utility of OASiS on the same 12 jobs in 10 slots.

    With parameter servers and all resources, on `servers_each` servers for workers and as many for
    parameter servers. Jobs have few chunks and slots are of 5 hours, so that most jobs can end in
    time and the exact program is solved.
    """
    slots = 10
    workload = Workload(
        jobs=12,
        slots=slots - 2,
        slot_s=5 * HOUR_S,
        chunks=(2, 10),
        target_slots=(1, slots - 2),
        worth=(1.0, most_worth),
    )
    jobs, capacities = ps_jobs(workload, seed), servers(servers_each, seed)
    best = optimum(jobs, *capacities, slots, BACKSTOP_S)
    found = {
        name: _admit(jobs, empty_cluster(jobs, *capacities, slots, _estimate(floor)), slots)[0]
        for name, floor in (("utility", PRICE_FLOOR), ("utility_as_printed", 0.0))
    }
    return {"optimum": best.utility, "bound": best.bound, "optimal": best.optimal, **found}


def estimated(jobs: int, factor: float, price_floor: float, seed: int) -> Measured:
    """Total utility where U and L are taken for `factor` times what they are.

    With parameter servers and all resources, at the paper's size: 50 servers for workers and 50 for
    parameter servers.
    """
    drawn = ps_jobs(Workload(jobs=jobs, slots=SLOTS), seed)
    cluster = empty_cluster(drawn, *servers(50, seed), SLOTS, _estimate(price_floor, factor))
    utility, admitted = _admit(drawn, cluster, SLOTS)
    return {"utility": utility, "admitted": admitted}


def _estimate(price_floor: float, factor: float = 1.0) -> Estimate:
    return Estimate(factor, factor, least_share=0.0, price_floor=price_floor)


def _admit(jobs: PsJobs, cluster: Cluster, slots: int) -> tuple[float, int]:
    """Algorithm 1 over all arrivals: total utility, and how many jobs were admitted."""
    utility, admitted = 0.0, 0
    for job in range(len(jobs)):
        schedule, after = offer(jobs.request(job, slots), cluster)
        if schedule is not None and after is not cluster:
            utility += schedule.utility
            admitted += 1
        cluster = after
    return utility, admitted


def _lateness(outcome: Outcome, workload: Workload) -> dict[str, list[float]]:
    """[slots] By kind, of the jobs that finished."""
    late: dict[str, list[float]] = {"sensitive": [], "critical": []}
    for job in outcome.history.jobs.values():
        utility = job.spec.utility
        if utility is None or not utility.steepness_per_s or job.jct_s is None:
            continue
        decay = utility.steepness_per_s * workload.slot_s
        kind = "critical" if decay >= workload.critical_decay[0] * (1 - 1e-9) else "sensitive"
        late[kind].append(round((job.jct_s - utility.target_s) / workload.slot_s, 3))
    return late
