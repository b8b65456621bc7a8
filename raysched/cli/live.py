"""Commands on a live cluster, and the demo, which brings its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from raysched.cli.options import (
    address_option,
    answer,
    folder_option,
    json_option,
    parameter_option,
    parsed,
    print_json,
)


@click.command()
@click.option("--policy", help="How to schedule; default: aryl.")
@click.option("--loaning", help="Whether inference servers are lent; default: the policy's own.")
@click.option("--journal", type=click.Path(path_type=Path), help="Where decisions are kept.")
@parameter_option
@address_option
@json_option
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
        policy_parameters=parsed(parameters),
    )
    how = "started" if found.started else "runs already"
    answer(
        {name: getattr(found, name) for name in found.__slots__},
        f"scheduler {how}: pid {found.pid}, policy {found.policy}, loaning {found.loaning}, "
        f"journal {found.journal}",
        as_json,
    )


@click.command()
@address_option
@json_option
def stop(address: str | None, as_json: bool) -> None:
    """End the scheduler and whatever trains under it. Ray itself runs on."""
    api = _connected(address)
    api.stop()
    answer({"stopped": True}, "scheduler stopped", as_json)


@click.command()
@address_option
@json_option
def status(address: str | None, as_json: bool) -> None:
    """Servers, jobs, loans and demand."""
    found = _connected(address).status()
    if as_json:
        print_json(found)
        return
    from raysched import screens

    screens.show_status(found)


@click.group()
def job() -> None:
    """Jobs: what runs, what waits, and why."""


@job.command("list")
@address_option
@json_option
def job_list(address: str | None, as_json: bool) -> None:
    """All jobs that the scheduler knows."""
    jobs = _connected(address).status()["jobs"]
    if as_json:
        print_json(jobs)
        return
    from raysched import screens

    screens.show_jobs(jobs)


@job.command("explain")
@click.argument("job_id", metavar="JOB")
@address_option
@json_option
def job_explain(job_id: str, address: str | None, as_json: bool) -> None:
    """Why a job runs as it does, or waits."""
    found = _connected(address).explain(job_id)
    if as_json:
        print_json(found)
        return
    from raysched import screens

    screens.show_explanation(found)


@job.command("cancel")
@click.argument("job_id", metavar="JOB")
@address_option
@json_option
def job_cancel(job_id: str, address: str | None, as_json: bool) -> None:
    """End a job."""
    _connected(address).cancel(job_id)
    answer({"cancelled": job_id}, f"{job_id} cancelled", as_json)


@click.group()
def policy() -> None:
    """Policies: which there are, and which one decides."""


@policy.command("list")
@json_option
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
    answer(described, "\n".join(lines), as_json)


@policy.command("set")
@click.argument("name")
@click.option("--loaning", help="Whether inference servers are lent; default: the policy's own.")
@click.option("--break-promises", is_flag=True, help="Drop what jobs were promised before.")
@parameter_option
@address_option
@json_option
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
        name, loaning, policy_parameters=parsed(parameters), break_promises=break_promises
    )
    answer(now, f"policy {now['policy']}, loaning {now['loaning']}", as_json)


@click.command()
@click.option("--policy", default="aryl", show_default=True, help="How to schedule.")
@folder_option("out/demo")
@click.option("--seed", default=1, show_default=True, help="Of the traffic.")
@click.option("--quick", is_flag=True, help="Half the jobs and a shorter day: to try a policy.")
@json_option
def demo(policy: str, out: Path, seed: int, quick: bool, as_json: bool) -> None:
    """A day of a small cluster in a few minutes: six jobs, two pools, real traffic.

    Exit status 1 where a job did not complete or a request failed.
    """
    from policies import registry
    from raysched.demo import run

    registry.load(policy, {})
    summary = run.run(policy, out, seed=seed, quick=quick, quiet=as_json)
    if as_json:
        print_json(summary)
    whole = summary["jobs_completed"] == summary["jobs_planned"] and not summary["requests_failed"]
    sys.exit(0 if whole else 1)


def _connected(address: str | None) -> Any:
    from raysched import api
    from raysched.runtime import link

    link.join(address)
    return api
