"""CISCO-CLASS-BASED-QOS-MIB: what WRED marked and dropped, joined to interfaces and queues.

Statistics are indexed by policy, object and RED value (64 IP precedences or DSCPs): they are
added up over the last. Where an object sits is told by four more tables: the policy's interface
and direction, the object's parent, and the parent's class-map, whose name carries the queue
(`c-out-8q-q3`). Indices do not outlive a reload or a change of policies: where a statistic has an
object that is not known, the join is made anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from collectors.model.catalogue.registry import columns
from collectors.model.catalogue.sources import CISCO_CBQOS
from collectors.model.errors import FabricError
from collectors.model.metric import Column
from collectors.snmp.session import Session
from collectors.snmp.walk import Pace, walk

MIB: Final = "CISCO-CLASS-BASED-QOS-MIB"
DIRECTION: Final = f"{CISCO_CBQOS}.1.1.1.3"
IF_INDEX: Final = f"{CISCO_CBQOS}.1.1.1.4"
CONFIG: Final = f"{CISCO_CBQOS}.5.1.1.2"
TYPE: Final = f"{CISCO_CBQOS}.5.1.1.3"
PARENT: Final = f"{CISCO_CBQOS}.5.1.1.4"
CLASS_NAME: Final = f"{CISCO_CBQOS}.7.1.1.1"
_OUTPUT: Final = 2
_CLASS_MAP: Final = 2  # QosObjectType classmap
_QUEUE = re.compile(r"q(\d+)$")

Index = tuple[int, ...]
Table = Mapping[Index, Any]
Noter = Callable[[str, str], None]


def parse_join(tables: Mapping[str, Table], gap: Noter) -> dict[Index, tuple[int, int]]:
    """Return (policy, object) -> (ifIndex, queue) of what hangs below classes of output policies.

    tables: OID of the column -> index -> value. A class without a queue number in its name, the
    default class apart (queue 0), is a gap.
    """
    found: dict[Index, tuple[int, int]] = {}
    for index, parent in tables[PARENT].items():
        policy = index[:1]
        above = (*policy, parent)
        port = tables[IF_INDEX].get(policy)
        if tables[DIRECTION].get(policy) != _OUTPUT or port is None:
            continue
        if tables[TYPE].get(above) != _CLASS_MAP:
            continue
        name = _text(tables[CLASS_NAME].get((tables[CONFIG].get(above, 0),), b""))
        match = _QUEUE.search(name)
        if match is None and "default" not in name:
            gap(MIB, f"no queue in the name of class {name[:40]!r}")
            continue
        found[index] = (int(port), int(match[1]) if match else 0)
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _index(oid: str, row: str) -> Index:
    return tuple(map(int, row[len(oid) + 1 :].split(".")))


@dataclass
class ClassQueues:
    """The join of one device, kept until an object turns up that is not in it."""

    _join: dict[Index, tuple[int, int]] = field(default_factory=dict)
    _strange: set[Index] = field(default_factory=set)
    _absent: set[str] = field(default_factory=set)
    joins: int = 0

    async def fetch(
        self, session: Session, pace: Pace, ends: dict[str, int], gap: Noter
    ) -> dict[tuple[int, int, Column], int]:
        """Return (ifIndex, queue, column) -> count. Raises FabricError.

        Columns that were empty are not asked for again by this object; the poller makes a new one
        whenever it learns the device anew.
        """
        sums: dict[tuple[str, Index], int] = {}
        for oid in columns("snmp", MIB):
            if oid in self._absent:
                continue
            rows = await walk(session, oid, pace, ends, gap)
            if not rows:
                self._absent.add(oid)
            for row, value in rows:
                key = (oid, _index(oid, row)[:2])
                if isinstance(value, int) and value >= 0:
                    sums[key] = sums.get(key, 0) + value
        unknown = {index for _, index in sums} - self._join.keys() - self._strange
        if unknown:
            await self._learn(session, pace, ends, gap)
            self._strange = {index for _, index in sums} - self._join.keys()
        known = columns("snmp", MIB)
        return {
            (*self._join[index], known[oid]): count
            for (oid, index), count in sums.items()
            if index in self._join
        }

    async def _learn(self, session: Session, pace: Pace, ends: dict[str, int], gap: Noter) -> None:
        self.joins += 1
        tables: dict[str, Table] = {}
        for oid in (DIRECTION, IF_INDEX, CONFIG, TYPE, PARENT, CLASS_NAME):
            try:
                rows = await walk(session, oid, pace, ends, gap)
            except FabricError as error:
                gap(oid, type(error).__name__)
                rows = []
            tables[oid] = {_index(oid, row): value for row, value in rows}
        self._join = parse_join(tables, gap)
