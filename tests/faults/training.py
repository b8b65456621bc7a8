"""Faults in what trains a job: `raysched/runtime/`."""

from tests.faults.fault import Fault

FAULTS = (
    Fault(
        "shares-lose-samples",
        "what does not divide among workers is given to nobody",
        "raysched/runtime/shares.py",
        "for rank in by_remainder[: batch - sum(samples)]:",
        "for rank in by_remainder[:0]:",
        "tests/test_shares.py",
    ),
    Fault(
        "waits-count-as-work",
        "a worker that waits for others seems as slow as they are",
        "raysched/runtime/pace.py",
        "busy_s = _seconds(*self._marks) - waited_s",
        "busy_s = _seconds(*self._marks)",
        "tests/test_batches.py",
    ),
    Fault(
        "parts-not-summed",
        "of a share that comes in parts the last one alone is trained on",
        "raysched/runtime/accumulation.py",
        "return gradient if known is None else known.add_(gradient)",
        "return gradient",
        "tests/test_batches.py",
    ),
    Fault(
        "parts-step",
        "the optimizer steps after each part of a share",
        "raysched/runtime/accumulation.py",
        "gradient, parameter.grad = parameter.grad, None",
        "gradient = parameter.grad",
        "tests/test_batches.py",
    ),
    Fault(
        "scaled-rate-stays",
        "the learning rate of a larger batch is left in the optimizer",
        "raysched/runtime/learning_rate.py",
        'group["lr"] = rate',
        "pass",
        "tests/test_batches.py",
    ),
    Fault(
        "warm-up-not-saved",
        "a warm-up starts anew where workers do",
        "raysched/runtime/loop.py",
        "state.restore(_Running.stateful)",
        "state.restore(_Running.stateful[:-1])",
        "tests/test_batches.py",
    ),
    Fault(
        "batch-stays",
        "workers that stay go on with the batch size that they began with",
        "raysched/runtime/boundary.py",
        "assign(replace(assignment, batch_size=batch_size))",
        "assign(assignment)",
        "tests/test_batches.py",
    ),
)
