"""Do both ends of a link count the same PFC frames? Images exist that do not count right.

What one end sends the other receives. Where both ends are targets of one fleet, and frames have
moved, three things can be told: rx and tx exchanged, a counter stuck at zero, or all well. A
verdict names the target and changes no value: what to make of it is for those who read on.
Known cases: sonic-snmpagent pull 89 (exchanged), sonic-buildimage 5540 (stuck at zero).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from collectors.model.catalogue.interface import PFC_RX_FRAMES, PFC_TX_FRAMES
from collectors.model.entities import Interface, Slot, Switch
from collectors.model.facts import Facts
from collectors.model.reading import Reading

ENOUGH: Final = 500  # frames of growth from which on there is something to tell
FEW: Final = 50  # frames by which polls at different moments may differ
CLOSE: Final = 0.1
ROUNDS: Final = 6  # between verdicts: the share of one round in the growth has become small

EXCHANGED: Final = "rx and tx of PFC exchanged"
ONE_END: Final = "rx and tx of PFC exchanged at one end"
STUCK: Final = "PFC counter stuck at zero"

_WAYS: Final = {PFC_RX_FRAMES.name: "rx", PFC_TX_FRAMES.name: "tx"}
Link = tuple[Interface, Interface]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with the counters of a switch. against: the port that says so."""

    switch: Switch
    what: str
    against: str


@dataclass
class _End:
    """Sums over priorities of one port. base: where growth is counted from."""

    base: dict[str, int] = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)
    incarnation: str = ""
    seen: int = -1

    def growth(self, way: str) -> int | None:
        if way not in self.base or way not in self.now:
            return None
        return self.now[way] - self.base[way]


class CrossCheck:
    """Remembers both ends of the links between targets, round by round."""

    def __init__(self) -> None:
        self._links: tuple[Link, ...] = ()
        self._ends: dict[Interface, _End] = {}
        self._round = 0
        self.verdicts: tuple[Verdict, ...] = ()

    def learn(self, facts: Iterable[Facts]) -> None:
        """Take the links from the neighbours that targets have; both ends must be targets."""
        facts = tuple(facts)
        names: dict[str, Switch] = {}
        for row in (row for rows in facts for row in rows.attributes):
            if row.name in ("system_name", "chassis_id") and isinstance(row.entity, Switch):
                names[str(row.value)] = row.entity
        found: set[Link] = set()
        for neighbour in (row for rows in facts for row in rows.neighbours):
            local, remote = neighbour.local, neighbour.remote
            if not (isinstance(local, Interface) and isinstance(remote, Interface)):
                continue
            switch = names.get(remote.switch.key) or names.get(remote.switch.name)
            if switch is not None:
                one, other = sorted((local, Interface(switch, remote.name)), key=str)
                found.add((one, other))
        self._links = tuple(sorted(found, key=str))
        ends = {end for link in self._links for end in link}
        self._ends = {end: self._ends.get(end, _End()) for end in ends}

    def take(self, readings: Iterable[Reading]) -> bool:
        """Take the readings of a round; return whether the verdicts have changed."""
        self._round += 1
        sums: dict[Interface, dict[str, int]] = {}
        births: dict[Interface, str] = {}
        for reading in readings:
            entity = reading.entity
            if not isinstance(entity, Slot) or entity.kind != "priority":
                continue
            end = entity.parent
            if not isinstance(end, Interface) or end not in self._ends:
                continue
            for column, value in reading.values.items():
                way = _WAYS.get(column.metric)
                if way is not None:
                    own = sums.setdefault(end, {})
                    own[way] = own.get(way, 0) + int(value)
                    births[end] = reading.incarnation
        for link in self._links:
            self._move(link, sums, births)
        if self._round % ROUNDS:
            return False
        before, self.verdicts = self.verdicts, self._judge()
        return before != self.verdicts

    def _move(
        self, link: Link, sums: dict[Interface, dict[str, int]], births: dict[Interface, str]
    ) -> None:
        """Count on; where either end began anew, begin anew with both."""
        if any(end not in sums for end in link):
            return
        ends = [self._ends[end] for end in link]
        reset = False
        for name, end in zip(link, ends, strict=True):
            fell = any(value < end.now.get(way, 0) for way, value in sums[name].items())
            reset |= fell or end.incarnation != births[name] or not end.base
            end.now, end.incarnation, end.seen = sums[name], births[name], self._round
        if reset:
            for end in ends:
                end.base = dict(end.now)

    def _judge(self) -> tuple[Verdict, ...]:
        sound: set[Switch] = set()
        crossed: list[Link] = []
        verdicts: set[Verdict] = set()
        for link in self._links:
            one, other = (self._ends[end] for end in link)
            rates = [end.growth(way) for end in (one, other) for way in ("rx", "tx")]
            if one.seen != self._round or other.seen != self._round or None in rates:
                continue
            rx, tx, other_rx, other_tx = (rate or 0 for rate in rates)
            if max(rx, tx, other_rx, other_tx) < ENOUGH:
                continue
            if _alike(tx, other_rx) and _alike(rx, other_tx):
                sound.update(end.switch for end in link)
            elif _alike(tx, other_tx) and _alike(rx, other_rx):
                crossed.append(link)
            else:
                verdicts |= set(self._stuck(link))
        for link in crossed:
            doubtful = [end for end in link if end.switch not in sound] or list(link)
            what = EXCHANGED if len(doubtful) == 1 else ONE_END
            for end in doubtful:
                against = link[0] if end == link[1] else link[1]
                verdicts.add(Verdict(end.switch, what, _name(against)))
        return tuple(sorted(verdicts, key=str))

    def _stuck(self, link: Link) -> Iterable[Verdict]:
        for end, against in (link, link[::-1]):
            for way, other_way in (("rx", "tx"), ("tx", "rx")):
                told = self._ends[against].growth(other_way) or 0
                if told >= ENOUGH and self._ends[end].now.get(way) == 0:
                    yield Verdict(end.switch, f"{STUCK}: {way}", _name(against))


def _alike(one: int, other: int) -> bool:
    return abs(one - other) <= max(FEW, CLOSE * max(one, other))


def _name(end: Interface) -> str:
    return f"{end.switch.name or end.switch.key} {end.name}"


def quirks(verdicts: Iterable[Verdict]) -> dict[Switch, str]:
    """Return the verdicts of each switch as one text."""
    return {
        switch: "; ".join(f"{row.what} (against {row.against})" for row in rows)
        for switch, rows in groupby(verdicts, key=lambda row: row.switch)
    }
