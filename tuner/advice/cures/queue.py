"""Cures of egress queues: too slow for what is sent to them, too short for its bursts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.entities import Interface, Port, Slot, display, queue
from collectors.model.facts import Setting
from tuner.advice.cure import GOODPUT, end_of_loss, recommend_change
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

STEP: Final = 2  # no change of more than this factor at once


def relieve(
    finding: Finding, telemetry: Telemetry, _fabric: FabricView
) -> Iterable[Recommendation]:
    """Give a marking egress more capacity, where its senders do not react to marks.

    Soft-RoCE has no reaction point: thresholds would move marks, not goodput, so capacity is the
    only knob that helps. For NICs that do react this says nothing.
    """
    slot = _slot(finding, telemetry)
    rate = telemetry.settings(slot).get("queue_rate_bps") if slot else None
    if slot is None or not _is_number(rate) or not _unresponsive(finding, telemetry):
        return
    now = int(rate.value)  # type: ignore[union-attr, arg-type]  # _is_number
    effect = Effect(
        GOODPUT,
        "ratio",
        1.0,
        1.2,
        float(STEP),
        "capacity ratio of the bottleneck",
        "the marked egress is the bottleneck of all its senders, and they can send more",
    )
    yield recommend_change(
        finding,
        "queue_rate_bps",
        slot,
        now,
        now * STEP,
        f"give the egress {display(finding.subject)} more capacity, or spread its senders",
        [effect],
        confidence=min(finding.confidence, 0.7),
        risk="medium",
        missing=["what the senders would offer without congestion"],
    )


def lengthen(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Let a queue that overflows hold more."""
    slot = _slot(finding, telemetry)
    limit = telemetry.settings(slot).get("queue_limit_bytes") if slot else None
    if slot is None or not _is_number(limit):
        return
    now = int(limit.value)  # type: ignore[union-attr, arg-type]  # _is_number
    yield recommend_change(
        finding,
        "queue_limit_bytes",
        slot,
        now,
        now * STEP,
        f"let the egress queue of {display(finding.subject)} hold more",
        end_of_loss(telemetry, fabric, _behind(finding, fabric)),
        confidence=min(finding.confidence, 0.6),
        risk="medium",
        missing=["size of the bursts that overflow the queue"],
    )


def _slot(finding: Finding, telemetry: Telemetry) -> Slot | None:
    for item in finding.evidence:
        if isinstance(item.entity, Slot):
            return item.entity
    if isinstance(finding.subject, Interface):
        first = queue(finding.subject, 0)
        return first if telemetry.settings(first) else None
    return None


def _is_number(setting: Setting | None) -> bool:
    return setting is not None and isinstance(setting.value, (int, float))


def _unresponsive(finding: Finding, telemetry: Telemetry) -> bool:
    ports = [port for port in finding.affected if isinstance(port, Port)]
    drivers = [telemetry.attributes(port.device).get("driver") for port in ports]
    return bool(drivers) and all(d is not None and d.value in ("rxe", "siw") for d in drivers)


def _behind(finding: Finding, fabric: FabricView) -> list[Port]:
    return [p for p in fabric.ports() if fabric.peer(fabric.attached(p)) == finding.subject]
