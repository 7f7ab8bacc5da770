"""An adapter that does not return credits: its host drains too slowly (R50)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.entities import Wire, display
from tuner.diagnosis.credits import (
    FULL,
    MIN_SHARE,
    Credits,
    credit_waits,
    is_elsewhere,
    load_evidence,
)
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.stall_graph import Root
from tuner.diagnosis.view import FabricView, Telemetry

CRITICAL_SHARE: Final = 0.20


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find adapters for which their switch port waits while the link is far from full."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    seen = credit_waits(telemetry, fabric)
    findings = []
    for root in seen.blamed():
        egress = fabric.peer(root.wire)
        if root.kind != "slow_receiver" or egress is None:
            continue
        if seen.loads.get(egress, 0.0) < FULL and seen.graph.stalled.get(egress, 0) >= MIN_SHARE:
            findings.append(_finding(rule, telemetry, seen, root, egress))
    missing = () if seen.waiting else ("transmit-wait counters of InfiniBand ports, read twice",)
    return verdict(rule, findings, judged=bool(seen.waiting), missing=missing)


def _finding(rule: Rule, telemetry: Telemetry, seen: Credits, root: Root, egress: Wire) -> Finding:
    share = seen.graph.stalled[egress]
    load = seen.loads.get(egress)
    victims = [wire for wire in seen.victims(root) if wire != egress]
    evidence: list[Evidence] = [seen.waiting[egress].evidence]
    if load is not None:
        evidence.append(load_evidence(telemetry, egress, load))
    evidence += [seen.waiting[wire].evidence for wire in victims[:6]]
    hoq = [("ib-hoq-discards", wire) for wire in (egress, *victims)]
    used = "" if load is None else f", while the link carries only {load:.0%}"
    suffer = f"; {len(victims)} ports wait behind it: {names(victims)}" if victims else ""
    return found(
        rule,
        root.wire,
        "critical" if share >= CRITICAL_SHARE else "warning",
        0.9 if load is not None and seen.waiting[egress].exact else 0.65,
        f"{display(root.wire)} does not drain what it receives: its switch waits for credits "
        f"{share:.0%} of the time{used}{suffer}",
        evidence,
        affected=victims,
        explains=[*hoq, ("ib-congestion-control", egress)],
    )


RULE: Final = Rule(
    id="ib-slow-receiver",
    section="flow_control",
    title="InfiniBand adapter that drains slowly",
    finds="adapters for which their switch port waits for credits although the link is not full",
    quiet_when=f"no switch port to a host waits {MIN_SHARE:.0%} of the time on a link that is "
    f"under {FULL:.0%} loaded",
    cannot_tell_when="transmit waits, ticks or cables of the subnet are not known",
    refutes="the adapter's own counters show it receiving at line rate, or "
    f"{rdma.TX_WAIT.name} of that switch counts something else",
    judge=judge,
    answers=("R50",),
)
