"""Polls COUNTERS_DB of one SONiC switch: ports, queues, priority groups, watermarks, watchdog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from collectors.codec.sonic_config import parse_config_db
from collectors.codec.sonic_counters import parse_hash
from collectors.model.catalogue.interface import QUEUE_ECN_MARKED
from collectors.model.entities import Entity, Interface, Slot, SlotKind, Switch
from collectors.model.errors import Malformed
from collectors.model.facts import Attribute, Facts
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Pass, Reading
from collectors.sonic.database import CONFIG_DB, COUNTERS_DB, STATE_DB, Database, Hash

NAME: Final = "sonic_db"
MAPS: Final[dict[str, SlotKind | None]] = {
    "COUNTERS_PORT_NAME_MAP": None,
    "COUNTERS_QUEUE_NAME_MAP": "queue",
    "COUNTERS_PG_NAME_MAP": "priority_group",
    "COUNTERS_BUFFER_POOL_NAME_MAP": "pool",
}
WATERMARKS: Final = ("USER_WATERMARKS", "PERSISTENT_WATERMARKS", "PERIODIC_WATERMARKS")
CONFIG_TABLES: Final = (
    "PORT", "QUEUE", "WRED_PROFILE", "PORT_QOS_MAP", "BUFFER_PROFILE", "BUFFER_PG", "BUFFER_POOL",
    "CABLE_LENGTH",
    "PFC_WD", "SWITCH_HASH", "DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP", "TC_TO_QUEUE_MAP",
    "TC_TO_PRIORITY_GROUP_MAP", "MAP_PFC_PRIORITY_TO_QUEUE", "SCHEDULER", "DEVICE_METADATA",
    "DEVICE_NEIGHBOR", "PORTCHANNEL_MEMBER", "FLEX_COUNTER_TABLE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """wants: which ports. relearn_s: between looks at maps and CONFIG_DB."""

    wants: Callable[[str], bool]
    relearn_s: float = 300.0
    aliases: dict[str, str] = field(default_factory=dict)


@dataclass
class _Known:
    """Objects by oid, as the name maps had them."""

    learnt_ns: int
    entities: dict[str, Entity]


class SonicPoller:
    """One switch (one ASIC)."""

    def __init__(self, switch: Switch, database: Database, options: Options) -> None:
        self._switch = switch
        self._database = database
        self._options = options
        self._known: _Known | None = None
        self._facts: Facts | None = None

    @property
    def subject(self) -> Switch:
        """The switch that is polled."""
        return self._switch

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()

    async def poll(self, clock: Clock) -> Pass:
        """Read all objects once. Raises FabricError where the database does not answer."""
        gaps = GapLog(NAME)
        facts = None
        now = clock()
        known = self._known
        if known is None or now.mono_ns - known.learnt_ns > self._options.relearn_s * 1e9:
            known = self._known = await self._learn(now.mono_ns, gaps)
            facts = await self._configuration(gaps)
        keys = [f"COUNTERS:{oid}" for oid in known.entities]
        pools_and_groups = [
            oid
            for oid, entity in known.entities.items()
            if isinstance(entity, Slot) and entity.kind in ("priority_group", "queue", "pool")
        ]
        keys += [f"{table}:{oid}" for table in WATERMARKS for oid in pools_and_groups]
        when = clock()
        hashes = await self._database.fetch_hashes(COUNTERS_DB, keys)
        values: dict[Entity, dict[Column, int | float]] = {}
        missing = 0
        for oid, entity in known.entities.items():
            counters = hashes.get(f"COUNTERS:{oid}", {})
            if not counters and not any(hashes.get(f"{table}:{oid}") for table in WATERMARKS):
                missing += 1
                continue
            self._take(entity, counters, values, gaps)
            for table in WATERMARKS:
                self._take(entity, hashes.get(f"{table}:{oid}", {}), values, gaps, again=False)
        if missing:
            gaps.add(self._switch, "COUNTERS", "no hash", f"{missing} objects of the name maps")
            self._known = None if missing == len(known.entities) else self._known
        readings = tuple(Reading(entity, row, when) for entity, row in values.items() if row)
        self._note_uncounted(values, gaps)
        return Pass(readings, gaps.gaps(), facts)

    def _take(
        self,
        entity: Entity,
        counters: Hash,
        values: dict[Entity, dict[Column, int | float]],
        gaps: GapLog,
        *,
        again: bool = True,
    ) -> None:
        """Put the fields of one hash where they belong; `again` False keeps what is there."""
        metrics: dict[Entity, set[str]] = {}
        for value in parse_hash(counters):
            owner = self._owner(entity, value.field.kind, value.field.index)
            if owner is None:
                continue
            column = value.field.column
            if value.value is None:
                reason = "negative" if value.text.startswith("-") else "not numeric"
                gaps.add(owner, column.metric, reason, value.text)
                continue
            row = values.setdefault(owner, {})
            seen = metrics.setdefault(owner, {known.metric for known in row})
            if not again and column.metric in seen:
                continue
            row[column] = value.value

    @staticmethod
    def _owner(entity: Entity, kind: str, index: int | None) -> Entity | None:
        if kind == "priority" and isinstance(entity, Interface) and index is not None:
            return Slot(entity, "priority", index)
        if kind == "interface":
            return entity if isinstance(entity, Interface) else None
        return entity if isinstance(entity, Slot) and entity.kind == kind else None

    async def _learn(self, now_ns: int, gaps: GapLog) -> _Known:
        entities: dict[str, Entity] = {}
        for table, kind in MAPS.items():
            for name, oid in (await self._database.fetch_hash(COUNTERS_DB, table)).items():
                entity = self._entity(name, kind, len(entities))
                if entity is not None:
                    entities[oid] = entity
            if table == "COUNTERS_PORT_NAME_MAP" and not entities:
                if not await self._database.fetch_keys(COUNTERS_DB, "COUNTERS*"):
                    why = "COUNTERS_DB is empty: not SONiC, or its counters have not come up yet"
                    raise Malformed(str(self._switch), "sonic db", why)
                gaps.add(self._switch, table, "empty")
        return _Known(now_ns, entities)

    def _entity(self, name: str, kind: SlotKind | None, position: int) -> Entity | None:
        if kind == "pool":
            return Slot(self._switch, "pool", position)
        port, _, number = name.partition(":")
        if not self._options.wants(port):
            return None
        interface = Interface(self._switch, port)
        if kind is None:
            return interface
        return Slot(interface, kind, int(number)) if number.isdigit() else None

    async def _configuration(self, gaps: GapLog) -> Facts:
        database = self._database
        config: dict[str, dict[str, Hash]] = {}
        for table in CONFIG_TABLES:
            keys = await database.fetch_keys(CONFIG_DB, f"{table}|*")
            hashes = await database.fetch_hashes(CONFIG_DB, keys)
            config[table] = {key.partition("|")[2]: row for key, row in hashes.items()}
        for port, row in config["PORT"].items():
            if alias := row.get("alias"):
                self._options.aliases[alias] = port
        facts, odd = parse_config_db(config, self._switch, "CONFIG_DB")
        for what, reason in odd:
            gaps.add(self._switch, what, reason)
        software = await database.fetch_hash(STATE_DB, "VERSIONS|SOFTWARE")
        extra = [Attribute(self._switch, "software", text) for text in software.values()][:1]
        return Facts(facts.settings, (*facts.attributes, *extra), neighbours=facts.neighbours)

    def _note_uncounted(
        self, values: dict[Entity, dict[Column, int | float]], gaps: GapLog
    ) -> None:
        """ECN per queue is off by default on SONiC: say so rather than show nothing."""
        marked = QUEUE_ECN_MARKED.name
        if not any(column.metric == marked for row in values.values() for column in row):
            gaps.add(self._switch, marked, "not counted", "counterpoll wredqueue enable")
