"""What users feel of a resize: the pause of training, in place and in three other ways.

    python -m benchmarks.resize [--json] [--out DIR]

The pause is from rank 0's last step among the old workers to the end of its first one among the
new. All ways run one after the other on clusters of simulated GPUs, over 1, 2 and 4 workers; what
is trained is the same. Where a figure is missed that is said (`NO`) and does not fail the run;
a sample that was trained twice or not at all in an epoch does.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

import raysched
from benchmarks import resize_training as training
from benchmarks import resize_ways as ways
from benchmarks.report import machine, table
from benchmarks.resize_picture import draw

IN_PLACE = (1, 2, 4, 2, 1, 2, 4, 2, 1, 2, 4)
OTHERS = (1, 2, 4, 2)
EPOCHS = 30

MEDIAN_S = 0.6
P95_S = 1.5
TIMES_SHORTER = 10.0
LOSS_WITHIN = 1e-3
OWN_SHARE = 0.01

Line = dict[str, Any]


class Miscounted(RuntimeError):
    """An epoch had a sample twice, or not at all."""


@dataclass(frozen=True, slots=True)
class Pause:
    """One resize, as rank 0 saw it."""

    before: int
    after: int
    pause_s: float
    repeated: int  # steps made once more
    phases: dict[str, float]  # seconds within it, where the loop tells


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/benchmarks"))
def main(as_json: bool, out: Path) -> None:
    """Measure the pause of a resize in four ways, in one run of about six minutes."""
    sys.path.insert(0, str(ways.POLICIES))
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resize-") as folder:
        found = measure(Path(folder), lambda said: click.echo(said, err=True))
    (out / "resize.json").write_text(json.dumps(found, indent=2))
    draw(found["pauses"], out / "resize.png")
    click.echo(json.dumps(found) if as_json else text(found))


def measure(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Train in all ways; pauses and checks of each."""
    with ways.cluster():
        raysched.connect(policy="sized")
        unbroken = ways.in_place(folder / "unbroken", (4,), EPOCHS, say)
        loss = ways.in_place(folder / "in-place", IN_PLACE, EPOCHS, say)
        ways.by_restart(folder / "restart", OTHERS, say)
        raysched.stop()
    with ways.cluster():
        ways.by_fit_again(folder / "fit-again", OTHERS, say)
    for run in ("elastic-1", "elastic-2"):
        ways.by_own_elasticity(folder / run, say)
    lines = {path.parent.name: training.read(path) for path in folder.glob("*/marks")}
    for name in ("unbroken", "in-place"):
        check_samples(lines[name])
    pauses = {
        "in place": pauses_of(lines["in-place"]),
        "our restart": pauses_of(lines["restart"]),
        "fit called again": pauses_of(lines["fit-again"]),
        "Ray Train's own": [
            pause for run in ("elastic-1", "elastic-2") for pause in pauses_of(lines[run])
        ],
    }
    return summary(pauses, lines["unbroken"], loss, unbroken)


def pauses_of(lines: Sequence[Line]) -> list[Pause]:
    """Wherever rank 0 went on among another number of workers."""
    steps = [line for line in lines if line.get("rank") == 0]
    found = []
    for last, first in itertools.pairwise(steps):
        if last["workers"] == first["workers"]:
            continue
        within = [
            line
            for line in lines
            if "phase" in line
            and line["worker"] == first["worker"]
            and last["at_s"] <= line["at_s"] <= first["at_s"]
        ]
        repeated = [
            step
            for step in steps
            if step["epoch"] >= first["epoch"] and step["at_s"] < first["at_s"]
        ]
        found.append(
            Pause(
                last["workers"],
                first["workers"],
                first["at_s"] - last["at_s"],
                len(repeated),
                {line["phase"]: line["took_s"] for line in within},
            )
        )
    return found


def check_samples(lines: Sequence[Line]) -> None:
    """Raise `Miscounted` unless each epoch trained each sample once, over all workers."""
    by_epoch: dict[int, Counter[int]] = {}
    for line in lines:
        if "drawn" in line:
            by_epoch.setdefault(line["epoch"], Counter()).update(line["drawn"])
    for epoch, drawn in by_epoch.items():
        if drawn != Counter(range(training.SAMPLES)):
            raise Miscounted(f"epoch {epoch} trained {drawn.total()} of {training.SAMPLES} samples")


def summary(
    pauses: dict[str, list[Pause]], unbroken: Sequence[Line], loss: float, unbroken_loss: float
) -> dict[str, Any]:
    """Figures of each way, and what is asked of them."""
    told = {name: _figures(found) for name, found in pauses.items()}
    in_place = told["in place"]["median_s"]
    others = [told[name]["median_s"] for name in ("Ray Train's own", "fit called again")]
    own = [line["own_s"] for line in unbroken if "own_s" in line]
    asked = {
        "median_s": (in_place, MEDIAN_S),
        "p95_s": (told["in place"]["p95_s"], P95_S),
        "of_the_shortest_other": (in_place / min(others), 1 / TIMES_SHORTER),
        "loss_off": (abs(loss - unbroken_loss) / unbroken_loss, LOSS_WITHIN),
        "own_share_of_step": (float(np.mean(own)) / _step_s(unbroken), OWN_SHARE),
    }
    return {
        "machine": machine(),
        "simulated_samples_per_s": training.SAMPLES_PER_S,
        "monitor_s": ways.MONITOR_S,
        "ways": told,
        "asked": {
            name: {"found": found, "at_most": limit, "met": bool(found <= limit)}
            for name, (found, limit) in asked.items()
        },
        "pauses": {name: [asdict(pause) for pause in found] for name, found in pauses.items()},
    }


def _figures(pauses: Sequence[Pause]) -> dict[str, Any]:
    def middle(chosen: list[float]) -> float | None:
        return median(chosen) if chosen else None

    seconds = [pause.pause_s for pause in pauses]
    return {
        "resizes": len(pauses),
        "median_s": median(seconds),
        "p95_s": float(np.percentile(seconds, 95)),
        "least_s": min(seconds),
        "most_s": max(seconds),
        "grow_s": middle([p.pause_s for p in pauses if p.after > p.before]),
        "shrink_s": middle([p.pause_s for p in pauses if p.after < p.before]),
        "steps_repeated": sum(pause.repeated for pause in pauses),
    }


def _step_s(lines: Sequence[Line]) -> float:
    """Median seconds from one step of rank 0 to its next in the same epoch."""
    steps = [line for line in lines if line.get("rank") == 0]
    pairs = itertools.pairwise(steps)
    return median(float(b["at_s"] - a["at_s"]) for a, b in pairs if a["epoch"] == b["epoch"])


def text(found: dict[str, Any]) -> str:
    """All of it, as markdown that reads well on a terminal."""

    def seconds(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    rows = [
        (
            name,
            str(of["resizes"]),
            seconds(of["median_s"]),
            seconds(of["p95_s"]),
            f"{of['least_s']:.2f}–{of['most_s']:.2f}",
            seconds(of["grow_s"]),
            seconds(of["shrink_s"]),
            str(of["steps_repeated"]),
        )
        for name, of in found["ways"].items()
    ]
    header = (
        "way",
        "resizes",
        "median s",
        "p95 s",
        "range s",
        "grow s",
        "shrink s",
        "steps redone",
    )
    asked = [
        (name, f"{of['found']:.3g}", f"≤ {of['at_most']:.3g}", "yes" if of["met"] else "NO")
        for name, of in found["asked"].items()
    ]
    return "\n\n".join((table(header, rows), table(("asked", "found", "target", "met"), asked)))


if __name__ == "__main__":
    main()
