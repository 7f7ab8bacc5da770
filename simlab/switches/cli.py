"""`simlab switches`: switches to poll and subscribe to. Heavy imports inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from simlab.switches.packet_feed import PacketFeed

app = typer.Typer(help="Simulated switches over SNMP, gNMI and Redis.", no_args_is_help=True)

Platform = Literal["eos", "nxos", "junos", "sonic", "nvue", "onyx", "openconfig"]


@app.callback()
def main() -> None:
    """Simulated switches over SNMP, gNMI and Redis."""


@app.command()
def up(
    count: Annotated[int, typer.Option(min=1, max=1024, help="How many switches.")] = 2,
    platform: Annotated[Platform, typer.Option(help="What they are.")] = "eos",
    ports: Annotated[int, typer.Option(min=1, max=1024)] = 64,
    inventory: Annotated[
        Path, typer.Option(help="Inventory to write, for `fabric-agent targets test`.")
    ] = Path("targets.yaml"),
    interval: Annotated[float, typer.Option(help="Polling interval in the inventory, s.")] = 10.0,
    tick: Annotated[float, typer.Option(help="Traffic moves so often, s; 0: never.")] = 1.0,
    load: Annotated[float, typer.Option(min=0, max=1, help="Load of the ports.")] = 0.5,
    same: Annotated[bool, typer.Option(help="All show the same numbers: less memory.")] = False,
    gnmi: Annotated[bool, typer.Option(help="gNMI as well.")] = True,
    feed: Annotated[
        str,
        typer.Option(help="packet:CONFIG.yaml: the switches and numbers of a packet simulation."),
    ] = "",
    fault: Annotated[
        list[str] | None,
        typer.Option(help="NUMBER=silent|slow|restart|huge|reordered|wrong_types|half_open"),
    ] = None,
) -> None:
    """Run switches on the loopback until interrupted, with a real Redis for SONiC."""
    import asyncio
    import contextlib
    import signal
    import tempfile

    from simlab.switches.daemons import DaemonFailed, redis_server
    from simlab.switches.lab import FAULTS, Lab, serve

    faults = {}
    for text in fault or ():
        number, _, word = text.partition("=")
        if not number.isdigit() or word not in FAULTS:
            typer.echo(f"simlab: --fault {text}: NUMBER={'|'.join(FAULTS)}", err=True)
            raise typer.Exit(2)
        faults[int(number)] = word

    simulated = _packet_feed(feed, platform) if feed else None

    async def run(redis_ports: tuple[int, ...]) -> None:
        lab = Lab(count, platform, ports, same, gnmi, redis_ports, faults, simulated)
        # A shell that runs this in the background has SIGINT ignored: take both signals ourselves.
        task = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM):
            if task is not None:
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await lab.up()
        lab.write_inventory(inventory, interval)
        has = f"{ports} ports each" if simulated is None else "fed by the packet simulation"
        print(f"{lab.count} {platform} switches up, {has}; inventory: {inventory}", flush=True)
        await serve(lab, tick, load)

    with contextlib.ExitStack() as stack:
        redis_ports: tuple[int, ...] = ()
        if platform == "sonic":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            with contextlib.suppress(DaemonFailed):
                redis_ports = (stack.enter_context(redis_server(folder)),)
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            asyncio.run(run(redis_ports))


def _packet_feed(text: str, platform: str) -> PacketFeed:
    """Return the feed that --feed names; exit 2 where it is wrong."""
    from collectors.model.errors import ConfigInvalid
    from simlab.packet.config import load_config
    from simlab.switches.packet_feed import PacketFeed

    kind, _, file = text.partition(":")
    if kind != "packet" or not file:
        typer.echo(f"simlab: --feed {text}: packet:CONFIG.yaml", err=True)
        raise typer.Exit(2)
    try:
        return PacketFeed(load_config(Path(file)), platform)
    except ConfigInvalid as error:
        typer.echo(f"simlab: {error}", err=True)
        raise typer.Exit(2) from error
