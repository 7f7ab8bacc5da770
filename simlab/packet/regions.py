"""Regions of a large fabric: a leaf with its hosts, or some switches, whose events share a tree.

Nothing that happens in a region can change another one sooner than a packet takes through the
cable between them. For so long each region's events go on by themselves, one region after the
other, in what the caches hold (conservative windows: Lubachevsky, CACM 32(1), 1989). Regions draw
random numbers of their own; apart from these, results are those of one tree for all events.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simlab.packet import layout as at
from simlab.packet.parameters import Model
from simlab.packet.picoseconds import ps
from simlab.packet.topology import Topology
from simlab.packet.traffic import Traffic

Ints = NDArray[np.int64]
LARGE = 4096  # entities with which everything stays in the second-level cache anyway
LEAST_WINDOW = 200_000  # ps; below, going from region to region costs more than it saves


@dataclass(frozen=True, slots=True)
class Regions:
    """The region of every node. Cables lead from the first `even` regions to the others only.

    Where there is no such order, `even` is the count. `window` (ps) is the least time from one
    region to another; `block`, a power of two, how many entities a region has room for.
    """

    of_node: Ints
    count: int
    even: int
    window: int
    block: int


@dataclass(frozen=True, slots=True)
class Entities:
    """The number of every entity: by directed port, by QP slot, and of the common events."""

    arrival: Ints
    departure: Ints
    pause_timer: Ints
    qp: Ints  # its pacing; its timer is the next number
    start: int  # of planned posts; the sampling of queues is the next number
    first_qp: Ints  # by region
    leaves: int
    roots: int


def divide(topology: Topology, model: Model, traffic: Traffic) -> Regions:
    """Cut a large fabric into regions; a small or tightly coupled one is a single region.

    Flows share QP slots, lost InfiniBand packets give credit back to the far end at once, and a
    message may be told to wait for one of another leaf: these couple more tightly than cables.
    """
    entities = 6 * len(topology.cables) + 2 * len(traffic.connections)
    nowhere = np.zeros(topology.node_count, dtype=np.int64)
    whole = Regions(nowhere, count=1, even=1, window=0, block=_power(entities + 2))
    if entities <= LARGE or traffic.flows or model.infiniband is not None:
        return whole
    heads = _heads(topology)
    sizes = _sizes(topology, traffic, heads)
    block = _power(max(sizes.values()))
    of_node, even = _packed(topology, heads, sizes, block)
    count = int(of_node.max()) + 1
    gaps = [ps(c.delay_s) for c in topology.cables if of_node[c.a] != of_node[c.b]]
    for message in traffic.messages:  # regions run up to two windows at a time
        delays = (ps(delay) for delay in (message.delay_s, message.gate_delay_s))
        gaps += [(delay - 1) // 2 for delay in delays if delay > 0]
    window = min(gaps, default=0)
    fits = _power(count + 1) * block <= at.ENTITY_MASK
    if count == 1 or window < LEAST_WINDOW or not fits or not _waits_are_local(of_node, traffic):
        return whole
    return Regions(of_node, count, even, window, block)


def _power(least: int) -> int:
    """Return the first power of two that is not below `least`, and at least 2."""
    return 1 << max(1, (least - 1).bit_length())


def _heads(topology: Topology) -> list[int]:
    """Return for every node its switch: a switch itself, a host the one at its cable."""
    heads = list(range(topology.node_count))
    ports = topology.ports_of()
    for host in topology.hosts:
        heads[host] = topology.peer(ports[host][0])
    return heads


def _sizes(topology: Topology, traffic: Traffic, heads: list[int]) -> Counter[int]:
    """Return how many entities belong to every head."""
    sizes: Counter[int] = Counter()
    for cable in topology.cables:
        sizes[heads[cable.a]] += 3
        sizes[heads[cable.b]] += 3
    for one in traffic.connections:
        sizes[heads[one.src]] += 2
    return sizes


def _packed(
    topology: Topology, heads: list[int], sizes: Counter[int], block: int
) -> tuple[Ints, int]:
    """Number heads with hosts, pack the others up to `block`; even regions first."""
    odd = _odd(topology, heads)
    busy = {heads[host] for host in topology.hosts}
    region: dict[int, int] = {}
    number = even = 0
    for side in (0, 1):
        room = 0
        for head in sorted(sizes, key=lambda head: (head not in busy, head)):
            if (head in odd) != side:
                continue
            if head in busy or sizes[head] > room:
                number, room = number + 1, 0 if head in busy else block
            room -= sizes[head]
            region[head] = number - 1
        even = number if side == 0 else even
    return np.array([region[head] for head in heads], dtype=np.int64), even


def _odd(topology: Topology, heads: list[int]) -> set[int]:
    """Return the heads an odd number of cables from the first; none where that is ambiguous."""
    near = defaultdict(set)
    for cable in topology.cables:
        a, b = heads[cable.a], heads[cable.b]
        if a != b:
            near[a].add(b)
            near[b].add(a)
    odd: dict[int, bool] = {}
    for start in sorted(near):
        waiting = [] if start in odd else [start]
        odd.setdefault(start, False)
        while waiting:
            head = waiting.pop()
            fresh = [other for other in near[head] if other not in odd]
            odd |= dict.fromkeys(fresh, not odd[head])
            waiting += fresh
    if any(odd[head] == odd[other] for head, others in near.items() for other in others):
        return set()
    return {head for head, is_odd in odd.items() if is_odd}


def _waits_are_local(of_node: Ints, traffic: Traffic) -> bool:
    """Tell whether every message waits only for messages that arrive in its sender's region."""
    ends = [traffic.connections[message.connection] for message in traffic.messages]
    return all(
        of_node[ends[other].dst] == of_node[end.src]
        for message, end in zip(traffic.messages, ends, strict=True)
        for other in (*message.after, *message.gates)
    )


def number_entities(topology: Topology, traffic: Traffic, regions: Regions) -> Entities:
    """Number all entities region by region: ports, then QPs; in one region common events between.

    At the same time the lower number comes first, so that the order does not depend on regions.
    """
    ends = np.array([topology.end(port) for port in range(2 * len(topology.cables))], np.int64)
    own = regions.of_node[ends]
    came = own[np.arange(len(own)) ^ 1]  # where the link of a port ends
    sources = np.array([one.src for one in traffic.connections], dtype=np.int64)
    source = regions.of_node[sources]
    base = regions.block * np.arange(regions.count)
    ports = np.bincount(own, minlength=regions.count)
    whole = regions.count == 1
    first_qp = base + 3 * ports + 2 * int(whole)
    roots = 1 if whole else _power(regions.count + 1)
    return Entities(
        arrival=base[came] + _ranks(came),
        departure=base[own] + ports[own] + _ranks(own),
        pause_timer=base[own] + 2 * ports[own] + _ranks(own),
        qp=first_qp[source] + 2 * _ranks(source),
        start=3 * len(own) if whole else regions.count * regions.block,
        first_qp=first_qp,
        leaves=roots * regions.block,
        roots=roots,
    )


def _ranks(groups: Ints) -> Ints:
    """Return for every element how many before it have the same value."""
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], groups[order])
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(groups)) - starts
    return ranks
