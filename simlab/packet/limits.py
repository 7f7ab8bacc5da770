"""Bounds of every number that can be set, so that a wrong one is named before anything runs.

The engine computes with integers and checks nothing: a frame of 0 bytes or a negative buffer would
give numbers that look like results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collectors.model.ecmp_hash import HashSpec
from collectors.model.errors import ConfigInvalid
from simlab.packet.layout import ENTITY_MASK
from simlab.packet.parameters import Model, SwitchModel
from simlab.packet.topology import Topology
from simlab.packet.traffic import Traffic

LARGEST_FRAME = 0xFFFF  # what a packet's word holds, layout.SIZE_MASK
# An event's time and a timer that it starts must together stay below 35 s, what a key holds.
LONGEST_S = 17.0
MOST = 1e15  # of anything else: sums and products of such numbers still fit the engine's words
DRAIN = (1, MOST)  # or 0, as fast as the wire
RATE = (1e5, MOST)  # below, one large frame would take longer than a run
PRIORITY = (0, 7)
SHARE = (0, 1)
ALPHA = (0, 1e4)
MOST_WEIGHT = 4096
# Times are 0 to LONGEST_S, other numbers 0 to MOST; these have other bounds, (least, most),
# wherever the field occurs.
BOUNDS: dict[str, tuple[float, float]] = {
    "payload_bytes": (1, LARGEST_FRAME),
    "header_bytes": (0, LARGEST_FRAME),
    "ack_bytes": (1, LARGEST_FRAME),
    "cnp_bytes": (1, LARGEST_FRAME),
    "control_bytes": (1, LARGEST_FRAME),
    "ack_every": (1, MOST),
    "buffer_bytes": (1, 1 << 33),  # times an alpha in fixed point, below 2**63
    "alpha": ALPHA,
    "lossy_alpha": ALPHA,
    "egress_alpha": ALPHA,
    "rate_bps": RATE,
    "delay_s": (0, 1),
    "weights": (0, MOST_WEIGHT),
    "window_packets": (0, 1 << 23),  # half of the packet sequence numbers
    "headroom_delays": (0, 1e6),
    "headroom_packets": (0, 1e6),
    "seed": (0, 0xFFFFFFFF),
    "error_rate": SHARE,
    "g": SHARE,
    "initial_alpha": SHARE,
    "cut_gain": SHARE,
    "min_decrease_ratio": SHARE,
    "ack_priority": PRIORITY,
    "cnp_priority": PRIORITY,
    "lossless": PRIORITY,
    "unmanaged": PRIORITY,
    "strict": PRIORITY,
    "classes": PRIORITY,
    "priority": PRIORITY,
}


def check(topology: Topology, model: Model, traffic: Traffic) -> None:
    """Raise ConfigInvalid for whatever the engine must not be given."""
    check_topology(topology)
    check_model(model)
    check_places(topology, model)
    check_traffic(topology, traffic)


def check_bounds(record: Any, where: str) -> None:
    """Raise ConfigInvalid for the first number of a record, or of records in it, out of bounds."""
    if isinstance(record, SwitchModel):
        for priority in (*record.weights, *record.classes):
            _check_number(priority, PRIORITY, where, "priority of weights or classes")
        for priority, weight in record.weights.items():
            _check_number(weight, (1, MOST_WEIGHT), where, f"weights[{priority}]")
    if isinstance(record, HashSpec) and len({*record.fields}) != max(1, len(record.fields)):
        raise ConfigInvalid(where, "fields", "needs at least one field, and none of them twice")
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        for place, one in _values(value, field.name):
            if dataclasses.is_dataclass(one):
                check_bounds(one, f"{where}.{place}")
            elif isinstance(one, int | float) and not isinstance(one, bool):
                bounds = BOUNDS.get(field.name, (0, LONGEST_S if place.endswith("_s") else MOST))
                _check_number(one, bounds, where, place)
                if field.name in ("drain_bps", "slow") and one != 0:
                    _check_number(one, DRAIN, where, place)


def _values(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Give the value, or those that a tuple or mapping holds, each with its place."""
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key}]", one) for key, one in value.items())
    elif isinstance(value, tuple):
        yield from ((f"{name}[{index}]", one) for index, one in enumerate(value))
    else:
        yield name, value


def _check_number(value: float, bounds: tuple[float, float], where: str, what: str) -> None:
    least, most = bounds
    if not least <= value <= most:
        raise ConfigInvalid(where, what, f"{value!s:.24} is out of bounds: {least:g} to {most:g}")


def check_model(model: Model, where: str = "model") -> None:
    """Raise ConfigInvalid naming the first setting that is out of bounds."""
    check_bounds(model, where)
    frame = model.transport.payload_bytes + model.transport.header_bytes
    if frame > LARGEST_FRAME:
        what = "payload_bytes and header_bytes"
        raise ConfigInvalid(f"{where}.transport", what, f"{frame} is above {LARGEST_FRAME}")


def check_places(topology: Topology, model: Model) -> None:
    """Raise ConfigInvalid where the model says something of a place that the fabric has not."""
    ports = range(2 * len(topology.cables))
    switches, hosts = topology.switches, topology.hosts
    tiers = sorted({topology.tier[node] for node in switches} if topology.tier else {1})
    for name, given, known in (
        ("switches", model.switches, switches),
        ("ports", model.ports, ports),
        ("nics", model.nics, hosts),
        ("host.slow", model.host.slow, hosts),
        ("balancing.switches", model.balancing.switches, switches),
        ("balancing.weights", model.balancing.weights, ports),
        ("balancing.tiers", model.balancing.tiers, tiers),
    ):
        lost = given.keys() - {*known}
        if lost:
            why = f"not in the fabric {topology.name}: {_span(known)}"
            raise ConfigInvalid("model", f"{name}[{min(lost)}]", why)


def _span(known: Sequence[int]) -> str:
    return f"it has {known[0]}..{known[-1]}" if known else "it has none"


def check_topology(topology: Topology) -> None:
    """Raise ConfigInvalid unless every cable joins two nodes, one at least a switch, in bounds."""
    forwarding = set(topology.switches)
    cables = [0] * topology.node_count
    for number, cable in enumerate(topology.cables):
        where = f"{topology.name}: cable {number}"
        ends = (cable.a, cable.b)
        if not all(0 <= node < topology.node_count for node in ends) or cable.a == cable.b:
            raise ConfigInvalid(where, "ends", f"{cable.a} and {cable.b} are not two nodes")
        if not forwarding & set(ends):
            raise ConfigInvalid(where, "ends", f"{cable.a} and {cable.b} are both hosts")
        check_bounds(cable, where)
        for node in ends:
            cables[node] += 1
    for host in topology.hosts:
        if cables[host] != 1:
            why = f"has {cables[host]} cables; every host NIC is a node of its own with one"
            raise ConfigInvalid(topology.name, f"host {host}", why)


def check_traffic(topology: Topology, traffic: Traffic) -> None:
    """Raise ConfigInvalid where a connection or message does not fit the fabric."""
    hosts = set(topology.hosts)
    ports, pairs = 2 * len(topology.cables), len(traffic.connections)
    if 3 * ports + 2 + 2 * pairs > ENTITY_MASK:
        what = f"{pairs} queue pairs and {ports} ports exceed {ENTITY_MASK} events"
        raise ConfigInvalid(traffic.name, "size", what)
    for one in traffic.connections:
        for node in (one.src, one.dst):
            if node not in hosts:
                raise ConfigInvalid(traffic.name, "connection", f"node {node} is not a host")
        if one.src == one.dst:
            raise ConfigInvalid(traffic.name, "connection", f"host {one.src} sends to itself")
        if not 0 <= one.priority <= 7:
            raise ConfigInvalid(traffic.name, "connection", f"priority {one.priority} not in 0..7")
    if not traffic.messages:
        raise ConfigInvalid(traffic.name, "workload", "there is nothing to send")
    for message in traffic.messages:
        if not (1 <= message.size_bytes <= MOST and message.repeat >= 1):
            why = f"size and repeat must be at least 1, and the size at most {MOST:g} bytes"
            raise ConfigInvalid(traffic.name, "message", why)
        times = (message.start_s, message.delay_s, message.gate_delay_s)
        if not all(0 <= one <= LONGEST_S for one in times):
            why = f"starts and delays must be 0 to {LONGEST_S:g} s, not {max(times, key=abs):g}"
            raise ConfigInvalid(traffic.name, "message", why)
