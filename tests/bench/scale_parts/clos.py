"""A three-tier Clos fabric with eight rails: what is cabled to what, and how it is configured.

A pod is 32 hosts, 8 leaves (one a rail) and 8 spines; each leaf has 32 host ports and four
cables to each spine, each spine 32 cables up to the 48 cores of its plane. 96 pods are 3,072
hosts, 24,576 NIC ports and 1,920 switches with 122,880 interfaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from collectors.model.entities import Device, Interface, Netdev, Port, Slot, Switch, queue
from collectors.model.facts import Attribute, Facts, Gid, Neighbour, QueuePairFact, Setting

HOSTS_OF_POD: Final = 32
RAILS: Final = 8
SPINES: Final = 8
RADIX: Final = 64
LINE_BPS: Final = 400_000_000_000
LOSSLESS: Final = 3
DATA_DSCP: Final = 26
CNP_DSCP: Final = 48
_DSCP_TO_PRIORITY: Final = tuple({DATA_DSCP: LOSSLESS, CNP_DSCP: 6}.get(d, 0) for d in range(64))
_ON: Final = tuple(p == LOSSLESS for p in range(8))


@dataclass(frozen=True)
class Clos:
    """The fabric of a number of pods (even, so that every core port is in use)."""

    pods: int

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return self.pods * HOSTS_OF_POD

    def host(self, number: int) -> str:
        """Name of a host."""
        return f"node{number:05d}"

    def ports(self, number: int) -> list[Port]:
        """RDMA ports of a host, by rail."""
        host = self.host(number)
        return [
            Port(Device(host, f"{number:08x}{rail:08x}", f"mlx5_{rail}"), 1)
            for rail in range(RAILS)
        ]

    def netdevs(self, number: int) -> list[Netdev]:
        """Network interfaces of a host, by rail."""
        return [Netdev(self.host(number), f"eth{rail}") for rail in range(RAILS)]

    @cached_property
    def switches(self) -> list[Switch]:
        """All switches: leaves, spines, cores."""
        names = [
            *(f"leaf-{pod}-{n}" for pod in range(self.pods) for n in range(RAILS)),
            *(f"spine-{pod}-{n}" for pod in range(self.pods) for n in range(SPINES)),
            *(f"core-{n}" for n in range(SPINES * self.pods * 32 // RADIX)),
        ]
        return [Switch(name, name) for name in names]

    def tier(self, switch: Switch) -> int:
        """0 leaf, 1 spine, 2 core."""
        return ("leaf", "spine", "core").index(switch.key.partition("-")[0])

    def interfaces(self, switch: Switch) -> list[Interface]:
        """All 64 interfaces of a switch; the lower half looks down, at a core all of them."""
        return [Interface(switch, f"Ethernet{n}") for n in range(RADIX)]

    @cached_property
    def cables(self) -> dict[Interface, Interface | Netdev]:
        """Interface -> what it is cabled to, both ways among switches."""
        found: dict[Interface, Interface | Netdev] = {}

        def between(low: tuple[str, int], high: tuple[str, int]) -> None:
            a, b = (Interface(Switch(name, name), f"Ethernet{n}") for name, n in (low, high))
            found[a], found[b] = b, a

        half = RADIX // 2
        in_plane = self.pods * half // RADIX
        for pod in range(self.pods):
            for rail in range(RAILS):
                leaf = f"leaf-{pod}-{rail}"
                for place in range(HOSTS_OF_POD):
                    netdev = self.netdevs(pod * HOSTS_OF_POD + place)[rail]
                    found[Interface(Switch(leaf, leaf), f"Ethernet{place}")] = netdev
                for up in range(half):
                    spine = up % SPINES
                    port = rail * (half // SPINES) + up // SPINES
                    between((leaf, half + up), (f"spine-{pod}-{spine}", port))
            for spine in range(SPINES):
                for up in range(half):
                    number = pod * half + up
                    core = f"core-{spine * in_plane + number % in_plane}"
                    between((f"spine-{pod}-{spine}", half + up), (core, number // in_plane))
        return found

    @cached_property
    def _leaf_of(self) -> dict[Netdev, Interface]:
        return {far: near for near, far in self.cables.items() if isinstance(far, Netdev)}

    def leaf_port(self, netdev: Netdev) -> Interface:
        """Switch port that a host's interface hangs on."""
        return self._leaf_of[netdev]

    def host_facts(self, number: int) -> Facts:
        """What the agent of a host knows besides counters: four queue pairs a port among it."""
        settings: list[Setting] = []
        attributes: list[Attribute] = []
        gids, neighbours, pairs = [], [], []
        both = zip(self.ports(number), self.netdevs(number), strict=True)
        for rail, (port, netdev) in enumerate(both):
            mine = f"10.{rail}.{number >> 8}.{number & 255}"
            peer = (number + 1) % self.hosts
            other = f"10.{rail}.{peer >> 8}.{peer & 255}"
            sysfs = f"/sys/class/infiniband/mlx5_{rail}"
            settings += [
                Setting(netdev, name, value, "DCB")
                for name, value in (
                    ("mtu_bytes", 9000), ("pfc_priorities", _ON), ("trust", "dscp"),
                    ("dscp_to_priority", _DSCP_TO_PRIORITY),
                    ("priority_to_traffic_class", tuple(range(8))),
                    ("speed_bps", LINE_BPS), ("fec", "rs"), ("pause_rx_enabled", False),
                    ("pause_tx_enabled", False),
                )
            ]  # fmt: skip
            settings += [
                Setting(port, name, value, sysfs)
                for name, value in (
                    ("rdma_mtu_bytes", 4096), ("congestion_control", "dcqcn"),
                    ("dcqcn_rp_enabled", _ON), ("dcqcn_np_enabled", _ON),
                    ("cnp_dscp", CNP_DSCP), ("cnp_priority", 6), ("dcqcn_g", 1 / 256),
                    ("dcqcn_ai_bps", 5_000_000), ("dcqcn_hai_bps", 50_000_000),
                    ("dcqcn_cnp_interval_s", 4e-6), ("rdma_cm_tclass", DATA_DSCP << 2),
                )
            ]  # fmt: skip
            settings += [
                Setting(port.device, name, value, "PCIe")
                for name, value in (
                    ("pcie_speed_gtps", 32.0), ("pcie_speed_max_gtps", 32.0),
                    ("pcie_width_lanes", 16), ("pcie_width_max_lanes", 16),
                )
            ]  # fmt: skip
            attributes += [
                *(
                    Attribute(port.device, name, value)
                    for name, value in (
                        ("driver", "mlx5"), ("firmware", "28.39.1002"),
                        ("board_id", "MT_0000000838"), ("hca_type", "MT4129"),
                        ("node_guid", port.device.key), ("max_qp", 131072),
                    )
                ),
                Attribute(port, "link_layer", "Ethernet"),
                Attribute(port, "netdev", netdev.name),
                Attribute(netdev, "mac", f"020000{rail:02x}{number:04x}"),
            ]  # fmt: skip
            gids += [
                Gid(port, 0, f"fe80::{number:x}:{rail}", "RoCE v1", netdev.name),
                Gid(port, 1, f"fe80::{number:x}:{rail}", "RoCE v2", netdev.name),
                Gid(port, 2, f"::ffff:{mine}", "RoCE v1", netdev.name),
                Gid(port, 3, f"::ffff:{mine}", "RoCE v2", netdev.name),
            ]
            neighbours.append(Neighbour(netdev, self.leaf_port(netdev), "lldp"))
            pairs += [
                QueuePairFact(
                    port.device, 1, 0x100 + pair, 0x100 + pair, "RC", "RTS", 4000 + rail, "python3",
                    f"slurm-{number // 64}", mine, other, 49152 + (pair * 977 + number) % 16384,
                    DATA_DSCP << 2,
                )
                for pair in range(4)
            ]  # fmt: skip
        return Facts(
            tuple(settings), tuple(attributes), tuple(gids), tuple(neighbours), tuple(pairs)
        )

    def switch_facts(self, switch: Switch) -> Facts:
        """Configuration and neighbours of a switch."""
        settings = [
            Setting(switch, name, value, "running-config")
            for name, value in (
                ("dscp_to_traffic_class", _DSCP_TO_PRIORITY),
                ("traffic_class_to_queue", tuple(range(8))),
                ("ecmp_hash_seed", (0, 10, 25)[self.tier(switch)]),
                ("ecmp_hash_algorithm", "crc"), ("load_balancing", "static"),
                ("pfc_watchdog_detection_seconds", 0.2), ("pfc_watchdog_action", "drop"),
            )
        ]  # fmt: skip
        neighbours = []
        for interface in self.interfaces(switch):
            settings += [
                Setting(interface, name, value, "gNMI")
                for name, value in (
                    ("mtu_bytes", 9000),
                    ("speed_bps", LINE_BPS), ("pfc_priorities", _ON), ("trust", "dscp"),
                    ("fec", "rs"), ("pfc_watchdog_enabled", True),
                )
            ]  # fmt: skip
            egress = queue(interface, LOSSLESS)
            settings += [
                Setting(egress, name, value, "gNMI")
                for name, value in (
                    ("ecn_enabled", True), ("kmin_bytes", 800_000), ("kmax_bytes", 3_200_000),
                    ("pmax_ratio", 0.1),
                )
            ]  # fmt: skip
            settings += [
                Setting(Slot(interface, "priority_group", LOSSLESS), name, value, "gNMI")
                for name, value in (("xoff_bytes", 300_000), ("buffer_alpha", 0.125))
            ]
            far = self.cables.get(interface)
            if far is not None:
                neighbours.append(Neighbour(interface, far, "lldp"))
        attributes = (
            Attribute(switch, "system_name", switch.name),
            Attribute(switch, "platform", "x64-400g"),
            Attribute(switch, "software", "4.30.1F"),
        )
        return Facts(tuple(settings), attributes, (), tuple(neighbours))
