"""The plan as `tuner suggest --format json` and `plan.json` have it.

Version 1. Fields are only ever added within a version. Entities are canonical strings; `name`
beside them is for people. A plan is read in this order: stages (which devices, in rings), then
for each device its steps by number, each followed by its check; undo is the same backwards.
"""

from __future__ import annotations

import msgspec

from collectors.model.entities import Entity, display
from collectors.model.facts import Value
from tuner.advice.plan import Alike, Conflict, DevicePlan, Plan, Refusal, Stage, alike

Plain = str | int | float | bool | list[str | int | float | bool] | None


class PlaceDocument(msgspec.Struct, frozen=True):
    """An entity."""

    entity: str
    name: str


class CheckDocument(msgspec.Struct, frozen=True):
    """What must hold after a step: `reads_back` at once, `watch` after `within_s` of traffic."""

    reads_back: str
    watch: str
    within_s: float


class StepDocument(msgspec.Struct, frozen=True):
    """One change. current is null where it is not visible. recommendation: its id.

    number: place in the order of the device. also: places with the very same change, whose
    numbers follow.
    """

    number: int
    recommendation: str
    knob: str
    scope: PlaceDocument
    also: list[PlaceDocument]
    current: Plain
    proposed: Plain
    unit: str
    summary: str
    why: list[str]
    risk: str
    disruption: str
    how: str
    undo: str
    check: CheckDocument


class DeviceDocument(msgspec.Struct, frozen=True):
    """The steps of a device. platform: its configuration language, '' where it is unknown."""

    device: PlaceDocument
    platform: str
    steps: list[StepDocument]


class StageDocument(msgspec.Struct, frozen=True):
    """A ring of the roll-out: devices by name, what to watch for hold_s, when to stop."""

    name: str
    devices: list[str]
    hold_s: float
    watch: list[str]
    stop_if: list[str]


class ConflictDocument(msgspec.Struct, frozen=True):
    """Recommendations that cannot stand together. kept: id of the one that stays, or ''."""

    recommendations: list[str]
    why: str
    kept: str


class RefusalDocument(msgspec.Struct, frozen=True):
    """A recommendation that the plan leaves out, and why."""

    recommendation: str
    knob: str
    scope: PlaceDocument
    why: str


class PlanDocument(msgspec.Struct, frozen=True):
    """The whole plan."""

    stages: list[StageDocument]
    devices: list[DeviceDocument]
    conflicts: list[ConflictDocument]
    refused: list[RefusalDocument]


def plan_document(plan: Plan) -> PlanDocument:
    """Return a plan for machines."""
    return PlanDocument(
        [_stage(stage) for stage in plan.stages],
        [_device(device) for device in plan.devices],
        [_conflict(conflict) for conflict in plan.conflicts],
        [_refusal(refusal) for refusal in plan.refused],
    )


def _stage(stage: Stage) -> StageDocument:
    return StageDocument(
        stage.name, list(stage.devices), stage.hold_s, list(stage.watch), list(stage.stop_if)
    )


def _device(device: DevicePlan) -> DeviceDocument:
    place = PlaceDocument(str(device.device), device.name)
    groups = alike(device.steps)
    return DeviceDocument(place, device.platform, [_step(group) for group in groups])


def _step(group: Alike) -> StepDocument:
    step = group.first
    return StepDocument(
        step.number,
        step.recommendation,
        step.knob,
        _place(step.scope),
        [_place(other.scope) for other in group.steps[1:]],
        _plain(step.current),
        _plain(step.proposed),
        step.unit,
        step.summary,
        list(step.why),
        step.risk,
        step.disruption,
        step.how,
        step.undo,
        CheckDocument(step.check.reads_back, step.check.watch, step.check.within_s),
    )


def _conflict(conflict: Conflict) -> ConflictDocument:
    return ConflictDocument(list(conflict.recommendations), conflict.why, conflict.kept)


def _refusal(refusal: Refusal) -> RefusalDocument:
    return RefusalDocument(refusal.recommendation, refusal.knob, _place(refusal.scope), refusal.why)


def _place(entity: Entity) -> PlaceDocument:
    return PlaceDocument(str(entity), display(entity))


def _plain(value: Value | None) -> Plain:
    return list(value) if isinstance(value, tuple) else value
