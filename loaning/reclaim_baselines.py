"""Plain ways of choosing the servers to return, which Aryl is compared with (004 §7.1, Table 12).

All return servers that stand empty first, and then go by an order that is fixed beforehand: what
leaves with the jobs of one server is not counted again for the next. Ties break by index.

`random` and `smallest_count_first` are the paper's (§7.1). Table 12 names Static, SSF and LSF
without defining them; `static`, `smallest_size_first` and `largest_size_first` are definitions of
our own, so that only the order of their preemption ratios may be compared with the table's.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from loaning.problem import OnLoan
from loaning.reclaim import Choice


def choose_random(on_loan: OnLoan, count: int) -> Choice:
    """Uniformly without replacement. Seeded by the loan itself: the same one, the same answer."""
    seed = zlib.crc32("\n".join((*on_loan.servers, *on_loan.jobs)).encode())
    seed = zlib.crc32(np.ascontiguousarray(on_loan.workers).tobytes(), seed)
    return _choose(on_loan, count, np.random.default_rng(seed).permutation(len(on_loan.servers)))


def choose_smallest_count(on_loan: OnLoan, count: int) -> Choice:
    """SCF (§7.1): the servers that host the fewest jobs."""
    return _choose(on_loan, count, (on_loan.workers > 0).sum(axis=0))


def choose_static(on_loan: OnLoan, count: int) -> Choice:
    """Static, our reading: one fixed order, blind to what stands where."""
    return _choose(on_loan, count, np.arange(len(on_loan.servers)))


def choose_smallest_size(on_loan: OnLoan, count: int) -> Choice:
    """SSF, our reading: the servers with the fewest GPUs in use."""
    return _choose(on_loan, count, on_loan.gpus_per_worker @ on_loan.workers)


def choose_largest_size(on_loan: OnLoan, count: int) -> Choice:
    """LSF, our reading: the servers with the most GPUs in use."""
    return _choose(on_loan, count, -(on_loan.gpus_per_worker @ on_loan.workers))


def _choose(on_loan: OnLoan, count: int, rank: NDArray[np.int64]) -> Choice:
    """The first `count` servers, or all there are, by rank after those that stand empty."""
    occupied = on_loan.workers.any(axis=0)
    order = np.lexsort((np.arange(len(rank)), rank, occupied))
    return Choice(order[: max(count, 0)].tolist())
