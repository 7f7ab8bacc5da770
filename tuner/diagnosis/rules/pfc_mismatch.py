"""The two ends of a cable do not have PFC on for the same priorities (R34)."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Entity, display
from collectors.model.facts import Setting, Value
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.place import only_software_rdma, unequal_ends, usual_of
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry

PFC: Final = "pfc_priorities"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the PFC priorities of both ends of each cable."""
    settings = telemetry.setting_all(PFC)
    if not settings and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    usual = usual_of(telemetry.alike(PFC))
    unequal, compared = unequal_ends(telemetry, fabric, PFC, enabled)
    findings = []
    for cable, (near, far) in unequal.items():
        ends = settings[near], settings[far]
        odd = ends[1] if ends[0].value == usual else ends[0]
        findings.append(_finding(rule, cable, odd, ends))
    missing = () if compared else ("PFC priorities of both ends of a cable",)
    return verdict(rule, findings, judged=compared, missing=missing)


def _finding(rule: Rule, cable: Entity, odd: Setting, ends: tuple[Setting, Setting]) -> Finding:
    words = " and ".join(f"{display(end.entity)}: {enabled(end.value)}" for end in ends)
    return found(
        rule,
        cable,
        "critical",
        0.9,
        f"PFC differs at the two ends of a cable ({words}); {display(odd.entity)} is the odd one",
        [
            Evidence(PFC, end.entity, enabled(end.value), "", "equal ends", note=end.where)
            for end in ends
        ],
        affected=[end.entity for end in ends],
        explains=[
            *((name, cable) for name in ("loss-on-path", "queue-drops", "class-not-lossless")),
            *(("pfc-priority", end.entity) for end in ends),
        ],
    )


def enabled(value: Value) -> str:
    """Return the priorities that PFC is on for, as text."""
    states = value if isinstance(value, tuple) else (value,)
    on = [str(index) for index, state in enumerate(states) if state]
    return "priority " + ",".join(on) if on else "no priority"


RULE: Final = Rule(
    id="pfc-mismatch",
    section="config",
    title="PFC priorities differ",
    finds="cables with PFC on for other priorities at one end than at the other",
    quiet_when="both ends of every cable agree",
    cannot_tell_when="the PFC priorities of no cable are known at both ends",
    refutes="DCBX has not finished negotiating",
    judge=judge,
    answers=("R34",),
)
