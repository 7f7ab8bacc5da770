"""Settings, links and queue pairs of simulated hosts, in the product's vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

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
from simlab.packet.parameters import Form
from simlab.packet.routing import host_address
from simlab.packet.simulation import Simulation
from simlab.packet.telemetry import POLLER, AgentPass, Telemetry
from simlab.packet.telemetry_names import Names
from simlab.packet.telemetry_switch_facts import DSCP_TO_CLASS, WHERE, dscp_of, switch_facts
from simlab.packet.traffic import DATA_PRIORITY

PCIE_GTPS = 32.0
PCIE_LANES = 16
HOST_MTU = 9100


def fact_passes(telemetry: Telemetry) -> Iterator[AgentPass]:
    """Yield the facts of every collector; they do not change while links stay up."""
    now = telemetry.when().at_ns
    for one in _passes(telemetry):
        yield replace(one, at_ns=now)


def _passes(telemetry: Telemetry) -> Iterator[AgentPass]:
    names = telemetry.names
    sim = telemetry.sim
    for host, nodes in names.hosts.items():
        yield AgentPass(host, "sysfs", Pass(facts=_devices(sim, names, nodes)))
        if sim.model.infiniband is None:
            yield AgentPass(host, "congestion_control", Pass(facts=_congestion(sim, names, nodes)))
            yield AgentPass(host, "dcb", Pass(facts=_dcb(sim, names, nodes)))
            yield AgentPass(host, "netdev", Pass(facts=_netdevs(sim, names, nodes)))
        yield AgentPass(host, "lldp", Pass(facts=_links(sim, names, nodes)))
        yield AgentPass(host, "queue_pairs", Pass(facts=_queue_pairs(sim, names, set(nodes))))
    yield AgentPass(POLLER, "config_db", Pass(facts=switch_facts(telemetry)))


def _address(node: int) -> str:
    number = host_address(node)
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _devices(sim: Simulation, names: Names, nodes: list[int]) -> Facts:
    attributes = []
    gids = []
    settings = []
    infiniband = sim.model.infiniband is not None
    for node in nodes:
        port = names.port(node)
        layer = "InfiniBand" if infiniband else "Ethernet"
        attributes += [
            Attribute(port.device, "driver", "mlx5"),
            Attribute(port.device, "node_guid", port.device.key),
            Attribute(port, "driver", "mlx5"),
            Attribute(port, "link_layer", layer),
        ]
        if not infiniband:
            attributes.append(Attribute(port, "netdev", names.netdev(node).name))
        mapped = f"::ffff:{_address(node)}"
        gids.append(Gid(port, 0, mapped, "IB" if infiniband else "RoCE v2", f"eth{node}"))
        settings += [
            Setting(port, "rdma_mtu_bytes", sim.model.transport.payload_bytes, WHERE),
            Setting(port.device, "pcie_speed_gtps", PCIE_GTPS, WHERE),
            Setting(port.device, "pcie_speed_max_gtps", PCIE_GTPS, WHERE),
            Setting(port.device, "pcie_width_lanes", PCIE_LANES, WHERE),
            Setting(port.device, "pcie_width_max_lanes", PCIE_LANES, WHERE),
        ]
    return Facts(settings=tuple(settings), attributes=tuple(attributes), gids=tuple(gids))


def _congestion(sim: Simulation, names: Names, nodes: list[int]) -> Facts:
    settings = []
    for node in nodes:
        port = names.port(node)
        nic = sim.model.nic_at(node)
        control = sim.model.congestion_at(node)
        everywhere = sim.model.congestion.form is not Form.OFF
        on = control.form is not Form.OFF
        settings += [
            Setting(port, "congestion_control", "dcqcn" if on or everywhere else "off", WHERE),
            Setting(port, "dcqcn_rp_enabled", (on,) * 8, WHERE),
            Setting(port, "dcqcn_np_enabled", (nic.sends_cnps and everywhere,) * 8, WHERE),
            Setting(port, "cnp_priority", sim.model.transport.cnp_priority, WHERE),
            Setting(port, "cnp_dscp", dscp_of(sim.model.transport.cnp_priority), WHERE),
            Setting(port, "roce_dscp", dscp_of(_data_priority(sim, node)), WHERE),
            Setting(port, "roce_ecn_codepoint", 2 if nic.ecn_capable else 0, WHERE),
        ]
        if on:
            for field in fields(control.dcqcn):
                value: Scalar | None = getattr(control.dcqcn, field.name)
                off = 0 if value is None else value
                settings.append(Setting(port, f"dcqcn_{field.name}", off, WHERE))
    return Facts(settings=tuple(settings))


def _data_priority(sim: Simulation, node: int) -> int:
    used = [one.priority for one in sim.traffic.connections if one.src == node]
    return max(set(used), key=used.count) if used else DATA_PRIORITY


def _dcb(sim: Simulation, names: Names, nodes: list[int]) -> Facts:
    switch = sim.model.switch
    settings = []
    for node in nodes:
        on = switch.pfc and sim.model.nic_at(node).pfc
        lossless = tuple(on and p in switch.lossless for p in range(8))
        netdev = names.netdev(node)
        settings += [
            Setting(netdev, "pfc_priorities", lossless, WHERE),
            Setting(netdev, "trust", "dscp", WHERE),
            Setting(netdev, "dscp_to_priority", DSCP_TO_CLASS, WHERE),
        ]
    return Facts(settings=tuple(settings))


def _netdevs(sim: Simulation, names: Names, nodes: list[int]) -> Facts:
    settings = []
    attributes = []
    for node in nodes:
        netdev = names.netdev(node)
        port = sim.state.nics[node]
        settings += [
            Setting(netdev, "mtu_bytes", sim.model.nic_at(node).mtu_bytes or HOST_MTU, WHERE),
            Setting(netdev, "speed_bps", sim.topology.cables[port // 2].rate_bps, WHERE),
            Setting(netdev, "pause_rx_enabled", False, WHERE),
            Setting(netdev, "pause_tx_enabled", False, WHERE),
            Setting(netdev, "fec", "rs", WHERE),
        ]
        mac = f"02:01:00:00:{node >> 8:02x}:{node & 255:02x}"
        attributes += [
            Attribute(netdev, "driver", "mlx5"),
            Attribute(netdev, "mac", mac),
            Attribute(netdev, "address", (_address(node),)),
        ]
    return Facts(settings=tuple(settings), attributes=tuple(attributes))


def _links(sim: Simulation, names: Names, nodes: list[int]) -> Facts:
    found = []
    how = "lldp" if sim.model.infiniband is None else "ib"
    for node in nodes:
        port = sim.state.nics[node]
        local = names.netdev(node) if how == "lldp" else names.port(node)
        found.append(Neighbour(local, names.interface(port ^ 1), how))
    return Facts(neighbours=tuple(found))


def _queue_pairs(sim: Simulation, names: Names, nodes: set[int]) -> Facts:
    """Return the queue pairs of both ends: an agent cannot tell who of the two sends."""
    pairs = []
    for one in sim.traffic.connections:
        ends = ((one.src, one.src_qp), (one.dst, one.dst_qp))
        for (here, own), (there, other) in (ends, ends[::-1]):
            if here not in nodes:
                continue
            pairs.append(
                QueuePairFact(
                    names.device(here), 1, own, other, "RC", "RTS",
                    job=sim.traffic.name, local_address=_address(here),
                    remote_address=_address(there), udp_source_port=one.sport,
                    tclass=dscp_of(one.priority) << 2,
                )
            )  # fmt: skip
    return Facts(queue_pairs=tuple(pairs))
