"""The picture of a run: which job held which GPU when, what was on loan, traffic and latency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no screen needed

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from raysched.history import History, JobHistory, Stretch

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888", "#ee8866")
_LOAN = "#fff3d6"
_SERVING = "#e4e8ee"


def draw(history: History, summary: dict[str, Any], path: Path) -> None:
    """Write the picture of a run that had jobs to `path` (a PNG)."""
    begin_s = min(job.submitted_s for job in history.jobs.values())
    figure, (gpus, jobs, traffic, latency) = plt.subplots(
        4, 1, figsize=(12, 11), sharex=True, height_ratios=(4, 2, 1.4, 1.4), layout="constrained"
    )
    _draw_gpus(gpus, history, begin_s)
    _draw_jobs(jobs, history, begin_s)
    _draw_traffic(traffic, history, begin_s)
    _draw_latency(latency, history, begin_s)
    latency.set_xlabel("seconds since the first job arrived")
    latency.set_xlim(0, max(history.end_s - begin_s, 1.0))
    figure.suptitle(_title(summary), fontsize=13)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _title(summary: dict[str, Any]) -> str:
    jct_s = summary["jct_s_mean"]
    return (
        f"policy {summary['policy']}, loaning {summary['loaning']}: "
        f"{summary['jobs_completed']} of {summary['jobs_submitted']} jobs, "
        f"mean JCT {jct_s if jct_s is not None else '–'} s, {summary['resizes']} resizes, "
        f"{summary['loans']} loans, training GPUs {summary['gpu_use_training']:.0%} used"
    )


def colours(history: History) -> dict[str, str]:
    """A colour for each job, the same in every panel."""
    return {job: _COLOURS[i % len(_COLOURS)] for i, job in enumerate(history.jobs)}


def _draw_gpus(axes: Axes, history: History, begin_s: float) -> None:
    """A row a GPU, servers one below the other; a bar where a job holds it."""
    servers = sorted(history.servers.values(), key=lambda s: (s.pool != "training", s.server))
    row_of, rows = {}, 0
    for server in servers:
        row_of[server.server] = rows
        rows += server.gpus + 1
    _draw_backgrounds(axes, history, row_of, begin_s)
    busy: dict[str, list[tuple[float, set[int]]]] = {s.server: [] for s in servers}
    for job, stretch in _stretches(history):
        for name, workers in stretch.servers.items():
            gpus = workers * job.spec.gpus_per_worker
            for gpu in _free_rows(busy[name], stretch, gpus, history.servers[name].gpus):
                _bar(axes, row_of[name] + gpu, stretch, begin_s, colours(history)[job.job])
    axes.set_ylim(rows - 0.5, -0.5)
    middles = [row_of[s.server] + s.gpus / 2 for s in servers]
    axes.set_yticks(middles, [f"{s.server}\n{s.gpus} GPUs" for s in servers])
    axes.tick_params(axis="y", length=0)
    axes.set_title("GPUs by job", loc="left", fontsize=10)
    handles = [Patch(color=colour, label=job) for job, colour in colours(history).items()]
    handles += [Patch(color=_SERVING, label="serves"), Patch(color=_LOAN, label="on loan")]
    axes.legend(
        handles=handles,
        ncols=len(handles),
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        fontsize=8,
        frameon=False,
    )


def _draw_backgrounds(axes: Axes, history: History, row_of: dict[str, int], begin_s: float) -> None:
    """Inference servers are grey while they serve, yellow while they are on loan."""
    end_s = history.end_s
    for server in history.servers.values():
        if server.pool != "inference":
            continue
        top = row_of[server.server]
        whole = Rectangle((0, top - 0.1), end_s - begin_s, server.gpus + 0.2, color=_SERVING)
        axes.add_patch(whole)
        for loan in history.loans:
            if loan.server == server.server:
                to_s = loan.to_s if loan.to_s is not None else end_s
                corner = (loan.from_s - begin_s, top - 0.1)
                axes.add_patch(
                    Rectangle(corner, to_s - loan.from_s, server.gpus + 0.2, color=_LOAN)
                )
                if loan.reclaimed_s is not None:
                    axes.plot(
                        [loan.reclaimed_s - begin_s] * 2,
                        [top, top + server.gpus],
                        color="#b8860b",
                        linestyle=":",
                        linewidth=1.5,
                    )


def _stretches(history: History) -> list[tuple[JobHistory, Stretch]]:
    pairs = [(job, s) for job in history.jobs.values() for s in job.stretches]
    return sorted(pairs, key=lambda pair: pair[1].from_s)


def _free_rows(
    busy: list[tuple[float, set[int]]], stretch: Stretch, gpus: int, of: int
) -> list[int]:
    """The first rows of a server that nobody holds when a stretch begins."""
    taken = {row for until_s, rows in busy if until_s > stretch.from_s for row in rows}
    free = [row for row in range(of) if row not in taken][:gpus]
    busy.append((stretch.to_s, set(free)))
    return free


def _bar(axes: Axes, row: int, stretch: Stretch, begin_s: float, colour: str) -> None:
    """Pale while workers start, full while they train."""
    trains_s = stretch.training_s if stretch.training_s is not None else stretch.to_s
    start = (stretch.from_s - begin_s, row + 0.08)
    axes.add_patch(
        Rectangle(start, trains_s - stretch.from_s, 0.84, color=colour, alpha=0.35, linewidth=0)
    )
    training = (trains_s - begin_s, row + 0.08)
    axes.add_patch(Rectangle(training, stretch.to_s - trains_s, 0.84, color=colour, linewidth=0))


def _draw_jobs(axes: Axes, history: History, begin_s: float) -> None:
    """A row a job: a thin line while it waits, thicker the more workers it has."""
    for row, job in enumerate(history.jobs.values()):
        colour = colours(history)[job.job]
        end_s = job.ended_s if job.ended_s is not None else history.end_s
        axes.plot(
            [job.submitted_s - begin_s, end_s - begin_s],
            [row, row],
            color=colour,
            linewidth=1,
            linestyle=":",
        )
        for stretch in job.stretches:
            height = 0.8 * stretch.workers / job.spec.max_workers
            axes.add_patch(
                Rectangle(
                    (stretch.from_s - begin_s, row - height / 2),
                    stretch.to_s - stretch.from_s,
                    height,
                    color=colour,
                    linewidth=0,
                )
            )
        if job.jct_s is not None:
            axes.annotate(f" {job.jct_s:.0f} s", (end_s - begin_s, row), va="center", fontsize=8)
    axes.set_yticks(range(len(history.jobs)), list(history.jobs))
    axes.set_ylim(len(history.jobs) - 0.5, -0.5)
    axes.set_title(
        "Workers by job (height: share of its maximum; dotted: waits) and its JCT",
        loc="left",
        fontsize=10,
    )


def _draw_traffic(axes: Axes, history: History, begin_s: float) -> None:
    """Requests a second, and what the serving servers can carry."""
    at_s = [sample.at_s - begin_s for sample in history.demand]
    axes.fill_between(
        at_s, [sample.rps for sample in history.demand], color="#88aacc", label="requests/s"
    )
    if history.inference is not None:
        per_replica = history.inference.server_rps / history.inference.replicas_per_server
        capacity = [per_replica * sum(running.values()) for _, running in history.replicas]
        times = [at - begin_s for at, _ in history.replicas] + [history.end_s - begin_s]
        axes.step(
            times,
            [*capacity, capacity[-1] if capacity else 0.0],
            where="post",
            color="#334455",
            label="capacity of the replicas",
        )
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right", fontsize=8, ncols=2)
    axes.set_title("Traffic", loc="left", fontsize=10)


def _draw_latency(axes: Axes, history: History, begin_s: float) -> None:
    for name, colour in (("p50_ms", "#228833"), ("p99_ms", "#cc3311")):
        known = [(s.at_s - begin_s, getattr(s, name)) for s in history.demand]
        known = [(at_s, ms) for at_s, ms in known if ms is not None]
        axes.plot(
            [at_s for at_s, _ in known],
            [ms for _, ms in known],
            color=colour,
            linewidth=1,
            label=name.removesuffix("_ms"),
        )
    axes.set_ylim(bottom=0)
    axes.set_ylabel("ms")
    axes.legend(loc="upper right", fontsize=8, ncols=2)
    axes.set_title("Latency of requests", loc="left", fontsize=10)
