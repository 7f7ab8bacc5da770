"""The cure of a PFC watchdog that acts on ordinary pauses: let it wait longer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.entities import Entity, Interface, display
from tuner.advice.cure import end_of_loss, recommend_change
from tuner.advice.norm import held, usual
from tuner.advice.recommendation import Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

DETECTION: Final = "pfc_watchdog_detection_seconds"
SHORTEST_S: Final = 0.1  # SONiC refuses less; Azure's NICs wait as long
USUAL_S: Final = 0.2  # SONiC's default


def act_later(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Give the watchdog the longer time that its like have, else one that outlasts congestion.

    Where it waited long enough it was right, and what paused the queue is another finding.
    """
    places = [finding.subject]
    if isinstance(finding.subject, Interface):
        places.append(finding.subject.switch)
    hasty: dict[tuple[float, float], list[Entity]] = {}
    for entity, setting in held(telemetry, DETECTION, places).items():
        if not isinstance(setting.value, (int, float)):
            continue
        known = usual(telemetry, fabric, DETECTION, entity)
        wanted = float(known[0]) if known and isinstance(known[0], (int, float)) else 0.0
        wanted = wanted if wanted >= SHORTEST_S else USUAL_S
        if setting.value < wanted and (setting.value < SHORTEST_S or known is not None):
            hasty.setdefault((setting.value, wanted), []).append(entity)
    for (now, wanted), slots in hasty.items():
        alike = [
            entity
            for entity, setting in telemetry.setting_all(DETECTION).items()
            if setting.value == now and entity not in slots
        ]
        yield recommend_change(
            finding,
            DETECTION,
            slots[0],
            now,
            wanted,
            f"let the watchdog of {display(slots[0])} wait longer than congestion pauses a queue: "
            f"{now:g} s is less than its like or any guide allow",
            end_of_loss(telemetry, fabric, finding.affected),
            confidence=finding.confidence,
            risk="low",
            also=[*slots[1:], *alike],
        )
