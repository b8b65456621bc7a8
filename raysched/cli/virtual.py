"""Commands in virtual time: a trace that a user has, and the experiments of the papers."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from raysched.cli.options import (
    folder_option,
    json_option,
    parsed_by_policy,
    policy_parameter_option,
    print_json,
)


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--policy", help="One, or several: A,B,C; default: the journal's own, or fifo.")
@click.option(
    "--servers",
    metavar="NxG",
    help="N training servers of G GPUs, for tables of jobs; 8x8:V100,4x8:T4:0.25 says GPU types "
    "and their rates.",
)
@click.option("--inference", metavar="NxG", help="Inference servers, written alike.")
@click.option("--demand", type=click.Path(path_type=Path), help="Their demand: times and numbers.")
@click.option(
    "--peak", type=float, metavar="REPLICAS", help="Busy at the highest demand; default: 80 %."
)
@click.option("--loaning", help="Whether they are lent; default: the policy's or journal's own.")
@click.option("--profiles", type=click.Path(path_type=Path), help="Speeds: a folder, Gavel's file.")
@click.option("--slot", type=float, metavar="SECONDS", help="Tell events at the ends of slots.")
@click.option(
    "--assume", type=click.Choice(["elasticflow", "pollux"]), help="Count as its simulator."
)
@click.option(
    "--report-every",
    default=0.0,
    metavar="SECONDS",
    help="How old progress may be when policies see it; saves time where there are many jobs.",
)
@click.option("--skip-bad", is_flag=True, help="Pass over bad rows of the trace.")
@policy_parameter_option
@folder_option("out/simulate")
@json_option
def simulate(
    trace: Path,
    policy: str | None,
    servers: str | None,
    inference: str | None,
    demand: Path | None,
    peak: float | None,
    loaning: str | None,
    profiles: Path | None,
    slot: float | None,
    assume: str | None,
    report_every: float,
    skip_bad: bool,
    parameters: tuple[str, ...],
    out: Path,
    as_json: bool,
) -> None:
    """Run a trace under one policy or several, in virtual time, and compare them.

    TRACE is a table of jobs (ElasticFlow's, Philly's, Helios', PAI's, Pollux's, Gavel's), or a
    journal of raysched: then the measured run stands beside the simulated ones.
    """
    from raysched.simulator import compare, screen
    from raysched.simulator.solvers import silenced

    asked = compare.Comparison(
        trace=trace,
        policies=tuple(policy.split(",")) if policy else (),
        servers=compare.servers_of(servers) if servers else (),
        inference=compare.servers_of(inference, "--inference") if inference else (),
        demand=demand,
        peak_replicas=peak,
        loaning=loaning or "",
        profiles=profiles,
        slot_s=slot,
        report_every_s=report_every,
        assume=assume or "",
        parameters=parsed_by_policy(parameters),
        skip_bad=skip_bad,
    )
    with screen.progress(max(len(asked.policies), 1), quiet=as_json) as watch, silenced():
        found = compare.compare(asked, out, watch)
    if found.skipped:
        click.echo(f"raysched: {found.skipped} bad rows of {trace} were skipped", err=True)
    if found.left_out:
        click.echo(
            f"raysched: {found.left_out} rows of {trace} give GPUs nothing to do; left out",
            err=True,
        )
    if as_json:
        print_json(found.metrics)
    else:
        screen.show(found)


@click.command()
@click.argument("paper")
@click.argument("experiment", required=False)
@click.option("--quick", is_flag=True, help="Fewer seeds, smaller scale.")
@click.option(
    "--traces",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the real traces; without, what needs them is left out.",
)
@folder_option("out/reproduce")
@json_option
def reproduce(
    paper: str, experiment: str | None, quick: bool, traces: Path | None, out: Path, as_json: bool
) -> None:
    """Run a paper's experiments again: what it reports and what comes out here, side by side.

    PAPER is modelarts, elasticflow, oasis, ffdl, aryl or all; EXPERIMENT one of its figures or
    tables. What was done before under the same code and data is kept in --out and not done again,
    so a run that was interrupted goes on where it stopped. Exit status 1 where nothing could be
    done.
    """
    from raysched.simulator.reproductions import command, screen
    from raysched.simulator.reproductions.experiment import Effort

    asked = command.Asked(paper, experiment, Effort(quick, traces), out)
    plan = command.plan(asked)
    screen.announce(plan)
    with screen.progress(plan, quiet=as_json) as watch:
        found = command.carry_out(asked, plan, watch)
    if as_json:
        print_json(found)
    else:
        screen.show(found)
    sys.exit(0 if found else 1)
