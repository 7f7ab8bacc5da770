"""What kind of tree it is: tiers and rails of a fabric, and where the cabling breaks the rule."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from collectors.infiniband.topology import End, Node, Topology, name_of

TIER_NAMES = {0: "leaf", 1: "spine", 2: "core"}


def infer_tiers(topology: Topology) -> dict[int, int]:
    """Return switch GUID -> tier: 0 where hosts plug in, then by distance from those.

    SHARP's aggregation nodes are no hosts. A switch that leads to no host has no tier.
    """
    tiers: dict[int, int] = {}
    for node in topology.switches():
        peers = (port.peer for port in node.ports.values() if port.peer)
        neighbours = (topology.nodes.get(peer.guid) for peer in peers)
        if any(n is not None and not n.is_switch and not n.is_aggregation for n in neighbours):
            tiers[node.guid] = 0
    queue = deque(tiers)
    while queue:
        guid = queue.popleft()
        for port in topology.nodes[guid].ports.values():
            if port.peer is None or port.peer.guid in tiers:
                continue
            neighbour = topology.nodes.get(port.peer.guid)
            if neighbour is not None and neighbour.is_switch:
                tiers[neighbour.guid] = tiers[guid] + 1
                queue.append(neighbour.guid)
    return tiers


def infer_rails(topology: Topology) -> dict[End, int]:
    """Return adapter port -> rail: its place among the ports of its host, in device order.

    Empty where no host has more than one port.
    """
    hosts: dict[str, list[tuple[str, End]]] = {}
    for node in topology.adapters():
        for number, port in node.ports.items():
            if port.peer is not None:
                hosts.setdefault(node.host, []).append((node.device_name, End(node.guid, number)))
    if not any(len(ends) > 1 for ends in hosts.values()):
        return {}
    return {
        end: rail
        for ends in hosts.values()
        for rail, (_, end) in enumerate(sorted(ends, key=_device_order))
    }


def _device_order(item: tuple[str, End]) -> tuple[int, str, End]:
    """Sort mlx5_2 before mlx5_10."""
    name, end = item
    digits = name.rstrip("0123456789")
    number = name[len(digits) :]
    return (int(number) if number else 0, digits, end)


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something that breaks the pattern of the tree. where: name of the node or port."""

    what: Literal[
        "links missing", "unequal up and down", "on another rail", "reduced rate", "no uplink"
    ]
    where: str
    detail: str


def check_tree(
    topology: Topology, tiers: Mapping[int, int], rails: Mapping[End, int]
) -> list[Oddity]:
    """Return what breaks the pattern that most of the fabric follows.

    The pattern is the most common value among like switches, so that a fabric that was built
    oversubscribed is not reported as broken, only what differs within it.
    """
    odd: list[Oddity] = []
    down: dict[int, float] = {}
    up: dict[int, float] = {}
    uplinks: dict[int, Counter[int]] = {}
    for out, into in (ends for a, b in topology.links() for ends in ((a, b), (b, a))):
        tier = tiers.get(out.guid)
        far = topology.nodes.get(into.guid)
        if tier is None or far is None or far.is_aggregation:
            continue
        port = topology.port(out)
        rate = port.rate_bps if port else 0.0
        if far.is_switch and tiers.get(into.guid, -1) > tier:
            up[out.guid] = up.get(out.guid, 0.0) + rate
            uplinks.setdefault(out.guid, Counter())[into.guid] += 1
        elif tiers.get(into.guid, -1) < tier:
            down[out.guid] = down.get(out.guid, 0.0) + rate
    odd += _uneven_links(topology, tiers, uplinks)
    odd += _uneven_rates(topology, tiers, up, down)
    odd += _wrong_rails(topology, rails)
    odd += _reduced(topology, tiers)
    return odd


def _groups(tiers: Mapping[int, int], topology: Topology) -> dict[tuple[int, int], list[Node]]:
    """Group like switches: the same tier and the same number of ports."""
    groups: dict[tuple[int, int], list[Node]] = {}
    for guid, tier in tiers.items():
        node = topology.nodes[guid]
        groups.setdefault((tier, node.port_count), []).append(node)
    return groups


def _uneven_links(
    topology: Topology, tiers: Mapping[int, int], uplinks: Mapping[int, Counter[int]]
) -> list[Oddity]:
    odd = []
    for (tier, _), members in _groups(tiers, topology).items():
        totals = Counter(sum(uplinks.get(n.guid, Counter()).values()) for n in members)
        usual, _ = totals.most_common(1)[0]
        for node in members:
            have = sum(uplinks.get(node.guid, Counter()).values())
            if have < usual:
                what: Literal["no uplink", "links missing"] = (
                    "links missing" if have else "no uplink"
                )
                detail = f"{have} uplinks, its like have {usual}"
                odd.append(Oddity(what, node.name, f"{TIER_NAMES.get(tier, tier)}: {detail}"))
    return odd


def _uneven_rates(
    topology: Topology,
    tiers: Mapping[int, int],
    up: Mapping[int, float],
    down: Mapping[int, float],
) -> list[Oddity]:
    odd = []
    for members in _groups(tiers, topology).values():
        ratios = {
            node.guid: round(down.get(node.guid, 0.0) / up[node.guid], 2)
            for node in members
            if up.get(node.guid)
        }
        if not ratios:
            continue
        usual, _ = Counter(ratios.values()).most_common(1)[0]
        odd += [
            Oddity(
                "unequal up and down",
                topology.nodes[guid].name,
                f"{down.get(guid, 0) / 1e9:.0f} Gb/s down, {up[guid] / 1e9:.0f} Gb/s up: "
                f"{ratio:g}:1, its like have {usual:g}:1",
            )
            for guid, ratio in ratios.items()
            if ratio > usual * 1.05
        ]
    return odd


def _wrong_rails(topology: Topology, rails: Mapping[End, int]) -> list[Oddity]:
    by_leaf: dict[int, list[tuple[End, int]]] = {}
    for end, rail in rails.items():
        port = topology.port(end)
        if port is not None and port.peer is not None:
            by_leaf.setdefault(port.peer.guid, []).append((end, rail))
    # Rails mean something only where leaves are mostly of one rail.
    pure = sum(len({r for _, r in ends}) == 1 for ends in by_leaf.values())
    if not by_leaf or pure * 2 < len(by_leaf):
        return []
    odd = []
    for leaf, ends in by_leaf.items():
        usual, count = Counter(rail for _, rail in ends).most_common(1)[0]
        if count * 2 <= len(ends):
            continue
        odd += [
            Oddity(
                "on another rail",
                name_of(topology, end),
                f"rail {rail} is plugged into {topology.nodes[leaf].name}, a leaf of rail {usual}",
            )
            for end, rail in ends
            if rail != usual
        ]
    return odd


def _reduced(topology: Topology, tiers: Mapping[int, int]) -> list[Oddity]:
    """Return the cables that are slower than most between the same kinds of node."""
    groups: dict[tuple[int, int], list[tuple[End, End, float, str]]] = {}
    for a, b in topology.links():
        port = topology.port(a)
        if port is None or not port.rate_bps:
            continue
        if any(topology.nodes[e.guid].is_aggregation for e in (a, b) if e.guid in topology.nodes):
            continue
        key = sorted((tiers.get(a.guid, -1), tiers.get(b.guid, -1)))
        groups.setdefault((key[0], key[1]), []).append((a, b, port.rate_bps, port.label))
    odd = []
    for links in groups.values():
        usual, count = Counter(label for *_, label in links).most_common(1)[0]
        if count * 2 <= len(links):
            continue
        best = next(rate for *_, rate, label in links if label == usual)
        odd += [
            Oddity(
                "reduced rate",
                f"{name_of(topology, a)} - {name_of(topology, b)}",
                f"{label}, its like have {usual}",
            )
            for a, b, rate, label in links
            if rate < best
        ]
    return odd
