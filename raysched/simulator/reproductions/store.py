"""Results of runs on disk, by what they rest on: so a reproduction goes on where it stopped."""

from __future__ import annotations

import hashlib
import inspect
import json
from functools import cache
from pathlib import Path

from raysched.simulator.reproductions.experiment import Measured, Run

_HOUSE = Path(__file__).parents[3]
_BRAIN = ("policies", "loaning", "raysched")
_OUTSIDE = ("raysched/runtime", "raysched/demo", "raysched/simulator/reproductions")
"""Rooms that no simulation runs; a measure's own file counts by itself."""


class Store:
    """A folder with a file for each run that was done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, run: Run) -> Measured | None:
        """What the run measured, if it was done with the same code on the same data."""
        try:
            kept = json.loads(self._path(run).read_text())
        except FileNotFoundError:
            return None
        measured: Measured = kept["measured"]
        return measured

    def keep(self, run: Run, measured: Measured, cpu_s: float) -> None:
        """Write it down, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = {
            "measure": _name(run),
            "parameters": run.parameters,
            "measured": measured,
            "cpu_s": round(cpu_s, 2),
        }
        path = self._path(run)
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(kept, indent=1) + "\n")
        unfinished.replace(path)

    def _path(self, run: Run) -> Path:
        return self._folder / f"{digest(run)}.json"


def digest(run: Run) -> str:
    """Hash of all that decides what a run measures."""
    rests_on = {
        "measure": _name(run),
        "parameters": run.parameters,
        "code": [_brain(), _hash((Path(inspect.getfile(run.measure)),))],
        "data": _hash(run.reads),
    }
    return hashlib.sha256(json.dumps(rests_on, sort_keys=True).encode()).hexdigest()[:24]


def _name(run: Run) -> str:
    return f"{run.measure.__module__}:{run.measure.__qualname__}"


@cache
def _brain() -> str:
    """The code that decides and simulates."""
    files = (path for room in _BRAIN for path in sorted((_HOUSE / room).rglob("*.py")))
    inside = (f for f in files if not str(f.relative_to(_HOUSE)).startswith(_OUTSIDE))
    return _hash(tuple(inside))


@cache
def _hash(files: tuple[Path, ...]) -> str:
    """Of the contents of files, and of all files in folders."""
    total = hashlib.sha256()
    for path in files:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()
