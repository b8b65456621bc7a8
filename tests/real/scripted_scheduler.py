"""A scheduler that follows a script, to drive the trainer through every change of workers."""

import time

from ray.util.placement_group import placement_group, remove_placement_group

from raysched.runtime.protocol import GrantedSlots, Slot, Standing


class ScriptedScheduler:
    """Sizes by epoch: `{0: 1, 3: 2}` grants 1 worker, and 2 after epoch 2. 0 parks for a while."""

    PARKED_S = 0.5

    def __init__(self):
        self.scripts = {}  # job name -> sizes by first epoch
        self.jobs = {}  # job -> name
        self.grants = {}  # job -> (grant, workers)
        self.groups = {}  # job -> placement groups that stand
        self.parked_until_s = {}
        self.story = []  # everything that was said, in order

    def script(self, name, sizes):
        self.scripts[name] = sizes

    def told(self, job):
        return [entry for entry in self.story if entry[1] == job]

    def submit(self, spec, owner, token):
        job = f"{spec.name}-{len(self.jobs)}"
        self.jobs[job] = spec
        self.grants[job] = (1, self._sizes(job)[0])
        return job

    def standing(self, job):
        grant, workers = self.grants[job]
        if workers == 0:
            if time.monotonic() < self.parked_until_s[job]:
                return Standing()
            grant, workers = self.grants[job] = (grant + 1, 2)
        if job not in self.groups:
            self.groups[job] = self._place(workers)
            self.story.append(("granted", job, time.time(), grant, workers))
        return Standing(GrantedSlots(grant, self._slots(job, workers), self.jobs[job].batch_size))

    def workers_started(self, job, grant, start_s):
        self.story.append(("started", job, time.time(), grant, start_s))

    def boundary(self, report):
        self.story.append(("boundary", report.job, time.time(), report))
        grant, workers = self.grants[report.job]
        target = self._sizes(report.job).get(report.epoch + 1, workers)
        if target != workers:
            self.grants[report.job] = (grant + 1, target)
            self.parked_until_s[report.job] = time.monotonic() + self.PARKED_S
        return self.grants[report.job]

    def workers_stopped(self, job, grant, lost, cause):
        self.story.append(("stopped", job, time.time(), grant, lost, cause))
        for group in self.groups.pop(job, []):
            remove_placement_group(group)
        if lost:
            self.grants[job] = (self.grants[job][0] + 1, self.grants[job][1])

    def ended(self, job, outcome, error):
        self.story.append(("ended", job, time.time(), outcome, error))

    def _sizes(self, job):
        return self.scripts[self.jobs[job].name]

    def _place(self, workers):
        """One worker in a group of its own; more: half in one group, half sharing a bundle."""
        own = max(1, workers // 2)
        bundles = [{"CPU": 1, "GPU": 1}] * own
        groups = [placement_group(bundles, bundle_label_selector=[{"pool": "training"}] * own)]
        if workers > own:
            loan = [{"CPU": 4, "GPU": 4}]
            groups.append(placement_group(loan, bundle_label_selector=[{"pool": "inference"}]))
        return groups

    def _slots(self, job, workers):
        own, *loans = self.groups[job]
        slots = [Slot(own, index, "training-0") for index in range(own.bundle_count)]
        slots += [Slot(loans[0], 0, "inference-0")] * (workers - len(slots)) if loans else []
        return tuple(slots)
