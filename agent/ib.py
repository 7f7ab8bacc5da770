"""`fabric-agent ib`: look at the InfiniBand subnet from this host. Nothing is changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent import ib_show
from collectors.model.errors import FabricError
from collectors.user_input.text_file import read_text

if TYPE_CHECKING:
    from collectors.infiniband.discovery import Discovered
    from collectors.infiniband.topology import Node, Topology
    from collectors.infiniband.transactor import Transactor

app = typer.Typer(help="Look at the InfiniBand subnet from this host.", no_args_is_help=True)

PARTIAL = 3
"""Exit code: an answer, but something in the subnet did not answer."""


class Format(StrEnum):
    """How an answer is written."""

    table = "table"
    json = "json"
    net = "net"


Device = Annotated[str, typer.Option("--device", help="local RDMA device [first active]")]
PortNumber = Annotated[int, typer.Option("--port", help="its port, 0 for the first active")]
Names = Annotated[Path | None, typer.Option("--names", help="node-name-map file")]
FileOption = Annotated[
    Path | None, typer.Option("--file", help="topology file (ibnetdiscover) instead of the wire")
]
Answer = Annotated[Format, typer.Option("--format", help="how to write the answer")]
Timeout = Annotated[float, typer.Option("--timeout", help="seconds for one datagram")]


@app.command()
def topology(
    device: Device = "",
    port: PortNumber = 0,
    names: Names = None,
    file: FileOption = None,
    answer: Answer = Format.table,
    timeout: Timeout = 0.5,
) -> None:
    """Show switches, adapters and what breaks the pattern of the tree.

    Exit codes: 0 complete, 3 something did not answer, 1 error.
    """
    from collectors.infiniband.netfile import format_net

    with _subnet(device, port, names, file, timeout, forwarding=False) as (found, _):
        if answer is Format.json:
            print(json.dumps(ib_show.topology_document(found), indent=1))
        elif answer is Format.net:
            print(format_net(found.topology), end="")
        else:
            ib_show.show_topology(found)
        _end(found)


@app.command()
def ports(
    device: Device = "",
    port: PortNumber = 0,
    names: Names = None,
    answer: Answer = Format.table,
    timeout: Timeout = 0.5,
    interval: Annotated[float, typer.Option(help="seconds between the two sweeps")] = 1.0,
    everything: Annotated[bool, typer.Option("--all", help="also ports without trouble")] = False,
) -> None:
    """Sweep the counters twice and show rates, waiting and errors of ports.

    `waits` is the share of time in which the port had data but no credit to send it.
    """
    import time

    from collectors.infiniband.counters import CounterSweep
    from collectors.infiniband.rates import port_rates

    with _subnet(device, port, names, None, timeout, forwarding=False) as (found, ask):
        if ask is None:
            raise typer.Exit(2)
        sweep = CounterSweep(ask)
        first = sweep.sweep(found.topology)
        time.sleep(interval)
        second = sweep.sweep(found.topology)
        found.misses.extend(second.misses)
        rates = port_rates(found.topology, sweep.capabilities, first, second)
        if answer is Format.json:
            print(json.dumps([rate.document() for rate in rates], indent=1))
        else:
            ib_show.show_ports(
                [rate for rate in rates if everything or rate.is_notable], len(rates)
            )
        _end(found)


@app.command()
def route(
    source: Annotated[str, typer.Argument(metavar="A", help="name, host, LID or 0xGUID")],
    target: Annotated[str, typer.Argument(metavar="B", help="name, host, LID or 0xGUID")],
    device: Device = "",
    port: PortNumber = 0,
    names: Names = None,
    answer: Answer = Format.table,
    timeout: Timeout = 0.5,
) -> None:
    """Follow the forwarding tables from A to B. Exit code 3 where they do not lead there."""
    from collectors.infiniband.routes import route as follow
    from collectors.infiniband.topology import End

    with _subnet(device, port, names, None, timeout) as (found, _):
        known = found.topology
        a, b = _named(known, source), _named(known, target)
        start = End(a.guid, 0 if a.is_switch else next(n for n, p in a.ports.items() if p.peer))
        walked = follow(known, start, b.lid)
        if answer is Format.json:
            print(json.dumps(ib_show.route_document(known, a, b, walked), indent=1))
        else:
            ib_show.show_route(known, a, b, walked)
        if walked.error:
            raise typer.Exit(PARTIAL)


@app.command()
def load(
    hosts: Annotated[
        str, typer.Option("--hosts", help="file with a host a line, in rank order [all]")
    ] = "",
    pattern: Annotated[str, typer.Option(help="all-to-all or ring")] = "all-to-all",
    device: Device = "",
    port: PortNumber = 0,
    names: Names = None,
    answer: Answer = Format.table,
    timeout: Timeout = 0.5,
    top: Annotated[int, typer.Option(help="rows to show")] = 20,
    through: Annotated[
        str, typer.Option(metavar="NAME/PORT", help="list the flows that share this port")
    ] = "",
) -> None:
    """Show how many flows of a job static routing sends through each link between switches.

    With --through, name the pairs that share one port instead.
    """
    import itertools

    from collectors.infiniband import routes
    from collectors.infiniband.tiers import infer_tiers
    from collectors.infiniband.topology import End

    if pattern not in ("all-to-all", "ring"):
        print(f"fabric-agent: {pattern}: not all-to-all or ring", file=sys.stderr)
        raise typer.Exit(2)
    with _subnet(device, port, names, None, timeout) as (found, _):
        known = found.topology
        ends = routes.adapter_ports(known, _host_list(hosts) if hosts else None)
        if through:
            name, _, number = through.rpartition("/")
            place = End(_named(known, name).guid, int(number) if number.isdigit() else -1)
            flows = (
                itertools.permutations(ends, 2)
                if pattern == "all-to-all"
                else zip(ends, [*ends[1:], *ends[:1]], strict=True)
            )
            ib_show.show_flows(
                known,
                through,
                routes.flows_through(known, flows, place),
                as_json=answer is Format.json,
            )
            return
        made = (
            routes.all_to_all(known, ends) if pattern == "all-to-all" else routes.ring(known, ends)
        )
        spots = routes.hot_spots(known, made, infer_tiers(known), at_least=0.0)
        rows = [
            {
                "out": ib_show.end_name(known, spot.out),
                "to": ib_show.peer_name(known, spot.out),
                "flows": spot.flows,
                "mean": round(spot.mean, 2),
                "ratio": round(spot.ratio, 2),
            }
            for spot in spots
        ]
        if answer is Format.json:
            print(json.dumps({"ports": len(ends), "pattern": pattern, "links": rows}, indent=1))
        else:
            title = f"{pattern} of {len(ends)} ports: the most loaded of {len(rows)} links"
            ib_show.table(
                title, ("out", "to", "flows", "mean", "ratio"), [r.values() for r in rows[:top]]
            )
        _end(found)


# --- the subnet --------------------------------------------------------------------------------
@contextmanager
def _subnet(
    device: str,
    port: int,
    names: Path | None,
    file: Path | None,
    timeout: float,
    *,
    forwarding: bool = True,
) -> Iterator[tuple[Discovered, Transactor | None]]:
    """Discover the subnet, or read a file; errors are one line on stderr and exit code 1."""
    from collectors.infiniband.discovery import Discovered, discover
    from collectors.infiniband.netfile import parse_net
    from collectors.infiniband.topology import parse_node_names, with_names
    from collectors.infiniband.transactor import Limits, Transactor
    from collectors.infiniband.umad import open_umad

    try:
        known = parse_node_names(read_text(names, "read names")) if names else {}
        if file is not None:
            made, skipped = parse_net(read_text(file, "read topology"))
            for number, text in skipped:
                print(f"{file}:{number}: skipped: {text}", file=sys.stderr)
            yield Discovered(with_names(made, known) if known else made), None
            return
        transport = open_umad(device, port)
        try:
            ask = Transactor(transport, Limits(timeout_s=timeout))
            if sys.stderr.isatty():
                print("discovering the subnet ...", file=sys.stderr)
            yield discover(ask, names=known, forwarding=forwarding), ask
        finally:
            transport.close()
    except (FabricError, OSError) as error:
        print(f"fabric-agent: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


def _end(found: Discovered) -> None:
    for miss in found.misses[:10]:
        print(f"{miss.subject}: {miss.what}: {miss.failure.detail}", file=sys.stderr)
    if len(found.misses) > 10:
        print(f"and {len(found.misses) - 10} more did not answer", file=sys.stderr)
    if found.misses:
        raise typer.Exit(PARTIAL)


def _named(known: Topology, text: str) -> Node:
    from collectors.model.errors import NotSupported

    node = known.find(text)
    if node is None:
        raise NotSupported(text, "find", "no such node, or not one alone; see `ib topology`")
    return node


def _host_list(file: str) -> list[str]:
    lines = read_text(Path(file), "read hosts").splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
