"""Cures of links: lossy, down, slower than their like."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.model.entities import Slot, display
from tuner.advice.cure import GOODPUT, end_of_loss, recommend_change
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry


def repair(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Repair the cable that loses packets or does not stay up."""
    yield recommend_change(
        finding,
        "link_repair",
        finding.subject,
        "faulty",
        "repaired",
        f"clean, reseat or replace the cable {display(finding.subject)}",
        end_of_loss(telemetry, fabric, finding.affected),
        confidence=finding.confidence,
        risk="low",
    )


def speed_up(
    finding: Finding, _telemetry: Telemetry, _fabric: FabricView
) -> Iterable[Recommendation]:
    """Bring the slow end to the speed of its other end or its like."""
    slow = finding.evidence[0]
    wanted = _wanted(finding)
    if wanted is None or not isinstance(slow.value, (int, float)) or not slow.value:
        return
    knob = "queue_rate_bps" if isinstance(slow.entity, Slot) else "speed_bps"
    effect = Effect(
        GOODPUT,
        "ratio",
        1.0,
        min(1.5, wanted / slow.value),
        wanted / slow.value,
        "capacity ratio of the bottleneck",
        "the senders are limited by this link and the next bottleneck is at the usual rate",
    )
    yield recommend_change(
        finding,
        knob,
        slow.entity,
        int(slow.value),
        int(wanted),
        f"bring {display(finding.subject)} to the rate of its like",
        [effect],
        confidence=finding.confidence,
        risk="low",
    )


def _wanted(finding: Finding) -> float | None:
    """Return the rate of the other end, or of the like, that the finding compared with."""
    for item in finding.evidence[1:]:
        if isinstance(item.value, (int, float)):
            return float(item.value)
    return None
