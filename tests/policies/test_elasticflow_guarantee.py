"""elasticflow: an admitted deadline is never broken by a later decision."""

import json
import math
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from policies.elasticflow import ElasticFlow
from policies.problem import NO_MEMORY
from tests.builders import job, on_loan, training
from tests.policies.test_elasticflow import due, promises


@dataclass
class Running:
    """A job of the cluster below. `epochs` are left in truth; whole ones are reported."""

    name: str
    epoch_s: tuple[float, ...]
    epochs: float
    deadline_s: float
    workers: int = 0


class Cluster:
    """Time passes as the decisions say; promises are watched."""

    def __init__(self, policy, whole_epochs):
        self.policy, self.whole_epochs = policy, whole_epochs
        self.now_s, self.memory = 7.3, NO_MEMORY
        self.jobs: list[Running] = []
        self.promised: set[str] = set()
        self.review_at_s: float | None = None

    def decide(self, owned, loaned):
        jobs = [
            job(
                j.name,
                (1, len(j.epoch_s)),
                epoch_s=j.epoch_s,
                epochs=math.ceil(j.epochs - 1e-9) if self.whole_epochs else j.epochs,
                running=j.workers,
            )
            for j in self.jobs
        ]
        within_s = {j.name: j.deadline_s - self.now_s for j in self.jobs}
        case = due(jobs, [training(owned), on_loan(loaned)], within_s, now_s=self.now_s)
        decision, memory = self.policy.decide(case, self.memory)
        self.memory = json.loads(json.dumps(memory))
        assert not self.promised & decision.rejected.keys()
        self.jobs = [j for j in self.jobs if j.name not in decision.rejected]
        for j in self.jobs:
            j.workers = decision.allocations[j.name].workers
        self.promised |= promises(decision).keys()
        assert sum(j.workers for j in self.jobs) <= owned + loaned
        self.review_at_s = decision.review_at_s

    def advance(self, until_s):
        """To the next thing that has to be decided on, at most to `until_s`."""
        ends_s = [self.now_s + j.epochs * j.epoch_s[j.workers - 1] for j in self.jobs if j.workers]
        next_s = min([until_s, *ends_s, *filter(None, [self.review_at_s])])
        for j in self.jobs:
            if j.workers:
                j.epochs -= (next_s - self.now_s) / j.epoch_s[j.workers - 1]
        self.now_s = next_s
        for j in [j for j in self.jobs if j.epochs < 1e-6]:
            self.jobs.remove(j)
            self.promised.discard(j.name)
        for j in self.jobs:
            assert j.name not in self.promised or self.now_s < j.deadline_s - 1e-6, j


curves = st.lists(st.floats(0.3, 1), min_size=1, max_size=8).map(
    lambda steps: tuple(4 / np.cumsum(sorted(steps, reverse=True)))
)


@given(st.sampled_from([1.0, 5.0, 7.0]), st.booleans(), st.booleans(), st.data())
def test_an_admitted_deadline_is_never_broken(slot_s, powers_of_two, whole_epochs, data):
    """Whatever arrives, leaves, is lent or taken back, as long as predictions hold."""
    reserve = 1.0 if whole_epochs else 0.0
    policy = ElasticFlow(slot_s=slot_s, powers_of_two=powers_of_two, boundary_epochs=reserve)
    cluster = Cluster(policy, whole_epochs)
    owned = data.draw(st.integers(2, 6), label="owned")
    for step in range(data.draw(st.integers(2, 8), label="steps")):
        for number in range(data.draw(st.integers(1, 5), label="arrivals")):
            epochs = data.draw(st.integers(1, 12))
            # From hopeless to ample.
            within_s = data.draw(st.one_of(st.just(math.inf), st.floats(2, 16))) * epochs
            new = Running(f"{step}-{number}", data.draw(curves), epochs, cluster.now_s + within_s)
            cluster.jobs.append(new)
        if cluster.jobs and data.draw(st.booleans(), label="one leaves"):
            gone = data.draw(st.sampled_from(cluster.jobs))
            cluster.jobs.remove(gone)
            cluster.promised.discard(gone.name)
        cluster.decide(owned, data.draw(st.integers(0, 4), label="loaned"))
        cluster.advance(cluster.now_s + data.draw(st.floats(0.1, 15), label="seconds"))
    while cluster.promised:
        cluster.decide(owned, 0)
        cluster.advance(cluster.now_s + 50)
