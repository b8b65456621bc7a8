"""Which servers: from numbers of workers to workers on servers, best fit decreasing (004 §5.3).

Pure. Workers that stand stay where they are; what a job gives up, and where what is new goes, is
decided here. Base demands (the minimum number of workers: a gang, all or none) come before
flexible workers. All workers of a job stand on GPUs of one type, unless it mixes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache

import numpy as np

from policies.problem import Bools, Ints, PlacementRule, Servers
from policies.reason import Reason, because
from raysched.placement_problem import Placed, Rooms, Wanted
from raysched.subtrees import on_subtrees


def place(jobs: Sequence[Wanted], rooms: Rooms) -> dict[str, Placed]:
    """A placement for each job, jobs given in the order (submit time, id) in which ties break.

    1. Jobs whose policy names servers take exactly these, and so do those with a subtree (BUDDY).
    2. Standing workers stay, on a type that their job may have; a job that shrinks gives some up.
    3. Base demands that are missing, whole or not at all, decreasing by GPUs of a worker. Where
       only fragments are left, flexible workers make room. A job whose type has no room for it
       goes to another one, if its policy names none.
    4. Flexible workers, in the same order, as many as fit on the type of the base.
    """
    exact = on_subtrees(jobs, rooms)
    floor = _Floor(jobs, rooms)
    rows = []
    for row, job in enumerate(jobs):
        servers = exact.get(job.job, job.servers)
        if servers is not None:
            floor.put_exactly(row, servers)
        elif job.workers:
            rows.append(row)
    floor.keep_standing(rows)
    decreasing = sorted(rows, key=lambda row: -jobs[row].gpus_per_worker)
    # A running job that lost a server must not lose its place to one that only starts.
    for row in sorted(decreasing, key=lambda row: not jobs[row].standing):
        floor.put_base(row)
    for row in decreasing:
        floor.put_flexible(row)
    return {job.job: floor.placed(row) for row, job in enumerate(jobs)}


def base_demands(
    standing: Sequence[Mapping[str, int]],
    min_workers: Sequence[int],
    servers: Servers,
    settled: Set[str] = frozenset(),
) -> list[dict[str, int]]:
    """Of each job's workers by server, those that count as its base demand; the rest is flexible.

    They are its first `min_workers`: on training servers, then on servers on loan that some job
    could not leave without falling below its minimum, then on other servers on loan, each in the
    order of the servers. So a server on loan is in the group for base demands if a base worker
    stands there, else in the group for flexible ones, which can be reclaimed without a preemption.
    `settled`: servers with base workers of jobs not given here.
    """
    held = set(settled)
    for workers, low in zip(standing, min_workers, strict=True):
        spare = sum(workers.values()) - low
        held.update(server for server, there in workers.items() if there > spare)
    column, on_loan = servers.column, servers.on_loan

    def rank(server: str) -> tuple[bool, bool, int]:
        at = column[server]
        loan = bool(on_loan[at])
        return loan, loan and server not in held, at

    base = []
    for workers, low in zip(standing, min_workers, strict=True):
        left, taken = low, {}
        for server in sorted(workers, key=rank):
            taken[server] = min(left, workers[server])
            left -= taken[server]
        base.append({server: count for server, count in taken.items() if count})
    return base


@lru_cache(maxsize=8)
def _by_type(servers: Servers) -> Mapping[str, Bools]:
    """[servers] Those of each type of GPU: types of training servers first, then faster ones."""
    names = np.array(servers.gpu_type, dtype=np.str_)
    of_type = {gpu_type: names == gpu_type for gpu_type in set(servers.gpu_type)}

    def rank(gpu_type: str) -> tuple[bool, float, str]:
        there = of_type[gpu_type]
        rate = float(servers.gpu_rate[there].min())
        return bool(servers.on_loan[there].all()), -rate, gpu_type

    return {gpu_type: of_type[gpu_type] for gpu_type in sorted(of_type, key=rank)}


class _Floor:
    """The servers while they fill up, and who stands where."""

    def __init__(self, jobs: Sequence[Wanted], rooms: Rooms) -> None:
        servers = rooms.servers
        self.jobs = jobs
        self.servers = servers
        self.names = servers.ids
        self.at = servers.column
        self.on_loan = servers.on_loan
        self.gpu_type = servers.gpu_type
        self.of_type = _by_type(servers)
        self.anywhere = np.ones(len(self.names), dtype=bool)
        self.gpus = servers.gpus
        self.available = rooms.free_gpus.copy()
        # Without servers that are gone:
        self.stand = [{s: n for s, n in job.standing.items() if s in self.at} for job in jobs]
        at, _, gpus = self._by_server(self.stand, range(len(jobs)))
        np.add.at(self.available, at, gpus)
        self.base: list[dict[str, int]] = [{} for _ in jobs]
        self.flexible: list[dict[str, int]] = [{} for _ in jobs]
        self.allowed: dict[int, Bools] = {}  # job -> [servers] those of the type of its base
        self.base_workers = rooms.settled_workers.copy()
        self.settled = {self.names[at] for at in np.flatnonzero(self.base_workers).tolist()}
        self.flexible_gpus = np.zeros_like(self.base_workers)
        self.shortfall: dict[int, Reason] = {}

    def put_exactly(self, row: int, servers: Mapping[str, int]) -> None:
        """All workers of a job where its policy wants them, or none."""
        gpus = self.jobs[row].gpus_per_worker
        types = sorted({self.gpu_type[self.at[s]] for s in servers if s in self.at})
        asked = self.jobs[row].gpu_type or next(iter(types), "")
        if not self.jobs[row].mixes_gpus and any(gpu_type != asked for gpu_type in types):
            self.shortfall[row] = because(
                "all workers were to be on {asked} GPUs, not on {types}",
                asked=asked,
                types=" and ".join(types),
            )
            return
        for server, workers in servers.items():
            free = int(self.available[self.at[server]]) if server in self.at else 0
            if workers * gpus > free:
                self.shortfall[row] = because(
                    "{needed} GPUs were to be had on server {server}, {free} are free there",
                    needed=workers * gpus,
                    server=server,
                    free=free,
                )
                return
        for server, workers in servers.items():
            self._move_base(row, server, workers)

    def keep_standing(self, rows: Iterable[int]) -> None:
        """Leave on their servers the workers that these jobs still want."""
        rows = [row for row in rows if self.jobs[row].standing]
        if not rows:
            return
        low = [self.jobs[row].min_workers for row in rows]
        stand = [self._staying(row) for row in rows]
        bases = base_demands(stand, low, self.servers, self.settled)
        based = self.settled.union(*bases)
        room_gpus = self.available.tolist()  # numpy is slow a number at a time
        kept = [
            self._kept(row, there, based, room_gpus) for row, there in zip(rows, stand, strict=True)
        ]
        if kept != stand:
            bases = base_demands(kept, low, self.servers, self.settled)
        for row, base, there in zip(rows, bases, kept, strict=True):
            beyond = {server: workers - base.get(server, 0) for server, workers in there.items()}
            self.base[row] = base
            self.flexible[row] = {server: workers for server, workers in beyond.items() if workers}
        self._count(rows)

    def put_base(self, row: int) -> None:
        """Complete a job's base demand, or take the job off its servers."""
        job = self.jobs[row]
        if sum(self.base[row].values()) == job.min_workers:  # it stands, on a type that it may have
            self.allowed[row] = self._like(row)
            return
        for allowed in self._choices(row):
            stands = {s: n for s, n in self.base[row].items() if allowed[self.at[s]]}
            missing = job.min_workers - sum(stands.values())
            gang = self._gang(job, missing, allowed)
            if sum(gang.values()) == missing:
                self._leave(row, stands)
                self.allowed[row] = allowed
                for server, workers in gang.items():
                    self._move_base(row, server, workers)
                    self._make_room(server)
                return
        self.shortfall[row] = self._too_little(row)
        self._leave(row, {})

    def put_flexible(self, row: int) -> None:
        """As many of a job's flexible workers as fit, if it runs at all."""
        job = self.jobs[row]
        missing = job.workers - self._workers(row)
        if not self.base[row] or not missing:
            return
        room_gpus = np.where(self.allowed[row], self.available, 0)
        found = self._fit(job, missing, room_gpus, self._tiers(job, flexible=True))
        for server, workers in found.items():
            self._move_flexible(row, server, workers)
        if self._workers(row) < job.workers:
            self.shortfall[row] = because(
                "{placed} of {wanted} workers are placed: no server has {gpus} of the {free} "
                "free GPUs",
                placed=self._workers(row),
                wanted=job.workers,
                gpus=job.gpus_per_worker,
                free=int(self.available[self.allowed[row]].sum()),
            )

    def placed(self, row: int) -> Placed:
        """Where a job's workers are in the end, in the order of the servers."""
        base, flexible = self.base[row], self.flexible[row]
        servers = sorted(base.keys() | flexible.keys(), key=self.at.__getitem__)
        return Placed(
            {server: base.get(server, 0) + flexible.get(server, 0) for server in servers},
            self.shortfall.get(row),
        )

    def _staying(self, row: int) -> dict[str, int]:
        """A job's workers on servers that are there and of a type that it may stand on."""
        job, standing = self.jobs[row], self.stand[row]
        if job.mixes_gpus or not standing:
            return standing
        by_type = dict.fromkeys(self.of_type, 0)
        for server, workers in standing.items():
            by_type[self.gpu_type[self.at[server]]] += workers
        stays = job.gpu_type or max(self.of_type, key=by_type.__getitem__)
        return {s: n for s, n in standing.items() if self.gpu_type[self.at[s]] == stays}

    def _choices(self, row: int) -> list[Bools]:
        """[servers] each: on which servers a job may stand together, best first."""
        job = self.jobs[row]
        if job.mixes_gpus:
            return [self.anywhere]
        types = [gpu_type for gpu_type in self.of_type if job.gpu_type in (None, gpu_type)]
        choices = [self.of_type[gpu_type] for gpu_type in types]
        if len(choices) == 1:
            return choices
        standing = [self.at[server] for server in self.base[row]]

        def unsuited(allowed: Bools) -> bool:
            if standing:
                return not allowed[standing].any()
            whole = self._fit(job, job.workers, np.where(allowed, self.available, 0), 0 * self.gpus)
            return sum(whole.values()) < job.workers

        return sorted(choices, key=unsuited)

    def _like(self, row: int) -> Bools:
        """[servers] Those of the type of a job's base."""
        if self.jobs[row].mixes_gpus:
            return self.anywhere
        return self.of_type[self.gpu_type[self.at[next(iter(self.base[row]))]]]

    def _gang(self, job: Wanted, missing: int, allowed: Bools) -> dict[str, int]:
        """Where the missing base workers fit, flexible workers making room if they must."""
        tiers = self._tiers(job, flexible=False)
        gang = self._fit(job, missing, np.where(allowed, self.available, 0), tiers)
        if sum(gang.values()) < missing:
            gang = self._fit(job, missing, self._emptied(allowed), tiers)
        return gang

    def _emptied(self, allowed: Bools) -> Ints:
        return np.where(allowed, self.available + self.flexible_gpus, 0)

    def _too_little(self, row: int) -> Reason:
        """Why the base of a job fits nowhere, by the servers where it would best stand."""
        job = self.jobs[row]
        allowed = next(iter(self._choices(row)), np.zeros(len(self.names), dtype=bool))
        missing = job.min_workers - sum(n for s, n in self.base[row].items() if allowed[self.at[s]])
        named = {"gpu_type": job.gpu_type} if job.gpu_type else {}
        return because(
            "{missing} workers of {gpus} "
            + ("{gpu_type} " if named else "")
            + "GPUs each must start together, {fit} fit into the {free} GPUs that are free or "
            "flexible",
            missing=missing,
            gpus=job.gpus_per_worker,
            fit=sum(self._gang(job, missing, allowed).values()),
            free=int(self._emptied(allowed).sum()),
            **named,
        )

    def _leave(self, row: int, stays: Mapping[str, int]) -> None:
        """Take the base workers of a job off all servers but these. It has no others yet: a base
        that is complete stays where it is."""
        for server, workers in tuple(self.base[row].items()):
            if server not in stays:
                self._move_base(row, server, -workers)

    def _kept(
        self, row: int, standing: Mapping[str, int], based: Set[str], room_gpus: list[int]
    ) -> dict[str, int]:
        """What a job keeps of its standing workers, taken off `room_gpus`.

        It gives up first what stands on loaned servers that nobody has `based` workers on, so that
        they empty, then where it has the fewest workers.
        """
        job = self.jobs[row]
        surplus = max(sum(standing.values()) - job.workers, 0)
        kept = {}

        def ease(server: str) -> tuple[bool, int, bool, int]:
            at = self.at[server]
            loan = bool(self.on_loan[at])
            return not loan or server in based, standing[server], not loan, -at

        for server in sorted(standing, key=ease) if surplus else standing:
            at, given_up = self.at[server], min(surplus, standing[server])
            surplus -= given_up
            fits = room_gpus[at] // job.gpus_per_worker
            kept[server] = min(standing[server] - given_up, fits)
            room_gpus[at] -= kept[server] * job.gpus_per_worker
        return {server: workers for server, workers in kept.items() if workers}

    def _tiers(self, job: Wanted, flexible: bool) -> Ints:
        """[servers] The order in which servers are tried: 0, 1, 2.

        PACK: training, on loan, and so for BUDDY without a subtree. APART, elastic: on loan and
        empty or of the same group, training, the other group; inelastic, and the base of one that
        mixes types (§6): training, on loan and empty or of the base group, the other.
        """
        if job.rule is not PlacementRule.APART:
            return self.on_loan.astype(np.int64)
        of_base = self.base_workers > 0
        empty = self.available == self.gpus
        own = ~of_base if flexible else of_base | empty
        if job.elastic and (flexible or not job.mixes_gpus):
            return np.where(self.on_loan, np.where(own, 0, 2), 1)
        return np.where(self.on_loan, np.where(own, 1, 2), 0)

    def _fit(self, job: Wanted, workers: int, room_gpus: Ints, tiers: Ints) -> dict[str, int]:
        """Best fit for up to `workers` workers: the fullest server with room, else an empty one.

        The server that fits one worker best also fits the next one best, as long as it fits.
        """
        room_gpus = room_gpus.copy()
        largest = int(self.gpus.max(initial=0)) + 1
        found: dict[str, int] = {}
        while workers > 0:
            order = (2 * tiers + (room_gpus == self.gpus)) * largest + room_gpus
            fits = np.flatnonzero(room_gpus >= job.gpus_per_worker)
            if not len(fits):
                break
            at = int(fits[order[fits].argmin()])
            here = min(workers, int(room_gpus[at]) // job.gpus_per_worker)
            found[self.names[at]] = here
            room_gpus[at] -= here * job.gpus_per_worker
            workers -= here
        return found

    def _make_room(self, server: str) -> None:
        """Take flexible workers off a server that holds too much, the last jobs' first."""
        at = self.at[server]
        for row in range(len(self.jobs) - 1, -1, -1):
            if self.available[at] >= 0:
                return
            gpus = self.jobs[row].gpus_per_worker
            enough = -(int(self.available[at]) // gpus)
            self._move_flexible(row, server, -min(enough, self.flexible[row].get(server, 0)))

    def _workers(self, row: int) -> int:
        return sum(self.base[row].values()) + sum(self.flexible[row].values())

    def _count(self, rows: Sequence[int]) -> None:
        """Take in at once where jobs stand that had no workers before."""
        base, workers, base_gpus = self._by_server(self.base, rows)
        np.add.at(self.base_workers, base, workers)
        flexible, _, flexible_gpus = self._by_server(self.flexible, rows)
        np.add.at(self.flexible_gpus, flexible, flexible_gpus)
        for at, gpus in ((base, base_gpus), (flexible, flexible_gpus)):
            np.subtract.at(self.available, at, gpus)

    def _by_server(
        self, held: Sequence[Mapping[str, int]], rows: Iterable[int]
    ) -> tuple[Ints, Ints, Ints]:
        """Servers as columns, workers there, and their GPUs, of one job after the other."""
        each = [
            (self.at[server], count, count * self.jobs[row].gpus_per_worker)
            for row in rows
            for server, count in held[row].items()
        ]
        at, workers, gpus = np.array(each, dtype=np.int64).reshape(-1, 3).T
        return at, workers, gpus

    def _move_base(self, row: int, server: str, workers: int) -> None:
        self._move(self.base[row], row, server, workers)
        self.base_workers[self.at[server]] += workers

    def _move_flexible(self, row: int, server: str, workers: int) -> None:
        self._move(self.flexible[row], row, server, workers)
        self.flexible_gpus[self.at[server]] += workers * self.jobs[row].gpus_per_worker

    def _move(self, to: dict[str, int], row: int, server: str, workers: int) -> None:
        """Add workers (or take off, where negative)."""
        count = to.pop(server, 0) + workers
        if count:
            to[server] = count
        self.available[self.at[server]] -= workers * self.jobs[row].gpus_per_worker
