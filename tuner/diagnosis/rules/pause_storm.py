"""A NIC that pauses its switch for good and receives nothing: PFC storm (R7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import ethernet
from collectors.model.entities import Netdev, display, wire_of
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_roots import STORM_SHARE, as_port, is_storm, late, pause_roots
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find hosts that stop their switch without end, and NICs that say so themselves."""
    flows = pfc_flows(telemetry, fabric)
    told = telemetry.growth_all(ethernet.PAUSE_STORM_ERRORS.name)
    if not flows and not told and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings = {
        root.wire: found(
            rule,
            root.wire,
            "critical",
            root.confidence(0.95),
            f"{display(root.wire)} pauses its switch without end and receives nothing (pause "
            f"storm): {names(root.victims)} wait",
            root.evidence,
            affected=[as_port(fabric, victim) for victim in root.victims],
            explains=[
                *((name, root.wire) for name in ("pause-root", "slow-receiver", "ack-timeouts")),
                *late(fabric, root.victims),
                *((name, root.egress) for name in ("watchdog-fired", "queue-drops", "path-marks")),
            ],
        )
        for root in pause_roots(telemetry, fabric)
        if is_storm(telemetry, root)
    }
    for finding in _told(rule, telemetry, fabric):
        findings.setdefault(finding.subject, finding)  # type: ignore[arg-type]  # a wire
    judged = bool(flows) or bool(told)
    missing = () if judged else ("PFC pause time or frames of a priority",)
    return verdict(rule, findings.values(), judged=judged, missing=missing)


def _told(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Iterable[Finding]:
    """Yield the storms that NICs report: mlx5 counts when its own pause lasted too long."""
    for entity, growth in telemetry.growth_all(ethernet.PAUSE_STORM_ERRORS.name).items():
        wire = wire_of(entity)
        if growth.total <= 0 or not isinstance(wire, Netdev):
            continue
        yield found(
            rule,
            wire,
            "critical",
            0.9,
            f"{display(wire)} reports that it paused its switch for too long {growth.total:.0f} "
            "times",
            [grew(ethernet.PAUSE_STORM_ERRORS, entity, growth, "0")],
            affected=[as_port(fabric, wire)],
            explains=[("pause-root", wire), ("slow-receiver", wire)],
        )


RULE: Final = Rule(
    id="pause-storm",
    section="flow_control",
    title="Pause storm of a NIC",
    finds=f"hosts that stop their switch {STORM_SHARE:.0%} of the time, or from some moment on, "
    "while nothing passes; NICs that report a storm",
    quiet_when="every host that pauses still receives",
    cannot_tell_when="neither PFC pauses nor storm reports of any NIC are known",
    refutes="the host was shut down on purpose, or its receive path moves again by itself",
    judge=judge,
    answers=("R7",),
)
