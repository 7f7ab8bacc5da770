"""RoCE data whose class maps to a priority without PFC, on a host that has a lossless one."""

from __future__ import annotations

from typing import Final

from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import DataClass, RocePort, data_classes, each_kind
from tuner.diagnosis.rule import HostRule, found
from tuner.diagnosis.view import HostTelemetry


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Follow each known class through trust and DSCP table to its priority."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        lossless = roce.lossless
        if not lossless:  # unknown, or a host that means to be lossy
            return None if lossless is None else []
        classes = data_classes(telemetry, roce)
        followed = [(data, roce.priority_of_dscp(data.dscp)) for data in classes]
        known = [(data, priority) for data, priority in followed if priority is not None]
        astray = [(data, priority) for data, priority in known if priority not in lossless]
        if not known:
            return None
        return [_finding(rule, roce, *astray[0], lossless)] if astray else []

    return each_kind(
        rule, telemetry, judge_port, "PFC, trust and DSCP table", "a traffic class in use"
    )


def _finding(
    rule: HostRule, roce: RocePort, data: DataClass, priority: int, lossless: frozenset[int]
) -> Finding:
    trust = roce.qos.get("trust")
    why = f"DSCP {data.dscp}" if trust is None or trust.value == "dscp" else "trust is not DSCP"
    kept = ", ".join(map(str, sorted(lossless)))
    return found(
        rule,
        roce.port,
        "critical",
        0.9,
        f"RoCE data of {roce} with {data.text} goes to priority {priority} ({why}), which has no "
        f"PFC; lossless: {kept}",
        [
            data.evidence,
            *roce.evidence("trust"),
            *roce.evidence("dscp_to_priority"),
            *roce.evidence("pfc_priorities"),
        ],
        affected=[roce.port],
        explains=[(name, roce.port) for name in ("queue-drops", "loss-on-path", "class-mismatch")],
    )


RULE: Final = HostRule(
    id="traffic-class",
    section="config",
    title="RoCE data in a lossy priority",
    finds="traffic classes of RoCE data that map to a priority without PFC",
    quiet_when="every known class maps to a lossless priority, or the host has none",
    cannot_tell_when="PFC, trust, DSCP table or the traffic class is unknown",
    refutes="the data is meant to be lossy, or travels with a VLAN tag of its own priority",
    judge=judge,
    answers=("R13",),
)
FIX: Final = (
    "set the traffic class to DSCP << 2 of a lossless priority (NCCL_IB_TC, cma_roce_tos), or map "
    "the DSCP: dcb app replace dev IF dscp-prio DSCP:PRIO"
)
