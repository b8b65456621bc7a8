"""Worker groups in virtual time: they are picked up, start, train, leave, stop and are lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from raysched import grants
from raysched.actions import EndWorkers, Grant, ReleaseGrant
from raysched.events import (
    EpochFinished,
    Event,
    GpusFreed,
    GrantTaken,
    JobEnded,
    OfferReady,
    WorkersResized,
    WorkersStarted,
    WorkersStopped,
)
from raysched.simulator.agenda import Agenda, Deed, Kind
from raysched.simulator.models import Costs
from raysched.simulator.reports import Reports
from raysched.simulator.scenario import Arrival
from raysched.simulator.training import ROUNDING_EPOCHS, Progress, Training
from raysched.state import State


class WorkerGroups:
    """What jobs do with their grants. It reads the engine's state, and changes it by events."""

    def __init__(
        self,
        costs: Costs,
        report_every_s: float,
        agenda: Agenda,
        state: State,
        tell: Callable[[Event], None],
    ) -> None:
        self.training: dict[str, Training] = {}
        self.seen_ended_s: dict[str, float] = {}
        """When the scheduler was told of a job's end: with slots, later than it was."""
        self._costs = costs
        self._reports = Reports(report_every_s)
        self._agenda = agenda
        self._state = state
        self._tell = tell
        self._jobs: dict[str, Progress] = {}
        self._paused_s = -1.0
        self._started_so_far = 0

    def expect(self, arrival: Arrival, number: int) -> None:
        """A job is about to be submitted."""
        self._jobs[arrival.job] = Progress(arrival, number, arrival.costs or self._costs)

    def drop(self, job: str) -> None:
        """A job is over before its end: rejected or cancelled."""
        self._leave_training(job)

    # -- what the engine wants

    def offered(self, grant: Grant, now_s: float) -> None:
        """A waiting job picks its offer up; one that trains leaves for it."""
        training = self.training.get(grant.job)
        if training is not None:
            self._follow(training, now_s)
        elif grant.workers and self._state.live[grant.job].running is None:
            progress = self._jobs[grant.job]
            ready_s = progress.arrival.at_s + progress.costs.ready_s
            at_s = max(now_s + progress.costs.pick_up_s, ready_s)
            self._note(at_s, Kind.PICK_UP, grant.job, partial(self._pick_up, grant))

    def released(self, action: ReleaseGrant, now_s: float) -> None:
        """GPUs that are given up are seen free after a while; nobody joins there any more."""
        if (training := self.training.get(action.job)) is not None:
            self._expect_joiners(training, now_s)
        for server in action.servers:
            freed = partial(self._free, action.job, server)
            self._note(now_s + self._costs.free_s, Kind.FREED, action.job, freed)

    def leave_reclaimed(self, now_s: float) -> None:
        """Workers on servers that inference takes back leave at their next boundary."""
        for training in list(self.training.values()):
            if self._stands_on_reclaimed(training.grant):
                self._change(training, now_s)

    def set_batch_size(self, job: str, now_s: float) -> None:
        """A job that trains goes on with another batch from its next boundary."""
        if job in self.training:
            self._change(self.training[job], now_s)

    # -- while jobs train

    def report(self, now_s: float) -> None:
        """Jobs that train tell how far they are, in the order in which they started, unless they
        did a short while ago.

        One that leaves or changes its batch does so at its boundary.
        """
        due = [training for training in self._reports.take_due(now_s) if self._trains(training)]
        for training in due:
            if not self._leaves(training) and self._reports.may_report(training, now_s):
                epochs = training.whole(now_s)
                if epochs > training.progress.reported:
                    self._finish_epochs(training, epochs, now_s)
            self._reports.expect(training)

    def _leaves(self, training: Training) -> bool:
        """Whether it is to leave or to change at the next boundary that is told."""
        job = self._state.live[training.job]
        may_leave = job.offer is not None and grants.may_leave(self._state, job)
        return training.at_boundary or may_leave

    def pause(self, now_s: float) -> None:
        """A decision was taken: everyone who trains pays for it, once at one time."""
        if not self._costs.decision_s or self._paused_s == now_s:
            return
        self._paused_s = now_s
        for training in self.training.values():
            if training.ends_s > now_s:
                training.paused_s += self._costs.decision_s

    def lose(self, server: str, now_s: float) -> list[Grant]:
        """Stop whatever stands on a server, at its last checkpoint; the grants that were hit."""
        hit = []
        for job in self._state.live_jobs():
            if job.running is None or server not in job.running.servers:
                continue
            hit.append(job.running)
            self._cut_off(job.id, now_s)
        return hit

    def end_at_once(self, action: EndWorkers, now_s: float) -> None:
        """Workers that must be gone now stop, wherever they are in their epoch."""
        grant = self._state.live[action.job].running
        self._cut_off(action.job, now_s)
        if grant is not None:
            self._expect_stop(grant, now_s)

    def tell_lost(self, hit: list[Grant], now_s: float) -> None:
        """Tell that these workers are gone."""
        for grant in hit:
            self._stopped(grant, now_s, lost=True)

    # -- one group, step by step

    def _pick_up(self, grant: Grant, now_s: float) -> None:
        if not self._is_offered(grant) or self._state.live[grant.job].running is not None:
            return  # another offer is picked up by itself
        start_s = self._jobs[grant.job].start_s(grant.workers)
        self._tell(GrantTaken(now_s, grant.job, grant.grant))
        started = partial(self._started, grant, start_s)
        self._note(now_s + start_s, Kind.STARTED, grant.job, started)

    def _started(self, grant: Grant, start_s: float, now_s: float) -> None:
        running = self._running(grant)
        if running is None:
            return  # cancelled or lost meanwhile
        job, progress = self._state.live[grant.job], self._jobs[grant.job]
        if job.profiling and (profiled := progress.arrival.profiled) is not None:
            self._tell(replace(profiled, at_s=now_s, grant=grant.grant))
        joinable = progress.costs.in_place is not None and progress.arrival.spec.checkpoints
        self._tell(WorkersStarted(now_s, grant.job, grant.grant, start_s, joinable))
        progress.put_off = False
        rate = self._state.rate(job, self._costs.mixing)
        self._started_so_far += 1
        training = Training(progress, running, self._started_so_far, now_s, now_s, rate)
        self.training[grant.job] = training
        self._reports.expect(training)
        self._expect_end(training)
        if job.offer is not None:
            self._follow(training, now_s)
        rebatched = job.batch_size != running.batch_size
        if rebatched or self._stands_on_reclaimed(grant):
            self._change(training, now_s)

    def _expect_end(self, training: Training) -> None:
        end = partial(self._end, training)
        training.end = self._note(training.ends_s, Kind.END, training.job, end)

    def _leave_training(self, job: str) -> Training | None:
        """A job trains no more, and so does not come to its end."""
        training = self.training.pop(job, None)
        if training is not None:
            self._agenda.strike(training.end)
        return training

    def _cut_off(self, job: str, now_s: float) -> None:
        """The workers of a job are gone, wherever it was in its epoch: what was saved is left."""
        training = self._leave_training(job)
        if training is not None:
            training.progress.done = training.saved(now_s)
            training.stop()

    def _end(self, training: Training, now_s: float) -> None:
        """The job is over. With slots it was so before now, when it is told."""
        ends_s = training.ends_s
        if ends_s > now_s:  # it was paused meanwhile
            self._expect_end(training)
            return
        job, grant, epochs = training.job, training.grant.grant, math.floor(training.lasts)
        if epochs > training.progress.reported:
            self._tell(EpochFinished(ends_s, job, grant, epochs - 1, training.epoch_s))
        del self.training[job]
        training.progress.done = training.lasts
        over_s = ends_s + training.progress.costs.end_s
        if over_s > ends_s:
            self._note(over_s, Kind.END, job, partial(self._be_over, training, over_s))
        else:
            self._be_over(training, over_s, now_s)

    def _be_over(self, training: Training, over_s: float, now_s: float) -> None:
        if training.job not in self._state.live:
            return  # cancelled after its last epoch
        self.seen_ended_s[training.job] = now_s
        if training.fails:
            self._tell(JobEnded(over_s, training.job, "failed", "its code raised"))
        else:
            self._tell(JobEnded(over_s, training.job, "finished"))

    def _follow(self, training: Training, now_s: float) -> None:
        """Have a group go for the offer that stands as soon as it may: where others join those that
        stay, once they are warm."""
        self._expect_joiners(training, now_s)
        job = self._state.live[training.job]
        if job.offer is not None and training.joiners:
            warm = partial(self._be_warm, training, job.offer)
            self._note(training.warm_s, Kind.STARTED, training.job, warm)
        if job.offer is None or grants.may_leave(self._state, job):
            self._change(training, now_s)

    def _expect_joiners(self, training: Training, now_s: float) -> None:
        """Whoever the offer that stands adds is on its way, and nobody else."""
        job, in_place = self._state.live[training.job], training.progress.costs.in_place
        if job.offer is None or in_place is None or not grants.someone_stays(job):
            training.joiners = {}
        else:
            training.expect_joiners(job.offer.servers, now_s + in_place.warm_s)

    def _be_warm(self, training: Training, offer: Grant, now_s: float) -> None:
        if not self._is_offered(offer):
            return  # withdrawn, or left for meanwhile
        if grants.someone_stays(self._state.live[offer.job]):  # else its workers were lost
            self._tell(OfferReady(now_s, offer.job, offer.grant))
        if self._trains(training):
            self._change(training, now_s)

    def _trains(self, training: Training) -> bool:
        return self.training.get(training.job) is training

    def _change(self, training: Training, now_s: float) -> None:
        """Have a group leave, or change its batch, as soon as it may. In its last epoch it stays as
        it is to the end."""
        if training.at_boundary:
            return
        if not self._costs.at_boundaries:
            training.at_boundary = True
            change = partial(self._change_within, training)
            self._note(now_s, Kind.BOUNDARY, training.job, change)
            return
        epochs = training.next_boundary(now_s)
        if epochs < training.lasts:
            training.at_boundary = True
            self._expect_boundary(training, epochs, now_s)

    def _expect_boundary(self, training: Training, epochs: int, now_s: float) -> None:
        reached = partial(self._reach_boundary, training, epochs)
        self._note(max(training.reaches_s(epochs), now_s), Kind.BOUNDARY, training.job, reached)

    def _reach_boundary(self, training: Training, epochs: int, now_s: float) -> None:
        if not self._trains(training):
            return
        if training.reaches_s(epochs) > now_s:  # it was paused meanwhile
            self._expect_boundary(training, epochs, now_s)
            return
        training.at_boundary = False
        self._finish_epochs(training, epochs, now_s)
        self._do_as_told(training, float(epochs), now_s)

    def _change_within(self, training: Training, now_s: float) -> None:
        """Leave, or change the batch, at once. The scheduler is told that the epoch under way is
        done; it is not."""
        if not self._trains(training):
            return
        training.at_boundary = False
        done = training.done(now_s)
        epochs = math.floor(done + ROUNDING_EPOCHS) + 1
        if epochs < training.epochs:
            self._finish_epochs(training, epochs, now_s)
            self._do_as_told(training, done, now_s)

    def _finish_epochs(self, training: Training, epochs: int, now_s: float) -> None:
        """Tell that so many epochs are done."""
        training.reported_s = now_s
        training.progress.reported = max(training.progress.reported, epochs)
        grant = training.grant.grant
        self._tell(EpochFinished(now_s, training.job, grant, epochs - 1, training.epoch_s))

    def _do_as_told(self, training: Training, done: float, now_s: float) -> None:
        """Stop, go over in place, or go on with what stands now: an offer may have been withdrawn
        meanwhile."""
        job = self._state.live[training.job]
        if job.phase == "leaving":
            self._leave_training(training.job)
            training.progress.done = done
            if job.offer is not None and grants.someone_stays(job):
                self._go_over(training, job.offer, now_s)
            else:
                self._stop(training, now_s)
        elif job.running is not None and job.running.batch_size != training.grant.batch_size:
            self._agenda.strike(training.end)
            training.go_on(job.running, done, now_s)
            self._expect_end(training)
            self._reports.expect(training)

    def _stop(self, training: Training, now_s: float) -> None:
        training.stop()
        self._expect_stop(training.grant, now_s)

    def _expect_stop(self, grant: Grant, now_s: float) -> None:
        gone_s = now_s + self._jobs[grant.job].costs.stop_s
        self._note(gone_s, Kind.STOPPED, grant.job, partial(self._stopped, grant))

    def _go_over(self, training: Training, offer: Grant, now_s: float) -> None:
        """Let those who join in at this boundary, once they are warm, and end those that leave."""
        in_place = training.progress.costs.in_place
        assert in_place is not None
        begins_s = max(now_s, training.warm_s)
        starts_s = begins_s + max(in_place.pause_s, in_place.exchange_s)
        exchanged = partial(self._exchanged, training, offer, starts_s - now_s, starts_s)
        self._note(begins_s + in_place.exchange_s, Kind.STOPPED, training.job, exchanged)

    def _exchanged(
        self, training: Training, offer: Grant, pause_s: float, starts_s: float, now_s: float
    ) -> None:
        if self._running(training.grant) is None:
            return  # cancelled or lost meanwhile
        if not self._is_offered(offer):  # withdrawn meanwhile
            self._stop(training, now_s)
            return
        self._tell(WorkersResized(now_s, offer.job, offer.grant))
        started = partial(self._started, offer, pause_s)
        self._note(starts_s, Kind.STARTED, offer.job, started)

    def _stopped(self, grant: Grant, now_s: float, *, lost: bool = False) -> None:
        if self._running(grant) is None:
            return
        job = self._state.live[grant.job]
        cause = "its server was lost" if lost else ""
        self._tell(WorkersStopped(now_s, grant.job, grant.grant, lost, cause))
        self._jobs[grant.job].put_off = lost or job.offer is None
        if job.offer is not None:
            self.offered(job.offer, now_s)

    def _free(self, job: str, server: str, now_s: float) -> None:
        self._tell(GpusFreed(now_s, job, server))

    def _running(self, grant: Grant) -> Grant | None:
        """A grant as its job runs on it, maybe with another batch by now; None: it does not."""
        job = self._state.live.get(grant.job)
        running = None if job is None else job.running
        return running if running is not None and running.grant == grant.grant else None

    def _is_offered(self, grant: Grant) -> bool:
        """Whether its job still has this grant before it."""
        job = self._state.live.get(grant.job)
        return job is not None and job.offer is not None and job.offer.grant == grant.grant

    def _stands_on_reclaimed(self, grant: Grant) -> bool:
        return any(not self._state.trainable(server) for server in grant.servers)

    def _note(self, at_s: float, kind: Kind, job: str, deed: Deed) -> int:
        return self._agenda.note(at_s, kind, self._jobs[job].number, deed)
