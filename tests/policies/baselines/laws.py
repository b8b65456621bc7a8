"""What holds of every baseline, whatever its idea."""

import json

import numpy as np

from policies.problem import NO_MEMORY


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def decided(policy, case, memory=NO_MEMORY):
    """The decision, with all that holds of any: capacity, ranges, reasons, and the same again."""
    decision, after = policy.decide(case, memory)
    assert policy.decide(case, json.loads(json.dumps(memory))) == (decision, after)
    assert json.loads(json.dumps(after)) == after
    jobs = case.jobs
    assert not set(decision.allocations) & set(decision.rejected)
    assert set(decision.allocations) | set(decision.rejected) == set(jobs.ids)
    workers = np.array([sizes(decision).get(name, 0) for name in jobs.ids], dtype=int)
    assert (workers * jobs.gpus_per_worker).sum() <= case.servers.total_gpus
    assert (workers <= jobs.max_workers).all()
    assert ((workers == 0) | (workers >= jobs.min_workers)).all()
    reasons = [allocation.reason for allocation in decision.allocations.values()]
    for reason in [*reasons, *decision.rejected.values()]:
        assert str(reason)
        assert json.loads(json.dumps(dict(reason.numbers))) == dict(reason.numbers)
    return decision
