"""The command line: `raysched demo | simulate | start | stop | status | job … | policy … | …`.

Ray is imported by the commands that need it, never for `--help`. Bad input ends with one line on
stderr and exit status 2.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from loaning.problem import LoaningError
from policies.problem import PolicyError
from raysched import folders
from raysched.errors import UserError

_Command = TypeVar("_Command", bound=Callable[..., Any])

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_address = click.option(
    "--address", envvar="RAY_ADDRESS", help="The Ray cluster; default: the one that runs here."
)
_parameter = click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the policy; may be repeated. Values are JSON.",
)
_policy_parameter = click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="POLICY.NAME=VALUE",
    help="A parameter of one of the policies; may be repeated. Values are JSON.",
)


def _folder(default: str) -> Callable[[_Command], _Command]:
    """The option that names the folder to write to; one that cannot be is refused at once."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=Path(default),
        show_default=True,
        callback=_writable,
    )


def _writable(_context: click.Context, _option: click.Parameter, out: Path) -> Path:
    if problem := folders.obstacle(out):
        raise UserError(f"--out: {problem}")
    return out


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="raysched")
def cli() -> None:
    """A cluster manager for elastic training on Ray."""


@cli.command()
@click.option("--policy", help="How to schedule; default: aryl.")
@click.option("--loaning", help="Whether inference servers are lent; default: the policy's own.")
@click.option("--journal", type=click.Path(path_type=Path), help="Where decisions are kept.")
@_parameter
@_address
@_json
def start(
    policy: str | None,
    loaning: str | None,
    journal: Path | None,
    parameters: tuple[str, ...],
    address: str | None,
    as_json: bool,
) -> None:
    """Start the scheduler on a running Ray cluster, or find the one that runs."""
    from raysched import api

    found = api.connect(
        policy,
        loaning,
        address=address,
        journal=journal.absolute() if journal else None,
        policy_parameters=_parsed(parameters),
    )
    how = "started" if found.started else "runs already"
    _print(
        {name: getattr(found, name) for name in found.__slots__},
        f"scheduler {how}: pid {found.pid}, policy {found.policy}, loaning {found.loaning}, "
        f"journal {found.journal}",
        as_json,
    )


@cli.command()
@_address
@_json
def stop(address: str | None, as_json: bool) -> None:
    """End the scheduler and whatever trains under it. Ray itself runs on."""
    api = _connected(address)
    api.stop()
    _print({"stopped": True}, "scheduler stopped", as_json)


@cli.command()
@_address
@_json
def status(address: str | None, as_json: bool) -> None:
    """Servers, jobs, loans and demand."""
    found = _connected(address).status()
    if as_json:
        _print(found, "", as_json)
        return
    from raysched import screens

    screens.show_status(found)


@cli.group()
def job() -> None:
    """Jobs: what runs, what waits, and why."""


@job.command("list")
@_address
@_json
def job_list(address: str | None, as_json: bool) -> None:
    """All jobs that the scheduler knows."""
    jobs = _connected(address).status()["jobs"]
    if as_json:
        _print(jobs, "", as_json)
        return
    from raysched import screens

    screens.show_jobs(jobs)


@job.command("explain")
@click.argument("job_id", metavar="JOB")
@_address
@_json
def job_explain(job_id: str, address: str | None, as_json: bool) -> None:
    """Why a job runs as it does, or waits."""
    found = _connected(address).explain(job_id)
    if as_json:
        _print(found, "", as_json)
        return
    from raysched import screens

    screens.show_explanation(found)


@job.command("cancel")
@click.argument("job_id", metavar="JOB")
@_address
@_json
def job_cancel(job_id: str, address: str | None, as_json: bool) -> None:
    """End a job."""
    _connected(address).cancel(job_id)
    _print({"cancelled": job_id}, f"{job_id} cancelled", as_json)


@cli.group()
def policy() -> None:
    """Policies: which there are, and which one decides."""


@policy.command("list")
@_json
def policy_list(as_json: bool) -> None:
    """The policies that are installed, third parties' among them."""
    from policies import registry

    described = [registry.describe(name) for name in registry.names()]
    width = max(len(found["name"]) for found in described)
    lines = []
    for found in described:
        source = ", ".join(filter(None, (found["paper"], found["section"])))
        if found["readings"]:
            source += f"; readings: {', '.join(found['readings'])}"
        lines.append(f"{found['name']:<{width}}  {source}")
    _print(described, "\n".join(lines), as_json)


@policy.command("set")
@click.argument("name")
@click.option("--loaning", help="Whether inference servers are lent; default: the policy's own.")
@click.option("--break-promises", is_flag=True, help="Drop what jobs were promised before.")
@_parameter
@_address
@_json
def policy_set(
    name: str,
    loaning: str | None,
    break_promises: bool,
    parameters: tuple[str, ...],
    address: str | None,
    as_json: bool,
) -> None:
    """Switch the policy of the live cluster. Running jobs run on, promises are kept."""
    now = _connected(address).set_policy(
        name, loaning, policy_parameters=_parsed(parameters), break_promises=break_promises
    )
    _print(now, f"policy {now['policy']}, loaning {now['loaning']}", as_json)


@cli.group()
def journal() -> None:
    """The journal: every event and decision."""


@journal.command("replay")
@click.argument("path", type=click.Path(path_type=Path))
@_json
def journal_replay(path: Path, as_json: bool) -> None:
    """Take every decision again, and compare it with what was recorded.

    Exit status 1 where a row was altered or a decision differs.
    """
    from loaning import registry as loaning_registry
    from policies import registry as policy_registry
    from raysched.journal import Journal, JournalAltered
    from raysched.replay import replay

    opened = Journal(path, must_exist=True)
    try:
        found = replay(opened, policy_registry.load, loaning_registry.load)
    except JournalAltered as altered:
        _print({"identical": False, "altered_row": altered.seq}, f"{path}: {altered}", as_json)
        sys.exit(1)
    finally:
        opened.close()
    from raysched import screens

    report, text = screens.replay_report(found)
    _print(report, text, as_json)
    sys.exit(0 if found.identical or not found.same_versions else 1)


@journal.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.File("w", lazy=True), default="-", help="A file; default: standard output."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array instead of lines.")
def journal_export(path: Path, out: Any, as_json: bool) -> None:
    """Every row, as a line of JSON."""
    from raysched import codec
    from raysched.journal import Journal

    opened = Journal(path, must_exist=True)
    start, between, end = ("[", ",\n", "]\n") if as_json else ("", "\n", "\n")
    with out as file:
        file.write(start)
        for row in opened.rows():
            event, actions = codec.event_to_json(row.event), codec.actions_to_json(row.actions)
            line = f'{{"actions":{actions},"event":{event},"seq":{row.seq}}}'
            file.write(line if row.seq == 1 else between + line)
        file.write(end)
    opened.close()


@cli.command()
@click.option("--policy", default="aryl", show_default=True, help="How to schedule.")
@_folder("out/demo")
@click.option("--seed", default=1, show_default=True, help="Of the traffic.")
@click.option("--quick", is_flag=True, help="Half the jobs and a shorter day: to try a policy.")
@_json
def demo(policy: str, out: Path, seed: int, quick: bool, as_json: bool) -> None:
    """A day of a small cluster in a few minutes: six jobs, two pools, real traffic.

    Exit status 1 where a job did not complete or a request failed.
    """
    from policies import registry
    from raysched.demo import run

    registry.load(policy, {})
    summary = run.run(policy, out, seed=seed, quick=quick, quiet=as_json)
    if as_json:
        _print(summary, "", as_json)
    whole = summary["jobs_completed"] == summary["jobs_planned"] and not summary["requests_failed"]
    sys.exit(0 if whole else 1)


@cli.command()
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
@_policy_parameter
@_folder("out/simulate")
@_json
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
        parameters=_parsed_by_policy(parameters),
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
        _print(found.metrics, "", as_json)
    else:
        screen.show(found)


@cli.command()
@click.argument("paper")
@click.argument("experiment", required=False)
@click.option("--quick", is_flag=True, help="Fewer seeds, smaller scale.")
@click.option(
    "--traces",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the real traces; without, what needs them is left out.",
)
@_folder("out/reproduce")
@_json
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
        _print(found, "", as_json)
    else:
        screen.show(found)
    sys.exit(0 if found else 1)


def _connected(address: str | None) -> Any:
    from raysched import api
    from raysched.runtime import link

    link.join(address)
    return api


def _parsed_by_policy(parameters: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    by_policy: dict[str, dict[str, Any]] = {}
    for name, value in _parsed(parameters).items():
        policy, dot, parameter = name.partition(".")
        if not dot:
            raise click.UsageError(f"--set: {name!r} names no policy; write POLICY.{name}=VALUE")
        by_policy.setdefault(policy, {})[parameter] = value
    return by_policy


def _parsed(parameters: tuple[str, ...]) -> dict[str, Any]:
    parsed = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if not equals:
            raise click.UsageError(f"--set: {parameter!r} is not NAME=VALUE")
        try:
            parsed[name] = json.loads(value)
        except json.JSONDecodeError:
            parsed[name] = value
    return parsed


def _print(data: Any, text: str, as_json: bool) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False) if as_json else text)


def main() -> None:
    """The entry point: errors that a user can mend become one line and exit status 2."""
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        _refuse(error.format_message())
    except (UserError, PolicyError, LoaningError) as error:
        _refuse(str(error))
    except (click.Abort, KeyboardInterrupt):
        sys.stdout.flush()
        os._exit(
            130
        )  # threads may be inside Ray's native code, which does not survive an unwinding


def _refuse(why: str) -> None:
    click.echo(f"raysched: {why}", err=True)
    sys.exit(2)
