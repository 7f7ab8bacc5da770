"""The command `tuner`: each group of sub-commands has a file in this folder and is added here."""

import typer

from tuner.cli import suggest

app = typer.Typer(help="What ails the RDMA fabric, and what to change.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Find the cause of fabric trouble and recommend settings, with evidence."""


for command in suggest.COMMANDS:
    app.command()(command)
