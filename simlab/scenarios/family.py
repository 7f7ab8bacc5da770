"""A family of scenarios, and how a fault is planted in a sound draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias, TypedDict

from collectors.model.entities import Entity
from collectors.model.facts import Value
from simlab.packet.config import Config
from simlab.scenarios.change import applied
from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.places import Places

Section: TypeAlias = Literal[
    "healthy", "link", "config", "flow_control", "balance", "control_loop", "host", "placement"
]
Make: TypeAlias = Callable[[Random], Draw]


@dataclass(frozen=True, slots=True)
class Family:
    """Scenarios of one kind. section: of the rule table, or healthy. varies: what is drawn."""

    name: str
    section: Section
    varies: str
    make: Make

    @property
    def faulty(self) -> bool:
        """Whether something is planted."""
        return self.section != "healthy"


def seeded(family: Family, seed: int) -> Draw:
    """Return the draw of a seed."""
    made = family.make(Random(f"{family.name}:{seed}"))
    config = made.plan.config
    fields = {key: getattr(config, key) for key in config.__struct_fields__}
    named = Config(**(fields | {"name": family.name, "seed": seed}))
    return replace(made, family=family.name, seed=seed, plan=replace(made.plan, config=named))


def planted(
    sound: Draw,
    causes: tuple[str, ...],
    places: Iterable[Entity],
    fault: Iterable[Change],
    cure: Iterable[Change],
) -> Draw:
    """Return a draw with a fault set like any setting, and the truth about it added."""
    broken = applied(sound, fault)
    return replace(broken, truths=(*sound.truths, Truth(causes, tuple(places), tuple(cure))))


class FaultAndCure(TypedDict):
    """Changes that plant a fault, and those that undo it."""

    fault: tuple[Change, ...]
    cure: tuple[Change, ...]


def turned(entities: Iterable[Entity], setting: str, wrong: Value, right: Value) -> FaultAndCure:
    """Return fault and cure of one setting at some places."""
    where = tuple(entities)
    return {
        "fault": tuple(Change(entity, setting, wrong) for entity in where),
        "cure": tuple(Change(entity, setting, right) for entity in where),
    }


def places_of(draw: Draw) -> Places:
    """Return the lookup of a draw's entities."""
    return Places(draw.plan.topology)
