"""Settings, links and queue pairs of a simulated fabric, in the product's vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from collectors.model.entities import Slot
from collectors.model.facts import (
    Attribute,
    Facts,
    Gid,
    Neighbour,
    QueuePairFact,
    Scalar,
    Setting,
)
from collectors.model.reading import Pass
from simlab.packet.build_ports import headroom, thresholds_at
from simlab.packet.parameters import Form, Spread
from simlab.packet.routing import host_address
from simlab.packet.telemetry import AgentPass, Names, Telemetry

WHERE = "simulation"
TIERS = {1: "ToRRouter", 2: "LeafRouter", 3: "SpineRouter"}
DATA_DSCP = 26
CNP_DSCP = 48


def fact_passes(telemetry: Telemetry) -> Iterator[AgentPass]:
    """Yield the facts of every collector; they do not change while links stay up."""
    now = telemetry.when().at_ns
    for one in _passes(telemetry):
        yield replace(one, at_ns=now)


def _passes(telemetry: Telemetry) -> Iterator[AgentPass]:
    names = telemetry.names
    sim = telemetry.sim
    by_host: dict[str, list[int]] = {}
    for node in sim.topology.hosts:
        by_host.setdefault(names.host(node), []).append(node)
    for host, nodes in by_host.items():
        yield AgentPass(host, "sysfs", Pass(facts=_devices(names, nodes)))
        if sim.model.infiniband is None:
            yield AgentPass(host, "congestion_control", Pass(facts=_congestion(names, nodes)))
            yield AgentPass(host, "dcb", Pass(facts=_dcb(names, nodes)))
            yield AgentPass(host, "netdev", Pass(facts=_netdevs(names, nodes)))
        yield AgentPass(host, "lldp", Pass(facts=_links(names, nodes)))
        yield AgentPass(host, "queue_pairs", Pass(facts=_queue_pairs(names, set(nodes))))
    yield AgentPass("switch-poller", "config_db", Pass(facts=_switches(telemetry)))


def _address(node: int) -> str:
    number = host_address(node)
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _devices(names: Names, nodes: list[int]) -> Facts:
    attributes = []
    gids = []
    infiniband = names.sim.model.infiniband is not None
    for node in nodes:
        port = names.port(node)
        layer = "InfiniBand" if infiniband else "Ethernet"
        attributes += [
            Attribute(port.device, "driver", "mlx5"),
            Attribute(port.device, "node_guid", port.device.key),
            Attribute(port, "driver", "mlx5"),
            Attribute(port, "link_layer", layer),
            Attribute(port, "netdev", names.netdev(node).name),
        ]
        mapped = f"::ffff:{_address(node)}"
        gids.append(Gid(port, 0, mapped, "IB" if infiniband else "RoCE v2", f"eth{node}"))
    return Facts(attributes=tuple(attributes), gids=tuple(gids))


def _congestion(names: Names, nodes: list[int]) -> Facts:
    control = names.sim.model.congestion
    settings = []
    on = control.form is not Form.OFF
    for node in nodes:
        port = names.port(node)
        settings += [
            Setting(port, "congestion_control", "dcqcn" if on else "off", WHERE),
            Setting(port, "dcqcn_rp_enabled", (on,) * 8, WHERE),
            Setting(port, "dcqcn_np_enabled", (on,) * 8, WHERE),
            Setting(port, "cnp_priority", names.sim.model.transport.cnp_priority, WHERE),
            Setting(port, "cnp_dscp", CNP_DSCP, WHERE),
            Setting(port, "roce_dscp", DATA_DSCP, WHERE),
        ]
        if on:
            for field in fields(control.dcqcn):
                value: Scalar | None = getattr(control.dcqcn, field.name)
                off = 0 if value is None else value
                settings.append(Setting(port, f"dcqcn_{field.name}", off, WHERE))
    return Facts(settings=tuple(settings))


def _dcb(names: Names, nodes: list[int]) -> Facts:
    switch = names.sim.model.switch
    lossless = tuple(switch.pfc and p in switch.lossless for p in range(8))
    settings = [Setting(names.netdev(n), "pfc_priorities", lossless, WHERE) for n in nodes]
    return Facts(settings=tuple(settings))


def _netdevs(names: Names, nodes: list[int]) -> Facts:
    settings = []
    attributes = []
    for node in nodes:
        netdev = names.netdev(node)
        port = names.sim.state.nics[node]
        payload = names.sim.model.transport.payload_bytes
        settings += [
            Setting(netdev, "mtu_bytes", 9000 if payload > 1024 else 1500, WHERE),
            Setting(netdev, "speed_bps", names.sim.topology.cables[port // 2].rate_bps, WHERE),
        ]
        mac = f"02:01:00:00:{node >> 8:02x}:{node & 255:02x}"
        attributes += [
            Attribute(netdev, "driver", "mlx5"),
            Attribute(netdev, "mac", mac),
            Attribute(netdev, "address", (_address(node),)),
        ]
    return Facts(settings=tuple(settings), attributes=tuple(attributes))


def _links(names: Names, nodes: list[int]) -> Facts:
    found = []
    how = "lldp" if names.sim.model.infiniband is None else "ib"
    for node in nodes:
        port = names.sim.state.nics[node]
        local = names.netdev(node) if how == "lldp" else names.port(node)
        found.append(Neighbour(local, names.interface(port ^ 1), how))
    return Facts(neighbours=tuple(found))


def _queue_pairs(names: Names, nodes: set[int]) -> Facts:
    pairs = tuple(
        QueuePairFact(
            names.device(one.src), 1, one.src_qp, one.dst_qp, "RC", "RTS",
            job=names.sim.traffic.name, local_address=_address(one.src),
            remote_address=_address(one.dst), udp_source_port=one.sport, tclass=DATA_DSCP << 2,
        )
        for one in names.sim.traffic.connections
        if one.src in nodes
    )  # fmt: skip
    return Facts(queue_pairs=pairs)


def _switches(telemetry: Telemetry) -> Facts:
    sim = telemetry.sim
    names = telemetry.names
    switch = sim.model.switch
    settings: list[Setting] = []
    attributes = []
    neighbours = []
    lossless = tuple(switch.pfc and p in switch.lossless for p in range(8))
    forwarding = set(sim.topology.switches)
    ports = sim.topology.ports_of()
    packet = sim.model.transport.payload_bytes + sim.model.transport.header_bytes
    for node in sim.topology.switches:
        entity = names.switch(node)
        tier = sim.topology.tier[node] if sim.topology.tier else 1
        attributes += [
            Attribute(entity, "system_name", entity.name),
            Attribute(entity, "chassis_id", entity.key),
            Attribute(entity, "platform", TIERS.get(tier, "")),
        ]
        spread = sim.model.balancing.spread
        static = "static" if spread is Spread.ECMP else spread.value
        settings += [
            Setting(entity, "pool_size_bytes", switch.buffer_bytes, WHERE),
            Setting(entity, "load_balancing", static, WHERE),
            Setting(entity, "ecmp_hash_algorithm", sim.model.balancing.hash.algorithm.value, WHERE),
        ]
        for port in ports[node]:
            interface = names.interface(port)
            cable = sim.topology.cables[port // 2]
            settings += [
                Setting(interface, "pfc_priorities", lossless, WHERE),
                Setting(interface, "speed_bps", cable.rate_bps, WHERE),
            ]
            settings += _queue_settings(telemetry, port, cable.delay_s, packet)
            if sim.topology.peer(port) in forwarding:
                neighbours.append(Neighbour(interface, names.interface(port ^ 1), "lldp"))
            elif sim.model.infiniband is None:
                remote = names.netdev(sim.topology.peer(port))
                neighbours.append(Neighbour(interface, remote, "lldp"))
    return Facts(tuple(settings), tuple(attributes), neighbours=tuple(neighbours))


def _queue_settings(
    telemetry: Telemetry, port: int, delay_s: float, packet: int
) -> Iterator[Setting]:
    switch = telemetry.sim.model.switch
    interface = telemetry.names.interface(port)
    rate = telemetry.sim.topology.cables[port // 2].rate_bps
    entry = thresholds_at(switch.ecn, rate)
    for index in switch.lossless:
        queue = Slot(interface, "queue", index)
        yield Setting(queue, "ecn_enabled", entry is not None, WHERE)
        if entry is not None:
            scale = rate / entry.rate_bps
            yield Setting(queue, "kmin_bytes", entry.thresholds.kmin_bytes * scale, WHERE)
            yield Setting(queue, "kmax_bytes", entry.thresholds.kmax_bytes * scale, WHERE)
            yield Setting(queue, "pmax_ratio", entry.thresholds.pmax_ratio, WHERE)
        group = Slot(interface, "priority_group", index)
        yield Setting(group, "xoff_bytes", headroom(switch, rate, delay_s, packet), WHERE)
        yield Setting(group, "xon_offset_bytes", switch.xon_offset_bytes, WHERE)
        if switch.xoff_bytes is None:
            yield Setting(group, "buffer_alpha", switch.alpha, WHERE)
        else:
            yield Setting(group, "pause_threshold_bytes", switch.xoff_bytes, WHERE)
