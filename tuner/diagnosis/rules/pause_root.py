"""Where the blame of pauses comes to rest, whatever the cause there (R36: and who are victims)."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import display
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_roots import MIN_SHARE, PauseRoot, as_port, is_storm, pause_roots
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry

_KINDS: Final = {
    "slow_receiver": "{where} stops its switch",
    "congested_egress": "the egress {where} is full",
    "unknown": "something behind {where}, of which there is no telemetry, stops its peers",
}


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find where the blame of each priority's pauses comes to rest."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings = [_finding(rule, telemetry, fabric, root) for root in pause_roots(telemetry, fabric)]
    missing = () if flows else ("PFC pause time or frames of a priority",)
    return verdict(rule, findings, judged=bool(flows), missing=missing)


def _finding(rule: Rule, telemetry: Telemetry, fabric: FabricView, root: PauseRoot) -> Finding:
    what = _KINDS[root.kind].format(where=display(root.wire))
    severity = root.severity
    if root.kind == "congested_egress" and severity == "critical" and not root.faces_host:
        severity = "warning"  # other rules know why an uplink is full
    if is_storm(telemetry, root):
        severity = "critical"
    return found(
        rule,
        root.wire,
        severity,
        root.confidence(0.7 if root.kind == "unknown" else 0.85),
        f"{what}: priority {root.priority} of {names(root.victims)} is paused up to "
        f"{root.share:.0%} of the time",
        root.evidence,
        affected=[as_port(fabric, victim) for victim in root.victims],
        explains=[("path-marks", root.egress)],
    )


RULE: Final = Rule(
    id="pause-root",
    section="flow_control",
    title="Root of a pause tree",
    finds="hosts and full egresses on which the blame of PFC pauses rests, and their victims",
    quiet_when=f"no priority is paused {MIN_SHARE:.0%} of the time",
    cannot_tell_when="neither pause time nor PFC frames of any priority are known",
    refutes="the root's own egress is idle, or its peer counts no pauses (counters swapped)",
    judge=judge,
    answers=("R36",),
)
