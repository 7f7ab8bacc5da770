"""A full egress makes everything before it wait: too little capacity for what is sent (R51)."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Wire, display
from tuner.diagnosis.credits import (
    FULL,
    MIN_SHARE,
    Credits,
    credit_waits,
    faces_host,
    is_elsewhere,
    load_evidence,
)
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.stall_graph import Root
from tuner.diagnosis.view import FabricView, Telemetry

CRITICAL_SHARE: Final = 0.20


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find egresses that are full and that others wait for."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    seen = credit_waits(telemetry, fabric)
    findings = []
    for root in seen.blamed():
        egress = root.wire
        if root.kind == "slow_receiver":
            # a host's link that waits a little and is full is an incast, not a slow host
            peer = fabric.peer(root.wire)
            if peer is None or seen.loads.get(peer, 0.0) < FULL:
                continue
            egress = peer
        elif root.kind != "congested_egress":
            continue
        findings.append(_finding(rule, telemetry, fabric, seen, root, egress))
    missing = () if seen.waiting else ("transmit-wait counters of InfiniBand ports, read twice",)
    return verdict(rule, findings, judged=bool(seen.waiting), missing=missing)


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    fabric: FabricView,
    seen: Credits,
    root: Root,
    egress: Wire,
) -> Finding:
    victims = [wire for wire in seen.victims(root) if wire != egress]
    worst = max((seen.graph.stalled[wire] for wire in victims), default=seen.worst(root))
    load = seen.loads.get(egress, 0.0)
    evidence = [load_evidence(telemetry, egress, load)]
    evidence += [seen.waiting[wire].evidence for wire in victims[:6]]
    exact = all(seen.waiting[wire].exact for wire in victims)
    what = "incast: the link to the host" if faces_host(fabric, egress) else "the link"
    return found(
        rule,
        egress,
        "critical" if worst >= CRITICAL_SHARE else "warning",
        0.85 if exact else 0.65,
        f"{what} {display(egress)} is {load:.0%} full; {len(victims)} ports wait for it up to "
        f"{worst:.0%} of the time: {names(victims)}",
        evidence,
        affected=victims,
        explains=[
            *(("ib-hoq-discards", wire) for wire in (egress, *victims)),
            ("ib-congestion-control", egress),
        ],
    )


RULE: Final = Rule(
    id="ib-oversubscribed-link",
    section="flow_control",
    title="InfiniBand link that is asked for more than it carries",
    finds="full egresses for which ports before them wait",
    quiet_when=f"no port waits {MIN_SHARE:.0%} of the time for a full egress",
    cannot_tell_when="transmit waits, ticks or cables of the subnet are not known",
    refutes="the link is not full in any shorter window, or its victims send nothing through it",
    judge=judge,
    answers=("R51",),
)
