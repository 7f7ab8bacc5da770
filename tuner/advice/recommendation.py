"""Recommendations: what to change, where, why, with what effect, and how to take it back."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from collectors.model.entities import Entity
from collectors.model.facts import Value
from tuner.diagnosis.finding import Evidence

Risk: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Effect:
    """A predicted effect. low, high: interval of `after`; model: how it was predicted."""

    metric: str
    unit: str
    before: float | None
    low: float
    high: float
    model: str
    assumptions: str


@dataclass(frozen=True, slots=True)
class Part:
    """One of several knobs that are changed together: its places have the same current value.

    disruption: what the change does to running traffic.
    """

    knob: str
    places: tuple[Entity, ...]
    current: Value | None
    proposed: Value
    unit: str
    how: str
    undo: str
    disruption: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One change of one knob at one place, or one joint change of several.

    current is None where it is not visible from here; `missing` then says what would show it.
    because: ids of findings. how, undo: text for a person; plans for devices are rendered from
    knob, scope and proposed. also: further places that have the same current value and get the
    same proposed one. joint: all knobs of a joint change, which is one decision with one effect;
    knob, scope, current and proposed are then those of its first. name: of a joint change, whose
    parts may differ from run to run. optional: nothing is broken without it. origin: id of the
    recommendation that this is a step of.
    """

    knob: str
    scope: Entity
    current: Value | None
    proposed: Value
    unit: str
    summary: str
    because: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    effects: tuple[Effect, ...]
    confidence: float
    risk: Risk
    risk_reason: str
    how: str
    undo: str
    missing: tuple[str, ...] = ()
    also: tuple[Entity, ...] = ()
    joint: tuple[Part, ...] = ()
    optional: bool = False
    origin: str = ""
    name: str = ""

    @property
    def places(self) -> tuple[Entity, ...]:
        """Every place that its (first) knob is changed at."""
        return (self.scope, *self.also)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that it changes, by knob and current value."""
        own = Part(
            self.knob,
            self.places,
            self.current,
            self.proposed,
            self.unit,
            self.how,
            self.undo,
            self.risk_reason,
        )
        return self.joint or (own,)

    def each(self) -> Iterator[Recommendation]:
        """Yield the steps: one knob at one place at a time."""
        for part in self.parts:
            for place in part.places:
                yield replace(
                    self,
                    knob=part.knob,
                    scope=place,
                    current=part.current,
                    proposed=part.proposed,
                    unit=part.unit,
                    how=part.how,
                    undo=part.undo,
                    risk_reason=part.disruption,
                    also=(),
                    joint=(),
                    origin=self.id,
                )

    def without(self, settled: Container[tuple[str, Entity]]) -> Recommendation | None:
        """Return it less these knobs at these places, None where nothing is left of it."""
        parts = [
            replace(part, places=places)
            for part in self.parts
            if (places := tuple(p for p in part.places if (part.knob, p) not in settled))
        ]
        return self.of(parts) if parts else None

    def of(self, parts: Sequence[Part]) -> Recommendation:
        """Return it with these changes in place of its own."""
        first = parts[0]
        made = replace(
            self,
            knob=first.knob,
            scope=first.places[0],
            also=first.places[1:],
            current=first.current,
            proposed=first.proposed,
            unit=first.unit,
        )
        if not self.joint:
            return replace(made, how=first.how, undo=first.undo)
        return replace(
            made,
            joint=tuple(parts),
            how="; ".join(part.how for part in parts),
            undo="; ".join(part.undo for part in reversed(parts)),
        )

    @property
    def id(self) -> str:
        """Stable short name: the same knob at the same place has the same id in every run.

        So has a joint change of the same name because of the same finding. A step has that of the
        recommendation that it comes from.
        """
        if self.origin:
            return self.origin
        what = f"{self.name} {self.because[0]}" if self.joint else f"{self.knob} {self.scope}"
        return hashlib.blake2b(f"recommendation {what}".encode(), digest_size=4).hexdigest()
