"""The one ledger of GPUs: free, granted, releasing, foreign (ruling 7).

A GPU is granted from the moment it is reserved for a job, and free again only when the body has
seen it free. Functions keep the books balanced; `check` proves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


class LedgerError(RuntimeError):
    """The books do not balance: a defect of ours, never of the user's."""


@dataclass(slots=True)
class Account:
    """GPUs of one server: what jobs hold, what they are giving up, and what others occupy."""

    gpus: int
    foreign: int = 0
    granted: dict[str, int] = field(default_factory=dict)
    releasing: dict[str, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """GPUs that can be granted now. Negative while others took what we still hold."""
        used = sum(self.granted.values()) + sum(self.releasing.values())
        return self.gpus - self.foreign - used

    @property
    def usable(self) -> int:
        """GPUs that are ours to plan with, used or not."""
        return max(self.gpus - self.foreign, 0)

    @property
    def in_use(self) -> bool:
        """Whether any job holds, or is still giving up, a GPU here."""
        return bool(self.granted or self.releasing)


@dataclass(slots=True)
class Ledger:
    """All accounts, by server id."""

    accounts: dict[str, Account] = field(default_factory=dict)

    def fits(self, gpus: Mapping[str, int]) -> bool:
        """Whether all of these GPUs (by server) are free."""
        for server, count in gpus.items():
            account = self.accounts.get(server)
            if account is None or account.free < count:
                return False
        return True

    def grant(self, job: str, gpus: Mapping[str, int]) -> None:
        """Give free GPUs to a job. Raises `LedgerError` where they are not free."""
        if not self.fits(gpus):
            raise LedgerError(f"{job} was granted {dict(gpus)}, which is not free")
        for server, count in gpus.items():
            _add(self.accounts[server].granted, job, count)

    def release(self, job: str, gpus: Mapping[str, int]) -> None:
        """A job gives up GPUs: they are `releasing` until `freed`."""
        for server, count in gpus.items():
            account = self.accounts.get(server)
            if account is None:
                continue  # the server is lost, and its account with it
            _add(account.granted, job, -count)
            _add(account.releasing, job, count)

    def freed(self, job: str, server: str) -> None:
        """The body saw that what a job was releasing on a server is free."""
        account = self.accounts.get(server)
        if account is not None:
            account.releasing.pop(job, None)

    def held(self, job: str, servers: Iterable[str] | None = None) -> dict[str, int]:
        """GPUs that a job was granted, by server; only these are looked at, if they are given."""
        among = self.accounts if servers is None else servers
        books = ((server, self.accounts.get(server)) for server in among)
        return {s: a.granted[job] for s, a in books if a is not None and job in a.granted}

    def check(self) -> None:
        """Raise `LedgerError` if a GPU is given twice (others' doing apart) or a count is odd."""
        for server, account in self.accounts.items():
            ours = sum(account.granted.values()) + sum(account.releasing.values())
            counts = [*account.granted.values(), *account.releasing.values()]
            if ours > account.gpus or any(count <= 0 for count in counts):
                raise LedgerError(f"{server} has {account.gpus} GPUs and the books say {account}")


def _add(book: dict[str, int], job: str, count: int) -> None:
    total = book.get(job, 0) + count
    if total < 0:
        raise LedgerError(f"{job} gives up {-count} GPUs and holds {book.get(job, 0)}")
    if total:
        book[job] = total
    else:
        book.pop(job, None)
