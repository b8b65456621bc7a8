"""A small part of the reproductions, run as a user runs them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from raysched.cli import cli

DATA = Path(__file__).parents[4] / "shared" / "data"


def claims_of(paper, name, *options, out):
    arguments = ["reproduce", paper, name, "--quick", "--json", "--out", str(out), *options]
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 0, found.output
    assert (out / "reproduction.md").read_text().count("### ") == 1
    return {c["text"]: c["holds"] for c in json.loads(found.stdout)[paper][name]["claims"]}


@pytest.mark.parametrize(("paper", "name"), [("ffdl", "alone"), ("oasis", "fig6")])
def test_what_a_paper_claims_holds_on_jobs_that_are_drawn(paper, name, tmp_path):
    claims = claims_of(paper, name, out=tmp_path)
    assert claims and all(claims.values()), claims


@pytest.mark.skipif(not DATA.is_dir(), reason="the public traces are not beside the checkout")
def test_what_a_paper_claims_holds_on_its_authors_trace(tmp_path):
    claims = claims_of("elasticflow", "fig10", "--traces", str(DATA), out=tmp_path)
    assert claims and all(claims.values()), claims
