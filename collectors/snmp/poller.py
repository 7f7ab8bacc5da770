"""Polls one switch over SNMP: known columns, cached names, a deadline, and a gap for each lack.

The first poll learns what the device has. Later polls ask only for columns that have rows, and
only for known rows where most of a column is not wanted; tables that were empty and names are
looked at again every `relearn_s`, after a restart, and when the interface table changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from collectors.model.entities import Slot, Switch
from collectors.model.errors import FabricError, Malformed, Unavailable
from collectors.model.facts import Attribute, Facts
from collectors.model.reading import Clock, GapLog, Instant, Pass, Reading
from collectors.snmp import class_queues, tables
from collectors.snmp.facts import fetch_facts
from collectors.snmp.incarnation import Incarnation
from collectors.snmp.known import Known, Values
from collectors.snmp.naming import interfaces, text
from collectors.snmp.quirks import quirks_of
from collectors.snmp.session import Endpoint, Row, Session
from collectors.snmp.tables import Rule
from collectors.snmp.walk import Pace, get_known, table, walk
from collectors.targets.wanted import Wanted

NAME: Final = "snmp"
_IF_TABLE_LAST_CHANGE: Final = "1.3.6.1.2.1.31.1.5.0"


@dataclass(frozen=True, slots=True)
class Options:
    """How to poll. relearn_s: between looks at names, empty tables and facts."""

    wanted: Wanted = field(default_factory=Wanted)
    max_repetitions: int = 60
    max_rows: int = 400_000
    relearn_s: float = 600.0
    deadline_s: float = 20.0
    aliases: dict[str, str] = field(default_factory=dict)


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
        self._known: Known | None = None
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
        self._known = Known(self._switch, self._plan, known, clock().mono_ns, ends)
        facts = await fetch_facts(
            self._session, self._switch, known, self.description, self._pace, ends,
            self._noter(gaps),
        )  # fmt: skip
        if verdict.why:
            quirk = Attribute(self._switch, "image_quirk", "; ".join(verdict.why))
            facts = replace(facts, attributes=(*facts.attributes, quirk))
        return facts

    def _noter(self, gaps: GapLog) -> Any:
        return lambda what, reason: gaps.add(self._switch, what, reason)

    async def _counters(
        self, clock: Clock, began: Instant, gaps: GapLog, *, facts_are_new: bool
    ) -> tuple[Reading, ...]:
        known = self._known
        if known is None:
            raise AssertionError("counters are read after names")
        values: Values = [{} for _ in known.entities]
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
            known.take(oid, rows, values, gaps)
        if self._platform == "nxos":
            await self._class_queues(known, values, gaps)
        if facts_are_new:
            known.forget_superseded()
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

    async def _class_queues(self, known: Known, values: Values, gaps: GapLog) -> None:
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

    async def _column(self, oid: str, known: Known, gaps: GapLog) -> Iterable[Row]:
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

    async def _prepare(self, rules: tuple[Rule, ...], known: Known, gaps: GapLog) -> None:
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
