"""Alibaba's PAI trace (cluster-trace-gpu-v2020): a row a task, with its instances and their GPUs.

Columns: job_name, task_name, inst_num, status, start_time, end_time, plan_cpu, plan_mem, plan_gpu,
gpu_type. Times are seconds, `plan_gpu` percent of a GPU for each instance. The published tables
keep these names in a file apart: put them before the first row.
"""

from __future__ import annotations

import math
from pathlib import Path

from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.rows import Row, rows
from raysched.simulator.traces.trace import Trace, in_order, sized_job

COLUMNS = {"job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_gpu"}
"""Of these, what is read."""

UNDER_WAY = {"Waiting", "Running"}
"""States of tasks whose durations nobody knows: the trace was taken before they ended."""


def fits(columns: tuple[str, ...]) -> bool:
    """Whether a table with these columns is such a trace."""
    return set(columns) >= COLUMNS


def read(path: Path, *, skip_bad: bool = False) -> Trace:
    """Tasks that come at their start and run until their end on as many workers as instances.

    Left out, and counted: tasks without GPUs (parameter servers, and jobs on CPUs), and those that
    had not ended. Departures: a share of a GPU is a whole one, since workers share none; tasks of
    one job that need GPUs are jobs of their own; and any type of GPU will do, since `gpu_type` is
    what a task was given, not what it asked for.
    """

    def read_job(row: Row) -> Arrival | None:
        status, percent = row.text("status"), row.number("plan_gpu") if row.cells["plan_gpu"] else 0
        if percent == 0 or status in UNDER_WAY:
            return None
        start_s, end_s = row.number("start_time"), row.number("end_time")
        if end_s <= start_s:
            raise row.bad("end_time", "is not after the start")
        return sized_job(
            f"{row.text('job_name')}/{row.text('task_name')}",
            start_s,
            row.whole("inst_num", least=1),
            end_s - start_s,
            gpus_per_worker=math.ceil(percent / 100),
        )

    return in_order("pai", rows(path), read_job, skip_bad=skip_bad, named_by="task_name")
