"""Settings and links of simulated switches, in the product's vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.model.entities import Interface, Slot, Switch
from collectors.model.facts import Attribute, Facts, Neighbour, Setting
from simlab.packet.build_ports import headroom, thresholds_at
from simlab.packet.parameters import Spread, SwitchModel
from simlab.packet.telemetry import Telemetry
from simlab.packet.traffic import DATA_PRIORITY

WHERE = "simulation"
TIERS = {1: "ToRRouter", 2: "LeafRouter", 3: "SpineRouter"}
DATA_DSCP = 26
CNP_DSCP = 48
SWITCH_MTU = 9100
DSCP_TO_CLASS = tuple(dscp >> 3 for dscp in range(64))  # the class selectors' own mapping
_SPREADS = {Spread.ECMP: "static", Spread.FLOWLET: "flowlet", Spread.SPRAY: "per_packet"}
_STEPS = 15  # IBTA A10.2: marking thresholds from the largest share of the buffer, 1, down


def dscp_of(priority: int) -> int:
    """Return the DSCP by which hosts and switches know a priority here."""
    return {DATA_PRIORITY: DATA_DSCP, 6: CNP_DSCP}.get(priority, priority << 3)


def switch_facts(telemetry: Telemetry) -> Facts:
    """Return what whoever polls all switches knows of them."""
    sim = telemetry.sim
    names = telemetry.names
    settings: list[Setting] = []
    attributes: list[Attribute] = []
    neighbours: list[Neighbour] = []
    forwarding = set(sim.topology.switches)
    ethernet = sim.model.infiniband is None
    ports = sim.topology.ports_of()
    for node in sim.topology.switches:
        entity = names.switch(node)
        tier = sim.topology.tier[node] if sim.topology.tier else 1
        attributes += [
            Attribute(entity, "system_name", entity.name),
            Attribute(entity, "chassis_id", entity.key),
            Attribute(entity, "platform", TIERS.get(tier, "")),
        ]
        if ethernet:
            settings += _whole(telemetry, node, tier, entity)
        else:
            attributes.append(Attribute(entity, "ib_tier", tier - 1))
            settings += _infiniband(telemetry, entity)
        for port in ports[node]:
            interface = names.interface(port)
            if ethernet:
                settings += _interface(telemetry, node, port, interface)
            peer = sim.topology.peer(port)
            how = "lldp" if ethernet else "ib"
            if peer in forwarding:
                neighbours.append(Neighbour(interface, names.interface(port ^ 1), how))
            elif ethernet:
                neighbours.append(Neighbour(interface, names.netdev(peer), how))
    return Facts(tuple(settings), tuple(attributes), neighbours=tuple(neighbours))


def _whole(telemetry: Telemetry, node: int, tier: int, entity: Switch) -> Iterator[Setting]:
    balancing = telemetry.sim.model.balancing
    spec = balancing.spec_at(node, tier)
    words = " ".join(field.value for field in spec.fields)
    switch = telemetry.sim.model.switch_at(node)
    yield Setting(entity, "pool_size_bytes", switch.buffer_bytes, WHERE)
    yield Setting(entity, "load_balancing", _SPREADS.get(balancing.spread, "adaptive"), WHERE)
    yield Setting(entity, "ecmp_hash_algorithm", spec.algorithm.value, WHERE)
    yield Setting(entity, "ecmp_hash_seed", spec.seed, WHERE)
    yield Setting(entity, "ecmp_hash_fields", words, WHERE)
    yield Setting(entity, "ecmp_hash_offset", spec.rotate, WHERE)


def _infiniband(telemetry: Telemetry, entity: Switch) -> Iterator[Setting]:
    link = telemetry.sim.model.infiniband
    marks = 0.0 if link is None else link.threshold_bytes / link.credits_bytes
    code = min(_STEPS, max(1, round(16 - 16 * marks))) if marks else 0
    yield Setting(entity, "ib_cc_supported", True, WHERE)
    yield Setting(entity, "ib_cc_threshold", code, WHERE)
    yield Setting(entity, "ib_cc_marking_rate", link.marking_rate if link else 0, WHERE)


def _interface(
    telemetry: Telemetry, node: int, port: int, interface: Interface
) -> Iterator[Setting]:
    sim = telemetry.sim
    switch = sim.model.switch_at(node, port)
    lossless = tuple(switch.pfc and p in switch.lossless for p in range(8))
    table = tuple(switch.classes.get(p, p) for p in DSCP_TO_CLASS)
    yield Setting(interface, "pfc_priorities", lossless, WHERE)
    yield Setting(interface, "speed_bps", sim.topology.cables[port // 2].rate_bps, WHERE)
    yield Setting(interface, "mtu_bytes", switch.mtu_bytes or SWITCH_MTU, WHERE)
    yield Setting(interface, "trust", "dscp", WHERE)
    yield Setting(interface, "dscp_to_traffic_class", table, WHERE)
    yield Setting(interface, "fec", "rs", WHERE)
    yield Setting(interface, "admin_enabled", True, WHERE)
    yield Setting(interface, "pfc_watchdog_enabled", switch.watchdog_s > 0, WHERE)
    if switch.watchdog_s > 0:
        yield Setting(interface, "pfc_watchdog_detection_seconds", switch.watchdog_s, WHERE)
    yield from _queues(telemetry, port, interface, switch)


def _queues(
    telemetry: Telemetry, port: int, interface: Interface, switch: SwitchModel
) -> Iterator[Setting]:
    sim = telemetry.sim
    cable = sim.topology.cables[port // 2]
    packet = sim.model.transport.payload_bytes + sim.model.transport.header_bytes
    limits = thresholds_at(switch.ecn, cable.rate_bps)
    for index in sorted({DATA_PRIORITY, *switch.lossless}):
        queue = Slot(interface, "queue", index)
        yield Setting(queue, "ecn_enabled", limits is not None, WHERE)
        if limits is not None:
            yield Setting(queue, "kmin_bytes", limits.kmin_bytes, WHERE)
            yield Setting(queue, "kmax_bytes", limits.kmax_bytes, WHERE)
            yield Setting(queue, "pmax_ratio", limits.pmax_ratio, WHERE)
    for index in switch.lossless if switch.pfc else ():
        group = Slot(interface, "priority_group", index)
        room = headroom(switch, cable.rate_bps, cable.delay_s, packet)
        yield Setting(group, "xoff_bytes", room, WHERE)
        yield Setting(group, "xon_offset_bytes", switch.xon_offset_bytes, WHERE)
        yield Setting(group, "reserved_buffer_bytes", switch.reserved_bytes, WHERE)
        if switch.xoff_bytes is None:
            yield Setting(group, "buffer_alpha", switch.alpha, WHERE)
        else:
            yield Setting(group, "pause_threshold_bytes", switch.xoff_bytes, WHERE)
