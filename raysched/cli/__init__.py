"""The command line: `raysched demo | simulate | start | stop | status | job … | policy … | …`.

Ray is imported by the commands that need it, never for `--help`. Bad input ends with one line on
stderr and exit status 2.
"""

from __future__ import annotations

import os
import sys

import click

from loaning.problem import LoaningError
from policies.problem import PolicyError
from raysched.cli import live, recorded, virtual
from raysched.errors import UserError


@click.group(
    commands=[
        *(live.start, live.stop, live.status, live.job, live.policy, live.demo),
        *(recorded.journal, virtual.simulate, virtual.reproduce),
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="raysched")
def cli() -> None:
    """A cluster manager for elastic training on Ray."""


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
        # Threads may be inside Ray's native code, which does not survive an unwinding.
        os._exit(130)


def _refuse(why: str) -> None:
    click.echo(f"raysched: {why}", err=True)
    sys.exit(2)
