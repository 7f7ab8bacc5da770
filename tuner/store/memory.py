"""The store in memory: blocks by agent, collector and entities; facts; a ring by age and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from collectors.model.entities import Entity, host_of, label_of
from collectors.model.errors import Malformed
from collectors.model.metric import Column
from collectors.wire import telemetry_pb2 as pb
from tuner.store.arithmetic import Ints
from tuner.store.block import Block, Placement, new_block
from tuner.store.factbook import FactBook
from tuner.store.schemas import (
    MOST_COLUMNS,
    KnownSchema,
    Numbers,
    check_time,
    decode_batch,
    know_schema,
)
from tuner.store.window import Window

FOREVER_NS: Final = 1 << 62
_SCHEMA_NS: Final = 2 * 3600 * 10**9


@dataclass(eq=False)
class _Group:
    """Blocks of one agent, collector and tuple of entities, oldest first."""

    agent: str
    collector: str
    rows: Ints  # as in Panel
    columns: list[Column] = field(default_factory=list)
    number: dict[Column, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)


@dataclass(eq=False)
class _Route:
    """Where the batches of one schema of one agent and collector go."""

    schema: KnownSchema
    group: _Group
    columns: Ints  # schema column -> group column
    placements: dict[bytes, Placement] = field(default_factory=dict)
    incarnations: dict[str, Ints] = field(default_factory=dict)  # by boot


@dataclass
class MemoryStore:
    """Everything that was received of a span of time.

    max_bytes: of numbers; the oldest go first when there are more. Facts are kept as long as
    they hold.
    """

    max_bytes: int | None = None
    values: int = 0
    batches: int = 0
    _schemas: dict[bytes, KnownSchema] = field(default_factory=dict)
    _columns: dict[Column, Column] = field(default_factory=dict)
    _used_ns: dict[bytes, int] = field(default_factory=dict)  # newest batch of each schema
    _routes: dict[tuple[str, str, bytes], _Route] = field(default_factory=dict)
    _groups: dict[tuple[str, str, tuple[str, ...]], _Group] = field(default_factory=dict)
    _entity_ids: dict[str, int] = field(default_factory=dict)
    _entities: list[Entity] = field(default_factory=list)
    _incarnations: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _boots: dict[str, dict[str, int]] = field(default_factory=dict)
    _last_at: dict[str, int] = field(default_factory=dict)
    _newest_ns: int = 0
    _facts: FactBook = field(default_factory=FactBook)

    def add(self, item: pb.Item, numbers: Numbers | None = None) -> None:
        """Take an item of any kind. numbers: of a batch, decoded before. Raises Malformed."""
        match item.WhichOneof("body"):
            case "batch":
                self.add_batch(item.batch, numbers)
            case "schema":
                self.add_schema(item.schema)
            case "facts":
                self.add_facts(item.facts)
            case _:
                pass

    def schema(self, schema_id: bytes) -> KnownSchema | None:
        """Return a schema by its id."""
        return self._schemas.get(schema_id)

    def add_schema(self, schema: pb.Schema) -> KnownSchema:
        """Take a schema and return it parsed. Raises Malformed."""
        known = self._schemas.get(schema.id)
        if known is None:
            known = self._schemas[schema.id] = know_schema(schema, self._columns)
        self._used_ns[schema.id] = max(self._used_ns.get(schema.id, 0), self.newest_ns)
        return known

    def add_facts(self, facts: pb.Facts) -> None:
        """Take facts. Raises Malformed."""
        check_time(facts.at_ns)
        self._facts.add(facts.agent, facts.collector, facts.at_ns, facts.json)
        self._saw(facts.agent, facts.at_ns)

    def add_batch(self, batch: pb.Batch, numbers: Numbers | None = None) -> None:
        """Take a batch of a schema that was taken before. Raises Malformed."""
        route = self._route(batch)
        numbers = numbers or decode_batch(batch, route.schema)
        placement = route.placements.get(batch.present)
        if placement is None:
            if len(route.placements) > 256:
                route.placements.clear()
            placement = route.placements[batch.present] = _place(route, batch.present)
        group = route.group
        block = group.blocks[-1] if group.blocks else None
        places = None if block is None else block.places(placement)
        if block is None or places is None:
            block = new_block(len(group.rows), placement, block)
            group.blocks.append(block)
            places = block.places(placement)
        if places is None:
            raise AssertionError("a new block has room for the batch that it was made for")
        block.append(places, self._times(batch, route, numbers), numbers.ints, numbers.floats)
        self.values += len(numbers.ints) + len(numbers.floats)
        self.batches += 1
        self._saw(batch.agent, batch.at_ns)
        self._used_ns[batch.schema] = self.newest_ns

    def evict(self, before_ns: int) -> None:
        """Forget what is older, and then the oldest until the limit of bytes holds.

        A schema goes two hours later: an agent that still uses it is asked to send it again.
        """
        self._drop(before_ns)
        for schema_id, used_ns in list(self._used_ns.items()):
            if not used_ns:  # learned before any data came: its time begins now
                self._used_ns[schema_id] = self.newest_ns
            elif used_ns < before_ns - _SCHEMA_NS:
                del self._used_ns[schema_id]
                self._schemas.pop(schema_id, None)
        while self.max_bytes is not None and self.nbytes > self.max_bytes and self._groups:
            times = [b.oldest_ns for group in self._groups.values() for b in group.blocks]
            # The median, lest one clock that is ahead costs everybody else's data.
            newest = sorted(self._last_at.values())[len(self._last_at) // 2]
            self._drop(min(times) + max((newest - min(times)) // 16, 1))

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers and their times."""
        groups = list(self._groups.values())  # a scrape may ask from another thread
        return sum(block.nbytes for group in groups for block in group.blocks)

    def window(
        self, since_ns: int = 0, until_ns: int = FOREVER_NS, now_ns: int | None = None
    ) -> Window:
        """Return what is known of a span of wall-clock time; later additions do not change it.

        now_ns: given, the end of the window for people; what has later times, from clocks that
        are ahead, is in it all the same.
        """
        panels = [
            panel
            for group in self._groups.values()
            for block in group.blocks
            if (
                panel := block.panel(
                    group.agent, group.collector, group.rows, group.columns, since_ns, until_ns
                )
            )
        ]
        return Window(
            since_ns,
            until_ns if now_ns is None else now_ns,
            panels,
            tuple(self._entities),
            tuple(self._facts.current(until_ns)),
            self._facts.changes(since_ns, until_ns),
            dict(self._last_at),
        )

    def entities_by_agent(self) -> Iterator[tuple[str, Sequence[Entity]]]:
        """Yield (agent, entities) of everything that holds numbers."""
        for group in self._groups.values():
            yield group.agent, [self._entities[place] for place in group.rows >> 8]

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents that anything came from."""
        return tuple(self._last_at)

    @property
    def newest_ns(self) -> int:
        """Wall clock of the newest item, 0 where there is none."""
        return self._newest_ns

    def _saw(self, agent: str, at_ns: int) -> None:
        self._newest_ns = max(self._newest_ns, at_ns)
        self._last_at[agent] = max(self._last_at.get(agent, 0), at_ns)

    def _drop(self, before_ns: int) -> None:
        for key, group in list(self._groups.items()):
            for block in group.blocks:
                block.drop_before(before_ns)
            group.blocks = [block for block in group.blocks if block.samples]
            if not group.blocks:
                del self._groups[key]
        living = {id(group) for group in self._groups.values()}
        self._routes = {k: r for k, r in self._routes.items() if id(r.group) in living}
        self._facts.drop_before(before_ns)

    def _route(self, batch: pb.Batch) -> _Route:
        key = (batch.agent, batch.collector, batch.schema)
        route = self._routes.get(key)
        if route is not None:
            return route
        schema = self._schemas.get(batch.schema)
        if schema is None:
            raise Malformed(f"batch {batch.agent}/{batch.seq}", "store", "unknown schema")
        group_key = (batch.agent, batch.collector, schema.ids)
        group = self._groups.get(group_key)
        if group is None:
            rows = self._rows(schema)
            group = self._groups[group_key] = _Group(batch.agent, batch.collector, rows)
        new = [column for column in schema.columns if column not in group.number]
        if len(group.columns) + len(new) > MOST_COLUMNS:
            raise Malformed("schema", "store", f"more than {MOST_COLUMNS} columns of one collector")
        group.number.update((column, n) for n, column in enumerate(new, len(group.columns)))
        # A new list: views of the former one stay as they are.
        group.columns = [*group.columns, *new]
        columns = np.array([group.number[column] for column in schema.columns], np.int64)
        route = self._routes[key] = _Route(schema, group, columns)
        return route

    def _rows(self, schema: KnownSchema) -> Ints:
        seen: dict[int, int] = {}
        rows = []
        for entity, name in zip(schema.entities, schema.ids, strict=True):
            place = self._entity_id(entity, name)
            before = seen[place] = seen.get(place, -1) + 1
            rows.append(place << 8 | min(before, 255))
        return np.array(rows, np.int64)

    def _entity_id(self, entity: Entity, name: str) -> int:
        place = self._entity_ids.setdefault(name, len(self._entities))
        if place == len(self._entities):
            self._entities.append(entity)
        elif label_of(entity):
            self._entities[place] = entity  # equal, with the newest name for people
        return place

    def _times(
        self, batch: pb.Batch, route: _Route, numbers: Numbers
    ) -> tuple[int, int, Ints | int, Ints | int, Ints]:
        boots = self._boots.setdefault(batch.agent, {})
        boot = boots.setdefault(batch.boot_id, len(boots))
        incarnation = route.incarnations.get(batch.boot_id)
        if incarnation is None:
            known: dict[tuple[str | None, str], int] = {}
            both = zip(route.schema.entities, route.schema.incarnations, strict=True)
            pairs = [(host_of(entity), own) for entity, own in both]
            for host, own in dict.fromkeys(pairs):
                known[host, own] = self._incarnation(batch.boot_id, host, own)
            incarnation = route.incarnations[batch.boot_id] = np.array(
                [known[pair] for pair in pairs], np.int64
            )
        return boot, self.batches, numbers.at_ns, numbers.mono_ns, incarnation

    def _incarnation(self, boot_id: str, host: str | None, own: str) -> int:
        """Return the id of an incarnation; a switch does not boot with the agent that polls it."""
        key = (boot_id if host is not None else "", own, host or "")
        return self._incarnations.setdefault(key, len(self._incarnations))


def _place(route: _Route, present: bytes) -> Placement:
    width = max(len(route.columns), 1)
    ints, floats = route.schema.cells(present)

    def keys(cells: Ints) -> Ints:
        return (cells // width) << 16 | route.columns[cells % width]

    return Placement(keys(ints), keys(floats))


def memory_of(items: Iterator[pb.Item], refused: Callable[[Malformed], None]) -> MemoryStore:
    """Return a store of items; those that are damaged go to `refused` and cost no other."""
    store = MemoryStore()
    for item in items:
        try:
            store.add(item)
        except Malformed as error:
            refused(error)
    return store
