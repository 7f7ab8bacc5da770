"""A small hardware RoCE fabric set right: what the audit's tests take one thing of away."""

from __future__ import annotations

import copy

from collectors.model.catalogue import rdma
from collectors.model.entities import (
    Device,
    Interface,
    Netdev,
    Port,
    QueuePair,
    Slot,
    Switch,
    queue,
)
from collectors.model.facts import Attribute, Gid, Neighbour, QueuePairFact
from tests.tuner.fake import FakeTelemetry
from tuner.diagnosis.audit.registry import AUDIT
from tuner.diagnosis.diagnose import diagnose
from tuner.fabric.graph import build_fabric

BY_ID = {rule.id: rule for rule in AUDIT}
ON = tuple(p == 3 for p in range(8))
TABLE = tuple({26: 3, 48: 6}.get(d, 0) for d in range(64))
FIELDS = ("src_ip", "dst_ip", "ip_protocol", "l4_src_port", "l4_dst_port")
SEEDS = {"leaf": 0, "spine": 10, "core": 25}
ALGORITHMS = {"leaf": "crc_32lo", "spine": "xor", "core": "crc_ccitt"}


class AuditTelemetry(FakeTelemetry):
    """Facts of hosts and switches; GIDs and queue pairs included."""

    def __init__(self):
        super().__init__()
        self.table, self.pairs = {}, []

    def gids(self, port):
        return self.table.get(port, ())

    def queue_pairs(self):
        return self.pairs

    def known_entities(self):
        return [*self.known, *self.set_to]


class Clos:
    """Two pods of two leaves and two spines, two cores; two hosts with two rails a leaf pair."""

    def __init__(self):
        self.telemetry = AuditTelemetry()
        self.hosts = [f"h{n}" for n in range(8)]
        for pod in range(2):
            for number in range(4):
                self._host(pod * 4 + number, pod, number)
            for leaf in range(2):
                for spine in range(2):
                    self._cable(
                        (f"leaf{pod}{leaf}", f"up{spine}"), (f"spine{pod}{spine}", f"down{leaf}")
                    )
            for spine in range(2):
                for core in range(2):
                    self._cable(
                        (f"spine{pod}{spine}", f"up{core}"), (f"core{core}", f"p{pod}{spine}")
                    )
        for switch in {e.switch for e in list(self.telemetry.set_to) if isinstance(e, Interface)}:
            tier = switch.name.rstrip("0123456789")
            self.telemetry.known[switch] = {"platform": Attribute(switch, "platform", "x64")}
            for name, value in (
                ("ecmp_hash_seed", SEEDS[tier]), ("ecmp_hash_algorithm", ALGORITHMS[tier]),
                ("ecmp_hash_fields", FIELDS),
                ("dscp_to_traffic_class", TABLE),
            ):  # fmt: skip
                self.telemetry.put(switch, name, value)

    def port(self, number, rail=0):
        return Port(Device(f"h{number}", f"{number:08x}{rail:08x}", f"mlx5_{rail}"), 1)

    def netdev(self, number, rail=0):
        return Netdev(f"h{number}", f"eth{rail}")

    def leaf_port(self, number, rail=0):
        return interface(f"leaf{number // 4}{rail}", f"h{number % 4}")

    @property
    def fabric(self):
        return build_fabric(self.telemetry)

    def judge(self, rule_id):
        rule, seen = BY_ID[rule_id], copy.copy(self.telemetry)
        return next(v for v in diagnose(seen, build_fabric(seen), [rule]).verdicts)

    def findings(self, rule_id):
        return self.judge(rule_id).findings

    def job(self, number, **variables):
        pair = QueuePairFact(
            self.port(number).device, 1, 5, 7, pid=9, job="slurm-1",
            local_address=f"10.0.0.{number}", remote_address=f"10.0.0.{(number + 1) % 8}",
            udp_source_port=50000 + number, tclass=104,
        )  # fmt: skip
        self.telemetry.pairs.append(pair)
        words = tuple(f"{name}={value}" for name, value in variables.items())
        self.telemetry.put(QueuePair(pair.device, 5), "job_environment", words)

    def _host(self, number, pod, place):
        telemetry = self.telemetry
        for rail in range(2):
            port, netdev = self.port(number, rail), self.netdev(number, rail)
            telemetry.see(rdma.STATE, port, 4)
            telemetry.see(rdma.RATE, port, 400e9 / 8)
            telemetry.known[port.device] = {
                "driver": Attribute(port.device, "driver", "mlx5"),
                "firmware": Attribute(port.device, "firmware", "28.39.1002"),
            }
            telemetry.known[port] = {
                "netdev": Attribute(port, "netdev", netdev.name),
                "link_layer": Attribute(port, "link_layer", "Ethernet"),
            }
            for name, value in (
                ("pfc_priorities", ON), ("trust", "dscp"), ("dscp_to_priority", TABLE),
                ("mtu_bytes", 9000), ("speed_bps", 400_000_000_000), ("fec", "rs"),
                ("pause_rx_enabled", False), ("pause_tx_enabled", False),
            ):  # fmt: skip
                telemetry.put(netdev, name, value)
            for name, value in (
                ("roce_dscp", 26), ("cnp_dscp", 48), ("rdma_mtu_bytes", 4096),
                ("dcqcn_rp_enabled", ON), ("dcqcn_np_enabled", ON), ("dcqcn_ai_bps", 5_000_000),
            ):  # fmt: skip
                telemetry.put(port, name, value)
            telemetry.table[port] = (
                Gid(port, 1, "fe80::1", "RoCE v2"),
                Gid(port, 3, f"::ffff:10.0.{rail}.{number}", "RoCE v2"),
            )
            self._cable((f"leaf{pod}{rail}", f"h{place}"), None, netdev)

    def _cable(self, low, high, netdev=None):
        a = interface(*low)
        b = netdev or interface(*high)
        self.telemetry.cables += [Neighbour(a, b, "lldp"), Neighbour(b, a, "lldp")]
        for end in (a, b):
            if isinstance(end, Interface):
                self._switch_port(end)

    def _switch_port(self, port):
        for place, name, value in (
            (port, "pfc_priorities", ON), (port, "trust", "dscp"), (port, "mtu_bytes", 9000),
            (port, "speed_bps", 400_000_000_000), (port, "fec", "rs"),
            (port, "pause_rx_enabled", False), (port, "pause_tx_enabled", False),
            (port, "pfc_watchdog_enabled", True), (queue(port, 3), "ecn_enabled", True),
            (queue(port, 3), "kmin_bytes", 400_000),
            (Slot(port, "priority_group", 3), "xoff_bytes", 300_000),
        ):  # fmt: skip
            self.telemetry.put(place, name, value)


def interface(switch, name):
    return Interface(Switch(switch, switch), name)
