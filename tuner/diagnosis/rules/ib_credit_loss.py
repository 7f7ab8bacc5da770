"""An egress waits for credits although nothing behind it is full or waiting itself."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import display
from tuner.diagnosis.credits import MIN_SHARE, cable, credit_waits, is_elsewhere, load_evidence
from tuner.diagnosis.finding import Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find waits whose cause is not behind them in the fabric: the link itself."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    seen = credit_waits(telemetry, fabric)
    findings = []
    for root in seen.blamed():
        if root.kind != "unknown":
            continue
        direct = fabric.peer(root.wire) or root.wire
        victims = [wire for wire in seen.victims(root) if wire != direct]
        share = seen.graph.stalled.get(direct, seen.worst(root))
        evidence = [seen.waiting[w].evidence for w in (direct, *victims[:6]) if w in seen.waiting]
        if direct in seen.loads:
            evidence.append(load_evidence(telemetry, direct, seen.loads[direct]))
        findings.append(
            found(
                rule,
                root.wire,
                "warning",
                0.5,
                f"{display(direct)} waits for credits {share:.0%} of the time, but nothing behind "
                f"{display(cable(fabric, direct))} is full or waits",
                evidence,
                affected=victims,
            )
        )
    missing = () if seen.waiting else ("transmit-wait counters of InfiniBand ports, read twice",)
    return verdict(rule, findings, judged=bool(seen.waiting), missing=missing)


RULE: Final = Rule(
    id="ib-credit-loss",
    section="flow_control",
    title="Credits missing without a cause behind",
    finds="egresses that wait for credits of a switch of which no egress is full or waits",
    quiet_when=f"every wait over {MIN_SHARE:.0%} of the time leads to a full or waiting egress",
    cannot_tell_when="transmit waits, ticks or cables of the subnet are not known",
    refutes="the switch behind the cable did not answer, so its egresses are not known",
    judge=judge,
)
