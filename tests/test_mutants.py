"""The faults that `tests.mutants` puts in are about the sources as they are; it judges right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.faults import FAULTS
from tests.mutants import ROOT, FaultError, faulty, judge


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_one_line_that_is_there_once(fault):
    before, after = (ROOT / fault.file).read_text().splitlines(), faulty(fault).splitlines()
    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1
    compile(faulty(fault), fault.file, "exec")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_that_are_to_catch_it_exist(fault):
    assert all((ROOT / test.partition("::")[0]).is_file() for test in fault.tests.split())


def test_every_fault_has_a_name_of_its_own():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize(("right", "found"), [("no such text", 0), ("self", 2)])
def test_a_fault_whose_text_is_not_there_once_is_named(right, found):
    stale = replace(FAULTS[0], name="stale", file="policies/fifo.py", right=right)
    said = f"fault stale: policies/fifo.py holds '{right}' {found} times, not once"
    with pytest.raises(FaultError, match=said):
        faulty(stale)


@pytest.mark.parametrize(
    ("status", "output", "verdict"),
    [
        (0, "1 passed", ("missed", "")),
        (1, "F\nFAILED tests/a.py::test_b[c d] - assert x", ("caught", "tests/a.py::test_b[c d]")),
        (1, "ERROR tests/a.py::test_b - LedgerError: x", ("caught", "tests/a.py::test_b")),
        (2, "ERROR tests/a.py\n1 error in 1 s", ("no verdict", "1 error in 1 s")),
        (-1, "not done after 90 s", ("no verdict", "not done after 90 s")),
    ],
)
def test_only_a_test_that_fails_is_a_catch(status, output, verdict):
    assert judge(status, output) == verdict


def test_an_unknown_fault_is_refused_in_one_line():
    command = [sys.executable, "-m", "tests.mutants", "--only", "none"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("error: --only none: no such fault; use fifo-last-gpu, ")
