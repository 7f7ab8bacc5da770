"""The command `tuner`: each group of sub-commands has a file in this folder and is added here."""

import os
from collections.abc import Callable
from typing import Any, Final

import typer

from collectors.user_input.command_line import OneLineErrors, version_option
from tuner.cli import (
    audit,
    diagnose,
    ib,
    model,
    paths,
    profile,
    record,
    report,
    serve,
    status,
    suggest,
    whatif,
)

app = typer.Typer(
    name="tuner",
    help="What ails the RDMA fabric, and what to change.",
    epilog="Exit codes: 0 done, 1 error, 2 wrong usage or configuration, 3 done and found trouble.",
    no_args_is_help=True,
    cls=OneLineErrors,
    pretty_exceptions_enable=False,
)


@app.callback()
def main(version: bool = version_option("tuner")) -> None:  # noqa: ARG001  its callback acts
    """Find the cause of fabric trouble and recommend settings, with evidence."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core logs to stderr beside our one line


_COMMANDS: Final[tuple[Callable[..., Any], ...]] = (
    *suggest.COMMANDS,
    *profile.COMMANDS,
    *whatif.COMMANDS,
    *diagnose.COMMANDS,
    *audit.COMMANDS,
    *paths.COMMANDS,
    *serve.COMMANDS,
    *status.COMMANDS,
    *record.COMMANDS,
    *report.COMMANDS,
)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(model.app, name="model")
app.add_typer(ib.app, name="ib")
