"""The command `fabric-agent`. Heavy imports live inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Read the RDMA counters of this host and hand them to Prometheus and the tuner.",
    no_args_is_help=True,
)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="YAML file; else defaults.")]


@app.callback()
def main() -> None:
    """Telemetry of one host; see also the command `tuner`."""


@app.command("check-config")
def check_config(file: Annotated[Path, typer.Argument(help="YAML file.")]) -> None:
    """Say whether a configuration is right, and what it would run. Touches no device."""
    from agent.config import read_config
    from agent.sources import jobs
    from collectors.model.errors import FabricError

    try:
        config = read_config(file)
        planned = jobs(config, str(file))
    except FabricError as error:
        raise fail(error) from error
    print(f"{file}: ok, agent {config.agent!r}, {len(planned)} collectors")
    for job in planned:
        print(f"  {job.name:<16} every {job.interval_s:g} s, deadline {job.deadline_s:g} s")


@app.command()
def run(config: ConfigOption = None) -> None:
    """Collect, serve /metrics and stream to the tuner until told to stop (the daemon)."""
    from agent import daemon
    from agent.config import read_config
    from collectors.model.errors import FabricError

    try:
        settings = read_config(config)
        log_to_stderr(settings.log_level)
        code = daemon.run(settings, str(config or "defaults"))
    except FabricError as error:
        raise fail(error) from error
    raise typer.Exit(code)


def log_to_stderr(level: str) -> None:
    """Write the log to stderr; under systemd with priorities and without times of our own."""
    import logging
    import os

    journal = "JOURNAL_STREAM" in os.environ
    form = "%(levelname)s %(message)s" if journal else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=level.upper(), format=form)


def fail(error: Exception) -> typer.Exit:
    """Print an error as one line on stderr and return the exit to raise."""
    typer.echo(f"fabric-agent: {error}", err=True)
    return typer.Exit(1)
