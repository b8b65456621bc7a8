"""How fast the five systems decide, beside the naive form of each, in one run.

    python -m benchmarks.decide [--json] [--only NAME] [--out DIR]

Exit status 1 where a fast answer disagrees with the naive one, 2 for bad usage. A target that is
missed is said in the table, and does not fail the run: machines differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import aryl, elasticflow, ffdl, growth, modelarts, oasis, picture, reclaim, report
from benchmarks.first_start import first_start_s
from benchmarks.row import Result, Row, Target, run
from policies.rolling_horizon_exact import solve_compact

INTERRUPTED = 130  # as shells have it

EXACT = {"unproven": 0.0}
CERTIFIED = {"gap": 1e-3}


def rows() -> list[Row]:
    """Every decision at its full size."""
    at_once = ffdl.sample(400, 400, 10, seeds=10, naive=True)
    fewer = ffdl.sample(100, 400, 10, seeds=10, naive=True)
    many = ffdl.sample(2000, 4000, 64, seeds=10, naive=False)
    steps = ffdl.sample(1000, 2000, 64, seeds=1, naive=True)
    beside = modelarts.sample(1000, 1500, 3, solve_compact)
    certified = Target(15, "p95", ratio=20, limits=CERTIFIED)
    return [
        modelarts.planned("modelarts-170", 170, 190, certified, None),
        modelarts.planned("modelarts-1000", 1000, 1500, Target(150, limits=CERTIFIED), beside),
        modelarts.as_printed("modelarts-as-printed", 100, 110),
        ffdl.program("ffdl-400", at_once, Target(1, ratio=500, limits=EXACT)),
        ffdl.program("ffdl-100", fewer, Target(1, limits=EXACT)),
        ffdl.program("ffdl-2000", many, Target(200, limits=EXACT), steps),
        aryl.allocated("aryl-1000", 1000, 3544, Target(5, limits=EXACT)),
        reclaim.algorithm_1("reclaim-algorithm-1", 520),
        reclaim.searched("reclaim", 520, Target(20)),
        elasticflow.arrival("elasticflow-1000", 1000, Target(5)),
        oasis.arrival("oasis", 300, 50, before=10, small=1000, target=Target(5)),
        *(growth.grown(f"{name}-10000", name, growth.JOBS, Target(1000)) for name in growth.CASES),
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--only", metavar="NAME", help="One decision, or all whose names begin so.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/benchmarks"),
    show_default=True,
    help="Where decide.json and decide.png are written.",
)
def main(as_json: bool, only: str | None, out: Path) -> None:
    """How fast the five systems decide, beside the naive form of each, in one run."""
    try:
        status = bench(named(only), out, as_json=as_json, starts=only is None)
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)


def bench(chosen: Sequence[Row], out: Path, *, as_json: bool, starts: bool) -> int:
    """Measure, write, print; the exit status. `starts`: first starts too."""
    decisions = _measured(chosen)
    start_s = _starts() if starts else {}
    document = {**decisions, "machine": report.machine(), **start_s}
    _write(document, decisions, out)
    click.echo(json.dumps(document, indent=2) if as_json else report.text(decisions, start_s))
    wrong = [name for name, result in decisions.items() if "disagreement" in result]
    for name in wrong:
        click.echo(f"{name}: wrong answer: {decisions[name]['disagreement']}", err=True)
    return 1 if wrong else 0


def _measured(chosen: Sequence[Row]) -> dict[str, Result]:
    """Each row's result by its name, with a line of progress on stderr."""
    results = {}
    for number, row in enumerate(chosen, 1):
        click.echo(f"{number}/{len(chosen)} {row.name}: {row.sample.size}", err=True)
        results[row.name] = run(row)
    return results


def named(only: str | None) -> list[Row]:
    """The rows of that name, or whose names begin with it."""
    chosen = [row for row in rows() if only is None or f"{row.name}-".startswith(f"{only}-")]
    if not chosen:
        names = ", ".join(row.name for row in rows())
        raise click.BadParameter(f"{only!r} is no decision; use {names}", param_hint="--only")
    return chosen


def _starts() -> dict[str, float]:
    click.echo("kernels at a first start, nothing cached", err=True)
    first_s, later_s = first_start_s()
    return {"first_start_s": first_s, "later_start_s": later_s}


def _write(document: dict[str, Any], decisions: dict[str, Result], out: Path) -> None:
    """decide.json, and decide.png where growth was measured."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "decide.json").write_text(json.dumps(document, indent=2) + "\n")
    growth = report.growth(decisions)
    if growth:
        picture.draw(growth, out / "decide.png")


if __name__ == "__main__":
    main()
