"""802.3x pause frames where RoCE runs: link-level flow control stops every class (R35)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Netdev, Wire, display, link
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.lossless import pfc_of
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_FRAMES: Final = 10
_FRAMES: Final = (interface.PAUSE_RX_FRAMES, interface.PAUSE_TX_FRAMES)


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find cables of RoCE ports and of switches with PFC on which 802.3x pause frames pass."""
    seen: dict[Entity, list[Evidence]] = {}
    judged = any(
        isinstance(wire, Wire) and _carries_roce(telemetry, fabric, wire)
        for metric in _FRAMES
        for wire in telemetry.growth_all(metric.name)
    )
    for metric in _FRAMES:
        for wire, growth in telemetry.growing(metric.name, MIN_FRAMES).items():
            if isinstance(wire, Wire) and _carries_roce(telemetry, fabric, wire):
                far = fabric.peer(wire)
                cable = wire if far is None else link(wire, far)
                seen.setdefault(cable, []).append(grew(metric, wire, growth, f"< {MIN_FRAMES}"))
    findings = [_finding(rule, cable, evidence) for cable, evidence in seen.items()]
    missing = () if judged else ("802.3x pause frames of a RoCE port or its switch",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _carries_roce(telemetry: Telemetry, fabric: FabricView, wire: Wire) -> bool:
    ends = (wire, fabric.peer(wire))
    roce = any(isinstance(end, Netdev) and fabric.port_of(end) is not None for end in ends)
    return roce or bool(pfc_of(telemetry).get(wire))


def _finding(rule: Rule, cable: Entity, evidence: list[Evidence]) -> Finding:
    frames = max(float(item.value) for item in evidence)
    return found(
        rule,
        cable,
        "critical",
        0.9,
        f"{frames:.0f} 802.3x pause frames passed {display(cable)}: they stop every class, and "
        "PFC does not work beside them",
        evidence,
        affected=[item.entity for item in evidence],
        explains=[
            (name, cable) for name in ("pause-with-roce", "pause-root", "slow-receiver", "incast")
        ],
    )


RULE: Final = Rule(
    id="global-pause",
    section="config",
    title="802.3x pause instead of PFC",
    finds=f"cables with RoCE on which {MIN_FRAMES} or more 802.3x pause frames were counted",
    quiet_when="fewer are counted",
    cannot_tell_when="neither end of any cable with RoCE counts 802.3x pause frames",
    refutes="the device counts PFC frames as 802.3x pause frames, too",
    judge=judge,
    answers=("R35",),
)
