"""Recommendations: what to change, where, why, with what effect, and how to take it back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
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
class Recommendation:
    """One change of one knob at one place.

    current is None where it is not visible from here; `missing` then says what would show it.
    because: ids of findings. how, undo: text for a person; plans for devices are rendered from
    knob, scope and proposed. also: further places that have the same current value and get the
    same proposed one.
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

    @property
    def places(self) -> tuple[Entity, ...]:
        """Every place that the change is for."""
        return (self.scope, *self.also)

    def each(self) -> Iterator[Recommendation]:
        """Yield the same change for one place at a time."""
        for place in self.places:
            yield replace(self, scope=place, also=())

    @property
    def id(self) -> str:
        """Stable short name: the same knob at the same place has the same id in every run."""
        digest = hashlib.blake2b(f"recommendation {self.knob} {self.scope}".encode(), digest_size=4)
        return digest.hexdigest()
