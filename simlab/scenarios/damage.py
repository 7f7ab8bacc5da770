"""Broken telemetry: silent hosts, uncounted marks, swapped counters, resets, half of LLDP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.facts import Facts, Neighbour
from collectors.model.metric import Column
from collectors.model.reading import Pass, Reading
from simlab.packet.telemetry import POLLER, AgentPass
from simlab.scenarios.draw import Draw

_SWAPPED = {
    interface.RX_BYTES.name: interface.TX_BYTES.name,
    interface.PFC_RX_FRAMES.name: interface.PFC_TX_FRAMES.name,
}
_OTHER = _SWAPPED | {tx: rx for rx, tx in _SWAPPED.items()}
SILENT_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Damage:
    """What is broken. silent: agents that say nothing. swapped: a switch whose image has rx and
    tx of bytes and PFC frames the wrong way round. reset: an agent whose counters begin again, or
    a switch. one_eyed: of each cable only one end tells.
    """

    silent: frozenset[str]
    swapped: Switch | None
    reset: str | Switch
    marks_uncounted: bool = True
    one_eyed: bool = True


def damage_of(draw: Draw, rng: Random) -> Damage:
    """Draw everything at once: a fifth of the hosts, one switch, one reset."""
    names = draw.names
    hosts = sorted(names.hosts)
    silent = rng.sample(hosts, round(SILENT_SHARE * len(hosts)))
    switches = [names.switch(node) for node in draw.plan.topology.switches]
    speaking = [host for host in hosts if host not in silent]
    restarted: list[str | Switch] = [*speaking, *switches]
    reset = rng.choice(restarted)
    return Damage(frozenset(silent), rng.choice(switches), reset)


def damaged(passes: Sequence[AgentPass], damage: Damage, rng: Random) -> Iterator[AgentPass]:
    """Yield what is left of telemetry."""
    base: dict[tuple[Entity, Column], int | float] = {}
    rounds = sorted({reading.when.at_ns for one in passes for reading in one.seen.readings})
    middle = rounds[len(rounds) // 2]
    keep: dict[frozenset[Entity], Entity] = {}
    for one in passes:
        if one.agent in damage.silent:
            continue
        facts = one.seen.facts
        if facts is not None and damage.one_eyed:
            facts = _one_eyed(facts, keep, rng)
        readings = []
        for reading in one.seen.readings:
            made = _counted(reading, damage)
            if _is_reset(one, made.entity, damage):
                made = _reset(made, base, middle)
            readings.append(made)
        yield replace(one, seen=Pass(tuple(readings), facts=facts))


def _one_eyed(facts: Facts, keep: dict[frozenset[Entity], Entity], rng: Random) -> Facts:
    """Keep of each cable what one of its ends says, which is drawn."""
    kept: list[Neighbour] = []
    for neighbour in facts.neighbours:
        ends = frozenset((neighbour.local, neighbour.remote))
        eye = keep.setdefault(ends, rng.choice((neighbour.local, neighbour.remote)))
        if eye == neighbour.local:
            kept.append(neighbour)
    return replace(facts, neighbours=tuple(kept))


def _switch_of(entity: Entity) -> Switch | None:
    whole = entity.parent if isinstance(entity, Slot) else entity
    if isinstance(whole, Interface):
        return whole.switch
    return whole if isinstance(whole, Switch) else None


def _counted(reading: Reading, damage: Damage) -> Reading:
    switch = _switch_of(reading.entity)
    if switch is None:
        return reading
    values = dict(reading.values)
    if damage.marks_uncounted:
        values = {c: v for c, v in values.items() if c.metric != interface.QUEUE_ECN_MARKED.name}
    if switch == damage.swapped:
        by_name = {column.metric: value for column, value in values.items()}
        values = {
            column: by_name.get(_OTHER.get(column.metric, ""), value)
            for column, value in values.items()
        }
    return replace(reading, values=values)


def _is_reset(one: AgentPass, entity: Entity, damage: Damage) -> bool:
    if isinstance(damage.reset, str):
        return one.agent == damage.reset
    return one.agent == POLLER and _switch_of(entity) == damage.reset


def _reset(
    reading: Reading, base: dict[tuple[Entity, Column], int | float], middle: int
) -> Reading:
    """Begin counters again in the middle of the run, under a new incarnation."""
    if reading.when.at_ns < middle:
        return reading
    values = {}
    for column, value in reading.values.items():
        if column.kind != "counter":
            values[column] = value
            continue
        start = base.setdefault((reading.entity, column), value)
        values[column] = max(value - start, 0)
    return replace(reading, values=values, incarnation=f"{reading.incarnation}-again")
