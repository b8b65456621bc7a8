"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from raysched.replay import Replayed

_PHASES = {
    "running": "green",
    "starting": "yellow",
    "leaving": "yellow",
    "queued": "cyan",
    "finished": "dim",
    "failed": "red",
    "cancelled": "red",
    "rejected": "red",
}


def show_status(status: dict[str, Any]) -> None:
    """Print what the cluster does now."""
    Console().print(status_view(status))


def show_jobs(jobs: Sequence[dict[str, Any]]) -> None:
    """Print the jobs."""
    Console().print(job_table(jobs))


def show_explanation(explained: dict[str, Any]) -> None:
    """Print why a job stands where it stands."""
    console = Console()
    console.print(f"[bold]{explained['job']}[/]: {explained['reason']}", highlight=False)
    missing = explained["waits_for_gpus"]
    if missing:
        waits = ", ".join(f"{gpus} on {server}" for server, gpus in missing.items())
        console.print(f"waits for GPUs that others are giving up: {waits}")
    if explained["error"]:
        console.print(explained["error"], style="red", markup=False)
    table = Table("workers", "epoch", "to the end", "known from")
    for workers, epoch_s in explained["epoch_s"].items():
        measured = int(workers) in explained["measured_at"]
        seen = "measured" if measured else explained["predicted_from"]
        left_s = explained["remaining_s"][workers]
        table.add_row(str(workers), f"{epoch_s:.2f} s", f"{left_s:.0f} s", seen)
    console.print(table)


def status_view(status: dict[str, Any]) -> RenderableType:
    """Policy, servers, inference and jobs, one below the other."""
    head = Text(f"policy {status['policy']} · loaning {status['loaning']}", style="bold")
    for setting in ("policy_error", "loaning_error"):
        if status[setting]:
            head.append(f"\n{setting.replace('_', ' ')}: {status[setting]}", style="red")
    return Group(
        head, server_table(status["servers"], status["inference"]), job_table(status["jobs"])
    )


def server_table(
    servers: Sequence[dict[str, Any]], inference: dict[str, Any] | None
) -> RenderableType:
    """A row a server: who holds its GPUs."""
    table = Table("server", "state", "GPUs", "held by", box=None, padding=(0, 2))
    running = inference["running"] if inference else {}
    for server in servers:
        holders = [f"{job} {gpus}" for job, gpus in server["granted"].items()]
        holders += [f"{job} {gpus} (leaving)" for job, gpus in server["releasing"].items()]
        if server["foreign"]:
            holders.append(f"others {server['foreign']}")
        state = server["pool"]
        if server["pool"] == "inference":
            replicas = running.get(server["server"], 0)
            loan = {"none": "serving", "open": "on loan"}.get(server["loan"], server["loan"])
            state = f"{loan}, {replicas} replicas" if replicas else loan
        table.add_row(server["server"], state, str(server["gpus"]), ", ".join(holders))
    return table


def job_table(jobs: Sequence[dict[str, Any]]) -> RenderableType:
    """A row a job."""
    columns = ("job", "phase", "workers", "GPUs", "epochs", "age", "why")
    table = Table(*columns, box=None, padding=(0, 2))
    for job in jobs:
        now, target = job["workers"], job["target"]
        workers = f"{now}" if now == target else f"{now} → {target}"
        table.add_row(
            job["job"],
            Text(job["phase"], style=_PHASES.get(job["phase"], "")),
            f"{workers} of {job['range'][0]}–{job['range'][1]}",
            str(job["gpus"]),
            f"{job['epochs_done']}/{job['epochs']}",
            f"{job['age_s']:.0f} s",
            Text(job["reason"], overflow="ellipsis", no_wrap=True, style="dim"),
        )
    return table


def replay_report(found: Replayed) -> tuple[dict[str, Any], str]:
    """A replay's outcome, for programs and for people."""
    report = {
        "identical": found.identical,
        "rows": found.rows,
        "decisions": found.decisions,
        "capped": found.capped,
        "same_versions": found.same_versions,
        "differences": [
            {"row": d.seq, "what": d.what, "recorded": d.recorded, "replayed": d.replayed}
            for d in found.differences
        ],
    }
    counted = f"{found.rows} rows, {found.decisions} decisions"
    if found.identical:
        return report, f"{counted}: every decision and action is identical"
    lines = [f"row {d.seq}: {d.what} differs" for d in found.differences[:20]]
    if not found.same_versions:
        lines.append(f"written by {found.versions_recorded}, replayed by {found.versions_now}")
    return report, "\n".join([f"{counted}: {len(found.differences)} differ", *lines])
