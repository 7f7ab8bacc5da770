"""The store in memory: blocks by agent, collector and entities; facts; a ring by age and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from collectors.model.entities import Entity, host_of, label_of
from collectors.model.errors import Malformed
from collectors.model.metric import Column
from collectors.wire import telemetry_pb2 as pb
from tuner.store.arithmetic import Ints
from tuner.store.block import FIRST_SAMPLES, Block, Fill, Placement, new_block
from tuner.store.factbook import FactBook, FactsKey
from tuner.store.schemas import (
    MOST_COLUMNS,
    KnownSchema,
    Numbers,
    cells_of,
    check_sizes,
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
    columns: bytes  # 64-bit numbers: schema column -> group column
    placements: dict[bytes, Placement] = field(default_factory=dict)
    incarnations: dict[str, Ints] = field(default_factory=dict)  # by boot


@dataclass(frozen=True, eq=False)
class Lane:
    """Where batches go that differ only in times and numbers. like: one of them, without these."""

    like: pb.Batch
    route: _Route
    placement: Placement
    boot: int
    incarnation: Ints
    numbers: int  # of each batch

    @property
    def group(self) -> object:
        """What tells the lanes apart whose batches share blocks, where their order counts."""
        return self.route.group


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

    def add_facts(self, facts: pb.Facts) -> FactsKey:
        """Take facts. Raises Malformed."""
        check_time(facts.at_ns)
        key = self._facts.add(facts.agent, facts.collector, facts.at_ns, facts.json)
        self._saw(facts.agent, facts.at_ns)
        return key

    def holds(self, facts: FactsKey) -> bool:
        """Tell whether taking these facts again would change nothing."""
        return self._facts.holds(facts)

    def add_batch(self, batch: pb.Batch, numbers: Numbers | None = None) -> None:
        """Take a batch of a schema that was taken before. Raises Malformed."""
        route = self._route(batch)
        numbers = numbers or decode_batch(batch, route.schema)
        placement = _placement(route, batch.present)
        block, places = _room(route.group, placement)
        boot, incarnation = self._life(batch, route)
        times = boot, self.batches, numbers.at_ns, numbers.mono_ns, incarnation
        block.append(places, times, numbers.ints, numbers.floats)
        self.values += len(numbers.ints) + len(numbers.floats)
        self.batches += 1
        self._saw(batch.agent, batch.at_ns)
        self._used_ns[batch.schema] = self.newest_ns

    def lane(self, like: pb.Batch, sizes: Sequence[int]) -> Lane:
        """Return where batches go that are like one but for times and numbers. Raises Malformed.

        sizes: as for `check_sizes`. Lanes must be made in the order in which their first batches
        came, and are good until something is evicted.
        """
        route = self._route(like)
        check_sizes(like, route.schema, sizes)
        placement = _placement(route, like.present)
        return Lane(like, route, placement, *self._life(like, route), sizes[0] + sizes[1])

    def extend(
        self, lane: Lane, arrival: Ints, at_ns: Ints, times: tuple[Ints, Ints], ints: Fill,
        floats: Fill,
    ) -> None:  # fmt: skip
        """Take batches of a lane. arrival, at_ns: of each one; times: (batches, rows or 1)."""
        block, places = _room(lane.route.group, lane.placement, len(arrival))
        block.extend(places, (lane.boot, arrival, *times, lane.incarnation), ints, floats)
        self.values += lane.numbers * len(arrival)
        self.batches += len(arrival)
        self._saw(lane.like.agent, int(at_ns.max()))
        self._used_ns[lane.like.schema] = self.newest_ns

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
            raise unknown_schema(batch.agent, batch.seq)
        group_key = (batch.agent, batch.collector, schema.ids)
        group = self._groups.get(group_key)
        if group is None:
            rows = self._rows(schema)
            group = self._groups[group_key] = _Group(batch.agent, batch.collector, rows)
        new: Sequence[Column] = schema.columns
        if group.columns:
            new = [column for column in schema.columns if column not in group.number]
        if len(group.columns) + len(new) > MOST_COLUMNS:
            raise Malformed("schema", "store", f"more than {MOST_COLUMNS} columns of one collector")
        group.number.update((column, n) for n, column in enumerate(new, len(group.columns)))
        # A new list: views of the former one stay as they are.
        group.columns = [*group.columns, *new]
        columns = np.array([group.number[column] for column in schema.columns], np.int64)
        route = self._routes[key] = _Route(schema, group, columns.tobytes())
        return route

    def _rows(self, schema: KnownSchema) -> Ints:
        names, first = schema.ids, len(self._entities)
        if self._entity_ids.keys().isdisjoint(names) and len(set(names)) == len(names):
            self._entity_ids.update(zip(names, range(first, first + len(names)), strict=True))
            self._entities.extend(schema.entities)
            return np.arange(first, first + len(names), dtype=np.int64) << 8
        seen: dict[int, int] = {}
        rows = []
        for entity, name in zip(schema.entities, names, strict=True):
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

    def _life(self, batch: pb.Batch, route: _Route) -> tuple[int, Ints]:
        """Return the rank of the boot of a batch, and the incarnation of each of its rows."""
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
        return boot, incarnation

    def _incarnation(self, boot_id: str, host: str | None, own: str) -> int:
        """Return the id of an incarnation; a switch does not boot with the agent that polls it."""
        key = (boot_id if host is not None else "", own, host or "")
        return self._incarnations.setdefault(key, len(self._incarnations))


def unknown_schema(agent: str, seq: int) -> Malformed:
    """Return the error of a batch whose schema did not come before it."""
    return Malformed(f"batch {agent}/{seq}", "store", "unknown schema")


def _placement(route: _Route, present: bytes) -> Placement:
    found = route.placements.get(present)
    if found is None:
        if len(route.placements) > 256:
            route.placements.clear()
        found = route.placements[present] = _placed(
            present, len(route.group.rows), route.schema.floats, route.columns
        )
    return found


def _room(
    group: _Group, placement: Placement, samples: int = 1
) -> tuple[Block, tuple[Ints | None, Ints | None]]:
    """Return the block that takes samples of a placement, a new one where the last does not."""
    block = group.blocks[-1] if group.blocks else None
    places = None if block is None else block.places(placement)
    if block is None or places is None:
        block = new_block(len(group.rows), placement, block, max(samples, FIRST_SAMPLES))
        group.blocks.append(block)
        places = block.places(placement)
    if places is None:
        raise AssertionError("a new block has room for the batch that it was made for")
    return block, places


@lru_cache(maxsize=1 << 14)
def _placed(present: bytes, rows: int, floats: bytes, columns: bytes) -> Placement:
    """Return where the cells of a bitmap go; columns: numbers of a route's columns, as bytes."""
    of_group = np.frombuffer(columns, np.int64)
    width = max(len(of_group), 1)
    ints, of_floats = cells_of(present, rows, floats)
    return Placement(
        (ints // width) << 16 | of_group[ints % width],
        (of_floats // width) << 16 | of_group[of_floats % width],
    )
