"""Who stalls whom: the wait-for graph of lossless flow control, and its roots.

One graph serves PFC and InfiniBand credits, because both say the same thing: this egress was not
allowed to send for a share of the time. An egress that is stalled waits for the device behind its
cable. That device stopped it for one of two reasons: a host does not drain what arrives (the
host is the root), or, in a switch, the egresses that the traffic leaves by are stalled themselves
(the blame goes on) or full (that egress is the root). Blame of an upstream egress is split over
the switch's stalled or busy egresses by how much each of them waits or carries; what comes to
rest at a root is its score (wait-for weights as in Hawkeye, SIGCOMM 2025). Where marks or
watermarks tell in which egress of a switch the bytes pile up, blame goes there.

A cycle of egresses that are stalled nearly all the time is a deadlock: none of them will drain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from collectors.model.entities import Entity, Host, Interface, Switch, Wire, host_of
from tuner.diagnosis.view import FabricView

MIN_STALL: Final = 0.005  # share of time below which an egress counts as free
BUSY: Final = 0.85  # of line rate: an egress that is full without being stalled
DEADLOCK: Final = 0.90  # every member of a cycle waits at least this share
PILED: Final = 0.5  # of the deepest queue of the switch: deep enough to be why it stops its peers
MODERATE: Final = 0.3  # of line rate: an egress with less is not full at any time that matters
_SHALLOW: Final = 0.05  # weight of an egress whose queue stays empty against the deepest
_STEEP: Final = 4  # how much likelier the more loaded of two egresses is to have been full
_MINOR: Final = 0.1  # of the likeliest exit's weight: less likely ones take no blame

RootKind: TypeAlias = Literal["slow_receiver", "congested_egress", "unknown"]


@dataclass(frozen=True, slots=True)
class Edge:
    """`waiting` is stalled because of `behind`. weight: share of time, split over causes."""

    waiting: Wire
    behind: Wire
    weight: float


@dataclass(frozen=True, slots=True)
class Root:
    """Where blame comes to rest.

    wire: the egress that is full, or for a slow receiver the host's own end of its cable. score:
    stalled share of time of all egresses that wait for it, weighted. victims: those egresses.
    """

    wire: Wire
    kind: RootKind
    score: float
    victims: tuple[Wire, ...]


@dataclass(frozen=True)
class StallGraph:
    """The graph of one priority or virtual lane."""

    stalled: Mapping[Wire, float]
    edges: tuple[Edge, ...]
    roots: tuple[Root, ...]
    cycles: tuple[tuple[Wire, ...], ...]
    _behind: Mapping[Wire, tuple[Edge, ...]] = field(default_factory=dict)

    def behind(self, wire: Wire) -> tuple[Edge, ...]:
        """Return what a stalled egress waits for."""
        return self._behind.get(wire, ())


def stall_graph(
    stalled: Mapping[Wire, float],
    busy: Mapping[Wire, float],
    fabric: FabricView,
    *,
    min_stall: float = MIN_STALL,
    depth: Mapping[Wire, float] | None = None,
) -> StallGraph:
    """Build the graph and find its roots, worst first.

    stalled: egress -> share of time in which it was not allowed to send (0 to 1). busy: egress ->
    load as a share of its rate; absent where unknown. depth: egress -> how deep its queue gets
    against the deepest of the same switch (0 to 1); None where queues are not known at all.
    """
    waiting = {wire: share for wire, share in stalled.items() if share >= min_stall}
    peers = [peer for wire in waiting if (peer := fabric.peer(wire)) is not None]
    exits = _exits({device_of(peer) for peer in peers}, waiting, busy, depth)
    behind: dict[Wire, tuple[Edge, ...]] = {}
    for wire, share in waiting.items():
        behind[wire] = tuple(_edges(wire, share, fabric, exits))
    blame: dict[Wire, float] = {}
    victims: dict[Wire, dict[Wire, None]] = {}
    kinds: dict[Wire, RootKind] = {}
    known: dict[Wire, dict[tuple[Wire, RootKind], float]] = {}
    for wire, share in waiting.items():
        for (root, kind), part in _rest(wire, behind, fabric, known).items():
            blame[root] = blame.get(root, 0.0) + share * part
            victims.setdefault(root, {})[wire] = None
            kinds[root] = kind
    roots = [
        Root(wire, kinds[wire], score, tuple(victims[wire]))
        for wire, score in sorted(blame.items(), key=lambda item: (-item[1], str(item[0])))
    ]
    edges = tuple(edge for edges in behind.values() for edge in edges)
    return StallGraph(waiting, edges, tuple(roots), _cycles(behind, waiting), behind)


def device_of(wire: Wire) -> Entity:
    """Return the switch or host that a wire's end belongs to."""
    if isinstance(wire, Interface):
        return wire.switch
    return Host(host_of(wire) or "")


def _exits(
    stopping: set[Entity],
    waiting: Mapping[Wire, float],
    busy: Mapping[Wire, float],
    depth: Mapping[Wire, float] | None,
) -> dict[Entity, dict[Wire, float]]:
    """Return by switch the egresses that may be why it stops its peers, with their weights."""
    if not stopping:
        return {}
    deep = depth or {}
    seen = {device_of(wire) for wire in deep}
    likely: dict[Entity, dict[Wire, float]] = {}
    spare: dict[Entity, dict[Wire, float]] = {}
    for wire in {**waiting, **busy}:
        device = device_of(wire)
        if not isinstance(device, Switch) or device not in stopping:
            continue
        piled = deep.get(wire, 0.0) if device in seen else 1.0
        stall, load = waiting.get(wire, 0.0), busy.get(wire, 0.0)
        full = load >= BUSY or (load >= MODERATE and device in seen and piled >= PILED)
        if stall or full:
            likely.setdefault(device, {})[wire] = (stall or load) * (piled + _SHALLOW)
        elif depth is not None and load >= MODERATE:
            spare.setdefault(device, {})[wire] = load**_STEEP
    # A switch of which no egress is known to be full was full for a moment: by its most loaded.
    return {**spare, **likely}


def _edges(
    wire: Wire,
    share: float,
    fabric: FabricView,
    exits: Mapping[Entity, Mapping[Wire, float]],
) -> Iterable[Edge]:
    far = fabric.peer(wire)
    if far is None:
        return
    device = device_of(far)
    if not isinstance(device, Switch):
        yield Edge(wire, far, share)
        return
    # Lossless traffic does not go back out of the port that it came in by.
    weights = {exit_: w for exit_, w in exits.get(device, {}).items() if exit_ != far}
    least = _MINOR * max(weights.values(), default=0.0)
    weights = {exit_: weight for exit_, weight in weights.items() if weight >= least}
    total = sum(weights.values())
    for exit_, weight in weights.items():
        yield Edge(wire, exit_, share * weight / total)


def _rest(
    wire: Wire,
    behind: Mapping[Wire, tuple[Edge, ...]],
    fabric: FabricView,
    known: dict[Wire, dict[tuple[Wire, RootKind], float]],
) -> dict[tuple[Wire, RootKind], float]:
    """Return the shares of one egress's blame by the roots on which it comes to rest.

    known: results so far; an egress that is still being followed has an empty one, so that a
    cycle, which has no root of its own, takes none of the blame.
    """
    if wire in known:
        return known[wire]
    known[wire] = {}
    edges = behind.get(wire, ())
    total = sum(edge.weight for edge in edges)
    rests: dict[tuple[Wire, RootKind], float] = {}
    if not total:
        # Nothing behind it is known: the blame stays with what its cable leads to.
        rests[fabric.peer(wire) or wire, "unknown"] = 1.0
    for edge in edges if total else ():
        part = edge.weight / total
        if not isinstance(device_of(edge.behind), Switch):
            found: Mapping[tuple[Wire, RootKind], float] = {(edge.behind, "slow_receiver"): 1.0}
        elif edge.behind in behind:
            found = _rest(edge.behind, behind, fabric, known)
        else:
            found = {(edge.behind, "congested_egress"): 1.0}
        for root, share in found.items():
            rests[root] = rests.get(root, 0.0) + part * share
    known[wire] = rests
    return rests


def _cycles(
    behind: Mapping[Wire, tuple[Edge, ...]], waiting: Mapping[Wire, float]
) -> tuple[tuple[Wire, ...], ...]:
    """Return the sets of egresses that wait for each other in a circle nearly all the time."""
    stuck = [wire for wire, share in waiting.items() if share >= DEADLOCK]
    place = {wire: number for number, wire in enumerate(stuck)}
    pairs = [
        (place[wire], place[edge.behind])
        for wire in stuck
        for edge in behind.get(wire, ())
        if edge.behind in place
    ]
    if not pairs:
        return ()
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, columns = zip(*pairs, strict=True)
    graph = coo_array(([1] * len(pairs), (rows, columns)), shape=(len(stuck), len(stuck)))
    _, labels = connected_components(graph, directed=True, connection="strong")
    members: dict[int, list[Wire]] = {}
    for wire, label in zip(stuck, labels, strict=True):
        members.setdefault(int(label), []).append(wire)
    return tuple(tuple(part) for part in members.values() if len(part) > 1)
