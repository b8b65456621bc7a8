"""The brain under whatever may happen, in any order (hypothesis state machine).

Held at every step: the ledger balances and agrees with the grants, gangs are whole (`State.check`),
no GPU is used twice (`PretendCluster`), no job stands on GPUs that it may not use. Held at the end:
no job is lost, every loan was returned, and a replay of the journal takes every decision and action
again.
"""

from __future__ import annotations

import tempfile
from dataclasses import fields, is_dataclass
from itertools import starmap
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from raysched import codec
from raysched.engine import Engine
from raysched.journal import Entry, Journal
from raysched.profile import Profile
from raysched.replay import recover, replay
from tests.pretend_cluster import PretendCluster, spec

jobs = st.integers(0, 5)
policies = st.sampled_from(policy_registry.names())
sizes = st.tuples(st.integers(1, 4), st.integers(0, 5))
wishes = st.sampled_from(
    [
        {},
        {},
        {"gpu_type": "GPU"},
        {"gpu_type": "T4"},
        {"mixes_gpus": True},
        {"checkpoints": False},
        {"batch_sizes": (32, 64, 256)},
    ]
)

profiles = st.builds(
    Profile,
    st.sampled_from([64, 1000]),
    st.just(1 << 22),
    st.dictionaries(st.sampled_from([8, 64]), st.sampled_from([0.1, 0.5]), min_size=1),
    st.sampled_from([None, 20, 64]),
)


def told(workers):
    """Larger batches are faster on more workers; the largest does not fit on fewer than three."""
    sizes = range(workers[0], workers[1] + 1)
    by_batch = [
        [12 / n + overhead * n if fits(n) else None for n in sizes]
        for overhead, fits in ((2.0, bool), (1.0, bool), (0.1, lambda n: n > 2))
    ]
    return tuple(seconds for row in by_batch for seconds in row)


def same(ours, theirs):
    """Columns, or curves made of them."""
    if is_dataclass(ours):
        for field in fields(ours):
            same(getattr(ours, field.name), getattr(theirs, field.name))
    else:
        np.testing.assert_array_equal(ours, theirs)


class Brain(RuleBasedStateMachine):
    """Rules are what the world may do; the engine must cope with all of it."""

    @initialize(
        policy=policies,
        loaning=st.sampled_from(["off", "aryl"]),
        t4=st.booleans(),
        grace_s=st.sampled_from([None, 0.0, 1.0, 20.0]),
    )
    def start(self, policy, loaning, t4, grace_s):
        self.cluster = PretendCluster()
        self.submitted = 0
        self.grace_s = grace_s
        self.inference_gpus = ("T4", 0.25) if t4 else ("GPU", 1.0)
        self.cluster.switch(policy, loaning)
        for server in ("t1", "t2"):
            self.cluster.add_server(server)
        self.cluster.serve(2, *self.inference_gpus, grace_s)

    def live(self, index: int) -> str | None:
        alive = [job.id for job in self.cluster.engine.state.live_jobs()]
        return alive[index % len(alive)] if alive else None

    @rule(
        size=sizes,
        gpus=st.integers(1, 2),
        epochs=st.integers(1, 4),
        deadline_s=st.sampled_from([None, None, 60.0, 400.0, 3000.0]),
        wish=wishes,
        joinable=st.booleans(),
        profiled=st.booleans(),
    )
    def submit(self, size, gpus, epochs, deadline_s, wish, joinable, profiled):
        self.submitted += 1
        if joinable:
            self.cluster.joinable.add(f"j{self.submitted}")
        least, more = size
        more = more if wish.get("checkpoints", True) else 0
        workers = (min(least, 4 // gpus), min(least, 4 // gpus) + more)
        if profiled and "batch_sizes" in wish:
            wish = {**wish, "profile_epoch_s": told(workers)}
        asked = spec(workers=workers, gpus=gpus, epochs=epochs, deadline_s=deadline_s, **wish)
        self.cluster.submit(f"j{self.submitted}", asked)

    @rule()
    def decide(self):
        self.cluster.decide()

    @rule(index=jobs)
    def pick_up(self, index):
        if (job := self.live(index)) is not None:
            self.cluster.pick_up(job)

    @rule(index=jobs, measured=profiles, workers=st.integers(2, 4))
    def profile(self, index, measured, workers):
        if (job := self.live(index)) is not None:
            self.cluster.profile(job, measured, {workers: {1 << 20: 0.01}})

    @rule(index=jobs)
    def warm(self, index):
        if (job := self.live(index)) is not None:
            self.cluster.warm(job)

    @rule(index=jobs)
    def finish_epoch(self, index):
        if (job := self.live(index)) is not None:
            self.cluster.finish_epoch(job)

    @rule(index=jobs)
    def reach_safe_point(self, index):
        if (job := self.live(index)) is not None:
            self.cluster.reach_safe_point(job)

    @rule()
    def end_workers(self):
        self.cluster.end_workers()

    @rule(index=jobs)
    def lose_workers(self, index):
        if (job := self.live(index)) is not None:
            self.cluster.stop_workers(job, lost=True)

    @rule(index=jobs, outcome=st.sampled_from(["failed", "cancelled"]))
    def end(self, index, outcome):
        if (job := self.live(index)) is not None:
            self.cluster.end(job, outcome)

    @rule()
    def free(self):
        self.cluster.free()

    @rule(rps=st.sampled_from([2.0, 12.0, 35.0]), seconds=st.integers(1, 30))
    def demand(self, rps, seconds):
        self.cluster.demand(rps, seconds)

    @rule()
    def scale(self):
        self.cluster.scale()

    @rule()
    def fence(self):
        self.cluster.fence()

    @rule()
    def unfence(self):
        self.cluster.unfence()

    @rule(policy=policies, loaning=st.sampled_from(["off", "aryl"]), break_promises=st.booleans())
    def switch(self, policy, loaning, break_promises):
        self.cluster.switch(policy, loaning, break_promises=break_promises)

    @rule(seconds=st.sampled_from([1.0, 30.0, 500.0]))
    def pass_time(self, seconds):
        self.cluster.pass_time(seconds)

    @rule(server=st.sampled_from(["t2", "i2"]))
    def lose_and_replace_a_server(self, server):
        cluster = self.cluster
        if server not in cluster.engine.state.servers:
            return
        pool = cluster.engine.state.servers[server].pool
        standing = [
            job.id
            for job in cluster.engine.state.live_jobs()
            if job.running and server in job.running.servers
        ]
        cluster.lose_server(server)
        for job in standing:
            cluster.stop_workers(job, lost=True)
        for job in list(cluster.in_use):
            cluster.in_use[job].pop(server, None)
        cluster.add_server(server, pool, *(self.inference_gpus if pool == "inference" else ()))

    @invariant()
    def every_job_stands_on_gpus_that_it_may_use(self):
        if not hasattr(self, "cluster"):
            return
        state = self.cluster.engine.state
        for job in state.live_jobs():
            for servers in (job.standing, job.target):
                types = {state.servers[s].gpu_type for s in servers if s in state.servers}
                assert job.spec.mixes_gpus or len(types) <= 1
                assert not job.spec.gpu_type or types <= {job.spec.gpu_type}

    @invariant()
    def whoever_stands_where_it_had_to_be_gone_was_told_to_end(self):
        if not hasattr(self, "cluster"):
            return
        state = self.cluster.engine.state
        late = {s.id for s in state.servers.values() if s.loan == "reclaiming"}
        late -= {s.id for s in state.servers.values() if s.leave_by_s is not None}
        for job in state.live_jobs():
            if self.grace_s is not None and late & job.standing.keys():
                assert job.cut_short or job.phase == "leaving" or job.trained
            assert 0 <= job.part < 1

    @invariant()
    def what_is_kept_up_to_date_equals_what_is_made_anew(self):
        if not hasattr(self, "cluster"):
            return
        kept = self.cluster.engine
        anew = Engine(
            codec.state_from_json(codec.state_to_json(kept.state)),
            load_policy=policy_registry.load,
        )
        ours, theirs = kept.problem(()), anew.problem(())
        assert ours.placed.tolist() == theirs.placed.tolist()
        for columns in ("jobs", "servers"):
            mine, other = getattr(ours, columns), getattr(theirs, columns)
            for field in fields(mine):
                same(getattr(mine, field.name), getattr(other, field.name))

    @invariant()
    def a_server_that_inference_takes_back_is_given_back_once_it_is_unused(self):
        if not hasattr(self, "cluster"):
            return
        state = self.cluster.engine.state
        for server in state.servers.values():
            assert server.loan != "reclaiming" or state.ledger.accounts[server.id].in_use

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        self.cluster.switch("fifo", "off")
        self.finish()
        state = self.cluster.engine.state
        assert all(not job.alive for job in state.jobs.values()), "a job was lost"
        assert len(state.jobs) == self.submitted
        assert all(server.loan == "none" for server in state.servers.values())
        assert not any(account.in_use for account in state.ledger.accounts.values())
        self.replays()

    def finish(self):
        """Let everything come to its end; jobs that can no longer fit are cancelled."""
        for _ in range(3):
            self.cluster.run_to_the_end()
            self.cluster.scale()
            self.cluster.settle()
        for job in self.cluster.engine.state.live_jobs():
            assert job.running is None, f"{job.id} runs and never ends"
            self.cluster.end(job.id, "cancelled")
        self.cluster.settle()

    def replays(self):
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "journal.db")
            half = len(self.cluster.log) // 2
            journal.append(starmap(Entry.of, self.cluster.log[:half]))
            journal.snapshot(recover(journal, policy_registry.load).state)
            journal.append(starmap(Entry.of, self.cluster.log[half:]))
            found = replay(journal, policy_registry.load, loaning_registry.load)
            assert found.identical, found.differences[0]
            recovered = recover(journal, policy_registry.load).state
            assert codec.state_to_json(recovered) == codec.state_to_json(self.cluster.engine.state)
            journal.close()


TestBrain = Brain.TestCase
