"""What is shipped: the wheel, its entry points, the layout of the repository, a light import."""

import configparser
import importlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
PACKAGES = ("raysched", "policies", "loaning", "serve_inference")
TOP_LEVEL = {
    *PACKAGES,
    *("pyproject.toml", "README.md", "tests", "cluster.yaml"),
    *("Makefile", "LICENSE", "CHANGELOG.md", "docs", "examples", "benchmarks", "constraints.txt"),
    *(".ci", ".gitignore"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from this checkout without a network."""
    directory = str(tmp_path_factory.mktemp("dist"))
    path = next(WheelBuilder(str(ROOT)).build(directory=directory, versions=["standard"]))
    with zipfile.ZipFile(path) as archive:
        yield archive


def entry_points(wheel):
    """(group, name, target) of each."""
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/entry_points.txt"))
    parser = configparser.ConfigParser(delimiters="=")
    parser.read_string(wheel.read(name).decode())
    return [(group, *item) for group in parser.sections() for item in parser.items(group)]


def test_the_wheel_holds_the_four_typed_packages_and_nothing_else(wheel):
    top = {n.split("/")[0] for n in wheel.namelist() if ".dist-info/" not in n}
    assert top == set(PACKAGES)
    for package in PACKAGES:
        assert {f"{package}/__init__.py", f"{package}/py.typed"} <= set(wheel.namelist())


def test_the_wheel_carries_its_licence(wheel):
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in wheel.namelist())


def test_the_wheel_brings_the_command_and_the_first_policies(wheel):
    assert {(group, name) for group, name, _ in entry_points(wheel)} >= {
        ("console_scripts", "raysched"),
        ("raysched.policies", "fifo"),
        ("raysched.policies", "aryl"),
        ("raysched.loaning", "aryl"),
    }


def test_every_entry_point_names_something_that_exists(wheel):
    for group, name, target in entry_points(wheel):
        module, _, attribute = target.partition(":")
        assert hasattr(importlib.import_module(module), attribute), f"{group}: {name} = {target}"


@pytest.mark.skipif(
    not shutil.which("git") or not (ROOT / ".git").exists(), reason="not a git checkout"
)
def test_the_top_level_holds_only_what_belongs_there():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {name.split("/")[0] for name in listed} <= TOP_LEVEL


def test_importing_raysched_neither_imports_nor_starts_ray():
    script = "import raysched, sys; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
