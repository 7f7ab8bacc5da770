"""CNPs in the lossless priority of the data: a pause holds up the packets that would end it."""

from __future__ import annotations

from typing import Final

from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_kind
from tuner.diagnosis.rule import HostRule, found
from tuner.diagnosis.view import HostTelemetry


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Follow the CNPs' DSCP, or their priority, to a priority and see whether it has PFC."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        lossless, priority = roce.lossless, _priority(roce)
        if lossless is None or priority is None:
            return None
        if priority not in lossless:
            return []
        names = ("cnp_dscp", "cnp_priority", "pfc_priorities")
        summary = (
            f"CNPs of {roce} travel in priority {priority}, which is lossless: they wait behind "
            "paused data"
        )
        evidence = [item for name in names for item in roce.evidence(name)]
        return [found(rule, roce.port, "warning", 0.85, summary, evidence, affected=[roce.port])]

    return each_kind(rule, telemetry, judge_port, "PFC priorities and class of CNPs")


def _priority(roce: RocePort) -> int | None:
    """Return the priority of CNPs: by DSCP where the interface trusts it, else as set."""
    trust, dscp = roce.qos.get("trust"), roce.settings.get("cnp_dscp")
    by_dscp = trust is not None and trust.value == "dscp"
    if by_dscp and dscp is not None and isinstance(dscp.value, int):
        return roce.priority_of_dscp(dscp.value)
    fixed = roce.settings.get("cnp_priority")
    return fixed.value if fixed is not None and isinstance(fixed.value, int) else None


RULE: Final = HostRule(
    id="cnp-class",
    section="config",
    title="CNPs share the lossless priority",
    finds="CNP classes that map to a priority with PFC",
    quiet_when="CNPs travel in a priority without PFC",
    cannot_tell_when="the class of CNPs or PFC is unknown",
    refutes="the switches put that DSCP into another queue, ahead of the data",
    judge=judge,
    answers=("R20",),
)
FIX: Final = (
    "give CNPs a DSCP of their own (48 is usual) that maps to a strict priority without PFC, on "
    "NICs and switches alike"
)
