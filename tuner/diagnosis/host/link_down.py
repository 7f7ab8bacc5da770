"""A port is down, or its link comes and goes (R17, R32). One host is enough to tell."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import ethernet, interface, rdma
from collectors.model.entities import Entity, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import HostRule, found, grew, verdict
from tuner.diagnosis.view import HostTelemetry

ACTIVE: Final = 4
DISABLED: Final = 3  # physical state of a port that somebody switched off
MIN_FLAPS: Final = 2
UP: Final = 1
_DOWN_AT: Final = ((interface.CARRIER, (0,)), (interface.OPER_STATE, (2, 7)))
_STATES: Final = (rdma.STATE, *(metric for metric, _ in _DOWN_AT))
_FLAPS: Final = (rdma.LINK_DOWNED, interface.CARRIER_DOWN, ethernet.LINK_DOWN_PHY)
_WAS_UP: Final = (interface.TX_BYTES, interface.RX_BYTES)
_EFFECTS: Final = ("loss-on-path", "lossy-cable", "ack-timeouts", "link-down", "queue-drops")


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find ports that are not active and links that went down in the span."""
    findings: list[Finding] = []
    judged = any(telemetry.entities(metric.name) for metric in _STATES) or any(
        telemetry.counted(metric.name) for metric in _FLAPS
    )
    for port, seen in telemetry.unlike(rdma.STATE.name, ACTIVE).items():
        physical = telemetry.latest(rdma.PHYSICAL_STATE.name, port)
        if not (physical and physical.value == DISABLED):
            findings.append(_down(rule, port, seen.value, seen.at_ns))
    for metric, down in _DOWN_AT:
        for entity, seen in telemetry.unlike(metric.name, UP).items():
            if seen.value in down and _in_use(telemetry, entity):
                evidence = Evidence(
                    metric.name, entity, seen.value, "id", f"{UP} (up)", seen.at_ns, seen.at_ns
                )
                summary = f"the link of {display(entity)} is down"
                findings.append(_lost(rule, entity, summary, evidence))
    for metric in _FLAPS:
        for entity, growth in telemetry.growing(metric.name, MIN_FLAPS).items():
            summary = f"the link of {display(entity)} went down {growth.total:.0f} times"
            evidence = grew(metric, entity, growth, f"< {MIN_FLAPS}")
            findings.append(_lost(rule, entity, summary, evidence))
    once = {finding.subject: finding for finding in reversed(findings)}
    missing = () if judged else ("state or link-down counter of a port",)
    return verdict(rule, once.values(), judged=judged, missing=missing)


def _in_use(telemetry: HostTelemetry, entity: Entity) -> bool:
    """Tell whether an interface is meant to be up: it carried traffic within the span."""
    grown = [telemetry.growth(metric.name, entity) for metric in _WAS_UP]
    return any(growth is not None and growth.total > 0 for growth in grown)


def _down(rule: HostRule, port: Entity, state: float, at_ns: int) -> Finding:
    evidence = Evidence(rdma.STATE.name, port, state, "id", f"{ACTIVE} (active)", at_ns, at_ns)
    return _lost(rule, port, f"{display(port)} is not active (state {state:.0f})", evidence)


def _lost(rule: HostRule, entity: Entity, summary: str, evidence: Evidence) -> Finding:
    effects = [(name, entity) for name in _EFFECTS]
    return found(
        rule, entity, "critical", 0.95, summary, [evidence], affected=[entity], explains=effects
    )


RULE: Final = HostRule(
    id="link-down",
    section="link",
    title="Link down or flapping",
    finds="ports that are not active, interfaces that carried traffic and are down, links that "
    f"went down {MIN_FLAPS} times or more",
    quiet_when="ports are active or switched off on purpose, and links stay up",
    cannot_tell_when="neither state nor link-down counter of any port was read",
    refutes="the port is not cabled on purpose",
    judge=judge,
    answers=("R17",),
)
