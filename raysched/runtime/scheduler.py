"""The global scheduler: a detached, named, restartable actor on the head (ruling 10).

Its methods are what trainers (`protocol`), the Python API and the command line call. All are safe
to repeat, because a caller whose call was cut off by a restart of the scheduler repeats it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from policies.problem import Policy, PolicyError
from raysched import admission, views
from raysched.actions import Grant
from raysched.decisions import broken_promises
from raysched.errors import PromisesAtStake
from raysched.events import (
    DecisionFailed,
    EpochFinished,
    GrantTaken,
    InferenceConfigured,
    JobEnded,
    JobProfiled,
    JobSubmitted,
    OfferReady,
    PolicySwitched,
    SafePointReached,
    WorkersResized,
    WorkersStarted,
    WorkersStopped,
)
from raysched.jobs import InvalidJob, JobSpec
from raysched.journal import Journal
from raysched.profile import Profile, to_pre_run
from raysched.questions import trial
from raysched.runtime import groups, link, watch
from raysched.runtime.assignment import ToProfile
from raysched.runtime.body import Body
from raysched.runtime.protocol import CURRENT_GRANT, BoundaryReport, Lender, Standing
from raysched.runtime.reconcile import reconcile
from raysched.state import Job

logger = logging.getLogger(__name__)

OFFER_LOOK_S = 20.0
"""A controller that asks for an offer is answered after this long at the latest."""

NO_GRANT = (-1, 0)
"""What a worker group is told that should not be there any more: leave, nothing follows."""


class Scheduler:
    """The actor. `journal_path` lies on the head's disk: a restarted scheduler reads it."""

    def __init__(self, journal_path: str) -> None:
        # An exception here on a restart would leave the actor dead for good, so nothing that
        # can fail for a passing reason is done here: `_start` is retried.
        self._journal_path = Path(journal_path)
        self._ready = asyncio.Event()
        self._submitting = asyncio.Lock()
        self._starting = asyncio.ensure_future(self._start())

    async def _start(self) -> None:
        while True:
            try:
                await self._start_once()
                return
            except Exception:
                logger.exception("the scheduler could not start; trying again")
                await asyncio.sleep(1.0)

    async def _start_once(self) -> None:
        self._journal_path.parent.mkdir(parents=True, exist_ok=True)
        self._body = Body(Journal(self._journal_path))
        if self._lender_path.is_file():
            self._body.lender = cloudpickle.loads(self._lender_path.read_bytes())
        self._body.spawn(self._body.run())
        await reconcile(self._body)
        watch.start(self._body)
        self._ready.set()

    @property
    def _lender_path(self) -> Path:
        return self._journal_path.with_suffix(".lender")

    async def ping(self) -> dict[str, Any]:
        """Answers when the scheduler is ready to decide."""
        await self._ready.wait()
        return {"pid": os.getpid(), "journal": str(self._journal_path)}

    # -- trainers

    async def submit(self, spec: JobSpec, owner: str, token: str) -> str:
        """Take a job in; its id. Raises `InvalidJob` for one that can never run.

        `token` is the caller's own for this submission: repeated, it finds the same job.
        """
        await self._ready.wait()
        async with self._submitting:  # an id is fresh until it is journaled
            state = self._body.engine.state
            for known in state.live_jobs():
                if known.token == token:
                    return known.id
            admission.check_fits(state, spec)
            job = self._fresh_id(spec.name)
            await self._body.tell(JobSubmitted(self._body.now_s(), job, spec, owner, token))
            return job

    def _fresh_id(self, name: str) -> str:
        """The job's name; with a number behind it where the name was used before."""
        state = self._body.engine.state
        number = state.names.get(name, 0) + 1
        fresh = name if number == 1 else f"{name}-{number}"
        while fresh in state.live or fresh in state.ended:  # another job is called just so
            fresh += "'"
        return fresh

    async def standing(self, job: str) -> Standing:
        """What a job without workers is to do: start on these slots, wait, or end."""
        await self._ready.wait()
        record = self._body.engine.state.jobs.get(job)
        if record is None or not record.alive:
            return Standing(ended=record.error or record.outcome if record else "unknown job")
        if record.running is not None and record.phase != "starting":
            cause = "its controller came back without workers"
            await self.workers_stopped(job, record.running.grant, True, cause)
        if record.running is None and record.offer is not None and record.offer.workers:
            await self._body.tell(GrantTaken(self._body.now_s(), job, record.offer.grant))
        return self._slots(job, record.running, record.profiling)

    async def offered(self, job: str, running: int, known: int) -> Standing:
        """What a job whose workers others can join may have beside the grant `running`: answered
        when that is not the grant `known` (0: nothing) any more, when the workers are leaving, or
        after a while. Or that they must stop at once, whatever they are offered."""
        await self._ready.wait()

        def record() -> Job | None:
            found = self._body.engine.state.live.get(job)
            stands = found is not None and found.running and found.running.grant == running
            return found if stands else None

        def offer() -> Grant | None:
            found = record()
            return found.offer if found is not None and found.joinable else None

        def must_stop() -> bool:
            found = record()
            return found is not None and found.must_stop

        def is_answered() -> bool:
            found, offered = record(), offer()
            leaves = found is not None and found.phase == "leaving"
            return leaves or must_stop() or (offered.grant if offered else 0) != known

        await self._body.until(is_answered, OFFER_LOOK_S)
        return Standing(must_stop=True) if must_stop() else self._slots(job, offer())

    def _slots(
        self, job: str, grant: Grant | None, local_batches: tuple[int, ...] | None = None
    ) -> Standing:
        """The slots of a grant; none while a server of it is gone and that is not told yet.
        `local_batches`: for which its workers are to time steps."""
        if grant is None or not grant.servers.keys() <= self._body.nodes.keys():
            return Standing()
        granted = self._body.slots_of(job, grant)
        if local_batches:
            granted = replace(granted, profiles=self._to_profile(job, grant, local_batches))
        return Standing(granted=granted)

    def _to_profile(self, job: str, grant: Grant, local_batches: tuple[int, ...]) -> ToProfile:
        state = self._body.engine.state
        groups, spec = state.profiles.groups_to_measure(grant.workers), state.live[job].spec
        if not spec.pre_run:
            return ToProfile(local_batches, groups)
        sizes = to_pre_run(spec, grant.workers)
        return ToProfile(local_batches, groups, sizes, spec.admissible)

    async def offer_ready(self, job: str, grant: int) -> None:
        """Those who join for an offer are warm, or cannot be had while the job trains."""
        await self._ready.wait()
        await self._body.tell(OfferReady(self._body.now_s(), job, grant))

    async def workers_resized(self, job: str, grant: int) -> bool:
        """The workers of a job are now those of its offer. False: it was withdrawn meanwhile, and
        they must stop."""
        await self._ready.wait()
        record = self._body.engine.state.live.get(job)
        if record is not None and record.offer is not None and record.offer.grant == grant:
            await self._body.tell(WorkersResized(self._body.now_s(), job, grant))
        return record is not None and record.running is not None and record.running.grant == grant

    async def _until_it_stands(self, job: str, grant: int) -> None:
        """A worker may speak of a grant before its controller said that it was gone over to."""

        def is_under_way() -> bool:
            record = self._body.engine.state.live.get(job)
            return record is not None and record.offer is not None and record.offer.grant == grant

        await self._body.until(lambda: not is_under_way(), link.PATIENCE_S)

    async def workers_started(self, job: str, grant: int, start_s: float, joinable: bool) -> None:
        """All workers of a grant train; `joinable`: others can join them meanwhile."""
        await self._ready.wait()
        await self._until_it_stands(job, grant)
        await self._body.tell(WorkersStarted(self._body.now_s(), job, grant, start_s, joinable))

    async def profiled(
        self,
        job: str,
        grant: int,
        profile: Profile,
        all_reduce_s: Mapping[int, Mapping[int, float]],
    ) -> None:
        """The first workers of an unknown model have timed its steps."""
        await self._ready.wait()
        await self._body.tell(JobProfiled(self._body.now_s(), job, grant, profile, all_reduce_s))

    async def boundary(self, report: BoundaryReport) -> tuple[int, int]:
        """An epoch or a part of it is done; the grant that the job goes on with, and its global
        batch."""
        await self._ready.wait()
        await self._until_it_stands(report.job, report.grant)
        record = self._body.engine.state.jobs.get(report.job)
        if record is None or record.running is None or record.running.grant != report.grant:
            return NO_GRANT
        done, told = report.epoch + report.part, record.epochs_done + record.part
        said_before = done <= told and record.reported == report.grant
        if not said_before:
            await self._body.tell(_event(report, self._body.now_s()))
        if record.running is None or not record.alive:
            return NO_GRANT
        if record.phase != "leaving":
            return record.running.grant, record.running.batch_size
        return (record.offer.grant, record.offer.batch_size) if record.offer else NO_GRANT

    async def workers_stopped(self, job: str, grant: int, lost: bool, cause: str = "") -> None:
        """The workers of a grant (or of `CURRENT_GRANT`) are gone."""
        await self._ready.wait()
        record = self._body.engine.state.jobs.get(job)
        if grant == CURRENT_GRANT and record is not None and record.running is not None:
            grant = record.running.grant
        await self._body.tell(WorkersStopped(self._body.now_s(), job, grant, lost, cause))

    async def ended(self, job: str, outcome: str, error: str = "") -> None:
        """A job is over: finished, failed or cancelled."""
        await self._ready.wait()
        await self._body.tell(JobEnded(self._body.now_s(), job, outcome, error))  # type: ignore[arg-type]

    # -- operators

    async def cancel(self, job: str) -> None:
        """End a job by an operator's wish. Raises `InvalidJob` where there is no such live job."""
        await self._ready.wait()
        record = self._body.engine.state.jobs.get(job)
        if record is None or not record.alive:
            raise InvalidJob("job", f"there is no live job {job!r}; see `raysched job list`")
        await self.ended(job, "cancelled", "cancelled by an operator")

    async def set_policy(
        self,
        policy: str | None = None,
        loaning: str | None = None,
        policy_parameters: dict[str, Any] | None = None,
        loaning_parameters: dict[str, Any] | None = None,
        break_promises: bool = False,
    ) -> dict[str, Any]:
        """Switch policy, loaning or both, live. None keeps what is; a new policy brings its own
        default loaning.

        Raises `PolicyError` for unknown names, bad parameters, and a policy that cannot decide on
        the cluster as it stands; `PromisesAtStake` where promises could not be kept."""
        await self._ready.wait()
        state = self._body.engine.state
        if policy is None:
            policy, parameters = state.policy.name, state.policy.parameters
        else:
            parameters = dict(policy_parameters or {})
            # In a thread: a policy's kernels are compiled at its first import.
            chosen = await asyncio.to_thread(policy_registry.load, policy, parameters)
            loaning = loaning or chosen.default_loaning
            if (policy, parameters) != (state.policy.name, state.policy.parameters):
                await self._try_out(chosen, break_promises)
        loaning = loaning or state.loaning.name
        if loaning_parameters is None and loaning == state.loaning.name:
            loaning_parameters = state.loaning.parameters
        await asyncio.to_thread(loaning_registry.load, loaning, loaning_parameters or {})
        now_s = self._body.now_s()
        await self._body.tell(
            PolicySwitched(
                now_s, policy, parameters, loaning, dict(loaning_parameters or {}), break_promises
            )
        )
        return {"policy": policy, "loaning": loaning}

    async def _try_out(self, policy: Policy, break_promises: bool) -> None:
        """Have the policy decide on the real state, to no effect; refuse it where that fails."""
        posed = trial(self._body.engine, policy, break_promises=break_promises)
        answer = await asyncio.to_thread(posed.answer, self._body.now_s())
        if isinstance(answer, DecisionFailed):
            raise PolicyError(
                f"policy {policy.name} cannot decide on the cluster as it stands: {answer.error}"
            )
        broken = {} if break_promises else broken_promises(self._body.engine.state)
        if broken:
            whys = "; ".join(f"{job}: {why}" for job, why in broken.items())
            raise PromisesAtStake(
                f"policy {policy.name} would break what was promised to {whys}; "
                "to switch all the same, add break_promises=True (--break-promises)"
            )

    async def configure_inference(self, event: InferenceConfigured, lender: Lender) -> None:
        """Name the inference deployment that may lend, and the hand that scales it."""
        await self._ready.wait()
        self._lender_path.write_bytes(cloudpickle.dumps(lender))
        self._body.lender = lender
        await self._body.tell(event)

    async def status(self) -> dict[str, Any]:
        """Servers, jobs, loans and demand now, as plain data."""
        await self._ready.wait()
        return views.status(self._body.engine.state, self._body.now_s())

    async def explain(self, job: str) -> dict[str, Any]:
        """Why a job stands where it stands. Raises `InvalidJob` for an unknown one."""
        await self._ready.wait()
        record = self._body.engine.state.jobs.get(job)
        if record is None:
            raise InvalidJob("job", f"there is no job {job!r}; see `raysched job list`")
        return views.explain(self._body.engine.state, record, self._body.now_s())

    async def shut_down(self) -> None:
        """Remove every placement group of ours, which ends what runs in them."""
        await self._ready.wait()
        for group in groups.existing().values():
            groups.remove(group)

    async def export(self) -> str:
        """Fold the journal's log into its file, so that it can be copied; its path."""
        await self._ready.wait()
        self._body.journal.fold()
        return str(self._journal_path)


def _event(report: BoundaryReport, at_s: float) -> EpochFinished | SafePointReached:
    job, grant, epoch, epoch_s = report.job, report.grant, report.epoch, report.epoch_s
    if report.part < 1:
        return SafePointReached(at_s, job, grant, epoch, report.part, epoch_s)
    return EpochFinished(at_s, job, grant, epoch, epoch_s, dict(report.metrics))
