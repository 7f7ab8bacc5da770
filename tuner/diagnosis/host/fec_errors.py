"""Forward error correction at its limit: the link still works, but not for long (R31)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import ethernet
from collectors.model.entities import Entity, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import HostRule, found, grew, verdict
from tuner.diagnosis.view import HostTelemetry

RAW_BER: Final = 1e-5  # corrected bits per bit: NVIDIA's line for a link to look at
MIN_BITS: Final = 1000
MIN_LOST: Final = 3  # blocks in the span, and per hour
_LOST: Final = (ethernet.FEC_UNCORRECTABLE, ethernet.PCS_SYMBOL_ERRORS)


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find interfaces whose blocks cannot be corrected, or need much correction."""
    seen: dict[Entity, list[Evidence]] = {}
    lost: set[Entity] = set()
    for metric in _LOST:
        for entity, growth in telemetry.growing(metric.name, MIN_LOST).items():
            if growth.rate * 3600 >= MIN_LOST:
                lost.add(entity)
                limit = f"< {MIN_LOST}/h"
                seen.setdefault(entity, []).append(grew(metric, entity, growth, limit))
    for entity, bits in telemetry.growing(ethernet.CORRECTED_BITS.name, MIN_BITS).items():
        received = telemetry.growth(ethernet.RX_PHY_BYTES.name, entity)
        if received is None or received.total <= 0:
            continue
        ratio = bits.total / (8 * received.total)
        if ratio >= RAW_BER:
            limit = f"bit error rate {ratio:.1e}, < {RAW_BER:g}"
            seen.setdefault(entity, []).append(grew(ethernet.CORRECTED_BITS, entity, bits, limit))
    findings = [
        _finding(rule, entity, items, lost=entity in lost) for entity, items in seen.items()
    ]
    judged = any(telemetry.counted(metric.name) for metric in _LOST) or _rated(telemetry)
    missing = () if judged else ("error correction counters of an interface",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _rated(telemetry: HostTelemetry) -> bool:
    """Tell whether the bit error rate of any interface is known."""
    of_bits, of_bytes = ethernet.CORRECTED_BITS.name, ethernet.RX_PHY_BYTES.name
    return any(
        telemetry.growth(of_bits, entity) is not None
        and (received := telemetry.growth(of_bytes, entity)) is not None
        and received.total > 0
        for entity in telemetry.entities(of_bits)
    )


def _finding(rule: HostRule, entity: Entity, evidence: list[Evidence], *, lost: bool) -> Finding:
    what = "loses blocks that cannot be corrected" if lost else "needs much error correction"
    effects = ("loss-on-path", "link-errors", "lossy-cable", "retransmission-collapse")
    return found(
        rule,
        entity,
        "critical" if lost else "warning",
        0.9 if lost else 0.75,
        f"{display(entity)} {what}: dirty or failing optics, or a cable at its end",
        evidence,
        affected=[entity],
        explains=[(name, entity) for name in effects] if lost else [],
    )


RULE: Final = HostRule(
    id="fec-errors",
    section="link",
    title="Error correction at its limit",
    finds=f"interfaces with uncorrectable blocks, or a bit error rate over {RAW_BER:g} before "
    "correction",
    quiet_when="all is corrected, and little needs to be",
    cannot_tell_when="the interface does not count corrected or uncorrectable blocks",
    refutes="the link was being plugged in this span",
    judge=judge,
    answers=("R31",),
)
FIX: Final = "clean the connectors and reseat, then replace module or cable; look at rx power"
