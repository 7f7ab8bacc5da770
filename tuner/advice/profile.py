"""Day 0: one consistent profile of quality of service for hosts and switches of a new fabric.

RoCE data in one lossless class, CNPs in a strict one without PFC, marks before pauses, headroom
for the cables, a watchdog, hash fields that see the source port, the same for the jobs. Every
value has its reason; `profile_audit` checks that they fit together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from collectors.model.dcqcn import profile as dcqcn_profile
from collectors.model.ecn import EcnThresholds
from collectors.model.entities import (
    Device,
    Entity,
    Host,
    Interface,
    Netdev,
    Port,
    Slot,
    Switch,
    display,
)
from collectors.model.facts import Attribute, Value
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.knobs.knob import filled, shown
from tuner.advice.plan import Check, DevicePlan, Plan, Step
from tuner.advice.planning import rank
from tuner.advice.rollout import HOLD_S
from tuner.models.headroom import SPECTRUM, SonicHeadroom, shortest_detection_s, sonic_headroom
from tuner.models.queue_pairs import qps_for_evenness, timeout_code_for

DATA_DSCP: Final = 26
DATA_PRIORITY: Final = 3
CNP_DSCP: Final = 48
CNP_PRIORITY: Final = 6
ECT0: Final = 2
TCLASS: Final = DATA_DSCP << 2 | ECT0
HOST_MTU: Final = 9000
SWITCH_MTU: Final = 9216
LOSSLESS_MTU: Final = 4200  # RoCE's 4096 with headers
EVEN: Final = 1.5  # the fullest up-link may carry so much more than the mean
MANY_QPS: Final = 16  # Llama 3: so many flows between two GPUs
WATCHDOG_S: Final = 0.2  # SONiC's default
ALPHA_EXPONENT: Final = -3  # 1/8, SONiC's and Azure's lossless default
SHARE: Final = 50  # percent of the line for the lossless class, the rest for the others

# Names of the first ports, and the hash fields, in each language's own words.
_PORTS: Final = {
    "eos": lambda n: f"Ethernet{n}/1",
    "nxos": lambda n: f"Ethernet1/{n}",
    "junos": lambda n: f"et-0/0/{n - 1}",
    "sonic": lambda n: f"Ethernet{(n - 1) * 8}",
    "nvue": lambda n: f"swp{n}",
    "onyx": lambda n: f"Eth1/{n}",
}
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "eos": ("ip", "protocol", "dst-ip", "dst-port", "src-ip", "src-port"),
    "nxos": ("source-destination", "port", "source-destination"),
    "sonic": ("SRC_IP", "DST_IP", "L4_SRC_PORT", "L4_DST_PORT", "IP_PROTOCOL"),
    "nvue": ("source-ip", "destination-ip", "source-port", "destination-port", "ip-protocol"),
}
PLATFORMS: Final = tuple(_PORTS)
_MAP_BY_PORT: Final = ("nxos", "junos", "sonic")
_SEEDS: Final = {"leaf": 11, "spine": 23}  # any, but unlike from tier to tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is known before the first packet.

    speed_bps: of NICs and host ports. cable_m, uplink_cable_m: longest cable to hosts and between
    switches. downlinks, uplinks: ports of a leaf. gpus: of the largest job. buffer_bytes: shared
    buffer of a switch, None where it is not known. asic: of SPECTRUM, for the headroom formula.
    """

    speed_bps: float
    cable_m: float
    uplink_cable_m: float
    switches: tuple[str, ...]
    uplink_speed_bps: float | None = None
    downlinks: int = 32
    uplinks: int = 32
    gpus: int = 256
    nic: str = "mlx5"
    netdev: str = "eth0"
    rdma_device: str = "mlx5_0"
    asic: str = "spectrum4"
    buffer_bytes: float | None = None

    @property
    def between_bps(self) -> float:
        """Speed of links between switches."""
        return self.uplink_speed_bps or self.speed_bps


@dataclass(frozen=True, slots=True)
class _Row:
    scope: Entity
    knob: str
    value: Value
    why: str


def ecn_for(speed_bps: float) -> EcnThresholds:
    """Return thresholds for a port: Kmin 8 us of its line rate, Kmax four times that, Pmax 20 %.

    That is what conweave has at 100G and Paraleon's default has at 400G; between the steep and
    low vendor defaults (150 KB to 1.5 MB, 100 %) and HPCC's four times as much.
    """
    kmin = 8e-6 * speed_bps / 8
    return EcnThresholds(kmin, 4 * kmin, 0.2)


def headroom_for(site: Site, speed_bps: float, cable_m: float) -> SonicHeadroom:
    """Return the headroom of a port. Raises ValueError for a speed without known delays."""
    return sonic_headroom(
        SPECTRUM[site.asic], speed_bps, cable_m, port_mtu=SWITCH_MTU, lossless_mtu=LOSSLESS_MTU
    )


def queue_pairs_for(site: Site) -> int:
    """Return queue pairs per connection: one inside a leaf, else enough to spread evenly."""
    if site.gpus <= site.downlinks:
        return 1
    chosen = qps_for_evenness(site.downlinks, site.uplinks, EVEN, most=MANY_QPS)
    return MANY_QPS if chosen is None else chosen.qps_per_connection


def timeout_code(site: Site) -> int:
    """Return an ACK timeout that queues and pauses of three hops do not trip."""
    queue_s = ecn_for(site.speed_bps).kmax_bytes * 8 / site.speed_bps
    return timeout_code_for(50e-6, queue_s, watchdog_s(site), 3)


def watchdog_s(site: Site) -> float:
    """Return a detection time that honest congestion does not reach, SONiC's default or longer."""
    buffered = site.buffer_bytes or 64e6
    least = shortest_detection_s(buffered, site.speed_bps, 3)
    return max(WATCHDOG_S, math.ceil(least * 10) / 10)


def make_profile(site: Site) -> Plan:
    """Return the profile as a plan: a leaf and a spine for each language, and a host.

    Raises ValueError for a speed without known delays.
    """
    devices = [
        device for name in site.switches for device in (_switch(site, name, t) for t in _SEEDS)
    ]
    return Plan((*devices, _host(site)), (), (), ())


def _steps(rows: Iterable[_Row]) -> tuple[Step, ...]:
    ordered = sorted(rows, key=lambda row: rank(row.knob, row.scope))
    steps = []
    for number, row in enumerate(ordered, 1):
        knob, place = KNOBS[row.knob], display(row.scope)
        if why := knob.unfit(row.value):
            raise ValueError(f"{row.knob}: {why}")
        how, undo = filled(knob, place, row.value, None)
        check = Check(f"{row.knob} of {place} reads {shown(row.value, knob.unit)}", "", HOLD_S)
        steps.append(
            Step(
                number, "profile", row.knob, row.scope, None, row.value, knob.unit, row.why,
                (row.why,), "low", knob.disruption, how, undo, check,
            )
        )  # fmt: skip
    return tuple(steps)


def _places(size: int, chosen: dict[int, int], rest: int = -1) -> tuple[int, ...]:
    return tuple(chosen.get(at, rest) for at in range(size))


_CLASSES: Final = {DATA_DSCP: DATA_PRIORITY, CNP_DSCP: CNP_PRIORITY}
_LOSSLESS: Final = tuple(priority == DATA_PRIORITY for priority in range(8))


def _switch(site: Site, platform: str, tier: str) -> DevicePlan:
    switch = Switch(f"{platform}-{tier}", f"{platform}-{tier}")
    rows: list[_Row] = []
    count = site.downlinks + site.uplinks
    for number in range(1, count + 1):
        down = tier == "leaf" and number <= site.downlinks
        speed, cable = (
            (site.speed_bps, site.cable_m) if down else (site.between_bps, site.uplink_cable_m)
        )
        port = Interface(switch, _PORTS[platform](number))
        rows += _port(site, platform, port, speed, cable)
    if platform not in _MAP_BY_PORT:
        why = "RoCE data and CNPs each in their class"
        rows.append(_Row(switch, "dscp_to_traffic_class", _places(64, _CLASSES), why))
    if platform in _FIELDS:
        why = "queue pairs differ in nothing but the UDP source port"
        rows.append(_Row(switch, "ecmp_hash_fields", _FIELDS[platform], why))
    rows.append(
        _Row(switch, "ecmp_hash_seed", _SEEDS[tier], "the same seed in two tiers polarises")
    )
    return DevicePlan(switch, switch.name, platform, _steps(rows))


def _port(
    site: Site, platform: str, port: Interface, speed_bps: float, cable_m: float
) -> Iterator[_Row]:
    data, cnp = Slot(port, "queue", DATA_PRIORITY), Slot(port, "queue", CNP_PRIORITY)
    group = Slot(port, "priority_group", DATA_PRIORITY)
    ecn, room = ecn_for(speed_bps), headroom_for(site, speed_bps, cable_m)
    yield _Row(port, "mtu_bytes", SWITCH_MTU, "room for 4096-byte RoCE packets and their headers")
    yield _Row(port, "trust", "dscp", "the class comes from the DSCP, which routers keep")
    if platform in _MAP_BY_PORT:
        why = "RoCE data and CNPs each in their class"
        yield _Row(port, "dscp_to_traffic_class", _places(64, _CLASSES), why)
    yield _Row(port, "pfc_mode", "on", "no DCBX: both ends are set")
    yield _Row(port, "pfc_priorities", _LOSSLESS, "one lossless class, for RoCE data alone")
    yield _Row(port, "pfc_cable_length_metres", math.ceil(cable_m), "headroom for the cable")
    for name, value in (
        ("xoff_bytes", room.xoff_bytes),
        ("xon_bytes", room.xon_bytes),
        ("reserved_buffer_bytes", room.size_bytes),
    ):
        why = f"{cable_m:g} m at {speed_bps / 1e9:g}G on {site.asic}, by SONiC's formula"
        yield _Row(group, name, value, why)
    yield _Row(group, "buffer_alpha_exponent", ALPHA_EXPONENT, "SONiC's lossless default")
    detect = watchdog_s(site)
    for name, limit in (
        ("pfc_watchdog_enabled", True),
        ("pfc_watchdog_poll_seconds", WATCHDOG_S),
        ("pfc_watchdog_detection_seconds", detect),
        ("pfc_watchdog_restoration_seconds", detect),
        ("pfc_watchdog_action", "drop"),
    ):
        yield _Row(port, name, limit, "a stuck receiver must not stop the fabric")
    why = f"marks before pauses: 8 us and 32 us of {speed_bps / 1e9:g}G, then 20 %"
    yield _Row(data, "ecn_enabled", True, why)
    if platform == "junos":  # percent of the queue's buffer, as in Juniper's validated design
        yield _Row(data, "kmin_fill_ratio", 0.1, "Juniper's design for AI: 10 to 50 %")
        yield _Row(data, "kmax_fill_ratio", 0.5, "Juniper's design for AI: 10 to 50 %")
    else:
        yield _Row(data, "kmin_bytes", round(ecn.kmin_bytes / 1000) * 1000, why)
        yield _Row(data, "kmax_bytes", round(ecn.kmax_bytes / 1000) * 1000, why)
    if platform == "eos":
        yield _Row(data, "ecn_counting_enabled", True, "without it marks are not counted")
    if platform in ("eos", "nxos"):
        yield _Row(data, "ecn_average_weight", 0, "DCQCN wants the queue as it is, not averaged")
    yield _Row(data, "pmax_ratio", ecn.pmax_ratio, why)
    yield _Row(data, "scheduler_weight", SHARE, "half of the line for RoCE under contention")
    yield _Row(cnp, "scheduler", "strict", "CNPs never wait behind data")


def _host(site: Site) -> DevicePlan:
    host, netdev = Host("host"), Netdev("host", site.netdev)
    device = Device("host", site.rdma_device, site.rdma_device)
    port = Port(device, 1)
    return DevicePlan(
        host,
        "host",
        "linux",
        _steps((*_netdev(netdev), *_rdma(site, port), *_job(site, host))),
        (),
        (
            Attribute(device, "driver", site.nic),
            Attribute(port, "netdev", site.netdev),
        ),
    )


def _netdev(netdev: Netdev) -> Iterator[_Row]:
    classes = tuple(
        CNP_PRIORITY if p == CNP_PRIORITY else DATA_PRIORITY if p == DATA_PRIORITY else 0
        for p in range(8)
    )
    algorithms = tuple("strict" if tc == CNP_PRIORITY else "ets" for tc in range(8))
    shares = tuple(
        SHARE / 100 if tc == DATA_PRIORITY else 1 - SHARE / 100 if tc == 0 else 0.0
        for tc in range(8)
    )
    yield _Row(netdev, "mtu_bytes", HOST_MTU, "room for 4096-byte RoCE packets")
    yield _Row(netdev, "pause_rx_enabled", False, "802.3x pause and PFC exclude each other")
    yield _Row(netdev, "pause_tx_enabled", False, "802.3x pause and PFC exclude each other")
    yield _Row(netdev, "pfc_priorities", _LOSSLESS, "the same class as on the switch")
    why = "RoCE data and CNPs each in their class, as on the switch"
    yield _Row(netdev, "dscp_to_priority", _places(64, _CLASSES), why)
    yield _Row(netdev, "trust", "dscp", why)
    yield _Row(netdev, "priority_to_traffic_class", classes, why)
    yield _Row(netdev, "ets_algorithm", algorithms, "CNPs never wait behind data")
    yield _Row(netdev, "ets_bandwidth_ratio", shares, "half of the line for RoCE")


def _rdma(site: Site, port: Port) -> Iterator[_Row]:
    why = f"DSCP {DATA_DSCP} and ECT(0): {DATA_DSCP} x 4 + {ECT0}"
    yield _Row(port, "rdma_cm_tclass", TCLASS, why)
    yield _Row(port, "rdma_cm_roce_mode", "RoCE v2", "routable, and with a DSCP")
    if site.nic != "mlx5":
        return
    yield _Row(port, "cnp_dscp", CNP_DSCP, "the strict class of the switches")
    yield _Row(port, "cnp_priority", CNP_PRIORITY, "the strict class of the switches")
    why = "senders slow down and receivers tell them to, on the class of RoCE"
    yield _Row(port, "dcqcn_rp_enabled", _LOSSLESS, why)
    yield _Row(port, "dcqcn_np_enabled", _LOSSLESS, why)
    scaled = dcqcn_profile("hpcc", site.speed_bps)
    why = "the firmware's 5 and 50 Mb/s do not grow with the port; HPCC's do, from 25G on"
    yield _Row(port, "dcqcn_ai_bps", scaled.ai_bps, why)
    yield _Row(port, "dcqcn_hai_bps", scaled.hai_bps, why)


def _job(site: Site, host: Host) -> Iterator[_Row]:
    yield _Row(host, "job_tclass", TCLASS, f"DSCP {DATA_DSCP} and ECT(0), as rdma_cm has it")
    pairs = queue_pairs_for(site)
    spread = f"{site.downlinks} connections over {site.uplinks} up-links"
    why = f"{spread}: the fullest at {EVEN:g} times the mean, or as near as {MANY_QPS} come"
    if pairs == 1:
        why = "the job fits below one leaf: no ECMP on its way"
    yield _Row(host, "qps_per_connection", pairs, why)
    yield _Row(host, "split_data_on_qps", pairs > 1, "every message on all queue pairs: even load")
    why = "longer than what queues and pauses of three hops hold a packet"
    yield _Row(host, "qp_timeout_code", timeout_code(site), why)
    yield _Row(host, "qp_retry_count", 7, "the most; only the timeout decides when a job fails")
