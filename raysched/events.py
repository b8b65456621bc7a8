"""What happened: the only thing that changes the scheduler's state.

Every event is journaled before an action that follows from it is sent, and replaying them
rebuilds the state. `at_s` is seconds since the journal began; the body reads the clock, the
engine never does. Names are in the past tense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from loaning.problem import LoanDecision
from policies.problem import Decision
from raysched.jobs import JobSpec
from raysched.profile import Profile

Placement: TypeAlias = Mapping[str, int]
"""Server id -> workers of one job there."""

Pool: TypeAlias = Literal["training", "inference"]


@dataclass(frozen=True, slots=True)
class ServerAdded:
    """A server joined a pool. GPUs that others occupy at that time are `foreign_gpus`; `gpu_rate`
    is the speed of one of its GPUs over that of the GPUs which curves are told for."""

    at_s: float
    server: str
    pool: Pool
    gpus: int
    gpu_type: str = "GPU"
    foreign_gpus: int = 0
    gpu_rate: float = 1.0
    kind: Literal["server_added"] = "server_added"


@dataclass(frozen=True, slots=True)
class ServerLost:
    """A server is gone, with whatever ran there."""

    at_s: float
    server: str
    kind: Literal["server_lost"] = "server_lost"


@dataclass(frozen=True, slots=True)
class ForeignGpusObserved:
    """Others now occupy this many GPUs of a server."""

    at_s: float
    server: str
    gpus: int
    kind: Literal["foreign_gpus_observed"] = "foreign_gpus_observed"


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A user submitted a job. `owner` names the driver that lives and dies with it; `token` this
    submission, so that one which is repeated makes no second job."""

    at_s: float
    job: str
    spec: JobSpec
    owner: str = ""
    token: str = ""
    kind: Literal["job_submitted"] = "job_submitted"


@dataclass(frozen=True, slots=True)
class GrantTaken:
    """A job without workers picked up its offer: from here on the GPUs are in use."""

    at_s: float
    job: str
    grant: int
    kind: Literal["grant_taken"] = "grant_taken"


@dataclass(frozen=True, slots=True)
class WorkersStarted:
    """All workers of a grant are up and training. `start_s`: from the grant's pick-up to here, or
    from the boundary where they were resized in place. `joinable`: from now on workers can join
    and leave while the others stay."""

    at_s: float
    job: str
    grant: int
    start_s: float
    joinable: bool = False
    kind: Literal["workers_started"] = "workers_started"


@dataclass(frozen=True, slots=True)
class OfferReady:
    """The workers that an offer adds to a job which trains are warm, or cannot be had before its
    workers stop: at its next boundary the job may leave for the offer."""

    at_s: float
    job: str
    grant: int
    kind: Literal["offer_ready"] = "offer_ready"


@dataclass(frozen=True, slots=True)
class WorkersResized:
    """At a boundary a job went over to its offer in place: the workers that both grants have go on,
    those of the old one alone are gone, those of the new one alone have joined."""

    at_s: float
    job: str
    grant: int
    kind: Literal["workers_resized"] = "workers_resized"


@dataclass(frozen=True, slots=True)
class JobProfiled:
    """The first workers of an unknown model measured a few steps before they trained.

    `all_reduce_s` by workers and bytes, where these were not known of the cluster yet.
    """

    at_s: float
    job: str
    grant: int
    profile: Profile
    all_reduce_s: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    kind: Literal["job_profiled"] = "job_profiled"


@dataclass(frozen=True, slots=True)
class EpochFinished:
    """A job reached an epoch boundary: `epoch` (from 0) is done after `epoch_s` of training."""

    at_s: float
    job: str
    grant: int
    epoch: int
    epoch_s: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    kind: Literal["epoch_finished"] = "epoch_finished"


@dataclass(frozen=True, slots=True)
class SafePointReached:
    """Within an epoch a job saved how far it is: of `epoch` (from 0) this `part` (0 to 1) is done
    and will not be redone. At its pace the whole epoch would take `epoch_s`."""

    at_s: float
    job: str
    grant: int
    epoch: int
    part: float
    epoch_s: float
    kind: Literal["safe_point_reached"] = "safe_point_reached"


@dataclass(frozen=True, slots=True)
class WorkersStopped:
    """The worker group of a grant is gone: it left at a boundary or a safe point, was ended in time
    for a reclaim, or was lost."""

    at_s: float
    job: str
    grant: int
    lost: bool = False
    cause: str = ""
    kind: Literal["workers_stopped"] = "workers_stopped"


@dataclass(frozen=True, slots=True)
class GpusFreed:
    """The body saw that the GPUs which a job was giving up on one server are free."""

    at_s: float
    job: str
    server: str
    kind: Literal["gpus_freed"] = "gpus_freed"


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job is over: `finished`, `failed` (its error), or `cancelled` (also: its driver died)."""

    at_s: float
    job: str
    outcome: Literal["finished", "failed", "cancelled"]
    error: str = ""
    kind: Literal["job_ended"] = "job_ended"


@dataclass(frozen=True, slots=True)
class InferenceConfigured:
    """An inference deployment may lend: what one of its servers holds and carries.

    `refill_s`: from asking for a replica to its first answer. `min_servers` always serve. Workers
    that stand on a server `grace_s` after its reclaim are ended there; None: they leave at their
    next boundary or safe point, however long that takes.
    """

    at_s: float
    deployment: str
    replicas_per_server: int
    server_rps: float
    refill_s: float
    min_servers: int = 1
    grace_s: float | None = None
    kind: Literal["inference_configured"] = "inference_configured"


@dataclass(frozen=True, slots=True)
class DemandObserved:
    """Requests that arrived per second since the last sample, and latencies of that window."""

    at_s: float
    rps: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    kind: Literal["demand_observed"] = "demand_observed"


@dataclass(frozen=True, slots=True)
class ReplicasObserved:
    """Replicas of the inference deployment by server: in any state, and those that answer.

    Sent when it changed. A server is empty when it does not occur in `present`.
    """

    at_s: float
    present: Mapping[str, int]
    running: Mapping[str, int]
    kind: Literal["replicas_observed"] = "replicas_observed"


@dataclass(frozen=True, slots=True)
class LoanOpened:
    """The loan placement group stands: all GPUs of the server are ours."""

    at_s: float
    server: str
    kind: Literal["loan_opened"] = "loan_opened"


@dataclass(frozen=True, slots=True)
class LoanRefused:
    """The loan placement group could not be had (a replica came first): the server still serves."""

    at_s: float
    server: str
    kind: Literal["loan_refused"] = "loan_refused"


@dataclass(frozen=True, slots=True)
class LoanClosed:
    """The loan placement group is gone: the server belongs to inference again."""

    at_s: float
    server: str
    kind: Literal["loan_closed"] = "loan_closed"


@dataclass(frozen=True, slots=True)
class PolicySwitched:
    """An operator chose a policy and a loaning, each with parameters.

    What an earlier policy promised is kept, unless the operator said to break it. The published
    systems do not weigh each resize of whatever policy against its cost (`raysched.resizing`): a
    simulation of one does not either.
    """

    at_s: float
    policy: str
    policy_parameters: Mapping[str, Any] = field(default_factory=dict)
    loaning: str = "off"
    loaning_parameters: Mapping[str, Any] = field(default_factory=dict)
    break_promises: bool = False
    weighs_resizes: bool = True
    kind: Literal["policy_switched"] = "policy_switched"


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing else happened, but a period may be over."""

    at_s: float
    kind: Literal["time_passed"] = "time_passed"


@dataclass(frozen=True, slots=True)
class PolicyDecided:
    """The answer to an `AskPolicy`: a fact. Recovery applies it and never solves again."""

    at_s: float
    ask: int
    decision: Decision
    memory: Mapping[str, Any]
    kind: Literal["policy_decided"] = "policy_decided"


@dataclass(frozen=True, slots=True)
class LoaningDecided:
    """The answer to an `AskLoaning`."""

    at_s: float
    ask: int
    decision: LoanDecision
    memory: Mapping[str, Any]
    kind: Literal["loaning_decided"] = "loaning_decided"


@dataclass(frozen=True, slots=True)
class DecisionFailed:
    """A policy raised on a problem: the standing targets stay, the error is kept."""

    at_s: float
    ask: int
    asked: Literal["policy", "loaning"]
    error: str
    kind: Literal["decision_failed"] = "decision_failed"


@dataclass(frozen=True, slots=True)
class SchedulerRestarted:
    """The scheduler came back from its journal. Until `Reconciled` nothing is decided: the body
    now reports, as ordinary events, how what is really there differs from what is known."""

    at_s: float
    kind: Literal["scheduler_restarted"] = "scheduler_restarted"


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What is known is what is there: actions still owed are sent again, and decisions go on."""

    at_s: float
    kind: Literal["reconciled"] = "reconciled"


Event: TypeAlias = Annotated[
    ServerAdded
    | ServerLost
    | ForeignGpusObserved
    | JobSubmitted
    | GrantTaken
    | WorkersStarted
    | OfferReady
    | WorkersResized
    | JobProfiled
    | EpochFinished
    | SafePointReached
    | WorkersStopped
    | GpusFreed
    | JobEnded
    | InferenceConfigured
    | DemandObserved
    | ReplicasObserved
    | LoanOpened
    | LoanRefused
    | LoanClosed
    | PolicySwitched
    | TimePassed
    | PolicyDecided
    | LoaningDecided
    | DecisionFailed
    | SchedulerRestarted
    | Reconciled,
    Field(discriminator="kind"),
]
