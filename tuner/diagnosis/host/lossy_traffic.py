"""RoCE bytes run in a priority without PFC while the lossless one stays empty (R13, by counters).

Says so even where traffic class, trust or DSCP table cannot be read: the counters by priority
of the NIC show where the bytes went.
"""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import ethernet, rdma
from collectors.model.entities import priority
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port, lossless_bytes
from tuner.diagnosis.rule import HostRule, found, grew
from tuner.diagnosis.view import Growing, HostTelemetry

MIN_BYTES: Final = 10e6  # of RoCE: less is no traffic to judge
EMPTY: Final = 0.05  # of the RoCE bytes, in all lossless priorities together
NEARLY: Final = 0.051  # worth a closer look
MOSTLY: Final = 0.5  # of the RoCE bytes, in one lossy priority: other traffic alone is less


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Hold the bytes that each port sent by RDMA against those of its priorities."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        lossless = roce.lossless
        sent = telemetry.growth(rdma.TX_BYTES.name, roce.port)
        if not lossless or sent is None or sent.total < MIN_BYTES:
            return None
        by_priority = _by_priority(telemetry, roce)
        if not lossless < by_priority.keys():
            return None
        kept = sum(by_priority[p].total for p in lossless)
        lossy = {p: growth for p, growth in by_priority.items() if p not in lossless}
        fullest = max(lossy, key=lambda p: lossy[p].total)
        if kept > EMPTY * sent.total or lossy[fullest].total < MOSTLY * sent.total:
            return []
        return [_finding(rule, roce, sent, by_priority, fullest, lossless)]

    suspects = {
        roce.port
        for roce, kept, sent in lossless_bytes(telemetry, ethernet.PRIORITY_TX_BYTES, rdma.TX_BYTES)
        if kept <= NEARLY * sent
    }
    missing = "PFC, RDMA bytes and bytes by priority of a NIC"
    return each_port(rule, telemetry, judge_port, missing, suspects=suspects)


def _by_priority(telemetry: HostTelemetry, roce: RocePort) -> dict[int, Growing]:
    name = ethernet.PRIORITY_TX_BYTES.name
    read = {p: telemetry.growth(name, priority(roce.netdev, p)) for p in range(8)}
    return {p: growth for p, growth in read.items() if growth is not None}


def _finding(
    rule: HostRule, roce: RocePort, sent: Growing, by_priority: dict[int, Growing], fullest: int,
    lossless: frozenset[int],
) -> Finding:  # fmt: skip
    kept = ", ".join(map(str, sorted(lossless)))
    return found(
        rule, roce.port, "critical", 0.85,
        f"RoCE data of {roce} is not in the lossless class: its bytes leave in priority {fullest}, "
        f"lossless {kept} stays empty",
        [
            grew(rdma.TX_BYTES, roce.port, sent, f"in priority {kept}"),
            *(
                grew(ethernet.PRIORITY_TX_BYTES, priority(roce.netdev, p), by_priority[p])
                for p in (fullest, *sorted(lossless))
            ),
            *roce.evidence("pfc_priorities"),
            *roce.evidence("trust"),
        ],
        affected=[roce.port],
    )  # fmt: skip


RULE: Final = HostRule(
    id="lossy-traffic",
    section="config",
    title="RoCE bytes outside the lossless priority",
    finds="ports whose RDMA bytes leave in a priority without PFC, the lossless ones stay empty",
    quiet_when="the lossless priorities carry more than a twentieth of the RDMA bytes",
    cannot_tell_when="PFC, RDMA bytes or bytes by priority are unknown, or there is no traffic",
    refutes="the port sends as much other traffic, and its RDMA loops back inside the host",
    judge=judge,
)
FIX: Final = (
    "before any other knob: give RoCE a traffic class whose DSCP maps to the lossless priority "
    "(NCCL_IB_TC, cma_roce_tos) and trust DSCP: mlnx_qos -i IF --trust dscp"
)
