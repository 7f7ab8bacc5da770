"""A switch's shared buffer runs out and lossless traffic is lost (R15)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import switch as rows
from collectors.model.entities import Entity, Slot, Switch, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.lossless import losses_behind, lossless_drops
from tuner.diagnosis.rule import Rule, found, growths, verdict
from tuner.diagnosis.view import FabricView, Telemetry

FULL: Final = 0.98  # of the pool's size
_SIZE: Final = "pool_size_bytes"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Hold the watermark of each pool against its size, where its switch drops."""
    del fabric
    drops = lossless_drops(telemetry)
    findings: dict[Switch, Finding] = {}
    judged = False
    for slot, seen in telemetry.highest_all(rows.POOL_MAX.name).items():
        switch = slot.parent if isinstance(slot, Slot) else None
        size = _size(telemetry, slot, switch)
        if not isinstance(switch, Switch) or size is None:
            continue
        judged = True
        lost = drops.get(switch)
        if seen.value < FULL * size or lost is None:
            continue
        evidence = [
            Evidence(rows.POOL_MAX.name, slot, seen.value, "bytes", f"< {size:.0f}", seen.at_ns),
            *lost.evidence,
        ]
        groups = [
            (rows.GROUP_BUFFER_DROPS, Slot(place, "priority_group", index))
            for place in lost.at_ingress
            for index in range(8)
        ]
        evidence += growths(telemetry, groups, "0", grown=True)
        findings[switch] = found(
            rule,
            switch,
            "critical",
            0.8,
            f"the shared buffer of {display(switch)} was full ({seen.value / size:.0%}) and it "
            f"dropped {lost.total:.0f} packets of a lossless priority",
            evidence,
            explains=[
                claim
                for place in (*lost.at_ingress, *lost.at_egress)
                for claim in losses_behind(place)
            ],
        )
    missing = () if judged else ("watermark and size of a switch's buffer pool",)
    return verdict(rule, findings.values(), judged=judged, missing=missing)


def _size(telemetry: Telemetry, slot: Entity, switch: Entity | None) -> float | None:
    for entity in (slot, switch):
        setting = telemetry.settings(entity).get(_SIZE) if entity is not None else None
        if setting is not None and isinstance(setting.value, (int, float)) and setting.value > 0:
            return float(setting.value)
    return None


RULE: Final = Rule(
    id="pool-exhausted",
    section="config",
    title="Shared buffer exhausted",
    finds=f"switches whose pool was {FULL:.0%} full and that dropped a lossless priority",
    quiet_when="pools stay below, or nothing lossless is dropped",
    cannot_tell_when="watermark or size of no pool is known",
    refutes="the drops are of a priority group that has used up its own headroom",
    judge=judge,
    answers=("R15",),
)
