"""Walking one column safely: any order, any size, any end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gufo.snmp._fast import GetIter

from collectors.model.errors import FabricError, Unavailable
from collectors.snmp.session import Row, Session

FEWEST: Final = 5
GET_BATCH: Final = 40


@dataclass
class Pace:
    """How much a target gives in one reply, learnt as it answers.

    repetitions: rows to ask for; halved when a reply is too big or does not come. max_rows: of a
    column, beyond which it is read no further.
    """

    repetitions: int = 60
    max_rows: int = 400_000

    def slower(self) -> bool:
        """Ask for half as many rows; False where that is the least already."""
        if self.repetitions <= FEWEST:
            return False
        self.repetitions = max(FEWEST, self.repetitions // 2)
        return True


async def walk(
    session: Session,
    oid: str,
    pace: Pace,
    ends: dict[str, int],
    gap: Callable[[str, str], None],
) -> list[Row]:
    """Return all rows of a column.

    Rows out of order are kept; a reply that brings nothing new ends the walk with a gap. A walk
    that ends inside a column's last reply may have met a reply that was too big: it is repeated
    once with fewer rows. ends: column -> rows at its known end, so that an end without a
    following column is trusted. Raises FabricError where not even few rows are answered.
    """
    while True:
        rows, ended = await _once(session, oid, pace, gap)
        if ended or ends.get(oid) == len(rows):
            return rows
        asked, pace.repetitions = pace.repetitions, max(FEWEST, pace.repetitions // 4)
        if asked == pace.repetitions:
            return rows
        again, ended = await _once(session, oid, pace, gap)
        if len(again) > len(rows):  # the reply had been too big: stay with fewer
            gap(oid, "reply too big")
            rows = again
            if ended:
                return rows
            continue
        pace.repetitions = asked
        ends[oid] = len(again)
        return again


async def _once(
    session: Session, oid: str, pace: Pace, gap: Callable[[str, str], None]
) -> tuple[list[Row], bool]:
    position = GetIter(oid, pace.repetitions)
    rows: list[Row] = []
    begun: set[str] = set()  # first row of every reply: an agent that goes in circles repeats one
    while True:
        try:
            reply = await session.bulk(position)
        except Unavailable:
            if rows or not pace.slower():
                raise
            gap(oid, "fewer rows asked")
            position = GetIter(oid, pace.repetitions)
            continue
        if reply is None:
            return rows, False
        ended = bool(reply) and reply[-1] is None
        fresh = [row for row in reply if row is not None]
        if not fresh:
            return rows, ended
        first = fresh[0][0]
        if first in begun or len({row[0] for row in fresh}) < len(fresh):
            gap(oid, "not increasing")
            return list(dict(rows + fresh).items()), True
        begun.add(first)
        rows += fresh
        if ended:
            return rows, True
        if len(rows) > pace.max_rows:
            gap(oid, "too many rows")
            return rows, True


async def get_known(session: Session, oids: list[str]) -> dict[str, Any]:
    """Return the values of known rows, without walking past all the others."""
    found: dict[str, Any] = {}
    for start in range(0, len(oids), GET_BATCH):
        found.update(await session.get(oids[start : start + GET_BATCH]))
    return found


async def table(
    session: Session, oid: str, pace: Pace, ends: dict[str, int], gap: Callable[[str, str], None]
) -> dict[int, Any]:
    """Return a column that is indexed by one number, such as ifName; empty where not there."""
    try:
        rows = await walk(session, oid, pace, ends, gap)
    except FabricError as error:
        gap(oid, type(error).__name__)
        return {}
    start = len(oid) + 1
    return {int(name[start:]): value for name, value in rows if name[start:].isdigit()}
