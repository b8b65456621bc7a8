"""Whether the tests can fail: each of `tests.faults` is put into a copy of the sources by itself,
and the tests that should catch it are run there.

    python -m tests.mutants [--only NAME] [--list] [--json]

The tests must first pass on a copy without a fault, else a catch says nothing. Exit status 0 says
that every fault was caught, 1 that some were not, 2 that the question could not be asked: a fault
whose text does not stand in its file just once, or tests that fail without any.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.faults import FAULTS
from tests.faults.fault import Fault

ROOT = Path(__file__).parent.parent
SOURCES = ("policies", "loaning", "raysched", "serve_inference", "tests", "pyproject.toml")

SIDE_BY_SIDE = 2
FAULT_LIMIT_S = 90.0
CLEAN_LIMIT_S = 300.0  # all tests, with every kernel compiled

_FILE_COLUMNS = 200  # of the table where it goes to a file
_PASSED, _FAILED = 0, 1  # pytest's exit status
_PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider")

Verdict: TypeAlias = Literal["caught", "missed", "no verdict"]


class FaultError(Exception):
    """A fault that cannot be put in, or tests that fail without one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one fault."""

    fault: Fault
    verdict: Verdict
    by: str  # the id of the first test that failed; without a verdict, why there is none
    took_s: float


def faulty(fault: Fault, root: Path = ROOT) -> str:
    """The file of a fault with the fault in it. Raises `FaultError` where its text is not once."""
    source = (root / fault.file).read_text()
    found = source.count(fault.right)
    if found != 1:
        raise FaultError(
            f"fault {fault.name}: {fault.file} holds {fault.right!r} {found} times, not once; "
            "bring tests/faults up to date"
        )
    return source.replace(fault.right, fault.wrong)


def judge(status: int, output: str) -> tuple[Verdict, str]:
    """What a run of pytest says of a fault, and the test that caught it."""
    if status == _PASSED:
        return "missed", ""
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if status == _FAILED and failed:
        return "caught", failed[0].split(" ", 1)[1].split(" - ")[0]
    return "no verdict", (output.strip().splitlines() or ["pytest said nothing"])[-1]


async def outcomes(faults: Sequence[Fault]) -> list[Outcome]:
    """Every fault tried, `SIDE_BY_SIDE` at a time. Raises `FaultError` where none can be."""
    for fault in faults:
        faulty(fault)
    with tempfile.TemporaryDirectory(prefix="raysched-mutants-") as folder:
        clean = Path(folder) / "clean"
        _copy(ROOT, clean, "__pycache__")
        await _pass_without_fault(clean, faults)
        turns = asyncio.Semaphore(SIDE_BY_SIDE)
        return await asyncio.gather(*(_try(fault, clean, turns) for fault in faults))


async def _pass_without_fault(clean: Path, faults: Sequence[Fault]) -> None:
    tests = dict.fromkeys(test for fault in faults for test in fault.tests.split())
    _tell(f"{len(tests)} files of tests without a fault ...")
    began_s = time.monotonic()
    status, output = await _pytest(clean, [*tests], CLEAN_LIMIT_S)
    if status != _PASSED:
        raise FaultError(f"without any fault: {': '.join(judge(status, output))}")
    _tell(f"passed in {time.monotonic() - began_s:.0f} s")


async def _try(fault: Fault, clean: Path, turns: asyncio.Semaphore) -> Outcome:
    async with turns:
        began_s = time.monotonic()
        copy = clean.with_name(fault.name)
        _copy(clean, copy)
        source = faulty(fault, clean)
        (copy / fault.file).write_text(source)
        if "njit" in source:  # kernels of other files may have compiled it in
            for cached in copy.rglob("*.nb[ic]"):
                cached.unlink()
        verdict, by = judge(*await _pytest(copy, fault.tests.split(), FAULT_LIMIT_S))
        shutil.rmtree(copy)
        outcome = Outcome(fault, verdict, by, time.monotonic() - began_s)
    _tell(f"{outcome.took_s:5.1f} s  {fault.name}: {verdict} {by}")
    return outcome


def _copy(source: Path, to: Path, *without: str) -> None:
    """The sources alone; with their times, by which compiled kernels are known to be of them."""
    to.mkdir()
    for name in SOURCES:
        if (source / name).is_dir():
            shutil.copytree(source / name, to / name, ignore=shutil.ignore_patterns(*without))
        else:
            shutil.copy2(source / name, to / name)


async def _pytest(folder: Path, tests: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Exit status and output; -1 where it took too long."""
    process = await asyncio.create_subprocess_exec(
        *_PYTEST,
        f"--basetemp={folder / 'out'}",
        *tests,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "mutants"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except asyncio.TimeoutError:
        return -1, f"not done after {limit_s:.0f} s"
    finally:
        if process.returncode is None:  # also where the whole run is interrupted
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode()


def _chosen(names: Sequence[str] | None) -> list[Fault]:
    known = {fault.name: fault for fault in FAULTS}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise FaultError(f"--only {unknown[0]}: no such fault; use {', '.join(known)}")
    return [known[name] for name in names or known]


def _table(found: Sequence[Outcome]) -> Table:
    table = Table("fault", "what goes wrong")
    table.add_column("caught by", overflow="fold")
    table.add_column("s", justify="right")
    for outcome in found:
        caught = outcome.verdict == "caught"
        by = Text(outcome.by) if caught else Text(f"{outcome.verdict} {outcome.by}", style="red")
        table.add_row(outcome.fault.name, outcome.fault.what, by, f"{outcome.took_s:.1f}")
    return table


def _tell(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="just this fault; again")
    parser.add_argument("--list", action="store_true", help="name the faults and run nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    try:
        faults = _chosen(asked.only)
        if asked.list:
            print(json.dumps([asdict(f) for f in faults]) if asked.json else _names(faults))
            return 0
        found = asyncio.run(outcomes(faults))
    except FaultError as error:
        _tell(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return 130  # as a shell says it
    caught = sum(outcome.verdict == "caught" for outcome in found)
    if asked.json:
        print(json.dumps([asdict(outcome) for outcome in found]))
    else:
        Console(width=None if sys.stdout.isatty() else _FILE_COLUMNS).print(_table(found))
        print(f"{caught} of {len(found)} faults were caught")
    return 0 if caught == len(found) else 1


def _names(faults: Sequence[Fault]) -> str:
    return "\n".join(f"{fault.name}: {fault.what} ({fault.file})" for fault in faults)


if __name__ == "__main__":
    sys.exit(main())
