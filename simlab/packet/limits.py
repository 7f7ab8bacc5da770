"""Bounds of every number that can be set, so that a wrong one is named before anything runs.

The engine computes with integers and checks nothing: a frame of 0 bytes or a negative buffer would
give numbers that look like results.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from collectors.model.errors import ConfigInvalid
from simlab.packet.layout import ENTITY_MASK
from simlab.packet.parameters import Model, SwitchModel
from simlab.packet.topology import Topology
from simlab.packet.traffic import Traffic

LARGEST_FRAME = 0xFFFF  # what a packet's word holds, layout.SIZE_MASK
INFINITE = math.inf
PRIORITY = (0, 7)
SHARE = (0, 1)
# Numbers may be 0 or more; these have other bounds, (least, most), wherever the field occurs.
BOUNDS: dict[str, tuple[float, float]] = {
    "payload_bytes": (1, LARGEST_FRAME),
    "header_bytes": (0, LARGEST_FRAME),
    "ack_bytes": (1, LARGEST_FRAME),
    "cnp_bytes": (1, LARGEST_FRAME),
    "control_bytes": (1, LARGEST_FRAME),
    "ack_every": (1, INFINITE),
    "buffer_bytes": (1, INFINITE),
    "rate_bps": (1, INFINITE),
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
    check_traffic(topology, traffic)


def check_bounds(record: Any, where: str) -> None:
    """Raise ConfigInvalid for the first number of a record, or of records in it, out of bounds."""
    if isinstance(record, SwitchModel):
        for priority in (*record.weights, *record.classes):
            _check_number(priority, PRIORITY, where, "priority of weights or classes")
        for priority, weight in record.weights.items():
            _check_number(weight, (1, INFINITE), where, f"weights[{priority}]")
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        for place, one in _values(value, field.name):
            if dataclasses.is_dataclass(one):
                check_bounds(one, f"{where}.{place}")
            elif isinstance(one, int | float) and not isinstance(one, bool):
                _check_number(one, BOUNDS.get(field.name, (0, INFINITE)), where, place)


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
    if least <= value <= most and not math.isinf(value):
        return
    allowed = f"at least {least:g}" if most == INFINITE else f"{least:g} to {most:g}"
    raise ConfigInvalid(where, what, f"{value:g} is out of bounds: {allowed}")


def check_model(model: Model, where: str = "model") -> None:
    """Raise ConfigInvalid naming the first setting that is out of bounds."""
    check_bounds(model, where)
    frame = model.transport.payload_bytes + model.transport.header_bytes
    if frame > LARGEST_FRAME:
        what = "payload_bytes and header_bytes"
        raise ConfigInvalid(f"{where}.transport", what, f"{frame} is above {LARGEST_FRAME}")


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
        if message.size_bytes < 1 or message.repeat < 1:
            raise ConfigInvalid(traffic.name, "message", "size and repeat must be at least 1")
        if min(message.start_s, message.delay_s, message.gate_delay_s) < 0:
            raise ConfigInvalid(traffic.name, "message", "starts and delays must not be negative")
