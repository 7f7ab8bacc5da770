"""RoCE data whose class maps to a priority without PFC, on a host that has a lossless one."""

from __future__ import annotations

from typing import Final

from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import (
    MISSING,
    DataClass,
    RocePort,
    all_ports,
    data_classes,
    roce_ports,
)
from tuner.diagnosis.rule import HostRule, beside_the_point, found, verdict
from tuner.diagnosis.view import HostTelemetry


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Follow each known class through trust and DSCP table to its priority."""
    ports = roce_ports(telemetry)
    if not ports and all_ports(telemetry):
        return beside_the_point(rule)
    findings: list[Finding] = []
    judged = False
    for roce in ports:
        lossless = roce.lossless
        if not lossless:  # unknown, or a host that means to be lossy
            judged = judged or lossless is not None
            continue
        for data in data_classes(telemetry, roce):
            priority = roce.priority_of_dscp(data.dscp)
            if priority is None:
                continue
            judged = True
            if priority not in lossless:
                findings.append(_finding(rule, roce, data, priority, lossless))
                break
    missing = () if judged else (MISSING, "PFC, trust and DSCP table", "a traffic class in use")
    return verdict(rule, findings, judged=judged, missing=missing)


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
