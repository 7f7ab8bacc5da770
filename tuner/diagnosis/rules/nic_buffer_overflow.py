"""A NIC drops what arrives because its receive buffer is full and PFC does not protect it (R57)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectors.model.catalogue import ethernet, rdma
from collectors.model.entities import Entity, Netdev, Port, Slot, Wire, display, wire_of
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.lossless import losses_behind, pfc_of
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_PACKETS: Final = 10
_DISCARDS: Final = (
    ethernet.PRIORITY_RX_DISCARDS,
    ethernet.PRIORITY_RX_BUFFER_DISCARDS,
    ethernet.PHY_RX_DISCARDS,
    rdma.RX_DISCARDS,
)


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find hosts' interfaces that discard received packets, with PFC off or on."""
    seen: dict[Netdev, list[Evidence]] = {}
    most: dict[Netdev, float] = {}
    judged = False
    for metric in _DISCARDS:
        judged = judged or any(
            isinstance(_wire(fabric, entity), Netdev)
            for entity in telemetry.growth_all(metric.name)
        )
        for entity, growth in telemetry.growing(metric.name, MIN_PACKETS).items():
            wire = _wire(fabric, entity)
            if isinstance(wire, Netdev):
                seen.setdefault(wire, []).append(grew(metric, entity, growth, f"< {MIN_PACKETS}"))
                most[wire] = max(most.get(wire, 0.0), growth.total)
    pfc = pfc_of(telemetry) if seen else {}
    findings = [
        _finding(rule, fabric, wire, evidence, most[wire], pfc) for wire, evidence in seen.items()
    ]
    missing = () if judged else ("packets discarded by the receive buffer of a NIC",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _wire(fabric: FabricView, entity: Entity) -> Wire | None:
    return fabric.attached(entity) if isinstance(entity, Port) else wire_of(entity)


def _finding(
    rule: Rule,
    fabric: FabricView,
    wire: Netdev,
    evidence: list[Evidence],
    packets: float,
    pfc: Mapping[Wire, frozenset[int]],
) -> Finding:
    on = pfc.get(wire)
    lossy = [e for e in evidence if isinstance(e.entity, Slot) and on is not None]
    unprotected = on is not None and (
        not on or any(isinstance(e.entity, Slot) and e.entity.index not in on for e in lossy)
    )
    why = (
        "PFC is off there"
        if unprotected
        else "although PFC is on: the buffer's thresholds leave too little room"
        if on
        else "whether PFC protects it is unknown"
    )
    port: Entity | None = fabric.port_of(wire)
    settings = [] if on is None else [Evidence("pfc_priorities", wire, str(sorted(on) or "none"))]
    return found(
        rule,
        wire,
        "critical",
        0.9 if unprotected else 0.6,
        f"the receive buffer of {display(wire)} overflowed: {packets:.0f} packets were dropped; "
        f"{why}",
        [*evidence, *settings],
        affected=[port] if port is not None else [],
        explains=losses_behind(wire),
    )


RULE: Final = Rule(
    id="nic-buffer-overflow",
    section="config",
    title="NIC receive buffer overflows",
    finds=f"hosts' interfaces that discard {MIN_PACKETS} or more packets for want of buffer",
    quiet_when="fewer are discarded",
    cannot_tell_when="no NIC counts what its receive buffer discards",
    refutes="the discarded packets are not RoCE (the priority carries other traffic)",
    judge=judge,
    answers=("R57",),
)
