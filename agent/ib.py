"""`fabric-agent ib`: look at the InfiniBand subnet from this host. Nothing is changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collectors.model.errors import FabricError

if TYPE_CHECKING:
    from rich.console import Console

    from collectors.infiniband.discovery import Discovered
    from collectors.infiniband.topology import End, Node, Topology
    from collectors.infiniband.transactor import Transactor

app = typer.Typer(help="Look at the InfiniBand subnet from this host.", no_args_is_help=True)

WIDTH = 100
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
            print(json.dumps(_topology_document(found), indent=1))
        elif answer is Format.net:
            print(format_net(found.topology), end="")
        else:
            _show_topology(found)
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
            _show_ports([rate for rate in rates if everything or rate.is_notable], len(rates))
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
            print(json.dumps(_route_document(known, a, b, walked), indent=1))
        else:
            _show_route(known, a, b, walked)
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
) -> None:
    """Show how many flows of a job static routing sends through each link between switches."""
    from collectors.infiniband import routes
    from collectors.infiniband.tiers import infer_tiers

    if pattern not in ("all-to-all", "ring"):
        print(f"fabric-agent: {pattern}: not all-to-all or ring", file=sys.stderr)
        raise typer.Exit(2)
    with _subnet(device, port, names, None, timeout) as (found, _):
        known = found.topology
        ends = routes.adapter_ports(known, _host_list(hosts) if hosts else None)
        made = (
            routes.all_to_all(known, ends) if pattern == "all-to-all" else routes.ring(known, ends)
        )
        spots = routes.hot_spots(known, made, infer_tiers(known), at_least=0.0)
        rows = [
            {
                "out": _end_name(known, spot.out),
                "to": _peer_name(known, spot.out),
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
            _table(title, ("out", "to", "flows", "mean", "ratio"), [r.values() for r in rows[:top]])
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
        known = parse_node_names(names.read_text(encoding="utf-8")) if names else {}
        if file is not None:
            made, skipped = parse_net(file.read_text(encoding="utf-8"))
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
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def _end_name(known: Topology, end: End) -> str:
    from collectors.infiniband.topology import name_of

    return name_of(known, end)


def _peer_name(known: Topology, end: End) -> str:
    port = known.port(end)
    return _end_name(known, port.peer) if port and port.peer else "?"


# --- documents and tables ------------------------------------------------------------------------
def _topology_document(found: Discovered) -> dict[str, Any]:
    from collectors.infiniband.tiers import check_tree, infer_rails, infer_tiers

    known = found.topology
    tiers, rails = infer_tiers(known), infer_rails(known)
    return {
        "partial": known.partial,
        "seconds": round(found.discovery_s, 3),
        "nodes": [
            {
                "guid": f"0x{node.guid:016x}",
                "kind": node.kind,
                "name": node.name,
                "ports": node.port_count,
                "lid": node.lid,
                "tier": tiers.get(node.guid),
                "aggregation": node.is_aggregation,
            }
            for node in known.nodes.values()
        ],
        "links": [
            {
                "a": {"guid": f"0x{a.guid:016x}", "port": a.port},
                "b": {"guid": f"0x{b.guid:016x}", "port": b.port},
                "width_speed": port.label if (port := known.port(a)) else "?",
                "rail": rails.get(a, rails.get(b)),
            }
            for a, b in known.links()
        ],
        "oddities": [
            {"what": odd.what, "where": odd.where, "detail": odd.detail}
            for odd in check_tree(known, tiers, rails)
        ],
        "missing": [
            {"subject": m.subject, "what": m.what, "reason": m.failure.reason} for m in found.misses
        ],
    }


def _route_document(known: Topology, a: Node, b: Node, walked: Any) -> dict[str, Any]:
    return {
        "from": a.name,
        "to": b.name,
        "lid": b.lid,
        "error": walked.error,
        "hops": [
            {"out": _end_name(known, hop.out), "into": _end_name(known, hop.into)}
            for hop in walked.hops
        ],
    }


def _console() -> Console:
    from rich.console import Console

    out = Console()
    return out if out.width <= WIDTH else Console(width=WIDTH)


def _table(title: str, columns: Sequence[str], rows: Sequence[Any]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(str(value) for value in row))
    _console().print(table)


def _show_topology(found: Discovered) -> None:
    from collections import Counter

    from collectors.infiniband.tiers import TIER_NAMES, check_tree, infer_rails, infer_tiers

    known = found.topology
    tiers, rails = infer_tiers(known), infer_rails(known)
    speeds = Counter(port.label for a, _ in known.links() if (port := known.port(a)))
    by_tier = Counter(tiers.values())
    sharp = sum(node.is_aggregation for node in known.nodes.values())
    rows = [
        *((TIER_NAMES.get(t, f"tier {t}") + " switches", n) for t, n in sorted(by_tier.items())),
        ("other switches", sum(1 for n in known.switches() if n.guid not in tiers)),
        ("adapters", sum(1 for _ in known.adapters())),
        ("SHARP aggregation nodes", sharp),
        ("rails", len(set(rails.values())) or 1),
        *((f"links {label}", n) for label, n in speeds.most_common()),
    ]
    _table("InfiniBand subnet", ("what", "how many"), [row for row in rows if row[1]])
    odd = check_tree(known, tiers, rails)
    if odd:
        _table(
            "breaks the pattern",
            ("where", "what", "detail"),
            [(o.where, o.what, o.detail) for o in odd],
        )


def _show_ports(rates: Sequence[Any], total: int) -> None:
    if not rates:
        _console().print(f"{total} ports, none waits, discards or has errors", style="green")
        return
    rows = [
        (
            rate.name,
            rate.peer,
            rate.link,
            _share(rate.tx_share),
            _share(rate.rx_share),
            _share(rate.wait_share),
            rate.discards,
            rate.errors,
        )
        for rate in rates
    ]
    _table(
        f"{len(rates)} of {total} ports",
        ("port", "peer", "link", "tx", "rx", "waits", "discards", "errors"),
        rows,
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _show_route(known: Topology, a: Node, b: Node, walked: Any) -> None:
    rows = [
        (_end_name(known, hop.out), _end_name(known, hop.into), port.label if port else "?")
        for hop in walked.hops
        for port in (known.port(hop.out),)
    ]
    _table(f"{a.name} to {b.name}, LID {b.lid}", ("out of", "into", "link"), rows)
    if walked.error:
        _console().print(walked.error, style="bold red")
