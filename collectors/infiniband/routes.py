"""Where the forwarding tables send traffic: routes, and how many flows each cable carries.

InfiniBand routing is static and by destination: for one destination LID the tables of all
switches form a tree, so the load of all-to-all traffic is counted tree by tree, not flow by
flow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collectors.codec.mad_smp import LFT_DROP
from collectors.infiniband.topology import End, Node, Topology, name_of

MAX_ROUTE_HOPS = 64


@dataclass(frozen=True, slots=True)
class Hop:
    """One cable of a route: out of one port, into another."""

    out: End
    into: End


@dataclass(frozen=True, slots=True)
class Route:
    """The cables from a source to a destination. error: why it does not arrive, '' if it does."""

    hops: tuple[Hop, ...]
    error: str = ""


def _next(node: Node, lid: int) -> tuple[Hop | None, str]:
    """Return the cable that a switch sends a LID through, or why there is none."""
    number = node.lft[lid] if lid < len(node.lft) else LFT_DROP
    if number == LFT_DROP:
        return None, f"{node.name}: no route to LID {lid}"
    if number == 0:
        return None, "" if node.lid == lid else f"{node.name}: LID {lid} ends here, but is not here"
    port = node.ports.get(number)
    if port is None or port.peer is None:
        return None, f"{node.name}/{number}: LID {lid} leads to a port without a cable"
    return Hop(End(node.guid, number), port.peer), ""


def route(topology: Topology, source: End, lid: int) -> Route:
    """Follow the forwarding tables from a port to a LID."""
    owner = topology.by_lid().get(lid)
    if owner is None:
        return Route((), f"LID {lid} belongs to nobody here")
    hops: list[Hop] = []
    node = topology.nodes[source.guid]
    if node.guid == owner.guid:
        return Route(())
    if not node.is_switch:
        port = topology.port(source)
        if port is None or port.peer is None:
            return Route((), f"{name_of(topology, source)}: no cable")
        hops.append(Hop(source, port.peer))
        node = topology.nodes[port.peer.guid]
    while node.guid != owner.guid:
        if not node.is_switch:
            return Route(tuple(hops), f"{node.name}: an adapter forwards nothing (LID {lid})")
        hop, error = _next(node, lid)
        if hop is None:
            return Route(tuple(hops), error or f"{node.name}: LID {lid} ends here")
        hops.append(hop)
        if len(hops) > MAX_ROUTE_HOPS:
            return Route(tuple(hops), f"loop on the way to LID {lid}")
        node = topology.nodes[hop.into.guid]
    return Route(tuple(hops))


def adapter_ports(topology: Topology, hosts: Sequence[str] | None = None) -> list[End]:
    """Return the live adapter ports, of these hosts in this order, or of all by name."""
    live = [
        (node, End(node.guid, number))
        for node in topology.adapters()
        for number, port in sorted(node.ports.items())
        if port.lid and port.peer is not None
    ]
    if hosts is None:
        return [end for _, end in sorted(live, key=lambda pair: (pair[0].name, pair[1]))]
    wanted = {name: place for place, name in enumerate(hosts)}
    chosen = [(wanted.get(node.host, wanted.get(node.name, -1)), end) for node, end in live]
    return [end for place, end in sorted(chosen) if place >= 0]


def all_to_all(topology: Topology, ends: Iterable[End]) -> Counter[End]:
    """Count the flows of all-to-all traffic that leave each port; one flow per ordered pair."""
    load: Counter[End] = Counter()
    ends = list(ends)
    entering: Counter[int] = Counter()  # sources by the switch that they enter
    entry: dict[End, End] = {}
    for end in ends:
        port = topology.port(end)
        if port is not None and port.peer is not None and port.lid:
            entry[end] = port.peer
            entering[port.peer.guid] += 1
            load[end] += len(ends) - 1
    for end in ends:
        port = topology.port(end)
        if end in entry and port is not None:
            own = entry[end].guid
            sources = entering.copy()
            sources[own] -= 1  # a port does not send to itself
            _add_tree(topology, sources, port.lid, load)
    return load


def _add_tree(topology: Topology, sources: Counter[int], lid: int, load: Counter[End]) -> None:
    """Add one destination's tree: every switch forwards what came in, nearest leaves first."""
    nexts: dict[int, Hop | None] = {}
    depth: dict[int, int] = {}
    for start in sources:
        chain: list[int] = []
        guid = start
        while guid not in depth and len(chain) <= MAX_ROUTE_HOPS:
            node = topology.nodes[guid]
            if not node.is_switch:
                depth[guid] = 0
                break
            chain.append(guid)
            hop = nexts.setdefault(guid, _next(node, lid)[0])
            if hop is None:
                depth[guid] = 0
                chain.pop()
                break
            guid = hop.into.guid
        base = depth.get(guid)
        if base is None:  # a loop: nothing of this arrives, and `route` names it
            continue
        for step, passed in enumerate(reversed(chain), 1):
            depth[passed] = base + step
    flows = Counter({guid: count for guid, count in sources.items() if count and guid in depth})
    for guid in sorted(depth, key=lambda g: -depth[g]):
        hop = nexts.get(guid)
        if hop is not None and flows[guid]:
            load[hop.out] += flows[guid]
            flows[hop.into.guid] += flows[guid]


def ring(topology: Topology, ends: Sequence[End]) -> Counter[End]:
    """Count the flows of a ring in this order: each port sends to the next."""
    return pairs(topology, zip(ends, [*ends[1:], *ends[:1]], strict=True))


def pairs(topology: Topology, flows: Iterable[tuple[End, End]]) -> Counter[End]:
    """Count the flows that leave each port for explicit (source, destination) pairs."""
    load: Counter[End] = Counter()
    for source, target in flows:
        port = topology.port(target)
        if port is None or not port.lid or source == target:
            continue
        found = route(topology, source, port.lid)
        if not found.error:
            load.update(hop.out for hop in found.hops)
    return load


def flows_through(
    topology: Topology, flows: Iterable[tuple[End, End]], out: End
) -> list[tuple[End, End]]:
    """Return the (source, destination) pairs whose route leaves by a port: who shares it."""
    found = []
    for source, target in flows:
        port = topology.port(target)
        if port is None or not port.lid or source == target:
            continue
        if any(hop.out == out for hop in route(topology, source, port.lid).hops):
            found.append((source, target))
    return found


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A switch-to-switch port that static routing loads far above its peers' mean."""

    out: End
    flows: int
    mean: float

    @property
    def ratio(self) -> float:
        """Load over mean of the ports between the same two tiers."""
        return self.flows / self.mean if self.mean else 0.0


def hot_spots(
    topology: Topology,
    load: Counter[End],
    tiers: dict[int, int],
    *,
    at_least: float = 1.5,
) -> list[HotSpot]:
    """Return the overloaded ports between switches, worst first.

    load: flows by out-port. tiers: switch GUID -> tier, 0 for leaves. Ports are compared with
    those between the same two tiers in the same direction, unloaded ones included.
    """
    groups: dict[tuple[int, int], list[End]] = {}
    for a, b in topology.links():
        for out, into in ((a, b), (b, a)):
            if out.guid in tiers and into.guid in tiers:
                groups.setdefault((tiers[out.guid], tiers[into.guid]), []).append(out)
    found = []
    for members in groups.values():
        mean = sum(load[end] for end in members) / len(members)
        found += [
            HotSpot(end, load[end], mean) for end in members if mean and load[end] > at_least * mean
        ]
    return sorted(found, key=lambda spot: -spot.ratio)
