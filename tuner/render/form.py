"""The form of a renderer: from the steps of one device to texts that apply, verify and undo them.

A renderer writes the way from one state of a device to another. Undo is the same way back, which
is why one function writes both. What a platform does not have is said by name, never dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from collectors.model.entities import Entity, Interface, Slot, display
from collectors.model.facts import Value
from collectors.model.printable import printable
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.knobs.knob import PLATFORMS, shown
from tuner.advice.plan import DevicePlan, Step, alike
from tuner.render.names import faults

Key: TypeAlias = tuple[Entity, str]
State: TypeAlias = Mapping[Key, Value]
Way: TypeAlias = Literal["apply", "undo"]

LEAST_PERCENT: Final = 1  # of marking: 0 would switch it off


@dataclass(frozen=True, slots=True)
class Missing:
    """A step that the text does not carry out. why: in words for people."""

    knob: str
    place: str
    why: str


@dataclass
class Change:
    """The way of one device from a state to another.

    before, after: all that is known, by place and setting. keys: what differs, in the order of
    the steps. where: place and setting -> where it was read. missing: what the writer cannot say.
    """

    device: DevicePlan
    before: State
    after: State
    keys: tuple[Key, ...]
    way: Way = "apply"
    missing: dict[Key, str] = field(default_factory=dict)

    def back(self) -> Change:
        """Return the way back, for what is named after the state that it comes from."""
        return Change(self.device, self.after, self.before, self.keys[::-1], self.way)

    def places(self, *names: str) -> list[Entity]:
        """Return the places where one of these settings differs, in order."""
        return list(dict.fromkeys(place for place, name in self.keys if name in names))

    def changed(self, place: Entity, *names: str) -> list[str]:
        """Return which of these settings differ at a place."""
        return [name for name in names if (place, name) in self.keys]

    def number(self, place: Entity, name: str) -> float | None:
        """Return the number that a setting shall have, None where it is unknown or none."""
        value = self.after.get((place, name))
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def whole(self, place: Entity, name: str) -> int | None:
        """Return the same as a whole number."""
        value = self.number(place, name)
        return None if value is None else round(value)

    def flag(self, place: Entity, name: str) -> bool | None:
        """Return whether a setting shall be on, None where that is unknown."""
        value = self.after.get((place, name))
        return None if value is None else bool(value)

    def text(self, place: Entity, name: str) -> str:
        """Return the word that a setting shall have, '' where it is unknown."""
        value = self.after.get((place, name))
        return "" if value is None else str(value)

    def row(self, place: Entity, name: str) -> tuple[Value, ...]:
        """Return the tuple that a setting shall have, empty where it is unknown."""
        value = self.after.get((place, name))
        return value if isinstance(value, tuple) else ()

    def moved(self, place: Entity, name: str) -> Iterator[tuple[int, int, int]]:
        """Yield (index, before, after) of the places of a map that differ; -1 is not set."""
        size = KNOBS[name].places
        unset = (-1,) * size
        before, after = self.before.get((place, name), unset), self.after.get((place, name), unset)
        if isinstance(before, tuple) and isinstance(after, tuple):
            pairs = zip(before, after, strict=False)
            for index, (old, new) in enumerate(pairs):
                if old != new and isinstance(old, int) and isinstance(new, int):
                    yield index, old, new

    def interfaces(self) -> list[Interface]:
        """Return every interface that is known of the device, changed ones first."""
        every = (key[0] for key in (*self.keys, *self.after))
        parents = (e.parent if isinstance(e, Slot) else e for e in every)
        return list(dict.fromkeys(p for p in parents if isinstance(p, Interface)))

    def slots(self, interface: Interface, kind: str) -> list[Slot]:
        """Return the queues or groups of an interface that are known, by number."""
        found = {
            place: None
            for state in (self.after, self.before)
            for place, _ in state
            if isinstance(place, Slot) and place.kind == kind and place.parent == interface
        }
        return sorted(found, key=lambda slot: slot.index)

    def lacks(self, places: Iterable[Entity], names: Iterable[str], why: str) -> None:
        """Note that changes of these settings at these places cannot be written."""
        names = tuple(names)
        for place in places:
            for name in self.changed(place, *names):
                self.missing.setdefault((place, name), why)

    def unsettled(
        self, places: Iterable[Entity], low: str = "kmin_bytes", high: str = "kmax_bytes"
    ) -> str:
        """Return what is not known of how queues shall mark, '' where nothing is missing.

        Marking needs both thresholds. The running Pmax is needed where a queue marks already: what
        sets the thresholds sets it, too.
        """
        for slot in places:
            names = (low, high, "pmax_ratio", "ecn_average_weight")
            known = {name for name in names if (slot, name) in self.after}
            if not (known or self.flag(slot, "ecn_enabled")):
                continue
            marks = self.before.get((slot, "ecn_enabled")) and (slot, low) in self.before
            running = marks and self.way == "apply"
            needed = (low, high, "pmax_ratio") if running else (low, high)
            missing = [name for name in needed if name not in known]
            if missing:
                return f"{' and '.join(missing)} of {display(slot)} not known"
        return ""

    def former(self, place: Entity, kind: str) -> str:
        """Return the name of the profile to go back to, '' on the way there or if none was read."""
        return self.attribute(place, kind) if self.way == "undo" else ""

    def where(self, place: Entity, name: str) -> str:
        """Return where a setting was read, '' where it was not."""
        rows = (r for r in self.device.settings if r.entity == place and r.name == name)
        return next((row.where for row in rows), "")

    def attribute(self, place: Entity, name: str) -> str:
        """Return identity or inventory of a place, '' where it is unknown."""
        rows = (r for r in self.device.attributes if r.entity == place and r.name == name)
        return next((str(row.value) for row in rows), "")


@dataclass(frozen=True, slots=True)
class Renderer:
    """A configuration language.

    write: the text of a change. verify: commands that show the changed places. before, after: what
    goes in front of and behind a text (checkpoint, commit). comment: begin of a comment line.
    files: texts that go beside (name -> text), for languages that take files.
    """

    platform: str
    on: Literal["switch", "host"]
    write: Callable[[Change], str]
    verify: Callable[[Change], str]
    comment: str
    suffix: str
    before: str = ""
    after: str = ""
    undo_before: str = ""
    files: Callable[[Change], Mapping[str, str]] | None = None

    @property
    def title(self) -> str:
        """Name for people."""
        return PLATFORMS[self.platform].title

    def knows(self, knob: str) -> bool:
        """Tell whether the language has a knob that is not the firmware's."""
        row = KNOBS[knob]
        return row.home(self.platform) is not None and row.owner == "operator"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The texts of one device in one language, ready to be read by a person."""

    device: str
    platform: str
    apply: str
    verify: str
    undo: str
    diff: str
    missing: tuple[Missing, ...]
    files: Mapping[str, str]


def change_of(device: DevicePlan, steps: Sequence[Step], way: Way) -> Change:
    """Return the change that some steps of a device come down to, or their way back."""
    before: dict[Key, Value] = {(row.entity, row.name): row.value for row in device.settings}
    for step in steps:
        if step.current is not None:
            before.setdefault((step.scope, step.knob), step.current)
    after = {**before, **{(step.scope, step.knob): step.proposed for step in steps}}
    keys = tuple((step.scope, step.knob) for step in steps)
    if way == "apply":
        return Change(device, before, after, keys)
    return Change(device, after, before, keys[::-1], "undo")


def render_device(device: DevicePlan, renderer: Renderer) -> Rendered:
    """Return the texts of a device in a language."""
    left = [step for step in device.steps if not renderer.knows(step.knob)]
    known = [step for step in device.steps if renderer.knows(step.knob)]
    fault = faults(device, renderer.platform)
    refused = {(step.scope, step.knob): why for step in known if (why := fault(step))}
    while True:  # what the language refuses is in no text: not in part, and not in undo
        done = [step for step in known if (step.scope, step.knob) not in refused]
        device = replace(device, steps=tuple(done))
        there = change_of(device, done, "apply")
        apply = renderer.write(there)
        if not apply:
            there.lacks([key[0] for key in there.keys], KNOBS, f"{renderer.title}: no line for it")
        if not there.missing:
            break
        refused |= there.missing
    back = change_of(device, done, "undo")
    undo = renderer.write(back)
    for (place, name), why in back.missing.items():
        undo += remark(renderer.comment, f"not taken back: {name} of {display(place)}: {why}")
    missing = [
        Missing(group.first.knob, printable(group.places), _has_not(renderer, group.first))
        for group in alike(left)
    ]
    missing += [
        Missing(name, printable(display(place)), printable(why))
        for (place, name), why in refused.items()
    ]
    files: dict[str, str] = {}
    if renderer.files and apply:
        files = {**renderer.files(there), **renderer.files(back)}
    c = renderer.comment
    return Rendered(
        device.name,
        renderer.platform,
        _framed(renderer, _heading(c, device, done, "apply"), renderer.before, apply),
        _checks(c, done) + renderer.verify(there) if apply else "",
        _framed(renderer, _heading(c, device, done[::-1], "undo"), renderer.undo_before, undo),
        diff_of(there),
        tuple(missing),
        files,
    )


def _framed(renderer: Renderer, heading: str, before: str, text: str) -> str:
    if not text:
        return ""
    return "".join(part for part in (heading, before, text, renderer.after) if part)


def _has_not(renderer: Renderer, step: Step) -> str:
    knob = KNOBS[step.knob]
    if knob.owner == "firmware":
        return "the firmware owns this knob"
    if why := by_hand(step):
        return why
    titles = ", ".join(PLATFORMS[home.platform].title for home in knob.homes)
    return f"{renderer.title} has no such knob (it is one of {titles})"


def by_hand(step: Step) -> str:
    """Return how people do what no command does, '' where a command does it."""
    if KNOBS[step.knob].homes:
        return ""
    return printable(f"no command does this; by hand: {step.how}")


def _heading(comment: str, device: DevicePlan, steps: Sequence[Step], way: Way) -> str:
    lines = [f"{device.name}: {way}, {len(steps)} step{'s' if len(steps) != 1 else ''}"]
    for group in alike(steps):
        step = group.first
        goal = step.proposed if way == "apply" else step.current
        aim = shown(goal, step.unit)
        if way == "undo" and goal is None:
            aim = "removed again: it was not set"
        lines.append(f"  {group.numbers}. {step.knob} of {group.places}: {aim}")
        if way == "apply":
            lines.append(f"     {step.summary} ({step.recommendation})")
            lines.append(f"     disruption: {step.disruption}")
    return "".join(remark(comment, line) for line in lines)


def remark(comment: str, text: str) -> str:
    """Return a comment line: whatever a device calls itself, the line does not end before."""
    return f"{comment} {printable(text)}\n"


def _checks(comment: str, steps: Sequence[Step]) -> str:
    lines = []
    for group in alike(steps):
        step, more = group.first, len(group.steps) - 1
        others = f", and so {more} more" if more else ""
        lines.append(f"{group.numbers}. {step.check.reads_back}{others}")
        if step.check.watch:
            lines.append(f"   within {step.check.within_s:.0f} s: {step.check.watch}")
    return "".join(remark(comment, line) for line in lines)


def diff_of(change: Change) -> str:
    """Return the change of the settings as they were read, one line before and one after each."""
    lines = []
    for place, name in change.keys:
        title = f"{display(place)} {name}"
        before, after = change.before.get((place, name)), change.after.get((place, name))
        where = change.where(place, name)
        lines.append(f"@ {title}{f' ({where})' if where else ''}")
        unit = KNOBS[name].unit
        lines.append(f"- {'not visible' if before is None else shown(before, unit)}")
        lines.append(f"+ {shown(after, unit)}")
    return "".join(printable(line) + "\n" for line in lines)


def percent(ratio: float) -> int:
    """Return a marking probability in whole percent, at least one."""
    return max(LEAST_PERCENT, round(ratio * 100))


def digest(*parts: object) -> str:
    """Return a short name for some content: the same content has the same name."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=3).hexdigest()


def on(row: Sequence[Value]) -> list[int]:
    """Return the places of a row that are on."""
    return [place for place, value in enumerate(row) if value is True]


def port_of(place: Entity) -> Interface | None:
    """Return the interface that a place is or is part of."""
    parent = place.parent if isinstance(place, Slot) else place
    return parent if isinstance(parent, Interface) else None


def anywhere(state: State, name: str) -> Value | None:
    """Return the value that a setting has at any place: for those that a device has only once."""
    return next((value for (_, known), value in state.items() if known == name), None)
