"""What holds for every baseline, whatever the problem and whatever it remembers."""

import json
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from policies.problem import NO_MEMORY
from tests.strategies import problems


@st.composite
def busy(draw, lost_servers=False):
    """Problems whose jobs also have deadlines, sizes that they asked for, and attained service."""
    case = draw(problems(lost_servers=lost_servers))
    jobs = case.jobs
    within_s = st.one_of(st.just(np.inf), st.floats(-900, 1e5))
    columns = {
        "deadline_s": [case.now_s + draw(within_s) for _ in jobs.ids],
        "requested_workers": [
            draw(st.integers(low, high))
            for low, high in zip(jobs.min_workers, jobs.max_workers, strict=True)
        ],
        "attained_gpu_s": [draw(st.sampled_from([0.0, 100.0, 3250.0, 1e4])) for _ in jobs.ids],
    }
    types = {"requested_workers": np.int64}
    changed = {name: np.array(c, dtype=types.get(name, float)) for name, c in columns.items()}
    return replace(case, jobs=replace(jobs, **changed))


def assert_sound(policy, before, after):
    """A decision on `before`, and one on `after` with its memory, which is of other jobs."""
    memory = _assert_decides(policy, before, NO_MEMORY)
    _assert_decides(policy, replace(after, now_s=before.now_s + 500), memory)


def _assert_decides(policy, case, memory):
    decision, remembered = policy.decide(case, memory)
    assert policy.decide(case, json.loads(json.dumps(memory))) == (decision, remembered)
    jobs, answered = case.jobs, decision.allocations
    assert set(answered) | set(decision.rejected) == set(jobs.ids)
    assert not set(answered) & set(decision.rejected)
    workers = np.array([answered[j].workers if j in answered else 0 for j in jobs.ids], dtype=int)
    assert (workers * jobs.gpus_per_worker).sum() <= case.servers.total_gpus
    runs = workers > 0
    assert (workers[runs] >= jobs.min_workers[runs]).all()
    assert (workers <= jobs.max_workers).all()
    assert not set(decision.rejected) & {jobs.ids[row] for row in np.flatnonzero(jobs.workers)}
    reasons = [*(a.reason for a in answered.values()), *decision.rejected.values()]
    assert all(str(reason) and reason.numbers for reason in reasons)
    assert decision.review_at_s is None or decision.review_at_s > case.now_s
    for allocation in answered.values():
        assert allocation.servers is None or sum(allocation.servers.values()) == allocation.workers
    return json.loads(json.dumps(remembered))
