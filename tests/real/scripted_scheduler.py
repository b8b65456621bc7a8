"""A scheduler that follows a script, to drive the trainer through every change of workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group

from raysched.runtime.assignment import NOTHING
from raysched.runtime.protocol import NAMESPACE, SCHEDULER_NAME, GrantedSlots, Slot, Standing

READY_S = 60.0


@contextmanager
def in_the_schedulers_place(scripted: type[ScriptedScheduler]) -> Iterator[Any]:
    """Its actor, by the name under which a trainer looks for the scheduler."""
    actor: Any = (
        ray.remote(num_cpus=0)(scripted).options(name=SCHEDULER_NAME, namespace=NAMESPACE).remote()
    )
    yield actor
    ray.kill(actor)


def said(scheduler: Any, job: str, kind: str) -> list[tuple[Any, ...]]:
    """What was said of a job, without kind, job and time."""
    return [entry[3:] for entry in ray.get(scheduler.told.remote(job)) if entry[0] == kind]


class ScriptedScheduler:
    """Sizes by epoch: `{0: 1, 3: 2}` grants 1 worker, and 2 after epoch 2. 0 parks for a while.

    A size at 2.3 is that from the first safe point on where 0.3 of epoch 2 are done; "cut" instead
    of a size ends the workers there. With `in_place` others are offered what comes next as soon as
    a grant stands, and a boundary waits for those who join; without, every change is a restart.
    `profiles` is what the workers of a first grant are to measure, `batches` the global batch sizes
    by the first epoch that begins with each.
    """

    PARKED_S = 0.5

    def __init__(self):
        self.scripts = {}  # job name -> (sizes by first epoch, in_place)
        self.to_profile = {}  # job name -> what its first workers measure
        self.batches = {}  # job name -> batch sizes by first epoch
        self.batch_size = {}  # job -> that stands
        self.jobs = {}  # job -> spec
        self.grants = {}  # job -> (grant, workers)
        self.running = {}  # job -> grant on which its workers are
        self.offers = {}  # job -> (grant, workers)
        self.ready = {}  # job -> last grant that was said to be ready
        self.reached = set()  # (job, safe point of its script)
        self.cut = {}  # job -> grant whose workers must stop
        self.groups = {}  # job -> placement groups that stand, by slot
        self.parked_until_s = {}
        self.story = []  # everything that was said, in order

    async def script(self, name, sizes, in_place=False, profiles=NOTHING, batches=None):
        self.scripts[name] = sizes, in_place
        self.to_profile[name] = profiles
        self.batches[name] = batches or {}

    async def told(self, job):
        return [entry for entry in self.story if entry[1] == job]

    async def status(self):
        return {"servers": 4 * [{"gpus": 4}]}

    async def specs(self, name):
        """The last job of this name, as it was submitted."""
        return [spec for spec in self.jobs.values() if spec.name == name][-1]

    async def submit(self, spec, owner, token):
        job = f"{spec.name}-{len(self.jobs)}"
        self.jobs[job] = spec
        self.grants[job] = (1, self._sizes(job)[0])
        self.groups[job] = {}
        self.batch_size[job] = spec.batch_size
        return job

    async def standing(self, job):
        grant, workers = self.grants[job]
        if workers == 0:
            if time.monotonic() < self.parked_until_s[job]:
                return Standing()
            grant, workers = self.grants[job] = (grant + 1, 2)
        self.story.append(("granted", job, time.time(), grant, workers))
        self._stand_on(job, grant)
        profiles = self.to_profile.pop(self.jobs[job].name, NOTHING)
        return Standing(replace(self._slots(job, grant, workers), profiles=profiles))

    async def profiled(self, job, grant, profile, all_reduce_s):
        self.story.append(("profiled", job, time.time(), grant, profile, all_reduce_s))

    async def workers_started(self, job, grant, start_s, joinable):
        self.story.append(("started", job, time.time(), grant, start_s))

    async def offered(self, job, running, known):
        if self.cut.get(job) == running:
            return Standing(must_stop=True)
        if job not in self.offers or self.running[job] != running:
            return Standing()
        return Standing(self._slots(job, *self.offers[job]))

    async def offer_ready(self, job, grant):
        self.ready[job] = grant
        self.story.append(("ready", job, time.time(), grant))

    async def workers_resized(self, job, grant):
        self.story.append(("resized", job, time.time(), grant))
        self._close(job, keep=self.grants[job][1])
        self._stand_on(job, grant)
        return True

    async def boundary(self, report):
        job = report.job
        self.story.append(("boundary", job, time.time(), report))
        grant, workers = self.grants[job]
        batches = self.batches[self.jobs[job].name]
        if report.part == 1:
            self.batch_size[job] = batches.get(report.epoch + 1, self.batch_size[job])
        target = self._target(job, report, workers)
        if target == "cut":
            self.cut[job] = grant
            self.grants[job] = (grant + 1, workers)
            return grant, self.batch_size[job]
        if target != workers:
            self.grants[job] = (grant + 1, target)
            self.parked_until_s[job] = time.monotonic() + self.PARKED_S
            await self._until_ready(job, grant + 1, target > workers)
        return self.grants[job][0], self.batch_size[job]

    async def workers_stopped(self, job, grant, lost, cause):
        self.story.append(("stopped", job, time.time(), grant, lost, cause))
        self._close(job, keep=0)
        if lost:
            self.grants[job] = (self.grants[job][0] + 1, self.grants[job][1])

    async def ended(self, job, outcome, error):
        self.story.append(("ended", job, time.time(), outcome, error))

    def _sizes(self, job):
        return self.scripts[self.jobs[job].name][0]

    def _target(self, job, report, workers):
        """What the script says for here, once."""
        if report.part == 1:
            return self._sizes(job).get(report.epoch + 1, workers)
        for at, target in self._sizes(job).items():
            if report.epoch < at <= report.epoch + report.part and (job, at) not in self.reached:
                self.reached.add((job, at))
                return target
        return workers

    def _stand_on(self, job, grant):
        """Offer what the script says next, if the job is resized in place."""
        self.running[job] = grant
        self.offers.pop(job, None)
        sizes, in_place = self.scripts[self.jobs[job].name]
        following = [size for _, size in sorted(sizes.items())][grant:]
        if in_place and following:
            self.offers[job] = (grant + 1, following[0])

    async def _until_ready(self, job, grant, grows):
        deadline_s = time.monotonic() + READY_S
        offered = self.offers.get(job, (0, 0))[0] == grant
        while offered and grows and self.ready.get(job) != grant and time.monotonic() < deadline_s:
            await asyncio.sleep(0.02)

    def _close(self, job, keep):
        for place in list(self.groups[job])[keep:]:
            remove_placement_group(self.groups[job].pop(place))

    def _slots(self, job, grant, workers):
        """Half of the workers on the training pool, the others on the inference pool."""
        groups, slots = self.groups[job], []
        for index in range(workers):
            pool = "inference" if index % 2 else "training"
            place = (f"{pool}-0", index // 2)
            if place not in groups:
                groups[place] = placement_group(
                    [{"CPU": 1, "GPU": 1}], bundle_label_selector=[{"pool": pool}]
                )
            slots.append(Slot(groups[place], *place))
        return GrantedSlots(grant, tuple(slots), self.batch_size[job])
