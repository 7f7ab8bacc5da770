"""Which tables each platform has, and how their rows are indexed.

What a column means stands in the catalogue (`snmp` sources); here stands the rest: the layout
of the index, which part of it names the queue or priority, cell sizes, gates, and what must not
be read on a platform.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from collectors.model.catalogue.registry import sources_of
from collectors.model.catalogue.sources import (
    ARISTA_PFC,
    ARISTA_QOS,
    ARISTA_QUEUE,
    ARISTA_XGS,
    CISCO_PFC,
    CISCO_QOS,
    CUMULUS,
    DOT3,
    IEEE_PFC,
    IF,
    IF_HC,
    JUNIPER_COS,
    ONYX_QOS,
    parse_key,
)
from collectors.model.entities import SlotKind
from collectors.model.metric import Column

SYS_DESCR: Final = "1.3.6.1.2.1.1.1.0"
SYS_UP_TIME: Final = "1.3.6.1.2.1.1.3.0"
SYS_NAME: Final = "1.3.6.1.2.1.1.5.0"
ENGINE_BOOTS: Final = "1.3.6.1.6.3.10.2.1.2.0"
IF_NAME: Final = f"{IF_HC}.1"
IF_DESCR: Final = f"{IF}.2"
IF_TYPE: Final = f"{IF}.3"
IF_HIGH_SPEED: Final = f"{IF_HC}.15"
IF_ALIAS: Final = f"{IF_HC}.18"
IF_MTU: Final = f"{IF}.4"
IF_DISCONTINUITY: Final = f"{IF_HC}.19"
IF_OPER_STATUS: Final = f"{IF}.8"


@dataclass(frozen=True, slots=True)
class Table:
    """One conceptual row type.

    entry: OID of the entry; a column is entry.<n>. index: names of the sub-identifiers, of
    which `ifIndex` names the interface and `slot` the numbered part. offset: what to take off
    the index (SONiC numbers queues from 1). cell: OID of the scalar, or of the column of the
    same index, that holds the bytes of a buffer cell. gate: column of TruthValue; where it is
    false the device does not count, and its zero is no zero.
    """

    mib: str
    entry: str
    index: tuple[str, ...] = ("ifIndex",)
    slot: str = ""
    kind: SlotKind | None = None
    offset: int = 0
    cell: str = ""
    gate: str = ""


def _per(mib: str, entry: str, slot: SlotKind, *between: str, **more: str | int) -> Table:
    index = ("ifIndex", *between, slot) if not between else ("ifIndex", *between)
    return Table(mib, entry, index, slot, slot, **more)  # type: ignore[arg-type]


_COMMON: Final = (
    Table("IF-MIB", IF_HC),
    Table("IF-MIB", IF),
    Table("EtherLike-MIB", f"{DOT3}.2.1"),
    Table("EtherLike-MIB", f"{DOT3}.11.1"),
    Table("EtherLike-MIB", f"{DOT3}.10.1"),
    Table("EtherLike-MIB", f"{DOT3}.9.1"),
    Table("IEEE8021-PFC-MIB", IEEE_PFC),
)
_CISCO_PRIORITY: Final = _per("CISCO-PFC-EXT-MIB", f"{CISCO_PFC}.2.1", "priority")
_CISCO_GROUP_INDEX: Final = ("ifIndex", "dir", "queue", "stat")
_CELL_SIZE: Final = "1.3.6.1.4.1.9.9.580.1.1.6.0"

_NXOS: Final = (
    Table("CISCO-PFC-EXT-MIB", f"{CISCO_PFC}.1.1"),
    _CISCO_PRIORITY,
    _per("CISCO-PFC-EXT-MIB", f"{CISCO_PFC}.3.1", "queue"),
    _per("CISCO-PFC-EXT-MIB", f"{CISCO_PFC}.4.1", "priority"),
    Table("CISCO-SWITCH-QOS-MIB", f"{CISCO_QOS}.5.1", _CISCO_GROUP_INDEX, "queue", "queue"),
    _per("CISCO-SWITCH-QOS-MIB", f"{CISCO_QOS}.6.1", "priority_group", cell=_CELL_SIZE),
    Table(
        "CISCO-SWITCH-QOS-MIB",
        f"{CISCO_QOS}.7.1",
        ("entPhysicalIndex", "instance", "pool"),
        "pool",
        "pool",
        cell=_CELL_SIZE,
    ),
)
_SONIC: Final = (
    _CISCO_PRIORITY,
    Table("CISCO-SWITCH-QOS-MIB", f"{CISCO_QOS}.5.1", _CISCO_GROUP_INDEX, "queue", "queue", 1),
)
_XGS_INDEX: Final = ("ifIndex", "type", "queue")
_EOS: Final = (
    _per("ARISTA-PFC-MIB", f"{ARISTA_PFC}.1.1", "priority"),
    Table(
        "ARISTA-PFC-MIB", f"{ARISTA_PFC}.2.1", ("ifIndex", "queueType", "queue"), "queue", "queue"
    ),
    Table(
        "ARISTA-QUEUE-MIB", f"{ARISTA_QUEUE}.2.1", ("ifIndex", "queue", "type"), "queue", "queue"
    ),
    _per("ARISTA-QOS-MIB", f"{ARISTA_QOS}.9.1", "queue", gate=f"{ARISTA_QOS}.9.1.3"),
    Table("ARISTA-XGS-MIB", ARISTA_XGS, _XGS_INDEX, "queue", None, cell=f"{ARISTA_XGS}.4"),
)
_ONYX: Final = (
    _per("MELLANOX-QOS-MIB", f"{ONYX_QOS}.2.1", "priority"),
    _per("MELLANOX-QOS-MIB", f"{ONYX_QOS}.3.1", "priority_group"),
    _per("MELLANOX-QOS-MIB", f"{ONYX_QOS}.4.1", "queue"),
    Table("MELLANOX-QOS-MIB", f"{ONYX_QOS}.5.1"),
)
_CUMULUS: Final = (Table("CUMULUS-COUNTERS-MIB", CUMULUS, kind="priority"),)
_JUNOS: Final = (_per("JUNIPER-COS-MIB", JUNIPER_COS, "queue"),)

TABLES: Final[dict[str, tuple[Table, ...]]] = {
    "nxos": (*_COMMON, *_NXOS),
    "sonic": (*_COMMON, *_SONIC),
    "eos": (*_COMMON, *_EOS),
    "onyx": (*_COMMON, *_ONYX),
    "nvue": (*_COMMON, *_CUMULUS),
    "junos": (*_COMMON, *_JUNOS),
    "openconfig": _COMMON,
    "other": _COMMON,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """How the rows of one column become values of one metric.

    where: what parts of the index must be. fixed: the slot where the column itself names it.
    on: kinds of entity that the metric has. cells: the value counts buffer cells.
    """

    column: Column
    table: Table
    where: tuple[tuple[str, int], ...]
    fixed: int | None
    kind: SlotKind | None
    cells: bool
    order: int


def _rules_of(table: Table) -> Iterator[tuple[str, Rule]]:
    prefix = table.entry + "."
    for metric, source in sources_of("snmp"):
        oid, braces = parse_key(source.key)
        if not oid.startswith(prefix) or "." in oid.removeprefix(prefix):
            continue
        where = tuple((name, n) for name, n in braces.items() if name in table.index)
        fixed = next((n for name, n in braces.items() if name not in table.index), None)
        kind: SlotKind | None = table.kind
        if table.slot and table.kind is None:  # Arista XGS: the type says what the number is
            kind = metric.on[0]  # type: ignore[assignment]
        cells, order = source.note == "cells", metric.sources.index(source)
        yield oid, Rule(metric.column(source), table, where, fixed, kind, cells, order)


@cache
def plan(platform: str) -> dict[str, tuple[Rule, ...]]:
    """Return column OID -> rules, in walking order, for a platform of TABLES.

    Raises KeyError for a platform that is not there.
    """
    found: dict[str, list[Rule]] = {}
    for table in TABLES[platform]:
        for oid, rule in _rules_of(table):
            found.setdefault(oid, []).append(rule)
    return {oid: tuple(rules) for oid, rules in found.items()}
