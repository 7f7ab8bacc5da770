"""From datagrams to the vocabulary: readings of ports, lanes and levels; links and inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from collectors.codec import mad_perf
from collectors.infiniband.counters import Capability, Swept
from collectors.infiniband.discovery import Miss
from collectors.infiniband.routes import adapter_ports, all_to_all
from collectors.infiniband.tiers import check_tree, infer_rails, infer_tiers
from collectors.infiniband.topology import End, IbPort, Node, Topology
from collectors.model.catalogue import infiniband as rows
from collectors.model.catalogue import rdma
from collectors.model.catalogue.registry import CATALOGUE, columns
from collectors.model.entities import Device, Entity, Slot, SlotKind, Switch
from collectors.model.facts import Attribute, Neighbour
from collectors.model.metric import Column, Metric
from collectors.model.reading import Instant, Reading

When = Callable[[End], Instant]

# Rate of one lane as the kernel reckons a port's rate (drivers/infiniband/core/sysfs.c)
_KERNEL_LANE_BPS: Final[Mapping[str, float]] = {
    "SDR": 2.5e9,
    "DDR": 5e9,
    "QDR": 10e9,
    "FDR10": 10e9,
    "FDR": 14e9,
    "EDR": 25e9,
    "HDR": 50e9,
    "NDR": 100e9,
    "XDR": 200e9,
}


def _column(metric: Metric, via: str) -> Column:
    source = next(source for source in metric.sources if source.via == via)
    return metric.column(source)


_STATE: Final = _column(rdma.STATE, "mad")
_PHYSICAL: Final = _column(rdma.PHYSICAL_STATE, "mad")
_RATE: Final = _column(rdma.RATE, "mad")
_LANES: Final = _column(rows.LANES, "mad")
_DATA_RATE: Final = _column(rows.DATA_RATE, "derived")
_TICK: Final = _column(rows.WAIT_TICK, "derived")
_ROUTE_LOAD: Final = _column(rows.ROUTE_LOAD, "derived")


def _tables() -> dict[
    str, tuple[tuple[tuple[str, Column], ...], tuple[tuple[str, Column, SlotKind], ...]]
]:
    """Return attribute -> (fields of the port, fields with one value per slot)."""
    known = columns("mad")
    made = {}
    for layout in mad_perf.LAYOUTS:
        plain: list[tuple[str, Column]] = []
        slotted: list[tuple[str, Column, SlotKind]] = []
        for field in layout.fields:
            column = known.get(f"{layout.name}.{field.name}")
            if column is None:
                continue
            if field.count == 1:
                plain.append((field.name, column))
            else:
                kind = CATALOGUE[column.metric].on[0]
                slotted.append((field.name, column, kind))  # type: ignore[arg-type]
        made[layout.name] = (tuple(plain), tuple(slotted))
    return made


_TABLES: Final = _tables()


def tick_of(port: IbPort, known: Capability | None) -> float:
    """Return the length of a transmit-wait tick of a port in seconds, 0 where it is unknown."""
    tick = known.tick if known is not None and known.tick is not None else mad_perf.DEFAULT_TICK
    return mad_perf.tick_seconds(tick, port.rate_bps)


def port_readings(
    topology: Topology, capabilities: Mapping[int, Capability], when: Instant
) -> Iterator[Reading]:
    """Return state, width and rate of every port that was seen."""
    for node in topology.nodes.values():
        for number, port in node.ports.items():
            if number == 0:
                continue
            values: dict[Column, int | float] = {_STATE: port.state, _PHYSICAL: port.physical}
            lane = _KERNEL_LANE_BPS.get(port.speed)
            if port.is_up and port.width:
                values[_LANES] = port.width
            if port.is_up and port.width and lane:
                values[_RATE] = round(port.width * lane / 8)
                values[_DATA_RATE] = round(port.rate_bps)
                values[_TICK] = tick_of(port, capabilities.get(node.lid_of(number)))
            yield Reading(node.entity(number), values, when)


def counter_readings(topology: Topology, swept: Swept, when: When) -> Iterator[Reading]:
    """Return the counters of a sweep; each port at the time at which its own came.

    Lanes and levels that never counted anything are left out, but for the first: it shows that
    the device counts them at all. Most are not in use, and there may be 15 on each port.
    """
    for end, attributes in swept.ports.items():
        entity = topology.nodes[end.guid].entity(end.port)
        instant = when(end)
        values: dict[Column, int | float] = {}
        slots: dict[tuple[SlotKind, int], dict[Column, int | float]] = {}
        for name, fields in attributes.items():
            plain, slotted = _TABLES[name]
            values |= {column: fields[field] for field, column in plain if field in fields}
            _add_slots(slots, slotted, fields)
        yield Reading(entity, values, instant)
        for (kind, index), counted in slots.items():
            yield Reading(Slot(entity, kind, index), counted, instant)


def _add_slots(
    slots: dict[tuple[SlotKind, int], dict[Column, int | float]],
    slotted: Sequence[tuple[str, Column, SlotKind]],
    fields: Mapping[str, Any],
) -> None:
    for field, column, kind in slotted:
        for index, value in enumerate(fields.get(field, ())):
            if value or index == 0:
                slots.setdefault((kind, index), {})[column] = value


def data_lanes(code: int) -> int:
    """Return the number of data VLs of an OperationalVLs code: 1, 2, 4, 8, 15."""
    return {1: 1, 2: 2, 3: 4, 4: 8, 5: 15}.get(code, 0)


def route_load_readings(topology: Topology, when: Instant) -> Iterator[Reading]:
    """Return the flows that static routing would send out of each port, all adapters to all."""
    load = all_to_all(topology, adapter_ports(topology))
    for a, b in topology.links():
        for end in (a, b):
            node = topology.nodes[end.guid]
            if node.lft or not node.is_switch:
                yield Reading(node.entity(end.port), {_ROUTE_LOAD: load[end]}, when)


def neighbours(topology: Topology) -> tuple[Neighbour, ...]:
    """Return the cables."""
    return tuple(
        Neighbour(
            topology.nodes[a.guid].entity(a.port), topology.nodes[b.guid].entity(b.port), "ib"
        )
        for a, b in topology.links()
        if a.guid in topology.nodes and b.guid in topology.nodes
    )


def attributes(topology: Topology) -> tuple[Attribute, ...]:
    """Return inventory: GUIDs, kinds, LIDs, tiers, rails, and what breaks the tree's pattern."""
    tiers, rails = infer_tiers(topology), infer_rails(topology)
    made: list[Attribute] = []
    for node in topology.nodes.values():
        thing = thing_of(node)
        made += [
            Attribute(thing, "node_guid", f"{node.guid:016x}"),
            Attribute(thing, "node_type", node.kind if node.is_switch else "CA"),
            Attribute(thing, "sys_image_guid", f"{node.system_guid:016x}"),
        ]
        if node.guid in tiers:
            made.append(Attribute(thing, "ib_tier", tiers[node.guid]))
        made += [
            Attribute(node.entity(number) if number else thing, "lid", port.lid)
            for number, port in node.ports.items()
            if port.lid and (number == 0 or not node.is_switch)
        ]
        made += [
            Attribute(node.entity(number), "ib_port_guid", f"{port.guid:016x}")
            for number, port in node.ports.items()
            if port.guid and not node.is_switch
        ]
    made += [
        Attribute(topology.nodes[end.guid].entity(end.port), "ib_rail", rail)
        for end, rail in rails.items()
    ]
    by_name = {node.name: thing_of(node) for node in topology.nodes.values()}
    for oddity in check_tree(topology, tiers, rails):
        name = oddity.where.split(" - ")[0].rpartition("/")[0] or oddity.where
        place = by_name.get(oddity.where) or by_name.get(name)
        if place is not None:
            made.append(Attribute(place, "ib_oddity", f"{oddity.what}: {oddity.detail}"))
    return tuple(made)


def thing_of(node: Node) -> Switch | Device:
    """Return the vocabulary's word for a node."""
    key = f"{node.guid:016x}"
    return Switch(key, node.name) if node.is_switch else Device(node.host, key, node.device_name)


def subject_of(topology: Topology, miss: Miss) -> Entity | str:
    """Return the entity that could not be read, the text where nobody knows which it is."""
    node = topology.nodes.get(miss.end.guid) if miss.end else None
    if node is None or miss.end is None:
        return miss.subject
    return thing_of(node) if miss.end.port < 0 else node.entity(miss.end.port)
