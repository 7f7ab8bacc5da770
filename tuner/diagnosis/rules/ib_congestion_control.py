"""Congestion control that is off where it is needed, or throttles more than it should (R55)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import infiniband as rows
from collectors.model.entities import Entity, Interface, Port, Switch, display
from tuner.diagnosis.credits import credit_waits, is_elsewhere, link_loads, load_evidence
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_BECN: Final = 10.0  # a second
IDLE: Final = 0.5  # of the data rate: a throttled sender is below it
SPREAD: Final = 3  # victims that make congestion spread a matter of congestion control


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Hold settings against what the subnet does: spreading congestion, throttled senders."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    supported = telemetry.setting_all("ib_cc_supported")
    findings = [*_off(rule, telemetry, fabric), *_aggressive(rule, telemetry, fabric)]
    judged = bool(supported) or bool(telemetry.growth_all(rows.BECN_RX.name))
    missing = () if judged else ("congestion control settings of the devices",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _off(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> list[Finding]:
    """Return full egresses whose congestion spreads while no switch marks."""
    seen = credit_waits(telemetry, fabric)
    made = []
    for root in seen.blamed():
        egress = root.wire if isinstance(root.wire, Interface) else fabric.peer(root.wire)
        if not isinstance(egress, Interface) or len(root.victims) < SPREAD:
            continue
        known = telemetry.settings(egress.switch)
        can, threshold = known.get("ib_cc_supported"), known.get("ib_cc_threshold")
        if can is not None and not can.value:
            made.append(_unable(rule, egress, len(root.victims)))
            continue
        if can is None or threshold is None or threshold.value:
            continue
        made.append(
            found(
                rule,
                egress,
                "warning",
                0.7,
                f"congestion control is off on {display(egress.switch)}: congestion at "
                f"{display(egress)} spreads to {len(root.victims)} ports",
                [
                    Evidence(threshold.name, egress.switch, 0, "count", "> 0"),
                    *(seen.waiting[w].evidence for w in seen.victims(root)[:4]),
                ],
                affected=root.victims,
            )
        )
    return made


def _unable(rule: Rule, egress: Interface, victims: int) -> Finding:
    """Return that nothing can be turned on here: for people, not for a cure."""
    return found(
        rule,
        egress,
        "info",
        0.7,
        f"{display(egress.switch)} does not answer the congestion control class; congestion at "
        f"{display(egress)} spreads to {victims} ports",
        [Evidence("ib_cc_supported", egress.switch, "false", "bool", "true")],
    )


def _aggressive(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> list[Finding]:
    """Return senders that are told to slow down although no link is full and nobody waits."""
    loads = link_loads(telemetry)
    if credit_waits(telemetry, fabric).blamed() or any(load > 0.9 for load in loads.values()):
        return []
    made = []
    for entity, growth in telemetry.growth_all(rows.BECN_RX.name).items():
        if not isinstance(entity, Port) or growth.rate < MIN_BECN:
            continue
        load = loads.get(entity)
        if load is None or load >= IDLE:
            continue
        evidence = [
            grew(rows.BECN_RX, entity, growth, f"< {MIN_BECN:g}/s where no link is full"),
            load_evidence(telemetry, entity, load),
            *_settings(telemetry, entity.device),
        ]
        switch = _switch_of(fabric, entity)
        if switch is not None:
            evidence += _settings(telemetry, switch)
        made.append(
            found(
                rule,
                entity,
                "warning",
                0.6,
                f"{display(entity)} is told to slow down {growth.rate:.0f} times a second and "
                f"sends at {load:.0%}, but no link is full: congestion control is too eager",
                evidence,
                affected=[entity],
            )
        )
    return made


def _switch_of(fabric: FabricView, port: Port) -> Switch | None:
    far = fabric.peer(port)
    return far.switch if isinstance(far, Interface) else None


def _settings(telemetry: Telemetry, entity: Entity) -> list[Evidence]:
    names = ("ib_cc_marking_rate", "ib_cc_threshold", "ib_cc_ccti_timer", "ib_cc_ccti_increase")
    known = telemetry.settings(entity)
    return [
        Evidence(name, entity, str(known[name].value), "count") for name in names if name in known
    ]


RULE: Final = Rule(
    id="ib-congestion-control",
    section="control_loop",
    title="Congestion control off or too eager",
    finds="switches that do not mark where congestion spreads, senders throttled without need",
    quiet_when="no congestion spreads past a switch that could mark, and nobody is throttled "
    "while all links have room",
    cannot_tell_when="neither settings nor notifications of congestion control were read",
    refutes="traffic of that service level is excluded on purpose, or bursts hide in the window",
    judge=judge,
    answers=("R55",),
)
