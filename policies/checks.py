"""Checks that every policy makes before it decides: a typed error, never a wrong plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policies.problem import Bools, Floats, Jobs, PolicyError, Problem, Servers
from policies.ragged import lengths_of, rows_of

Rule: TypeAlias = tuple[str, NDArray[Any], Bools, str]
"""Field, its values, which rows are bad, what a good one is."""

AMOUNT = "finite and from 0"


def check(problem: Problem) -> None:
    """Raise `PolicyError` naming job (or server) and field where the problem makes no sense."""
    _check_servers(problem.servers)
    for field, seconds in (("now_s", problem.now_s), ("resize_s", problem.resize_s)):
        if not 0 <= seconds < math.inf:
            raise PolicyError(f"{field} is {seconds}; it must be {AMOUNT}")
    rules = [*_rules_for_jobs(problem.jobs)]
    if np.array([bad for _, _, bad, _ in rules]).any():  # one look is quicker than one for each
        for rule in rules:
            _refuse("job", problem.jobs.ids, rule)
    _check_epochs(problem.jobs)


def check_interval(interval_s: float | None) -> None:
    """Raise `PolicyError` for a period between decisions that is none."""
    if interval_s is not None and not 0 < interval_s < math.inf:
        raise PolicyError(f"interval_s is {interval_s}; use a positive number of seconds, or None")


def check_seconds(field: str, seconds: float) -> None:
    """Raise `PolicyError` for a parameter that is no length of time."""
    if not 0 < seconds < math.inf:
        raise PolicyError(f"{field} is {seconds}; use a positive number of seconds")


@lru_cache(maxsize=8)  # servers change far less often than decisions are taken
def _check_servers(servers: Servers) -> None:
    gpus, rate, memory = servers.gpus, servers.gpu_rate, servers.gpu_memory_gib
    _refuse("server", servers.ids, ("gpus", gpus, gpus < 0, "from 0"))
    standing_still = ~(np.isfinite(rate) & (rate > 0))
    _refuse("server", servers.ids, ("gpu_rate", rate, standing_still, "positive"))
    _refuse("server", servers.ids, ("gpu_memory_gib", memory, memory <= 0, "positive"))


def _rules_for_jobs(jobs: Jobs) -> Iterator[Rule]:
    low, high, workers = jobs.min_workers, jobs.max_workers, jobs.workers
    yield "min_workers", low, low < 1, "from 1"
    yield "max_workers", high, high < low, "from min_workers"
    asked = jobs.requested_workers
    odd = (asked < low) | (asked > high)
    yield "requested_workers", asked, odd, "from min_workers to max_workers"
    yield "gpus_per_worker", jobs.gpus_per_worker, jobs.gpus_per_worker < 1, "from 1"
    carried = jobs.workers_per_parameter_server
    yield "workers_per_parameter_server", carried, carried < 0, "from 0"
    outside = (workers != 0) & ((workers < low) | (workers > high))
    yield "workers", workers, outside, "0, or from min_workers to max_workers"
    yield "submitted_s", jobs.submitted_s, _no_amount(jobs.submitted_s), AMOUNT
    never = ~(jobs.deadline_s > -np.inf)
    yield "deadline_s", jobs.deadline_s, never, "a time, or inf for none"
    yield "remaining_epochs", jobs.remaining_epochs, _no_amount(jobs.remaining_epochs), AMOUNT
    yield "attained_gpu_s", jobs.attained_gpu_s, _no_amount(jobs.attained_gpu_s), AMOUNT
    none = np.isnan(jobs.worth)
    if not none.all():
        worthless = ~(np.isfinite(jobs.worth) & (jobs.worth > 0))
        yield "worth", jobs.worth, ~none & worthless, "positive"
        for name in ("steepness_per_s", "target_s"):
            values = getattr(jobs, name)
            yield name, values, ~none & _no_amount(values), AMOUNT
    memory = jobs.gpu_memory_gib
    yield "gpu_memory_gib", memory, memory <= 0, "positive"

    curves = jobs.curves
    batches = lengths_of(curves.batch_offset)
    job = rows_of(batches)
    present = np.bincount(job[curves.batch_size == jobs.batch_size[job]], minlength=len(jobs))
    yield "batch_size", jobs.batch_size, present != 1, "one of its curve's"
    entries, complete = lengths_of(curves.offset), batches * jobs.span
    each = "one for each batch size and number of workers"
    yield "number of epoch_s", entries, entries != complete, each


def _no_amount(values: Floats) -> Bools:
    bad: Bools = ~(np.isfinite(values) & (values >= 0))
    return bad


def _check_epochs(jobs: Jobs) -> None:
    """Refuse the first predicted epoch that takes no positive number of seconds.

    inf says that a batch does not fit on so many workers: so may any but the smallest.
    """
    epoch_s, offset = jobs.curves.epoch_s, jobs.curves.offset
    batches, widths = lengths_of(jobs.curves.batch_offset), jobs.span
    may_not_fit = np.arange(len(epoch_s)) >= np.repeat(offset[:-1] + widths, batches * widths)
    good = (epoch_s > 0) & (np.isfinite(epoch_s) | may_not_fit)
    bad = np.flatnonzero(~good)
    if len(bad):
        entry = int(bad[0])
        row = int(np.searchsorted(offset, entry, side="right")) - 1
        low, high = int(jobs.min_workers[row]), int(jobs.max_workers[row])
        workers = low + (entry - int(offset[row])) % (high - low + 1)
        raise PolicyError(
            f"job {jobs.ids[row]}: epoch_s at {workers} workers is {epoch_s[entry]}; "
            "it must be a positive number of seconds"
        )


def _refuse(kind: str, ids: tuple[str, ...], rule: Rule) -> None:
    """Raise for the first bad row."""
    field, values, bad, good = rule
    if bad.any():
        row = int(bad.argmax())
        raise PolicyError(f"{kind} {ids[row]}: {field} is {values[row]}; it must be {good}")
