"""`simlab packet` and `simlab fabric`: run a configuration, sweep it, stream or record it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.console import Console
from rich.table import Table

from collectors.model.errors import ConfigInvalid, FabricError, Unavailable

if TYPE_CHECKING:
    from simlab.packet.running import Run
    from simlab.packet.simulation import Progress

packet_app = typer.Typer(help="Packet-level RoCE fabric simulator.", no_args_is_help=True)
fabric_app = typer.Typer(help="A simulated fabric that reports like a real one.")

ConfigPath = Annotated[Path, typer.Argument(help="YAML configuration.", show_default=False)]
Format = Annotated[str, typer.Option("--format", help="human or json.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


@packet_app.callback()
def _packet() -> None:
    """Packet-level RoCE fabric simulator."""


@fabric_app.callback()
def _fabric() -> None:
    """A simulated fabric that reports like a real one."""


def _fail(error: FabricError, config: Path) -> None:
    place = "" if str(config) in str(error) else f"{config}: "
    Console(stderr=True, soft_wrap=True).print(f"simlab: {place}{error}", markup=False)
    raise typer.Exit(1)


class _Bar:
    """Progress with simulated time, events per second and time to go, on a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(), console=console, transient=True,
            disable=quiet or not console.is_terminal,
        )  # fmt: skip
        # The first run after an installation compiles the engine, which takes some 20 s.
        self._task = self._bar.add_task("preparing the engine", total=None, rate="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def __call__(self, now: Progress) -> None:
        rate = f"{now.events / max(now.wall_s, 1e-9) / 1e6:.1f} M events/s"
        text = f"{now.now_s * 1e3:.3f} of {now.goal_s * 1e3:g} ms simulated"
        self._bar.update(
            self._task, total=now.goal_s, completed=now.now_s, description=text, rate=rate
        )


@packet_app.command("run")
def run_command(
    config: ConfigPath,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables and plots; replaces an earlier run's.")
    ] = None,
    tables: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    plot: Annotated[bool, typer.Option("--plot", help="Draw plots into the folder.")] = False,
    plot_format: Annotated[str, typer.Option(help="svg or png.")] = "svg",
    seed: Annotated[int | None, typer.Option(help="Instead of the file's.")] = None,
    output_format: Format = "human",
    quiet: Quiet = False,
) -> None:
    """Run one configuration. Exit 3 where it was interrupted or messages are unfinished.

    A small one, three lines of YAML:

    duration_s: 0.001

    topology: {kind: star, hosts: 5}

    workload: {kind: incast, receiver: 4, size_bytes: 200000}

    All other keys: simlab packet settings
    """
    from simlab.packet.config import load_config
    from simlab.packet.output import PLOT_FORMATS, as_json, prepare, write_run
    from simlab.packet.plots import plot_run
    from simlab.packet.running import finish, start

    try:
        _known(output_format, "--format", ("human", "json"))
        _known(plot_format, "--plot-format", PLOT_FORMATS)
        plan = load_config(config, changes={} if seed is None else {"seed": seed})
        folder = out or Path(f"{plan.config.name}.out")
        if out or plot:
            prepare(folder, tables)
        with _Bar(quiet=quiet) as bar:
            run = start(plan, plot=plot)
            finish(plan, run, bar)
    except FabricError as error:
        _fail(error, config)
        return
    files, unwritten = [], None
    try:
        files = write_run(run.sim, folder, file_format=tables) if out or plot else []
        if plot:
            files += plot_run(run.sim, folder, rates=run.rates, kind=plot_format)
    except FabricError as error:  # what was computed is shown all the same
        unwritten = error
    if output_format == "json":
        print(json.dumps({**as_json(run.sim), "interrupted": run.interrupted}))
    else:
        _show(plan.config.name, run, files)
    if unwritten is not None:
        _fail(unwritten, config)
    incomplete = plan.config.stop_when_done and not run.sim.done
    if run.interrupted or incomplete:
        raise typer.Exit(3)


def _known(value: str, option: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigInvalid(option, "option", f"{value!r} is not one of {', '.join(choices)}")


def _show(name: str, run: Run, files: list[Path]) -> None:
    from simlab.packet.output import as_json
    from simlab.packet.running import packets_per_cpu_s

    table = Table(title=f"{name}{' (interrupted)' if run.interrupted else ''}", width=100)
    table.add_column("what")
    table.add_column("value", justify="right")
    for key, value in as_json(run.sim).items():
        table.add_row(key, _text(key, value))
    rate = packets_per_cpu_s(run.sim)
    table.add_row("link packets per CPU-second", f"{rate / 1e6:.2f} M")
    console = Console(width=100)
    console.print(table)
    if files:
        console.print(f"{len(files)} files in {files[0].parent}", markup=False)


def _text(key: str, value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {_text(key, number)}" for name, number in value.items())
    if isinstance(value, list):
        shown = ", ".join(_text(key, one) for one in value[:4])
        return f"{shown}{', ...' if len(value) > 4 else ''}"
    if isinstance(value, float) and key.endswith("_s"):
        return f"{value * 1e6:,.2f} µs" if value < 1 else f"{value:.3f} s"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


@packet_app.command("settings")
def settings_command() -> None:
    """Print every key of a configuration with its default."""
    from simlab.packet.settings import settings_text

    print(settings_text(), end="")


@packet_app.command("sweep")
def sweep_command(
    config: ConfigPath,
    axis: Annotated[list[str], typer.Option(help="KEY=VALUE,VALUE,... ; repeat for a grid.")],
    out: Annotated[Path, typer.Option(help="Folder of results; a sweep resumes there.")],
    engine: Annotated[str, typer.Option(help="processes or ray.")] = "processes",
    workers: Annotated[int | None, typer.Option(help="Default: all cores.")] = None,
    show: Annotated[list[str] | None, typer.Option(help="Result keys to show.")] = None,
    output_format: Format = "human",
    quiet: Quiet = False,
) -> None:
    """Run a grid of changes to one configuration on all cores or on Ray.

    Exit 1 where a point failed, 3 where it was interrupted; the same command goes on.
    """
    from collectors.user_input.yaml_text import parse_yaml
    from simlab.packet.sweep import grid, sweep

    console = Console(stderr=True)
    try:
        _known(output_format, "--format", ("human", "json"))
        axes: dict[str, list[Any]] = {}
        for one in axis:
            key, equals, values = one.partition("=")
            if not equals:
                raise ConfigInvalid("--axis", one, "must be KEY=VALUE,VALUE,...")
            if key in axes:
                why = f"given twice; all values of one: {key}=VALUE,VALUE,..."
                raise ConfigInvalid("--axis", key, why)
            axes[key] = parse_yaml(f"[{values}]", f"--axis {key}")

        points = grid(axes)
        with console.status(f"0 of {len(points)} points") as status:
            if quiet or not console.is_terminal:
                status.stop()

            def note(done: int, total: int) -> None:
                status.update(f"{done} of {total} points")

            results = sweep(config, points, out, engine=engine, workers=workers, progress=note)
    except KeyboardInterrupt:
        console.print(f"stopped; the same command goes on from {out}", markup=False)
        raise typer.Exit(3) from None
    except FabricError as error:
        _fail(error, config)
        return
    if output_format == "json":
        print(json.dumps(results))
    else:
        _show_sweep(list(axes), results, show or ["queue_max_bytes", "ecn_marked", "pause_frames"])
    if any("error" in one for one in results):
        raise typer.Exit(1)


def _show_sweep(axes: list[str], results: list[dict[str, Any]], keys: list[str]) -> None:
    table = Table(width=100)
    for name in (*axes, "fct p99", *keys):
        table.add_column(name.rsplit(".", maxsplit=1)[-1], justify="right")
    for one in results:
        cells = [str(one["changes"][name]) for name in axes]
        result = one.get("result")
        if result is None:
            table.add_row(*cells, "failed")
            continue
        fct = result.get("fct_s", {}).get("p99")
        shown = "-" if fct is None else f"{fct * 1e6:,.1f} µs"
        table.add_row(*cells, shown, *(_text(key, result.get(key, "-")) for key in keys))
    Console(width=100).print(table)
    console = Console(stderr=True, soft_wrap=True)
    for one in results:
        if "error" in one:
            point = ", ".join(f"{key}={value}" for key, value in one["changes"].items())
            console.print(f"simlab: {point}: {one['error']}", markup=False)


Conweave = Annotated[bool, typer.Option("--conweave", help="conweave's format, not HPCC's.")]


@packet_app.command("import")
def import_command(
    config: Annotated[Path, typer.Argument(help="Config file of HPCC or conweave.")],
    out: Annotated[Path, typer.Option(help="YAML configuration to write.")],
    topology: Annotated[Path | None, typer.Option(help="Instead of the file it names.")] = None,
    flows: Annotated[Path | None, typer.Option(help="Instead of the file it names.")] = None,
    conweave: Conweave = False,
) -> None:
    """Make a configuration of a case of the HPCC or conweave simulator."""
    import yaml

    from simlab.packet.hpcc_exchange import import_config

    try:
        found = import_config(config, conweave=conweave, topology=topology, flows=flows)
        _write(out, yaml.safe_dump(found, sort_keys=False))
    except FabricError as error:
        _fail(error, config)
    Console(width=100).print(f"now: simlab packet run {out}", markup=False, soft_wrap=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise Unavailable(str(path), "write", error.strerror or str(error)) from None


@packet_app.command("export")
def export_command(
    config: ConfigPath,
    out: Annotated[Path, typer.Option(help="Folder for the simulator's files.")],
    conweave: Conweave = False,
) -> None:
    """Write a configuration as config, topology and flow files of HPCC or conweave."""
    from simlab.packet.config import load_config
    from simlab.packet.hpcc_exchange import export_plan

    try:
        files, losses = export_plan(load_config(config), out, conweave=conweave)
    except FabricError as error:
        _fail(error, config)
        return
    console = Console(width=100)
    console.print("\n".join(map(str, files)), markup=False, soft_wrap=True)
    for loss in losses:
        console.print(f"not in the files: {loss}", markup=False, soft_wrap=True)


@fabric_app.command("run")
def fabric_command(
    scenario: ConfigPath,
    stream: Annotated[str | None, typer.Option(help="HOST:PORT of a tuner.")] = None,
    record: Annotated[Path | None, typer.Option(help="New folder for a recording.")] = None,
    pace: Annotated[float, typer.Option(help="Wall seconds per simulated second; 0: none.")] = 0.0,
    output_format: Format = "human",
    quiet: Quiet = False,
) -> None:
    """Run a fabric whose hosts and switches report as if agents had read them.

    The file is one of `simlab packet run`; its `telemetry` says how often. Exit 3 where it was
    interrupted.
    """
    from simlab.packet.config import load_config
    from simlab.packet.fabric import run_fabric

    try:
        _known(output_format, "--format", ("human", "json"))
        if not 0 <= pace < math.inf:
            raise ConfigInvalid("--pace", "option", f"{pace:g} is not a number from 0 on")
        if (stream is None) == (record is None):
            raise ConfigInvalid("fabric run", "options", "give either --stream or --record")
        plan = load_config(scenario)
        with _Bar(quiet=quiet) as bar:
            told = run_fabric(plan, stream=stream, record=record, pace=pace, progress=bar)
    except FabricError as error:
        _fail(error, scenario)
        return
    if output_format == "json":
        print(json.dumps(told))
    else:
        where = stream or str(record)
        Console(width=100).print(
            f"{told['values']:,} values of {told['agents']} agents in {told['passes']} passes, "
            f"{told['simulated_s'] * 1e3:.3f} ms simulated, to {where}",
            markup=False,
        )
    if told["interrupted"]:
        raise typer.Exit(3)
