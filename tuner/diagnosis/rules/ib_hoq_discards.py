"""Packets discarded at the head of a queue because no credit came in time (R53)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import infiniband as rows
from collectors.model.catalogue import rdma
from collectors.model.entities import Entity, Interface, display
from collectors.model.metric import Metric
from collectors.model.units import quantity
from tuner.diagnosis.credits import credit_waits, is_elsewhere
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_PACKETS: Final = 1
HOQ_UNIT_S: Final = 4.096e-6  # IBTA 18.2.5.4: a packet waits at most 4.096 us x 2^HOQLife
MOST_LIFE: Final = 31  # a field of five bits


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find switch ports that discard at the head of the queue, or that discard while they wait."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    by_reason = telemetry.growth_all(rows.DISCARDS_HOQ.name)
    in_all = telemetry.growth_all(rdma.TX_DISCARDS.name)
    waits = credit_waits(telemetry, fabric).graph.stalled
    findings = []
    for entity in {**by_reason, **in_all}:
        if not isinstance(entity, Interface):
            continue
        hoq, discards = by_reason.get(entity), in_all.get(entity)
        if hoq is not None:
            if hoq.total >= MIN_PACKETS:
                findings.append(_finding(rule, telemetry, entity, rows.DISCARDS_HOQ, hoq, 0.9))
        elif discards is not None and discards.total >= MIN_PACKETS and entity in waits:
            findings.append(_finding(rule, telemetry, entity, rdma.TX_DISCARDS, discards, 0.6))
    judged = any(isinstance(e, Interface) for e in (*by_reason, *in_all))
    missing = () if judged else ("discard counters of InfiniBand switch ports, read twice",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    entity: Entity,
    metric: Metric,
    growth: Growing,
    sure: float,
) -> Finding:
    evidence = [grew(metric, entity, growth, f"< {MIN_PACKETS}")]
    life = telemetry.settings(entity).get("ib_hoq_life")
    waited = ""
    if life is not None and isinstance(life.value, int) and 0 <= life.value <= MOST_LIFE:
        seconds = HOQ_UNIT_S * 2**life.value
        waited = f" after {quantity(seconds, 'seconds')} without a credit"
        evidence.append(Evidence(life.name, entity, life.value, "count", note=f"{seconds:.3g} s"))
    return found(
        rule,
        entity,
        "critical",
        sure,
        f"{display(entity)} discarded {growth.total:.0f} packets{waited}",
        evidence,
    )


RULE: Final = Rule(
    id="ib-hoq-discards",
    section="flow_control",
    title="Packets discarded for want of credits",
    finds="switch ports that discard packets at the head of the queue",
    quiet_when="no switch port discards packets at the head of the queue",
    cannot_tell_when="discards of switch ports were not read twice",
    refutes="the port was down or its peer restarted in this window",
    judge=judge,
    answers=("R53",),
)
