"""The PFC watchdog of a switch fired: for a pause without end, or falsely (R9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import switch as rows
from collectors.model.entities import Entity, Interface, Slot, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

HONEST: Final = 0.5  # of the span paused: less is no pause without end
_DROPS: Final = (rows.WATCHDOG_TX_DROPS, rows.WATCHDOG_RX_DROPS)
_SETTINGS: Final = ("pfc_watchdog_detection_seconds", "pfc_watchdog_action")


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find queues on which a watchdog acted and hold them against how long they were paused."""
    counted = telemetry.counted(rows.WATCHDOG_STORMS.name)
    paused = {flow.priority: flow.stalls for flow in pfc_flows(telemetry, fabric)}
    findings: dict[Interface, Finding] = {}
    for slot, growth in telemetry.growing(rows.WATCHDOG_STORMS.name).items():
        place = slot.parent if isinstance(slot, Slot) else slot
        if not isinstance(place, Interface):
            continue
        index = slot.index if isinstance(slot, Slot) else -1
        stall = paused.get(index, {}).get(place)
        share = stall.share if stall is not None and stall.exact else None
        findings.setdefault(place, _finding(rule, telemetry, slot, place, growth, share))
    missing = () if counted else ("detections of a PFC watchdog",)
    return verdict(rule, findings.values(), judged=counted, missing=missing)


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    slot: Entity,
    place: Interface,
    growth: Growing,
    share: float | None,
) -> Finding:
    doubtful = share is not None and share * growth.seconds < HONEST * _detection(telemetry, place)
    why = (
        f"although the queue was paused only {share:.1%} of the time: detection is too short, or "
        "an old algorithm counts an empty queue as stuck"
        if doubtful
        else "for a pause without end"
    )
    dropped = list(_dropped(telemetry, place))
    return found(
        rule,
        place,
        "critical" if dropped else "warning",
        0.75 if share is not None else 0.6,
        f"the PFC watchdog of {display(place)} fired {growth.total:.0f} times {why}"
        + ("; it dropped lossless packets" if dropped else ""),
        [grew(rows.WATCHDOG_STORMS, slot, growth, "0"), *dropped, *_set(telemetry, place)],
        affected=[place],
        explains=[
            (effect, where)
            for where in (place, place.switch)
            for effect in ("queue-drops", "headroom-too-small", "loss-on-path", "ack-timeouts")
        ],
    )


def _detection(telemetry: Telemetry, place: Interface) -> float:
    setting = telemetry.settings(place).get(_SETTINGS[0])
    known = setting is not None and isinstance(setting.value, (int, float))
    return float(setting.value) if setting is not None and known else 0.1  # type: ignore[arg-type]


def _dropped(telemetry: Telemetry, place: Interface) -> Iterable[Evidence]:
    for metric in _DROPS:
        for index in range(8):
            slot = Slot(place, "queue", index)
            growth = telemetry.growth(metric.name, slot)
            if growth is not None and growth.total > 0:
                yield grew(metric, slot, growth, "0")


def _set(telemetry: Telemetry, place: Interface) -> Iterable[Evidence]:
    for name in _SETTINGS:
        setting = telemetry.settings(place).get(name)
        if setting is not None:
            yield Evidence(name, place, str(setting.value), note=setting.where)


RULE: Final = Rule(
    id="watchdog-fired",
    section="flow_control",
    title="PFC watchdog fired",
    finds="queues that a PFC watchdog declared stuck, and whether they were paused long enough",
    quiet_when="no watchdog fired",
    cannot_tell_when="no switch counts detections of its watchdog",
    refutes="the queue was drained on purpose (XON storms count as detections on some switches)",
    judge=judge,
    answers=("R9",),
)
