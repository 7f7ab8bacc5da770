"""Rendered configurations of a plan, entered into models of devices and read by C's readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import jsonpatch
from msgspec import structs

from collectors.model.entities import Entity, Interface, Slot, Switch, display
from collectors.model.errors import FabricError
from collectors.model.facts import Value
from collectors.model.printable import printable
from collectors.switchconfig.read import parse_configuration
from tests.tuner.render.test_switches import (
    by_indentation,
    eos_name,
    flat,
    junos_leaf,
    nvue_leaf,
    nxos_name,
    onyx_name,
)
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.plan import DevicePlan, Plan, Step
from tuner.render.form import Rendered, render_device
from tuner.render.registry import RENDERERS

State = dict[tuple[Entity, str], Value]
TOLERANCE = {"bytes": 0.5, "ratio": 0.01, "seconds": 5e-4, "bps": 1e9}
"""What languages round to: whole bytes, percents from 1 on, milliseconds, Gbit/s."""
ONYX_BYTES = 1000.0  # Onyx counts queues in kilobytes

TEXTS: dict[str, tuple[str, Callable[[], tuple[Callable[[str], None], Callable[[], str]]]]] = {
    "eos": ("Ethernet{}/1", lambda: by_indentation(eos_name)),
    "nxos": ("Ethernet1/{}", lambda: by_indentation(nxos_name)),
    "onyx": ("Eth1/{}", lambda: by_indentation(onyx_name)),
    "nvue": ("swp{}", lambda: flat("nv set", "nv unset", nvue_leaf)),
    "junos": ("et-0/0/{}", lambda: flat("set", "delete", junos_leaf)),
}
"""Language -> names of its ports, and an empty device that takes commands and shows its text."""


@dataclass(frozen=True)
class ReadBack:
    """How many steps were rendered and read back, and those that came back otherwise."""

    steps: int
    wrong: tuple[str, ...]


def read_back(plan: Plan) -> ReadBack:
    """Return what becomes of every switch's steps in every language that can express them."""
    steps, wrong = 0, []
    for device in plan.devices:
        if not isinstance(device.device, Switch):
            continue
        for platform in (*TEXTS, "sonic"):
            try:
                start, read, back, carried = _there_and_back(device, platform)
            except (FabricError, ValueError, jsonpatch.JsonPatchException) as error:
                wrong.append(f"{platform} {device.name}: {type(error).__name__}: {error}")
                continue
            steps += len(carried)
            for step in carried:
                wrong += _held(platform, "apply", read, step, step.proposed)
            for step in carried if back is not None else ():
                if step.current is not None:
                    former = start.get((step.scope, step.knob))
                    wrong += _held(platform, "undo", back, step, former)
    return ReadBack(steps, tuple(wrong))


def _held(platform: str, way: str, state: State, step: Step, wanted: Value | None) -> Iterator[str]:
    got = state.get((step.scope, step.knob))
    unit = KNOBS[step.knob].unit
    most = ONYX_BYTES if (platform, unit) == ("onyx", "bytes") else TOLERANCE.get(unit, 1e-6)
    if not _same(got, wanted, most):
        yield f"{platform} {way}: {step.knob} of {display(step.scope)}: {got}, not {wanted}"


def _same(got: Value | None, wanted: Value | None, most: float) -> bool:
    if isinstance(got, (int, float)) and isinstance(wanted, (int, float)):
        return abs(got - wanted) <= most
    if got is None and isinstance(wanted, (bool, tuple)):
        return wanted is False or (wanted is not True and not any(wanted))  # off: no line
    return got == wanted


def _there_and_back(
    device: DevicePlan, platform: str
) -> tuple[State, State, State | None, list[Step]]:
    """Return what is read before, after apply and after undo, and the steps of the language.

    None after an undo that is a rollback to a checkpoint: the device keeps that, not a text.
    """
    if platform == "sonic":
        return _sonic(_named(device, platform, "Ethernet{}"))
    port, empty = TEXTS[platform]
    plan = _named(device, platform, port)
    made = render_device(plan, RENDERERS[platform])
    carried = _carried(plan, made)
    enter, text = empty()
    enter(render_device(_former(plan, carried), RENDERERS[platform]).apply)
    start = _state(platform, text(), plan)
    enter(made.apply)
    read = _state(platform, text(), plan)
    enter(made.undo)
    return start, read, _state(platform, text(), plan), _taken_back(carried, made)


def _sonic(plan: DevicePlan) -> tuple[State, State, State | None, list[Step]]:
    """Return the same of a config_db.json: patches, applied by another's RFC 6902."""
    renderer = RENDERERS["sonic"]
    carried = _carried(plan, render_device(plan, renderer))
    first = render_device(_former(plan, carried), renderer).files
    database = json.loads(first["apply.config_db.json"]) if first else {}
    facts = parse_configuration("sonic", json.dumps(database), plan.device, "config_db.json")
    made = render_device(replace(plan, settings=facts.settings), renderer)
    carried = [step for step in carried if step in _carried(plan, made)]
    if not made.files:
        return {}, {}, None, []
    if "apply.patch.json" not in made.files:  # nothing of it was configured: loaded, not patched
        return {}, _state("sonic", made.files["apply.config_db.json"], plan), None, carried
    there = jsonpatch.apply_patch(database, json.loads(made.files["apply.patch.json"]))
    back = jsonpatch.apply_patch(there, json.loads(made.files["undo.patch.json"]))
    return (
        _state("sonic", json.dumps(database), plan),
        _state("sonic", json.dumps(there), plan), _state("sonic", json.dumps(back), plan),
        _taken_back(carried, made),
    )  # fmt: skip


def _taken_back(carried: list[Step], made: Rendered) -> list[Step]:
    """Return the steps; those that undo says it cannot take back have no value to come back."""

    def said(step: Step) -> bool:
        return f"not taken back: {step.knob} of {printable(display(step.scope))}:" in made.undo

    return [replace(step, current=None) if said(step) else step for step in carried]


def _former(plan: DevicePlan, carried: list[Step]) -> DevicePlan:
    """Return the plan that brings about what the carried steps start from."""
    steps = [
        replace(step, current=None, proposed=step.current)
        for step in carried
        if step.current is not None
    ]
    return replace(plan, steps=tuple(steps))


def _carried(plan: DevicePlan, made: Rendered) -> list[Step]:
    refused = {(missing.knob, missing.place) for missing in made.missing}
    renderer = RENDERERS[made.platform]
    return [
        step
        for step in plan.steps
        if renderer.knows(step.knob) and (step.knob, printable(display(step.scope))) not in refused
    ]


def _state(platform: str, text: str, plan: DevicePlan) -> State:
    facts = parse_configuration(platform, text, plan.device, "rendered")
    return {(row.entity, row.name): row.value for row in facts.settings}


def _named(plan: DevicePlan, platform: str, port: str) -> DevicePlan:
    """Return the plan with its ports named as a platform names them.

    What is configured takes the place of what is running: undo brings back the former.
    """
    now = {(row.entity, row.name): row.value for row in plan.settings}
    known: dict[Interface, Interface] = {}

    def place(entity: Entity) -> Entity:
        if isinstance(entity, Slot) and isinstance(entity.parent, Interface):
            return replace(entity, parent=place(entity.parent))
        if not isinstance(entity, Interface):
            return entity
        made = Interface(entity.switch, port.format(len(known) + 1))
        return known.setdefault(entity, made)

    return replace(
        plan,
        platform=platform,
        steps=tuple(
            replace(
                step,
                scope=place(step.scope),
                current=now.get((step.scope, step.knob), step.current),
            )
            for step in plan.steps
        ),
        settings=tuple(structs.replace(row, entity=place(row.entity)) for row in plan.settings),
        attributes=tuple(structs.replace(row, entity=place(row.entity)) for row in plan.attributes),
    )
