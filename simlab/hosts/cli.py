"""simlab hosts: hosts that exist only as files and netlink answers, for tests, demos and load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Fake host trees with a kernel that answers.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Hosts with NICs of any driver, with counters that move, with faults on request."""


@app.command()
def faults() -> None:
    """List the faults that can be planted."""
    from simlab.hosts.profile import FAULTS

    for name in FAULTS:
        print(name)


@app.command()
def serve(
    out: Annotated[Path, typer.Option("--out", help="Folder to write the trees into.")],
    hosts: Annotated[int, typer.Option(min=1, max=1000, help="How many hosts.")] = 1,
    nics: Annotated[int, typer.Option(min=1, max=64, help="NICs of each.")] = 8,
    driver: Annotated[str, typer.Option(help="mlx5, bnxt_re, irdma, ionic, hns, rxe...")] = "mlx5",
    fault: Annotated[
        list[str] | None, typer.Option(help="Plant this fault on the first NIC; repeat for more.")
    ] = None,
    script: Annotated[
        Path | None, typer.Option(help="YAML: counter -> growth in a second.")
    ] = None,
    tick: Annotated[float, typer.Option(min=0.1, help="Seconds between movements.")] = 1.0,
    duration: Annotated[float, typer.Option(min=0, help="Seconds to serve; 0: write only.")] = 0.0,
) -> None:
    """Write the trees and an agent.yaml for each host; then answer for their kernels.

    With --duration the counters move each tick and netlink and ethtool are answered on
    OUT/HOST/kernel.sock, which the agent.yaml names.
    """
    import time

    from simlab.hosts.motion import BUSY, moved, rewrite
    from simlab.hosts.profile import DRIVERS, FAULTS, build_host, write_host
    from simlab.hosts.server import FakeKernel, KernelServer

    if driver not in DRIVERS:
        raise typer.BadParameter(
            f"{driver!r} is not among {', '.join(DRIVERS)}", param_hint="driver"
        )
    for name in fault or ():
        if name not in FAULTS:
            raise typer.BadParameter(
                f"{name!r} is not among {', '.join(FAULTS)}", param_hint="fault"
            )
    out = out.resolve()  # links inside the trees are absolute
    rates = BUSY if script is None else _script(script)
    made = []
    for number in range(1, hosts + 1):
        host = build_host(f"node{number}", driver, nics)
        for name in fault or ():
            host = FAULTS[name](host)
        root = out / host.name
        write_host(host, root)
        (root / "agent.yaml").write_text(_agent_yaml(host.name, root))
        made.append((host, root))
    typer.echo(f"{out}: {hosts} hosts x {nics} {driver} NICs", err=True)
    if not duration:
        return
    servers = [
        KernelServer(root / "kernel.sock", FakeKernel(host, n + 1))
        for n, (host, root) in enumerate(made)
    ]
    for server in servers:
        server.start()
    typer.echo("serving; Ctrl-C ends it", err=True)
    until, step = time.monotonic() + duration, 0
    try:
        while time.monotonic() < until:
            time.sleep(min(tick, max(0.0, until - time.monotonic())))
            step += 1
            for server, (_, root) in zip(servers, made, strict=True):
                before = server.kernel.host
                after = moved(before, tick, rates, seed=step)
                rewrite(before, after, root)
                server.kernel.host = after
    except KeyboardInterrupt:
        pass
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def _agent_yaml(name: str, root: Path) -> str:
    return (
        f"agent: {name}\npaths:\n  sysfs: {root}/sys\n  procfs: {root}/proc\n"
        f"  kernel: {root}/kernel.sock\n"
    )


def _script(path: Path) -> dict[str, float]:
    from collectors.model.errors import ConfigInvalid
    from collectors.user_input.yaml_text import parse_yaml

    try:
        found = parse_yaml(path.read_text(encoding="utf-8"), str(path))
        rates = {str(name): float(rate) for name, rate in found.items()}
    except (OSError, AttributeError, TypeError, ValueError, ConfigInvalid) as error:
        raise typer.BadParameter(f"{path}: not counter -> number ({error})") from error
    if any(rate < 0 for rate in rates.values()):
        raise typer.BadParameter(f"{path}: counters do not shrink")
    return rates
