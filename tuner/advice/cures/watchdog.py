"""PFC watchdogs: one that acts on ordinary pauses waits longer; none where a storm was gets one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.entities import Entity, Interface, Netdev, Port, Switch, display, wire_of
from collectors.model.facts import Value
from collectors.model.units import quantity
from tuner.advice.cure import (
    end_of_loss,
    in_words,
    part_of,
    recommend_change,
    recommend_together,
)
from tuner.advice.cures.host import look_at
from tuner.advice.norm import held, usual
from tuner.advice.recommendation import Effect, Part, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

ENABLED: Final = "pfc_watchdog_enabled"
DETECTION: Final = "pfc_watchdog_detection_seconds"
RESTORATION: Final = "pfc_watchdog_restoration_seconds"
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
            f"{quantity(now, 'seconds')} is less than its like or any guide allow",
            end_of_loss(telemetry, fabric, finding.affected),
            confidence=finding.confidence,
            risk="low",
            also=[*slots[1:], *alike],
        )


def end_storm(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Take the host out, and let a watchdog end the next storm where hosts face the switch."""
    yield from look_at(finding, telemetry, fabric)
    wire = wire_of(finding.subject)
    port = fabric.peer(wire) if wire is not None else None
    setting = None if port is None else telemetry.settings(port).get(ENABLED)
    if not isinstance(port, Interface) or (setting is not None and setting.value):
        return
    places = list(dict.fromkeys([port, *_unwatched(telemetry, fabric, port.switch)]))
    ends = Effect(
        "longest stop by a host that pauses without end", "seconds", None, 0.0, 2 * USUAL_S,
        "PFC watchdog", "the watchdog looks once in its detection time and acts at the next look",
    )  # fmt: skip
    wanted: tuple[tuple[str, Value], ...] = (
        (ENABLED, True), (DETECTION, USUAL_S), (RESTORATION, USUAL_S),
    )  # fmt: skip
    parts: list[Part] = []
    for name, proposed in wanted:
        groups: dict[Value | None, list[Entity]] = {}
        for place in places:
            now = telemetry.settings(place).get(name)
            if now is None or name == ENABLED:  # times that were set stay as they are
                groups.setdefault(None if now is None else now.value, []).append(place)
        parts += [part_of(name, there, now, proposed) for now, there in groups.items()]
    unknown = any(part.knob == ENABLED and part.current is None for part in parts)
    yield recommend_together(
        finding, "watchdog", parts,
        f"let the PFC watchdog of {in_words(places)} end a pause that does not end by itself",
        [ends],
        confidence=finding.confidence, risk="medium",
        missing=["whether the watchdog is on now"] if unknown else [],
    )  # fmt: skip


def _unwatched(telemetry: Telemetry, fabric: FabricView, switch: Switch) -> list[Interface]:
    """Return the ports of a switch that face hosts and are known to have no watchdog."""
    return [
        place
        for place, setting in held(telemetry, ENABLED, [switch]).items()
        if isinstance(place, Interface)
        and not setting.value
        and isinstance(fabric.peer(place), Netdev | Port)
    ]
