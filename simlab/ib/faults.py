"""Traffic and planted faults as counter rates: what a lossless fabric's counters would show.

Flows get their max-min fair rates over their routes (progressive filling, Bertsekas & Gallager
6.5); a receiver that drains slowly is one more capacity. A link that is offered more than it
carries, without being full itself, waited for credits for the rest of the time: that share is
its transmit wait. It is a fluid in balance, without bursts: enough to say who waits for whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.codec import mad_perf
from collectors.infiniband.routes import route
from collectors.infiniband.topology import End, Topology
from collectors.model.errors import ConfigInvalid
from simlab.ib.script import Step

PACKET_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic from one adapter port to another, offering `bps`."""

    source: End
    target: End
    bps: float


@dataclass(slots=True)
class Carried:
    """What each out-port carries and waits, and each in-port receives; bit/s and shares."""

    tx_bps: dict[End, float] = field(default_factory=dict)
    rx_bps: dict[End, float] = field(default_factory=dict)
    wait_share: dict[End, float] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)


def settle(
    topology: Topology,
    flows: Sequence[Flow],
    *,
    drains: Mapping[End, float] | None = None,
) -> Carried:
    """Return the balance of the flows; drains: adapter port -> bit/s that its host takes.

    Raises ConfigInvalid for a flow without a route.
    """
    paths: list[list[End]] = []
    for flow in flows:
        port = topology.port(flow.target)
        found = route(topology, flow.source, port.lid if port else 0)
        if found.error:
            raise ConfigInvalid("flow", "route", found.error)
        paths.append([hop.out for hop in found.hops])
    capacity: dict[End, float] = {}
    for path in paths:
        for out in path:
            port = topology.port(out)
            capacity[out] = port.rate_bps if port else 0.0
    limits = dict(capacity)
    for end, bps in (drains or {}).items():
        peer = topology.port(end)
        if peer is not None and peer.peer is not None:
            limits[peer.peer] = min(limits.get(peer.peer, bps), bps)
    rates, held_at = _max_min(paths, [flow.bps for flow in flows], limits)
    return _account(topology, flows, paths, rates, held_at, capacity, limits)


def _max_min(
    paths: Sequence[Sequence[End]], wanted: Sequence[float], limits: Mapping[End, float]
) -> tuple[list[float], list[int]]:
    """Return rates, and the place on its path that holds each flow (past its end: none)."""
    rates = [0.0] * len(paths)
    held_at = [-1] * len(paths)
    open_ = set(range(len(paths)))
    left = dict(limits)
    users: dict[End, set[int]] = {}
    for number, path in enumerate(paths):
        for out in path:
            users.setdefault(out, set()).add(number)
    while open_:
        room = min((left[out] / len(users[out]) for out in users if users[out]), default=1e30)
        need = min(wanted[number] - rates[number] for number in open_)
        step = min(room, need)
        for number in open_:
            rates[number] += step
        for out, inside in users.items():
            left[out] -= step * len(inside)
        done = {n for n in open_ if wanted[n] - rates[n] <= 1e-6 * wanted[n]}
        full = [out for out, inside in users.items() if inside and left[out] <= 1e-6 * limits[out]]
        for out in full:
            done |= users[out]
            for number in users[out]:
                held_at[number] = max(held_at[number], paths[number].index(out))
        if not done:
            break
        open_ -= done
        for inside in users.values():
            inside.difference_update(done)
    return rates, held_at


def _account(
    topology: Topology,
    flows: Sequence[Flow],
    paths: Sequence[Sequence[End]],
    rates: Sequence[float],
    held_at: Sequence[int],
    capacity: Mapping[End, float],
    limits: Mapping[End, float],
) -> Carried:
    made = Carried(rates=list(rates))
    offered: dict[End, float] = {}
    for flow, path, rate, held in zip(flows, paths, rates, held_at, strict=True):
        for place, out in enumerate(path):
            made.tx_bps[out] = made.tx_bps.get(out, 0.0) + rate
            port = topology.port(out)
            if port is not None and port.peer is not None:
                made.rx_bps[port.peer] = made.rx_bps.get(port.peer, 0.0) + rate
            # before the place that holds the flow all that it offers queues up, behind it not
            offered[out] = offered.get(out, 0.0) + (flow.bps if place < held else rate)
    for out, carried in made.tx_bps.items():
        whole = capacity[out]
        full = carried >= 0.99 * whole
        shortfall = min(offered[out], whole) - carried
        if whole and not full and shortfall > 1e-3 * whole:
            made.wait_share[out] = min(shortfall / whole, 1.0)
    # what waits behind a narrow place waits there, too: the last port before a slow receiver
    for out, limit in limits.items():
        if limit < capacity.get(out, limit) and made.tx_bps.get(out, 0.0) >= 0.99 * limit:
            made.wait_share[out] = 1.0 - made.tx_bps[out] / capacity[out]
    return made


def steps(
    topology: Topology, carried: Carried, *, tick: int = mad_perf.DEFAULT_TICK, at_s: float = 0.0
) -> list[Step]:
    """Return the balance as counter rates of every port that it touches."""
    made = []
    for end in {*carried.tx_bps, *carried.rx_bps}:
        node, port = topology.nodes[end.guid], topology.nodes[end.guid].ports[end.port]
        tx, rx = carried.tx_bps.get(end, 0.0), carried.rx_bps.get(end, 0.0)
        values = {
            "PortXmitData": tx / 32,
            "PortRcvData": rx / 32,
            "PortXmitPkts": tx / 8 / PACKET_BYTES,
            "PortRcvPkts": rx / 8 / PACKET_BYTES,
        }
        share = carried.wait_share.get(end, 0.0)
        if share:
            values["PortXmitWait"] = share / mad_perf.tick_seconds(tick, port.rate_bps)
        made.append(Step(at_s, "rate", node.name, end.port, values=tuple(values.items())))
    return made


def add_rates(*lists: Iterable[Step]) -> list[Step]:
    """Return steps whose rates of one port are summed, so that several causes can be planted."""
    summed: dict[tuple[float, str, int], dict[str, float]] = {}
    for step in (step for one in lists for step in one):
        have = summed.setdefault((step.at_s, step.node, step.port), {})
        for name, value in step.values:
            have[name] = have.get(name, 0.0) + value
    return [
        Step(at_s, "rate", node, port, values=tuple(values.items()))
        for (at_s, node, port), values in summed.items()
    ]


def bad_cable(topology: Topology, end: End, *, errors_per_s: float = 50.0) -> list[Step]:
    """Return the error rates of a cable that damages what it carries, both ways."""
    port = topology.port(end)
    ends = [end] + ([port.peer] if port is not None and port.peer is not None else [])
    values = {
        "SymbolErrorCounter": errors_per_s,
        "PortRcvErrors": errors_per_s / 10,
        "LinkErrorRecoveryCounter": errors_per_s / 200,
    }
    return [
        Step(0.0, "rate", topology.nodes[e.guid].name, e.port, values=tuple(values.items()))
        for e in ends
    ]


def narrow(topology: Topology, end: End, width: int) -> None:
    """Let a cable come up with fewer lanes, at both ends."""
    port = topology.port(end)
    if port is None or port.peer is None:
        raise ConfigInvalid(str(end), "narrow", "no cable there")
    for one in (port, topology.port(port.peer)):
        if one is not None:
            one.width = width
