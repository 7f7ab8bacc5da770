"""The commands of `fabric-agent`. Heavy imports live inside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agent import capture, cli, ib, targets
from agent.cli import log_to_stderr
from agent.terminal import fail
from collectors.user_input.command_line import OneLineErrors, version_option

if TYPE_CHECKING:
    from agent.config import Config
    from agent.snapshot import Outcome
    from agent.sources import Job

app = typer.Typer(
    name="fabric-agent",
    help="Read the RDMA counters of this host and hand them to Prometheus and the tuner.",
    epilog="Exit codes: 0 done, 1 error, 2 wrong usage or configuration, 3 done and found trouble.",
    no_args_is_help=True,
    cls=OneLineErrors,
    pretty_exceptions_enable=False,
)

app.add_typer(ib.app, name="ib")
app.add_typer(targets.app, name="targets")
app.command("capture")(capture.show)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="YAML file; else defaults.")]


@app.callback()
def main(version: bool = version_option("fabric-agent")) -> None:
    """Telemetry of one host; see also the command `tuner`."""


@app.command("check-config")
def check_config(file: Annotated[Path, typer.Argument(help="YAML file.")]) -> None:
    """Say whether a configuration is right, and what it would run. Touches no device."""
    config, planned = _plan(file)
    print(f"{file}: ok, agent {config.agent!r}, {len(planned)} collectors")
    print("files of secrets and TLS were not opened")
    width = max((len(job.name) for job in planned), default=0)
    for job in planned:
        print(f"  {job.name:<{width}} every {job.interval_s:g} s, deadline {job.deadline_s:g} s")


@app.command()
def run(config: ConfigOption = None) -> None:
    """Collect, serve /metrics and stream to the tuner until told to stop (the daemon)."""
    raise typer.Exit(cli.run(config))


@app.command()
def once(
    config: ConfigOption = None,
    form: Annotated[
        Literal["table", "json", "prom"], typer.Option("--format", help="How to print it.")
    ] = "table",
) -> None:
    """Read everything once, print it, and exit.

    Exit 1 where no collector could read anything; 0 on a host without RDMA devices.
    """
    from agent import once as one
    from agent.sources import host_context, read_rdma_devices

    settings, planned = _plan(config)
    if not read_rdma_devices(host_context(settings)) and not settings.devices.include:
        typer.echo(f"no RDMA device in {settings.paths.sysfs}/class/infiniband", err=True)
        planned = tuple(job for job in planned if not job.host)
    outcomes = one.read_once(settings, planned)
    if form == "table":
        one.print_table(outcomes)
    else:
        print((one.render_json if form == "json" else one.render_prom)(settings, outcomes))
    complain(outcomes)
    if outcomes and not any(outcome.success for outcome in outcomes):
        raise typer.Exit(1)


@app.command()
def record(
    out: Annotated[Path, typer.Option("--out", help="Folder to make; must be empty.")],
    config: ConfigOption = None,
    duration: Annotated[float, typer.Option(help="Seconds; Ctrl-C ends it early.", min=0)] = 60.0,
    anonymise: Annotated[
        bool, typer.Option(help="Replace names, addresses, GUIDs and MACs by pseudonyms.")
    ] = False,
) -> None:
    """Collect for a while into a folder: `tuner suggest --source dir=FOLDER` replays it."""
    import signal
    import threading

    from rich.console import Console

    from agent import record as recording
    from collectors.model.errors import FabricError

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    console = Console(stderr=True)
    settings, planned = _plan(config)
    try:
        with console.status("recording") as status:
            done = recording.record(
                settings,
                planned,
                out,
                duration,
                anonymise=anonymise,
                stop=stop,
                progress=lambda passed, items: status.update(
                    f"recording: {passed:.0f} of {duration:g} s, {items} items"
                ),
            )
    except FabricError as error:
        raise fail(error) from error
    complain(done.outcomes)
    typer.echo(f"{out}: {done.items} items, {done.bytes / 1024:.0f} KiB", err=True)


@app.command()
def doctor(
    config: ConfigOption = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time between the two readings.")] = 2.0,
    form: Annotated[
        Literal["table", "json"], typer.Option("--format", help="How to print it.")
    ] = "table",
) -> None:
    """Say what this host can see, what it cannot and why, and what is set wrong on it.

    Changes nothing. Exit 0 where nothing is wrong, 3 where something is, 1 on an error.
    """
    import json

    from rich.console import Console

    from agent import doctor as physician

    settings, planned = _plan(config)
    with Console(stderr=True).status("reading twice"):
        report = physician.examine(settings, planned, seconds)
    if form == "json":
        print(json.dumps(physician.document(report), indent=2))
    else:
        physician.show(report)
    if report.findings:
        raise typer.Exit(3)


def _plan(file: Path | None) -> tuple[Config, tuple[Job, ...]]:
    """Return a configuration and its jobs; ends with one line on what is wrong with them."""
    from agent.config import read_config
    from agent.sources import jobs
    from collectors.model.errors import FabricError

    try:
        config = read_config(file)
        planned = jobs(config, str(file or "defaults"))
    except FabricError as error:
        raise fail(error) from error
    log_to_stderr("error")
    return config, planned


def complain(outcomes: Iterable[Outcome]) -> None:
    """Print a line on stderr for each collector that failed, and one for its gaps."""
    for outcome in outcomes:
        if outcome.overrun:
            typer.echo(f"{outcome.collector}: no answer within its deadline", err=True)
        elif outcome.error:
            typer.echo(f"{outcome.collector}: {outcome.error}", err=True)
        elif outcome.gaps:
            first = outcome.gaps[0]
            more = f" and {len(outcome.gaps) - 1} more" if len(outcome.gaps) > 1 else ""
            line = f"{outcome.collector}: not read: {first.subject} {first.what} ({first.reason})"
            typer.echo(line + more, err=True)
