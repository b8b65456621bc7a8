"""What to do: commands that the engine gives to the body, as data. Idempotent by their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from policies.reason import Reason


@dataclass(frozen=True, slots=True)
class AskPolicy:
    """Have the chosen policy decide on the present state; answer with `PolicyDecided(ask)`."""

    ask: int
    trigger: str
    kind: Literal["ask_policy"] = "ask_policy"


@dataclass(frozen=True, slots=True)
class AskLoaning:
    """Have the chosen loaning decide on the present state; answer with `LoaningDecided(ask)`."""

    ask: int
    trigger: str
    kind: Literal["ask_loaning"] = "ask_loaning"


@dataclass(frozen=True, slots=True)
class Grant:
    """Workers of one job on named servers: what its worker group is built on.

    `workers == 0` is the grant of a preempted job: it leaves at the boundary and waits.
    """

    grant: int
    job: str
    servers: Mapping[str, int] = field(default_factory=dict)
    batch_size: int = 0
    parameter_servers: int = 0

    @property
    def workers(self) -> int:
        """Workers over all servers."""
        return sum(self.servers.values())


@dataclass(frozen=True, slots=True)
class Offer:
    """A grant stands ready for its job: started, or taken at the job's next epoch boundary."""

    change: Literal["start", "resize", "move", "preempt", "restart"]
    grant: Grant
    reason: Reason
    kind: Literal["offer"] = "offer"


@dataclass(frozen=True, slots=True)
class ReleaseGrant:
    """A grant is over, or was withdrawn before its job took it: remove its placement group, and
    report GPUs as they are seen free."""

    job: str
    grant: int
    servers: tuple[str, ...]  # where GPUs become free: each wants a `GpusFreed`
    kind: Literal["release_grant"] = "release_grant"


@dataclass(frozen=True, slots=True)
class EndWorkers:
    """End the workers of a grant at once: a server that is reclaimed had to be free of them by now.
    Answer with `WorkersStopped`; their job starts again from what was saved."""

    job: str
    grant: int
    kind: Literal["end_workers"] = "end_workers"


@dataclass(frozen=True, slots=True)
class SetBatchSize:
    """A job that runs goes on with this global batch from its next epoch boundary, on the workers
    that it has; its next `EpochFinished` says that it does."""

    job: str
    batch_size: int
    reason: Reason
    kind: Literal["set_batch_size"] = "set_batch_size"


@dataclass(frozen=True, slots=True)
class Reject:
    """A job leaves for good without having run."""

    job: str
    reason: Reason
    kind: Literal["reject"] = "reject"


@dataclass(frozen=True, slots=True)
class ScaleReplicas:
    """The inference deployment shall have this many replicas."""

    deployment: str
    replicas: int
    reason: Reason
    kind: Literal["scale_replicas"] = "scale_replicas"


@dataclass(frozen=True, slots=True)
class OpenLoan:
    """Fence an empty inference server with a loan placement group; answer with `LoanOpened`."""

    server: str
    kind: Literal["open_loan"] = "open_loan"


@dataclass(frozen=True, slots=True)
class CloseLoan:
    """Remove the loan placement group of a server; answer with `LoanClosed`."""

    server: str
    kind: Literal["close_loan"] = "close_loan"


Action: TypeAlias = Annotated[
    AskPolicy
    | AskLoaning
    | Offer
    | ReleaseGrant
    | EndWorkers
    | SetBatchSize
    | Reject
    | ScaleReplicas
    | OpenLoan
    | CloseLoan,
    Field(discriminator="kind"),
]
