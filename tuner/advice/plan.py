"""A plan: ordered, conflict-free changes by device, and how to roll them out.

Renderers see nothing but this. It is built by `planning.build_plan` and by `profile`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from collectors.model.entities import Entity, Host, Switch, display
from collectors.model.facts import Attribute, Setting, Value

Risk: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold after a step: the setting reads back as wanted, and the effect shows.

    watch: metric, and where it must lie after `within_s` seconds of traffic; '' where the step
    predicts nothing.
    """

    reads_back: str
    watch: str
    within_s: float


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one knob at one place.

    number: place in the order of the device, from 1. recommendation: id of what it comes from. why:
    findings in words. current is None where it is not visible. how, undo: for people.
    """

    number: int
    recommendation: str
    knob: str
    scope: Entity
    current: Value | None
    proposed: Value
    unit: str
    summary: str
    why: tuple[str, ...]
    risk: Risk
    disruption: str
    how: str
    undo: str
    check: Check


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The steps of one host or switch, with what is known of it.

    platform: its configuration language (`eos`, `linux`...), '' where it is unknown. settings: all
    that was read of it, running values. attributes: driver, PCI address, netdev of a port...
    """

    device: Host | Switch
    name: str
    platform: str
    steps: tuple[Step, ...]
    settings: tuple[Setting, ...] = ()
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """A ring of the roll-out. devices: names. hold_s: how long to watch before the next."""

    name: str
    devices: tuple[str, ...]
    hold_s: float
    watch: tuple[str, ...]
    stop_if: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Recommendations that cannot stand together, or with what is configured elsewhere.

    kept: id of the one that stays in the plan, '' where it is for people to decide.
    """

    recommendations: tuple[str, ...]
    why: str
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A recommendation that the plan leaves out, and why."""

    recommendation: str
    knob: str
    scope: Entity
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to do, in order."""

    devices: tuple[DevicePlan, ...]
    stages: tuple[Stage, ...]
    conflicts: tuple[Conflict, ...]
    refused: tuple[Refusal, ...]

    @property
    def steps(self) -> int:
        """Number of steps of all devices."""
        return sum(len(device.steps) for device in self.devices)


@dataclass(frozen=True, slots=True)
class Alike:
    """Steps of a device that make the same change of the same knob, at several places."""

    steps: tuple[Step, ...]

    @property
    def first(self) -> Step:
        """The step to show for all."""
        return self.steps[0]

    @property
    def numbers(self) -> str:
        """Numbers of the steps: `4`, `4-67`."""
        first, last = self.steps[0].number, self.steps[-1].number
        return str(first) if first == last else f"{min(first, last)}-{max(first, last)}"

    @property
    def places(self) -> str:
        """Where: the first place, and how many more."""
        more = len(self.steps) - 1
        return display(self.first.scope) + (f" and {more} more like it" if more else "")


def alike(steps: Iterable[Step]) -> list[Alike]:
    """Return the steps in their order, those that follow each other with the same change as one."""
    groups = itertools.groupby(
        steps, lambda s: (s.knob, s.current, s.proposed, s.summary.replace(display(s.scope), ""))
    )
    return [Alike(tuple(group)) for _, group in groups]
