"""Polls one switch over SNMP: known columns, cached names, a deadline, and a gap for each lack.

The first poll learns what the device has. Later polls ask only for columns that have rows, and
only for known rows where most of a column is not wanted; tables that were empty and names are
looked at again every `relearn_s`, after a restart, and when the interface table changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.errors import FabricError, Malformed, Unavailable
from collectors.model.facts import Attribute, Facts
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Instant, Pass, Reading
from collectors.snmp import class_queues, tables
from collectors.snmp.class_queues import ClassQueues
from collectors.snmp.facts import fetch_facts
from collectors.snmp.incarnation import Incarnation
from collectors.snmp.naming import interfaces, text
from collectors.snmp.quirks import quirks_of
from collectors.snmp.session import Endpoint, Row, Session
from collectors.snmp.tables import Rule
from collectors.snmp.walk import Pace, get_known, table, walk
from collectors.targets.wanted import Wanted

NAME: Final = "snmp"
_IF_TABLE_LAST_CHANGE: Final = "1.3.6.1.2.1.31.1.5.0"
_IGNORED: Final = (-1, None)


@dataclass(frozen=True, slots=True)
class Options:
    """How to poll. relearn_s: between looks at names, empty tables and facts."""

    wanted: Wanted = field(default_factory=Wanted)
    max_repetitions: int = 60
    max_rows: int = 400_000
    relearn_s: float = 600.0
    deadline_s: float = 20.0
    aliases: dict[str, str] = field(default_factory=dict)


@dataclass
class _Known:
    """What earlier polls learnt; thrown away as a whole when the device changed."""

    interfaces: dict[int, Interface | None]
    learnt_ns: int
    entities: list[Entity] = field(default_factory=list)
    numbers: dict[Entity, int] = field(default_factory=dict)
    indices: list[int] = field(default_factory=list)
    slots: dict[str, tuple[int, Column | None]] = field(default_factory=dict)
    best: dict[tuple[int, str], tuple[int, Column, str]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    live: dict[str, list[str]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    cells: dict[str, dict[str, int]] = field(default_factory=dict)
    closed: dict[str, set[str]] = field(default_factory=dict)
    facts: Facts | None = None
    classes: ClassQueues = field(default_factory=ClassQueues)

    def at(self, entity: Entity, if_index: int, values: list[dict[Column, int | float]]) -> int:
        """Return the place of an entity among the values, made where it has none."""
        at = self.numbers.get(entity)
        if at is None:
            at = self.numbers[entity] = len(self.entities)
            self.entities.append(entity)
            self.indices.append(if_index)
            values.append({})
        return at


class SnmpPoller:
    """One switch; polls do not overlap."""

    def __init__(
        self, switch: Switch, platform: str, endpoint: Endpoint, options: Options | None = None
    ) -> None:
        self._switch = switch
        self._platform = platform
        self._options = options or Options()
        self._plan = dict(tables.plan(platform))
        self._session = Session(switch.name or switch.key, endpoint)
        self._pace = Pace(self._options.max_repetitions, self._options.max_rows)
        self._incarnation = Incarnation()
        self._known: _Known | None = None
        self._last_change: Any = None
        self._late: list[str] = []
        self._aliases_known = 0
        self.description = ""

    @property
    def subject(self) -> Switch:
        """The switch that is polled."""
        return self._switch

    def close(self) -> None:
        """Close the socket."""
        self._session.close()

    async def poll(self, clock: Clock) -> Pass:
        """Read the switch once.

        Raises FabricError where it does not answer at all; what is partial is a Gap.
        """
        gaps = GapLog(NAME)
        began = clock()
        if not self._session.is_open:
            try:
                await self._session.open()
            except FabricError:
                self._session.close()
                raise
        await self._greet(began)
        facts = None
        if len(self._options.aliases) != self._aliases_known:  # another transport learnt names
            self._aliases_known = len(self._options.aliases)
            self._known = None
        if self._known is None or began.mono_ns - self._known.learnt_ns > self._relearn_ns:
            facts = await self._learn(clock, gaps)
        readings = await self._counters(clock, began, gaps, facts_are_new=facts is not None)
        return Pass(readings, gaps.gaps(), facts)

    @property
    def _relearn_ns(self) -> int:
        return int(self._options.relearn_s * 1e9)

    async def _greet(self, now: Instant) -> None:
        scalars = [tables.SYS_DESCR, tables.SYS_UP_TIME, _IF_TABLE_LAST_CHANGE]
        found = await self._session.get(scalars)
        self.description = text(found.get(tables.SYS_DESCR, ""))
        up_time = found.get(tables.SYS_UP_TIME)
        if not isinstance(up_time, int):
            raise Malformed(str(self._switch), "snmp", "the agent has no sysUpTime")
        restarted = self._incarnation.see_up_time(up_time, now)
        changed = found.get(_IF_TABLE_LAST_CHANGE)
        if restarted or (self._last_change is not None and changed != self._last_change):
            self._known = None
        self._last_change = changed

    async def _learn(self, clock: Clock, gaps: GapLog) -> Facts:
        self._plan = dict(tables.plan(self._platform))
        verdict = quirks_of(self._platform, self.description)
        meaning = dict(self._plan)
        for oid, other in verdict.swapped.items():
            self._plan[oid] = meaning[other]
        for oid in verdict.skip:
            self._plan.pop(oid, None)
        ends = self._known.ends if self._known else {}
        columns = [
            await table(self._session, oid, self._pace, ends, self._noter(gaps))
            for oid in (tables.IF_NAME, tables.IF_DESCR, tables.IF_TYPE)
        ]
        names, descriptions, types = columns
        if not names and not descriptions:
            raise Unavailable(str(self._switch), "snmp", "IF-MIB is empty or hidden by a view")
        known = interfaces(
            self._switch, names, descriptions, types, self._options.wanted, self._options.aliases
        )
        self._known = _Known(known, clock().mono_ns, ends=ends)
        facts = await fetch_facts(
            self._session, self._switch, known, self.description, self._pace, ends,
            self._noter(gaps),
        )  # fmt: skip
        if verdict.why:
            quirk = Attribute(self._switch, "image_quirk", "; ".join(verdict.why))
            facts = replace(facts, attributes=(*facts.attributes, quirk))
        self._known.facts = facts
        return facts

    def _noter(self, gaps: GapLog) -> Any:
        return lambda what, reason: gaps.add(self._switch, what, reason)

    async def _counters(
        self, clock: Clock, began: Instant, gaps: GapLog, *, facts_are_new: bool
    ) -> tuple[Reading, ...]:
        known = self._known
        if known is None:
            raise AssertionError("counters are read after names")
        values: list[dict[Column, int | float]] = [{} for _ in known.entities]
        discontinuities = await table(
            self._session, tables.IF_DISCONTINUITY, self._pace, known.ends, self._noter(gaps)
        )
        until = began.mono_ns + int(self._options.deadline_s * 1e9)
        order = [*self._late, *(oid for oid in self._plan if oid not in self._late)]
        self._late = []
        for oid in order:
            if known.rows.get(oid) == 0:
                continue
            if clock().mono_ns > until:
                self._late.append(oid)
                gaps.add(self._switch, oid, "deadline")
                continue
            try:
                rows = await self._column(oid, known, gaps)
            except FabricError as error:
                if not any(values):
                    raise
                gaps.add(self._switch, oid, type(error).__name__, error.why)
                continue
            self._take(oid, rows, known, values, gaps)
        if self._platform == "nxos":
            await self._class_queues(known, values, gaps)
        if facts_are_new:
            self._forget_superseded(known)
        self._incarnation.see_values(values)
        return tuple(
            Reading(
                entity,
                values[at],
                began,
                self._incarnation.of(discontinuities.get(known.indices[at], 0)),
            )
            for at, entity in enumerate(known.entities)
            if values[at]
        )

    async def _class_queues(
        self, known: _Known, values: list[dict[Column, int | float]], gaps: GapLog
    ) -> None:
        noter = self._noter(gaps)
        try:
            found = await known.classes.fetch(self._session, self._pace, known.ends, noter)
        except FabricError as error:
            gaps.add(self._switch, class_queues.MIB, type(error).__name__, error.why)
            return
        for (if_index, queue, column), count in found.items():
            port = known.interfaces.get(if_index)
            if port is not None:
                values[known.at(Slot(port, "queue", queue), if_index, values)][column] = count

    @staticmethod
    def _forget_superseded(known: _Known) -> None:
        for oid, live in known.live.items():
            kept = [row for row in live if known.slots[row][1] is not None]
            known.live[oid] = kept
            if not kept:
                known.rows[oid] = 0

    async def _column(self, oid: str, known: _Known, gaps: GapLog) -> Iterable[Row]:
        first_time = oid not in known.rows
        if first_time:
            await self._prepare(self._plan[oid], known, gaps)
        live = known.live.get(oid, [])
        if not first_time and len(live) * 2 < known.rows[oid]:
            found = await get_known(self._session, live)
            if len(found) < len(live):
                gaps.add(self._switch, oid, "row gone", f"{len(live) - len(found)} rows")
            return found.items()
        rows = await walk(self._session, oid, self._pace, known.ends, self._noter(gaps))
        known.rows[oid] = len(rows)
        if first_time and not rows:
            gaps.add(self._switch, self._plan[oid][0].column.metric, "not supported", oid)
        return rows

    async def _prepare(self, rules: tuple[Rule, ...], known: _Known, gaps: GapLog) -> None:
        """Fetch what values of these columns need: cell sizes and gates."""
        for rule in rules:
            cell, gate = rule.table.cell, rule.table.gate
            if rule.cells and cell.endswith(".0") and cell not in known.cells:
                found = await self._session.get([cell])
                known.cells[cell] = {"": int(found.get(cell, 0))}
            elif rule.cells and cell and cell not in known.cells:
                rows = await walk(self._session, cell, self._pace, known.ends, self._noter(gaps))
                known.cells[cell] = {row[0][len(cell) :]: int(row[1]) for row in rows}
            if gate and gate not in known.closed:
                rows = await walk(self._session, gate, self._pace, known.ends, self._noter(gaps))
                known.closed[gate] = {row[0][len(gate) :] for row in rows if row[1] != 1}

    def _take(
        self,
        column_oid: str,
        rows: Iterable[Row],
        known: _Known,
        values: list[dict[Column, int | float]],
        gaps: GapLog,
    ) -> None:
        slots = known.slots
        live: list[str] | None = None if column_oid in known.live else []
        for oid, value in rows:
            slot = slots.get(oid)
            if slot is None:
                slot = slots[oid] = self._resolve(column_oid, oid, known, values, gaps)
                if live is not None and slot[1] is not None:
                    live.append(oid)
            at, column = slot
            if column is None:
                continue
            if type(value) is not int:
                gaps.add(known.entities[at], column.metric, "not numeric", repr(value)[:60])
            elif value < 0:
                gaps.add(known.entities[at], column.metric, "negative", str(value))
            else:
                values[at][column] = value
        if live is not None:
            known.live[column_oid] = live
            if not live:
                known.rows[column_oid] = 0  # nothing here is wanted: ask no more

    def _resolve(
        self,
        column_oid: str,
        oid: str,
        known: _Known,
        values: list[dict[Column, int | float]],
        gaps: GapLog,
    ) -> tuple[int, Column | None]:
        """Return the place of a row among the entities, and its column; None: not wanted."""
        suffix = oid[len(column_oid) :]
        try:
            index = tuple(map(int, suffix[1:].split(".")))
        except ValueError:
            gaps.add(self._switch, column_oid, "bad index", oid)
            return _IGNORED
        for rule in self._plan[column_oid]:
            names = rule.table.index
            if len(index) != len(names):
                gaps.add(self._switch, column_oid, "bad index", oid)
                return _IGNORED
            parts = dict(zip(names, index, strict=True))
            if any(parts[name] != wanted for name, wanted in rule.where):
                continue
            if suffix in known.closed.get(rule.table.gate, ()):
                gaps.add(self._switch, rule.column.metric, "not counted", "counting is off there")
                return _IGNORED
            return self._place(rule, oid, suffix, parts, known, values, gaps)
        return _IGNORED

    def _place(
        self,
        rule: Rule,
        oid: str,
        suffix: str,
        parts: dict[str, int],
        known: _Known,
        values: list[dict[Column, int | float]],
        gaps: GapLog,
    ) -> tuple[int, Column | None]:
        parent: Interface | Switch | None = self._switch
        if_index = parts.get("ifIndex", -1)
        if if_index >= 0:
            if if_index not in known.interfaces:
                gaps.add(self._switch, rule.column.metric, "unknown ifIndex", str(if_index))
                return _IGNORED
            parent = known.interfaces[if_index]
        if parent is None:
            return _IGNORED
        entity: Entity = parent
        if rule.kind is not None:
            number = rule.fixed
            if number is None:
                number = parts[rule.table.slot] - rule.table.offset
            if number < 0:
                gaps.add(self._switch, rule.column.metric, "bad index", suffix)
                return _IGNORED
            entity = Slot(parent, rule.kind, number)
        column = self._scaled(rule, suffix, known, gaps)
        if column is None:
            return _IGNORED
        at = known.at(entity, if_index, values)
        return self._prefer(at, oid, rule, column, known, values)

    def _prefer(
        self,
        at: int,
        oid: str,
        rule: Rule,
        column: Column,
        known: _Known,
        values: list[dict[Column, int | float]],
    ) -> tuple[int, Column | None]:
        """Keep one source per metric and entity: the first in the catalogue's row."""
        earlier = known.best.get((at, column.metric))
        if earlier is not None and earlier[0] < rule.order:
            return _IGNORED
        if earlier is not None and earlier[1] is not column:
            values[at].pop(earlier[1], None)
            known.slots[earlier[2]] = _IGNORED
        known.best[at, column.metric] = (rule.order, column, oid)
        return at, column

    def _scaled(self, rule: Rule, suffix: str, known: _Known, gaps: GapLog) -> Column | None:
        if not rule.cells:
            return rule.column
        cells = known.cells.get(rule.table.cell, {})
        size = cells.get(suffix) or cells.get("")
        if not size:
            gaps.add(self._switch, rule.column.metric, "cell size unknown", rule.table.cell)
            return None
        return replace(rule.column, scale=Fraction(size))
