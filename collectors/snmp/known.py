"""What polls of one switch have learnt: interfaces, and where each row of a column belongs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.metric import Column
from collectors.model.reading import GapLog
from collectors.snmp.class_queues import ClassQueues
from collectors.snmp.session import Row
from collectors.snmp.tables import Rule

Values = list[dict[Column, int | float]]
"""What one poll has read, by the place of the entity."""

_IGNORED: Final = (-1, None)


@dataclass
class Known:
    """Thrown away as a whole when the device changed.

    plan: column OID -> rules. entities, indices: by place. rows: column -> how many it had. live:
    column -> OIDs of the wanted rows. ends: of columns, for `walk`. cells: bytes of a buffer
    cell. closed: gate -> rows that do not count.
    """

    switch: Switch
    plan: Mapping[str, tuple[Rule, ...]]
    interfaces: dict[int, Interface | None]
    learnt_ns: int
    ends: dict[str, int]
    entities: list[Entity] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    live: dict[str, list[str]] = field(default_factory=dict)
    cells: dict[str, dict[str, int]] = field(default_factory=dict)
    closed: dict[str, set[str]] = field(default_factory=dict)
    classes: ClassQueues = field(default_factory=ClassQueues)
    _numbers: dict[Entity, int] = field(default_factory=dict)
    _slots: dict[str, tuple[int, Column | None]] = field(default_factory=dict)
    _best: dict[tuple[int, str], tuple[int, Column, str]] = field(default_factory=dict)

    def at(self, entity: Entity, if_index: int, values: Values) -> int:
        """Return the place of an entity among the values, made where it has none."""
        at = self._numbers.get(entity)
        if at is None:
            at = self._numbers[entity] = len(self.entities)
            self.entities.append(entity)
            self.indices.append(if_index)
            values.append({})
        return at

    def take(self, column_oid: str, rows: Iterable[Row], values: Values, gaps: GapLog) -> None:
        """Put the rows of a column where they belong; what is wrong with one is a gap."""
        slots = self._slots
        live: list[str] | None = None if column_oid in self.live else []
        for oid, value in rows:
            slot = slots.get(oid)
            if slot is None:
                slot = slots[oid] = self._resolve(column_oid, oid, values, gaps)
                if live is not None and slot[1] is not None:
                    live.append(oid)
            at, column = slot
            if column is None:
                continue
            if type(value) is not int:
                gaps.add(self.entities[at], column.metric, "not numeric", repr(value)[:60])
            elif value < 0:
                gaps.add(self.entities[at], column.metric, "negative", str(value))
            else:
                values[at][column] = value
        if live is not None:
            self.live[column_oid] = live
            if not live:
                self.rows[column_oid] = 0  # nothing here is wanted: ask no more

    def forget_superseded(self) -> None:
        """Ask no more for rows in whose stead a better source was found."""
        for oid, live in self.live.items():
            kept = [row for row in live if self._slots[row][1] is not None]
            self.live[oid] = kept
            if not kept:
                self.rows[oid] = 0

    def _resolve(
        self, column_oid: str, oid: str, values: Values, gaps: GapLog
    ) -> tuple[int, Column | None]:
        """Return the place of a row among the entities, and its column; None: not wanted."""
        suffix = oid[len(column_oid) :]
        try:
            index = tuple(map(int, suffix[1:].split(".")))
        except ValueError:
            gaps.add(self.switch, column_oid, "bad index", oid)
            return _IGNORED
        for rule in self.plan[column_oid]:
            names = rule.table.index
            if len(index) != len(names):
                gaps.add(self.switch, column_oid, "bad index", oid)
                return _IGNORED
            parts = dict(zip(names, index, strict=True))
            if any(parts[name] != wanted for name, wanted in rule.where):
                continue
            if suffix in self.closed.get(rule.table.gate, ()):
                gaps.add(self.switch, rule.column.metric, "not counted", "counting is off there")
                return _IGNORED
            return self._place(rule, oid, suffix, parts, values, gaps)
        return _IGNORED

    def _place(
        self,
        rule: Rule,
        oid: str,
        suffix: str,
        parts: dict[str, int],
        values: Values,
        gaps: GapLog,
    ) -> tuple[int, Column | None]:
        parent: Interface | Switch | None = self.switch
        if_index = parts.get("ifIndex", -1)
        if if_index >= 0:
            if if_index not in self.interfaces:
                gaps.add(self.switch, rule.column.metric, "unknown ifIndex", str(if_index))
                return _IGNORED
            parent = self.interfaces[if_index]
        if parent is None:
            return _IGNORED
        entity: Entity = parent
        if rule.kind is not None:
            number = rule.fixed
            if number is None:
                number = parts[rule.table.slot] - rule.table.offset
            if number < 0:
                gaps.add(self.switch, rule.column.metric, "bad index", suffix)
                return _IGNORED
            entity = Slot(parent, rule.kind, number)
        column = self._scaled(rule, suffix, gaps)
        if column is None:
            return _IGNORED
        return self._prefer(self.at(entity, if_index, values), oid, rule, column, values)

    def _prefer(
        self, at: int, oid: str, rule: Rule, column: Column, values: Values
    ) -> tuple[int, Column | None]:
        """Keep one source per metric and entity: the first in the catalogue's row."""
        earlier = self._best.get((at, column.metric))
        if earlier is not None and earlier[0] < rule.order:
            return _IGNORED
        if earlier is not None and earlier[1] is not column:
            values[at].pop(earlier[1], None)
            self._slots[earlier[2]] = _IGNORED
        self._best[at, column.metric] = (rule.order, column, oid)
        return at, column

    def _scaled(self, rule: Rule, suffix: str, gaps: GapLog) -> Column | None:
        if not rule.cells:
            return rule.column
        cells = self.cells.get(rule.table.cell, {})
        size = cells.get(suffix) or cells.get("")
        if not size:
            gaps.add(self.switch, rule.column.metric, "cell size unknown", rule.table.cell)
            return None
        return replace(rule.column, scale=Fraction(size))
