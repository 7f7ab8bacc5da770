"""Many targets polled at once in one thread, as one collector.

A round asks every target that is not still busy with an earlier round and waits until all have
answered or the round's time is up. Whoever is late is left to finish and reported in the round
in which it does; it costs the others nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from collectors.model.catalogue import switch as rows
from collectors.model.entities import Entity, Switch
from collectors.model.errors import FabricError
from collectors.model.facts import Attribute, Facts, Gap
from collectors.model.metric import Column, Metric, Source
from collectors.model.reading import Clock, Pass, Reading
from collectors.targets.crosscheck import CrossCheck, quirks

_STALE_ROUNDS: Final = 3
_CLOSE_S: Final = 2.0


def _column(row: Metric) -> Column:
    return row.column(Source("derived", row.name))


UP: Final = _column(rows.TARGET_UP)
AGE: Final = _column(rows.TARGET_AGE)
POLL: Final = _column(rows.TARGET_POLL)
VALUES: Final = _column(rows.TARGET_ROWS)


class Poller(Protocol):
    """What a fleet is made of."""

    @property
    def subject(self) -> Switch:
        """The switch that is polled."""

    async def poll(self, clock: Clock) -> Pass:
        """Read it once; raises FabricError where it does not answer."""


class Claims:
    """Which transport gives a metric of an entity, where a target has several.

    Counters of one port over SNMP and gNMI are read at different moments and differ in width:
    mixed, they would look like resets. The better-placed transport keeps a series until it has
    not given it for a while.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_ns = int(hold_s * 1e9)
        self._owners: dict[tuple[Entity, str], tuple[int, int]] = {}

    def filter(self, readings: Sequence[Reading], rank: int, now_ns: int) -> tuple[Reading, ...]:
        """Return the readings without what a transport of a lower rank number gives."""
        kept = []
        for reading in readings:
            values = {
                column: value
                for column, value in reading.values.items()
                if self._own((reading.entity, column.metric), rank, now_ns)
            }
            if values:
                kept.append(Reading(reading.entity, values, reading.when, reading.incarnation))
        return tuple(kept)

    def _own(self, key: tuple[Entity, str], rank: int, now_ns: int) -> bool:
        owner = self._owners.get(key)
        if owner is not None and owner[0] < rank and now_ns - owner[1] < self._hold_ns:
            return False
        self._owners[key] = (rank, now_ns)
        return True


@dataclass
class Member:
    """A poller in a fleet. claims, rank: where its switch has other transports, too."""

    poller: Poller
    claims: Claims | None = None
    rank: int = 0
    task: asyncio.Task[Pass] | None = None
    began_ns: int = 0
    answered_ns: int | None = None
    facts: Facts | None = None


@dataclass
class _Round:
    readings: list[Reading] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    facts_changed: bool = False


class Fleet:
    """A collector over many targets. at_once: polls under way at the same time."""

    def __init__(
        self, name: str, members: Sequence[Member], wait_s: float, at_once: int = 128
    ) -> None:
        self.name = name
        self._members = list(members)
        self._wait_s = wait_s
        self._loop = asyncio.new_event_loop()
        self._gate = asyncio.Semaphore(at_once)
        self._started_ns: int | None = None
        self._check = CrossCheck()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def read(self, clock: Clock) -> Pass:
        """Run one round. Raises nothing for targets that do not answer: they are gaps."""
        return self.run(self._round(clock))

    def run(self, work: Coroutine[Any, Any, Pass]) -> Pass:
        """Run a coroutine on the fleet's own loop and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Stop all polls and the thread."""

        async def shut() -> Pass:
            for member in self._members:
                if member.task is not None:
                    member.task.cancel()
                with contextlib.suppress(FabricError, asyncio.CancelledError):
                    closing: Callable[[], Awaitable[None] | None] = getattr(
                        member.poller, "close", lambda: None
                    )
                    waiting = closing()
                    if waiting is not None:
                        await waiting
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:  # of gRPC calls that are being cancelled
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=_CLOSE_S)
            return Pass()

        self.run(shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _round(self, clock: Clock) -> Pass:
        now_ns = clock().mono_ns
        if self._started_ns is None:
            self._started_ns = now_ns
        for member in self._members:
            if member.task is None:
                member.began_ns = now_ns
                member.task = asyncio.create_task(self._poll(member, clock))
        tasks = [member.task for member in self._members if member.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._wait_s)
        result = _Round()
        for member in self._members:
            self._collect(member, clock, result)
        if result.facts_changed:
            self._check.learn(member.facts for member in self._members if member.facts)
        if self._check.take(result.readings):
            result.facts_changed = True
        for verdict in self._check.verdicts:
            what = f"against {verdict.against}"
            result.gaps.append(Gap(str(verdict.switch), self.name, what, verdict.what))
        facts = self._facts() if result.facts_changed else None
        return Pass(tuple(result.readings), tuple(result.gaps), facts)

    async def _poll(self, member: Member, clock: Clock) -> Pass:
        async with self._gate:
            member.began_ns = clock().mono_ns
            return await member.poller.poll(clock)

    def _collect(self, member: Member, clock: Clock, result: _Round) -> None:
        now = clock()
        switch = member.poller.subject
        task = member.task
        status: dict[Column, int | float] = {UP: 0}
        if task is None or not task.done():
            busy_s = (now.mono_ns - member.began_ns) / 1e9
            why = f"still asking after {busy_s:.1f} s"
            result.gaps.append(Gap(str(switch), self.name, "poll", "deadline", why))
            status[UP] = int(self._is_fresh(member, now.mono_ns))
        else:
            member.task = None
            try:
                found = task.result()
            except FabricError as error:
                kind = type(error).__name__
                result.gaps.append(Gap(str(switch), self.name, error.what, kind, str(error)))
            except Exception as error:  # noqa: BLE001  one target must not cost the others
                kind = type(error).__name__
                result.gaps.append(Gap(str(switch), self.name, "poll", "internal", kind))
            else:
                member.answered_ns = now.mono_ns
                status = {
                    UP: 1,
                    POLL: (now.mono_ns - member.began_ns) / 1e9,
                    VALUES: sum(len(reading.values) for reading in found.readings),
                }
                readings = found.readings
                if member.claims is not None:
                    readings = member.claims.filter(readings, member.rank, now.mono_ns)
                result.readings.extend(readings)
                result.gaps.extend(found.gaps)
                if found.facts is not None and found.facts != member.facts:
                    member.facts = found.facts
                    result.facts_changed = True
        since = member.answered_ns or self._started_ns or now.mono_ns
        status[AGE] = (now.mono_ns - since) / 1e9
        result.readings.append(Reading(switch, status, now))

    def _is_fresh(self, member: Member, now_ns: int) -> bool:
        limit_ns = self._wait_s * _STALE_ROUNDS * 1e9
        return member.answered_ns is not None and now_ns - member.answered_ns < limit_ns

    def _facts(self) -> Facts:
        every = [member.facts for member in self._members if member.facts is not None]
        seen = [
            Attribute(switch, "counter_quirk", text)
            for switch, text in quirks(self._check.verdicts).items()
        ]
        return Facts(
            tuple(row for facts in every for row in facts.settings),
            (*(row for facts in every for row in facts.attributes), *seen),
            neighbours=tuple(row for facts in every for row in facts.neighbours),
            gaps=tuple(row for facts in every for row in facts.gaps),
        )
