"""The lab's truth: counters as the kernel's own tools show them, apart from the agents' reading.

`rdma statistic` per device, /proc/net/dev_snmp6 and `ip -s link` per host interface, `tc -s
qdisc` per switch port. One shell script reads all of it; parsing is pure.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from simlab.rxe.fabric import SWITCH

_MARK = "=====lab====="
# The order of the parts is the order in which parse_counters takes them.
SNAPSHOT = f"\necho {_MARK}\n".join(
    [
        "date +%s.%N",
        "rdma -j statistic show",
        "grep -s . /proc/net/dev_snmp6/h[1-8] || true",
        "ip -s -j link show type veth",
        f"tc -n {SWITCH} -s -d -j qdisc show",
        f"ip -n {SWITCH} -s -j link show type veth",
    ]
)

# What a reliable connection counts when it has to send again, at either end.
RETRANSMISSION = (
    "completer_retry_err",
    "rcvd_seq_err",
    "rcvd_rnr_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
)


class LabCountersError(ValueError):
    """The text of a kernel tool is not what it should be; the message says which."""


class PortState(Struct, frozen=True):
    """A switch port's egress queue: settings, and counters of packets from the port's view.

    Bytes and packets are what left the queue; drops and marks are RED's. `rx_*` and `tx_*` are
    the interface's own. A limit that is None is not configured.
    """

    mtu_bytes: int
    rate_bps: int | None = None
    limit_bytes: int | None = None
    kmin_bytes: int | None = None
    kmax_bytes: int | None = None
    pmax_ratio: float | None = None
    ecn: bool | None = None
    bytes: int = 0
    packets: int = 0
    drops: int = 0
    marked: int = 0
    backlog_bytes: int = 0
    rx_packets: int = 0
    tx_packets: int = 0
    rx_drops: int = 0
    tx_drops: int = 0


class Counters(Struct, frozen=True):
    """Everything at one moment; rdma, ip6 and netdev by host, ports by switch port."""

    wall_s: float
    rdma: dict[str, dict[str, int]]
    ip6: dict[str, dict[str, int]]
    netdev: dict[str, dict[str, int]]
    ports: dict[str, PortState]


def parse_counters(text: str) -> Counters:
    """Parse the output of SNAPSHOT. Raises LabCountersError naming the part that is wrong."""
    parts = text.split(f"{_MARK}\n")
    if len(parts) != 6:
        raise LabCountersError(f"snapshot has {len(parts)} parts instead of 6")
    wall, rdma, snmp6, links, qdiscs, switch_links = parts
    try:
        return Counters(
            wall_s=float(wall),
            rdma=parse_rdma_statistic(rdma),
            ip6=parse_dev_snmp6(snmp6),
            netdev={name: _netdev(link) for name, link in _links(links) if name.startswith("h")},
            ports=parse_ports(qdiscs, switch_links),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabCountersError(f"snapshot: {type(error).__name__}: {error}") from error


def parse_rdma_statistic(text: str) -> dict[str, dict[str, int]]:
    """Parse `rdma -j statistic show`: counters by host (device rxe_hN belongs to hN)."""
    return {
        row["ifname"].removeprefix("rxe_"): {
            key: value for key, value in row.items() if key not in {"ifname", "port"}
        }
        for row in json.loads(text or "[]")
    }


def parse_dev_snmp6(text: str) -> dict[str, dict[str, int]]:
    """Parse lines `…/dev_snmp6/hN:Name value` of grep."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        path, _, row = line.partition(":")
        fields = row.split()
        if len(fields) == 2:
            found.setdefault(path.rpartition("/")[2], {})[fields[0]] = int(fields[1])
    return found


def parse_ports(qdiscs: str, links: str) -> dict[str, PortState]:
    """Parse `tc -s -d -j qdisc` and `ip -s -j link` of the switch: state by port pN."""
    ports = {
        name: {"mtu_bytes": link["mtu"], **_netdev(link)}
        for name, link in _links(links)
        if name.startswith("p")
    }
    for row in json.loads(qdiscs or "[]"):
        port, options = ports.get(row.get("dev", "")), row.get("options", {})
        if port is None:
            continue
        if row["kind"] == "tbf":
            port["rate_bps"] = options["rate"] * 8
        elif row["kind"] == "red":
            port |= {
                "limit_bytes": options["limit"],
                "kmin_bytes": options["min"],
                "kmax_bytes": options["max"],
                "pmax_ratio": options.get("probability"),
                "ecn": bool(options.get("ecn")),
                "bytes": row["bytes"],
                "packets": row["packets"],
                "drops": row["drops"],
                "marked": row["marked"],
                "backlog_bytes": row["backlog"],
            }
    return {name: msgspec.convert(port, PortState) for name, port in sorted(ports.items())}


def since(before: Counters, after: Counters) -> Counters:
    """Return what was counted between two moments; settings and backlog are the later ones."""

    def less(old: dict[str, dict[str, int]], new: dict[str, dict[str, int]]) -> Any:
        return {
            host: {key: value - old.get(host, {}).get(key, 0) for key, value in row.items()}
            for host, row in new.items()
        }

    queue = ("bytes", "packets", "drops", "marked")
    counted = (*queue, "rx_packets", "tx_packets", "rx_drops", "tx_drops")
    ports = {}
    for name, new in after.ports.items():
        old = before.ports.get(name)
        changed = {key: getattr(new, key) - (getattr(old, key) if old else 0) for key in counted}
        ports[name] = msgspec.structs.replace(new, **changed)
    return Counters(
        wall_s=after.wall_s - before.wall_s,
        rdma=less(before.rdma, after.rdma),
        ip6=less(before.ip6, after.ip6),
        netdev=less(before.netdev, after.netdev),
        ports=ports,
    )


def retransmissions(counted: Counters, host: str) -> int:
    """Count the events at a host that made its sender send again (RETRANSMISSION)."""
    return sum(counted.rdma.get(host, {}).get(name, 0) for name in RETRANSMISSION)


def _links(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(link["ifname"], link) for link in json.loads(text or "[]") if link]


def _netdev(link: dict[str, Any]) -> dict[str, int]:
    stats = link["stats64"]
    return {
        "rx_packets": stats["rx"]["packets"],
        "tx_packets": stats["tx"]["packets"],
        "rx_drops": stats["rx"]["dropped"],
        "tx_drops": stats["tx"]["dropped"],
    }
