"""How fast the simulator is: whole traces, and how its time grows with the number of jobs.

    python -m benchmarks.simulate [--json] [--traces DIR] [--quick] [--out DIR]

Each case runs in a process of its own, so that its memory is its own. Imports, compiled kernels and
the reading of the trace are not counted. A case whose trace is not there is skipped, and said to
be; the growth is then that of jobs drawn as for paper 004. A target that is missed is said in the
table, and does not fail the run: machines differ.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import picture, report
from benchmarks.decide import INTERRUPTED
from raysched.simulator.body import Simulator
from raysched.simulator.compare import Comparison, run_of_table
from raysched.simulator.models import Costs, Settings
from raysched.simulator.reproductions.aryl.runs import HEADROOM, PREEMPTED_S
from raysched.simulator.scenario import Scenario, ServerSet
from raysched.simulator.workloads import aryl

TRACES = Path("../shared/data")
PHILLY = "philly/philly_pollux.csv.gz"
_ELASTICFLOW = "elasticflow/traces/{}"
A100 = "elasticflow/throughputs_A100"

WARM_UP_JOBS = 10
QUICK_JOBS = 2000
SHORT_S = 5.0
"""A case is run again until it has taken this long, and its median counts: one run of a second is
as much noise as time."""
GROWTH = (1000, 5000, 20_000)
MIB = 1024  # of the KiB in which Linux tells memory


@dataclass(frozen=True, slots=True)
class Case:
    """A trace under one policy on so many servers of 8 GPUs, and what it may take.

    Without a trace it is the workload of paper 004, on its own servers, at `scale`: under aryl with
    its inference pool lent, under other policies with the training pool alone.
    """

    name: str
    trace: str  # under the folder of traces
    policy: str
    servers: int = 0
    target_cpu_s: float | None = None
    jobs: int | None = None  # the first of the trace; None: all
    slot_s: float | None = None
    assume: str = ""  # as whose simulator to count
    report_every_s: float = 0.0
    scale: float = 1.0


Result = dict[str, Any]
"""A case as JSON."""

_COLUMNS = ("case", "jobs", "CPU s", "events/s", "decisions/s", "peak MiB", "target", "met")


def cases() -> list[Case]:
    """Whole traces, each with its target."""
    of_195 = Case("195job", _ELASTICFLOW.format("195job.csv"), "elasticflow", 16, 1)
    of_195 = replace(of_195, slot_s=240, assume="elasticflow")
    cluster01 = _ELASTICFLOW.format("cluster01.csv.gz")
    philly = Case("philly-fifo", PHILLY, "fifo", 310, 120, report_every_s=600)
    return [
        of_195,
        replace(of_195, name="cluster01", trace=cluster01, servers=64, slot_s=60, target_cpu_s=60),
        philly,
        replace(philly, name="philly-tiresias", policy="tiresias"),
        Case("aryl", "", "aryl", target_cpu_s=180, slot_s=60, report_every_s=600),
    ]


def growth(folder: Path) -> list[Case]:
    """More and more of Philly's jobs, short of all; drawn ones where these are not there."""
    case = Case("philly-fifo", PHILLY, "fifo", 310, report_every_s=600)
    if not (folder / PHILLY).is_file():
        case = replace(case, name="drawn-fifo", trace="")
    return [replace(case, name=f"{case.name}-{jobs}", jobs=jobs) for jobs in GROWTH]


def quick(case: Case) -> Case:
    """At most the first jobs of it, and no target."""
    jobs = QUICK_JOBS if case.jobs is None else min(case.jobs, QUICK_JOBS)
    return replace(case, jobs=jobs, target_cpu_s=None)


def measure(case: Case, folder: Path) -> Result:
    """Run a case; in this process, whose peak of memory is then taken for the case's."""
    scenario, settings = _posed(case, folder)
    few = replace(scenario, arrivals=scenario.arrivals[:WARM_UP_JOBS])
    Simulator(few, settings).run()  # what only a first run loads or compiles is not counted
    took_s: list[float] = []
    while sum(took_s) < SHORT_S:
        began_s = time.process_time()
        outcome = Simulator(scenario, settings).run()
        took_s.append(time.process_time() - began_s)
    cpu_s = median(took_s)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "jobs": len(scenario.arrivals),
        "cpu_s": round(cpu_s, 2),
        "events_per_s": round(outcome.history.events / cpu_s),
        "decisions_per_s": round(len(outcome.decision_s) / cpu_s),
        "peak_mib": peak_kib // MIB,
        "target_cpu_s": case.target_cpu_s,
        "met": None if case.target_cpu_s is None else cpu_s <= case.target_cpu_s,
    }


def _posed(case: Case, folder: Path) -> tuple[Scenario, Settings]:
    """What `raysched simulate` would run, or paper 004's experiments."""
    if not case.trace:
        return _drawn(case)
    asked = Comparison(
        folder / case.trace,
        servers=(ServerSet(case.servers, 8),),
        profiles=folder / A100 if case.assume else None,
        slot_s=case.slot_s,
        report_every_s=case.report_every_s,
        assume=case.assume,
    )
    run = run_of_table(asked, case.policy)
    return replace(run.scenario, arrivals=run.scenario.arrivals[: case.jobs]), run.settings


def _drawn(case: Case) -> tuple[Scenario, Settings]:
    """Jobs drawn as for paper 004, for as many of its days as they take to come."""
    whole = aryl.Workload(scale=case.scale)
    jobs_a_day = whole.jobs * whole.scale / whole.days
    days = whole.days if case.jobs is None else case.jobs / jobs_a_day
    lends = case.policy == "aryl"
    settings = Settings(
        case.policy,
        loaning="aryl" if lends else "off",
        loaning_parameters={"headroom": HEADROOM, "smooth_s": aryl.DEMAND_S} if lends else {},
        costs=Costs(preempted_s=PREEMPTED_S, at_boundaries=False),
        slot_s=case.slot_s,
        report_every_s=case.report_every_s,
    )
    return aryl.scenario(replace(whole, days=days), 0, lends=lends), settings


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--traces",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=TRACES,
    show_default=True,
    help="Folder of the traces.",
)
@click.option("--quick", "is_quick", is_flag=True, help=f"{QUICK_JOBS:,} jobs of each at most.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/benchmarks"),
    show_default=True,
    help="Where simulate.json and simulate.png are written.",
)
def main(as_json: bool, folder: Path, is_quick: bool, out: Path) -> None:
    """How fast the simulator is: whole traces, and how its time grows with the number of jobs."""
    try:
        bench(cases(), growth(folder), folder, out, as_json=as_json, is_quick=is_quick)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def bench(
    whole: Sequence[Case],
    grown: Sequence[Case],
    folder: Path,
    out: Path,
    *,
    as_json: bool,
    is_quick: bool,
) -> None:
    """Measure, write and print."""
    if is_quick:
        whole = [quick(case) for case in whole]
        grown = [case for case in grown if (case.jobs or 0) <= QUICK_JOBS]
    results = _measured([*whole, *grown], folder)
    alike = {(case.trace, case.policy) for case in grown}
    by_jobs = {
        found["jobs"]: found["cpu_s"]
        for found in results.values()
        if found is not None and (found["trace"], found["policy"]) in alike
    }
    document = {"cases": results, "machine": report.machine()}
    out.mkdir(parents=True, exist_ok=True)
    (out / "simulate.json").write_text(json.dumps(document, indent=2) + "\n")
    if len(by_jobs) > 1:
        _draw(by_jobs, out / "simulate.png")
    click.echo(json.dumps(document, indent=2) if as_json else text(results))


def _measured(chosen: Sequence[Case], folder: Path) -> dict[str, Result | None]:
    """Each case's result by its name, None where its trace is not there."""
    results: dict[str, Result | None] = {}
    fresh = multiprocessing.get_context("spawn")
    for number, case in enumerate(chosen, 1):
        click.echo(f"{number}/{len(chosen)} {case.name}", err=True)
        if case.trace and not (folder / case.trace).is_file():
            click.echo(f"skipped: {folder / case.trace} is not here; pass --traces", err=True)
            results[case.name] = None
            continue
        with fresh.Pool(1) as alone:
            results[case.name] = asdict(case) | alone.apply(measure, (case, folder))
    return results


def text(results: dict[str, Result | None]) -> str:
    """The table, as markdown that reads well on a terminal."""
    return report.table(_COLUMNS, [_row(name, result) for name, result in results.items()])


def _row(name: str, result: Result | None) -> Sequence[str]:
    if result is None:
        return (name, *["–"] * (len(_COLUMNS) - 2), "skipped")
    target = result["target_cpu_s"]
    return (
        name,
        f"{result['jobs']:,}",
        f"{result['cpu_s']:.3g}",
        f"{result['events_per_s']:,}",
        f"{result['decisions_per_s']:,}",
        f"{result['peak_mib']:,}",
        "–" if target is None else f"≤ {target:g} s",
        {None: "–", True: "yes", False: "NO"}[result["met"]],
    )


def _draw(by_jobs: dict[int, float], path: Path) -> None:
    """CPU seconds by number of jobs, beside a line in proportion to them."""
    most, by_jobs = max(by_jobs), dict(sorted(by_jobs.items()))
    lines = {
        "jobs under fifo": by_jobs,
        "in proportion": {jobs: by_jobs[most] * jobs / most for jobs in by_jobs},
    }
    picture.draw(lines, path, jobs_are="jobs", time_is="simulation, CPU seconds")


if __name__ == "__main__":
    main()
