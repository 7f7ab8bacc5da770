"""`simlab ib`: InfiniBand fabrics of ibsim and OpenSM from the command line."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from collectors.infiniband.topology import Topology
    from simlab.ib.lab import IbLab
    from simlab.ib.script import ScriptState

app = typer.Typer(help="InfiniBand fabrics without hardware.", no_args_is_help=True)

TopologyOption = Annotated[
    str, typer.Option(help="fattree:K, clos:LEAVESxSPINESxHOSTS[xLINKS] or a topology file")
]


@app.callback()
def main() -> None:
    """InfiniBand fabrics without hardware: ibsim and a real OpenSM."""


@app.command()
def up(
    topology: TopologyOption = "fattree:4",
    nodes: Annotated[int, typer.Option(help="hosts of a fat tree, 0 for all")] = 0,
    script: Annotated[
        Path | None, typer.Option(help="YAML of counters and faults, applied each second")
    ] = None,
    opensm: Annotated[
        str, typer.Option(help="keep: stays running, once: first sweep only, none")
    ] = "keep",
    run: Annotated[
        str, typer.Option("--exec", help="run a command on a host, then end the lab")
    ] = "",
    host: Annotated[str, typer.Option(help="host for --exec [second of the fabric]")] = "",
) -> None:
    """Start a fabric and keep it until Ctrl-C; programs join it by the environment it prints.

    With --exec the exit code is the command's.
    """
    from collectors.model.errors import FabricError
    from collectors.user_input.text_file import read_text
    from simlab.ib.lab import IbLab
    from simlab.ib.script import ScriptState, parse_script

    if opensm not in {"keep", "once", "none"}:
        _fail("--opensm is keep, once or none", code=2)
    manager: Literal["keep", "once", "none"] = opensm  # type: ignore[assignment]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab ends with us
    try:
        made = _topology(topology, nodes)
        steps = parse_script(read_text(script, "read script"), str(script)) if script else []
        state = ScriptState(steps)
        _say(f"{len(made.nodes)} nodes, {sum(1 for _ in made.links())} links")
        with IbLab(made, manager=manager) as lab:
            _apply(lab, state, 0.0)
            # the first host is the subnet manager's; what looks on had better be elsewhere
            names = [node.name for node in made.adapters()]
            place = host or names[min(1, len(names) - 1)]
            code = _run(lab, state, run, place) if run else _hold(lab, state, place)
    except (FabricError, OSError) as error:
        _fail(str(error))
    raise typer.Exit(code)


@app.command("write")
def write(
    topology: TopologyOption = "fattree:4",
    nodes: Annotated[int, typer.Option(help="hosts of a fat tree, 0 for all")] = 0,
) -> None:
    """Print the topology file that ibsim would read."""
    from collectors.infiniband.netfile import format_net
    from collectors.model.errors import FabricError

    try:
        print(format_net(_topology(topology, nodes)), end="")
    except (FabricError, OSError) as error:
        _fail(str(error))


def _topology(text: str, nodes: int) -> Topology:
    from collectors.infiniband.netfile import parse_net
    from collectors.user_input.text_file import read_text
    from simlab.ib.fabrics import parse_topology

    file = Path(text)
    if not file.is_file():
        return parse_topology(text, nodes)
    made, skipped = parse_net(read_text(file, "read topology"))
    for number, line in skipped:
        _say(f"{file}:{number}: skipped: {line}")
    return made


def _apply(lab: IbLab, state: ScriptState, now_s: float) -> None:
    from simlab.ib.script import ibsim_commands

    steps = list(state.advance(now_s))
    commands = list(ibsim_commands(state, steps, lab.topology))
    if commands:
        lab.console(*commands)


def _run(lab: IbLab, state: ScriptState, command: str, host: str) -> int:
    process = subprocess.Popen(
        shlex.split(command), env=lab.environment(host), cwd=lab.folder, start_new_session=True
    )
    began = time.monotonic()
    try:
        while process.poll() is None:
            time.sleep(min(1.0, 0.05 + time.monotonic() - began))
            _apply(lab, state, time.monotonic() - began)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(10)
    return process.returncode


def _hold(lab: IbLab, state: ScriptState, host: str) -> int:
    env = lab.environment(host)
    _say("on a host of this fabric, in a folder of its own for each program:")
    for name in ("LD_PRELOAD", "IBSIM_SOCKNAME", "SIM_HOST"):
        print(f"export {name}={env[name]}", flush=True)
    began = time.monotonic()
    try:
        while True:
            time.sleep(1.0)
            _apply(lab, state, time.monotonic() - began)
    except KeyboardInterrupt:
        _say("ending the fabric")
    return 0


def _say(text: str) -> None:
    print(f"[ib] {text}", file=sys.stderr, flush=True)


def _fail(text: str, code: int = 1) -> NoReturn:
    print(f"simlab: {text}", file=sys.stderr)
    raise typer.Exit(code)
