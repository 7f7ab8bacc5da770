"""A port is down, or its link comes and goes (R17, R32). One host is enough to tell."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Entity, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import HostRule, found, grew, verdict
from tuner.diagnosis.view import HostTelemetry

ACTIVE: Final = 4
DISABLED: Final = 3  # physical state of a port that somebody switched off
MIN_FLAPS: Final = 2
_FLAPS: Final = (rdma.LINK_DOWNED, interface.CARRIER_DOWN)


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find ports that are not active and links that went down in the span."""
    findings: list[Finding] = []
    judged = False
    for port in telemetry.entities(rdma.STATE.name):
        seen = telemetry.latest(rdma.STATE.name, port)
        if seen is None:
            continue
        judged = True
        physical = telemetry.latest(rdma.PHYSICAL_STATE.name, port)
        if seen.value != ACTIVE and not (physical and physical.value == DISABLED):
            findings.append(_down(rule, port, seen.value, seen.at_ns))
    for metric in _FLAPS:
        for entity in telemetry.entities(metric.name):
            growth = telemetry.growth(metric.name, entity)
            if growth is None:
                continue
            judged = True
            if growth.total >= MIN_FLAPS:
                findings.append(
                    found(
                        rule,
                        entity,
                        "critical",
                        0.95,
                        f"the link of {display(entity)} went down {growth.total:.0f} times",
                        [grew(metric, entity, growth, f"< {MIN_FLAPS}")],
                        affected=[entity],
                    )
                )
    once = {finding.subject: finding for finding in reversed(findings)}
    missing = () if judged else ("state or link-down counter of a port",)
    return verdict(rule, once.values(), judged=judged, missing=missing)


def _down(rule: HostRule, port: Entity, state: float, at_ns: int) -> Finding:
    evidence = Evidence(rdma.STATE.name, port, state, "id", f"{ACTIVE} (active)", at_ns, at_ns)
    summary = f"{display(port)} is not active (state {state:.0f})"
    return found(rule, port, "critical", 0.95, summary, [evidence], affected=[port])


RULE: Final = HostRule(
    id="link-down",
    section="link",
    title="Link down or flapping",
    finds=f"ports that are not active, links that went down {MIN_FLAPS} times or more",
    quiet_when="ports are active or switched off on purpose, and links stay up",
    cannot_tell_when="neither state nor link-down counter of any port was read",
    refutes="the port is not cabled on purpose",
    judge=judge,
    answers=("R17",),
)
