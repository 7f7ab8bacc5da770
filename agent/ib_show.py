"""Tables and documents of `fabric-agent ib`: 100 columns for people, plain values for JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.terminal import console, plain

if TYPE_CHECKING:
    from collectors.infiniband.discovery import Discovered
    from collectors.infiniband.topology import End, Node, Topology


def end_name(known: Topology, end: End) -> str:
    """Return `name/port` of an end."""
    from collectors.infiniband.topology import name_of

    return name_of(known, end)


def peer_name(known: Topology, end: End) -> str:
    """Return `name/port` of what an end is cabled to."""
    port = known.port(end)
    return end_name(known, port.peer) if port and port.peer else "?"


def topology_document(found: Discovered) -> dict[str, Any]:
    """Return a discovery for JSON."""
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


def route_document(known: Topology, a: Node, b: Node, walked: Any) -> dict[str, Any]:
    """Return a route for JSON."""
    return {
        "from": a.name,
        "to": b.name,
        "lid": b.lid,
        "error": walked.error,
        "hops": [
            {"out": end_name(known, hop.out), "into": end_name(known, hop.into)}
            for hop in walked.hops
        ],
    }


def table(title: str, columns: Sequence[str], rows: Sequence[Any]) -> None:
    """Print a table; the first two columns are words, the others numbers."""
    from rich.table import Table

    table = Table(title=plain(title), title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(plain(value) for value in row))
    console().print(table)


def show_flows(
    known: Topology, through: str, flows: Sequence[tuple[End, End]], *, as_json: bool
) -> None:
    """Print the pairs that share a port, for people or as JSON."""
    pairs = [(end_name(known, a), end_name(known, b)) for a, b in flows]
    if as_json:
        print(json.dumps({"through": through, "flows": pairs}, indent=1))
    else:
        table(f"{len(pairs)} flows leave by {through}", ("from", "to"), pairs)


def show_topology(found: Discovered) -> None:
    """Print what there is, and what breaks the pattern of the tree."""
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
    table("InfiniBand subnet", ("what", "how many"), [row for row in rows if row[1]])
    odd = check_tree(known, tiers, rails)
    if odd:
        table(
            "breaks the pattern",
            ("where", "what", "detail"),
            [(o.where, o.what, o.detail) for o in odd],
        )


def show_ports(rates: Sequence[Any], total: int) -> None:
    """Print ports with their loads, waits and errors."""
    if not rates:
        console().print(f"{total} ports, none waits, discards or has errors", style="green")
        return
    rows = [
        (
            rate.name,
            rate.peer,
            rate.link,
            share(rate.tx_share),
            share(rate.rx_share),
            share(rate.wait_share),
            rate.discards,
            rate.errors,
        )
        for rate in rates
    ]
    table(
        f"{len(rates)} of {total} ports",
        ("port", "peer", "link", "tx", "rx", "waits", "discards", "errors"),
        rows,
    )


def share(value: float | None) -> str:
    """Return a share as percent, a dash where it is unknown."""
    return "-" if value is None else f"{value:.1%}"


def show_route(known: Topology, a: Node, b: Node, walked: Any) -> None:
    """Print the cables of a route, and where it ends if not at its target."""
    rows = [
        (end_name(known, hop.out), end_name(known, hop.into), port.label if port else "?")
        for hop in walked.hops
        for port in (known.port(hop.out),)
    ]
    table(f"{a.name} to {b.name}, LID {b.lid}", ("out of", "into", "link"), rows)
    if walked.error:
        console().print(plain(walked.error, style="bold red"))
