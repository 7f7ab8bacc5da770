"""A large folder of segments into memory, as fast as the machine allows.

`frames` unpacks on one core while facts and schemas are parsed here; then all batches that differ
only in times and numbers are appended at once. What comes out is what adding one item after the
other gives.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from collectors.model.errors import FabricError, Malformed
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import parse_item
from collectors.wire.segment import load_segment
from tuner.store import unpack
from tuner.store.arithmetic import Bools, Ints, Values
from tuner.store.block import Fill
from tuner.store.factbook import FactsKey
from tuner.store.fill import Progress, Refused, TookFacts
from tuner.store.frames import Chunk, Copies, Reader, copy_rows
from tuner.store.ledger import Numbers
from tuner.store.memory import Lane, MemoryStore, unknown_schema
from tuner.store.span import is_new, readable, tell_torn, torn_end

LOG: Final = logging.getLogger(__name__)
_AHEAD: Final = 64  # chunks that are read before they are asked for
_PENDING: Final = 2 << 30  # bytes of numbers after which they are appended
_PENDING_SHARE: Final = 1 / 8  # of what a store may hold: they lie in memory twice meanwhile
_NEVER: Final = 1 << 62


def replay(
    store: MemoryStore,
    paths: Sequence[Path],
    refused: Refused,
    *,
    progress: Progress | None = None,
    took: TookFacts | None = None,
) -> None:
    """Take what segments hold into an empty store, every batch once.

    A damaged segment costs its rest, which is logged. Facts that change nothing are not told.
    """
    reader = Reader()
    replaying = _Replay(reader, refused, store, took)
    with closing(_read_ahead(reader, paths)) as chunks:
        for path, chunk in chunks:
            replaying.take(path, chunk)
            tell_torn(path, chunk.torn if chunk.stuck_at is None else torn_end(path))
            if progress is not None:
                progress(replaying.items)
    replaying.flush()


def _read_ahead(reader: Reader, paths: Sequence[Path]) -> Generator[tuple[Path, Chunk], None, None]:
    """Yield the chunks of segments, read by another thread."""

    def read() -> Iterator[tuple[Path, Chunk]]:
        for path in paths:
            try:
                data = load_segment(path)
            except FabricError as error:
                LOG.warning("%s; the rest of this segment is left out", error)
                continue
            for chunk in reader.read(np.frombuffer(data, np.uint8)):
                yield path, chunk

    reading = read()
    with ThreadPoolExecutor(1) as thread:
        ahead = deque(thread.submit(next, reading, None) for _ in range(_AHEAD))
        try:
            while (found := ahead.popleft().result()) is not None:
                ahead.append(thread.submit(next, reading, None))
                yield found
        finally:
            thread.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class _Head:
    """What batches have in common. stream: number of the agent's epoch, 0 where it is damage."""

    like: pb.Batch
    sizes: Sequence[int]
    stream: int
    error: Malformed | None = None


@dataclass(frozen=True, eq=False)
class _Batches:
    """Batches that wait, as arrays. number: of the frame. ints...: addresses of their numbers."""

    head: Ints
    number: Ints
    seq: Ints
    at: Ints
    mono: Ints
    ints: Ints
    floats: Ints
    times: Ints

    def take(self, places: Ints | slice) -> _Batches:
        """Return some of the batches."""
        return _Batches(*(getattr(self, name)[places] for name in self.__dataclass_fields__))


@dataclass(eq=False)
class _Replay:
    """What was read so far. Frames are numbered in the order in which they came."""

    reader: Reader
    refused: Refused
    store: MemoryStore
    took: TookFacts | None
    items: int = 0
    _number: int = 0  # of the next frame
    _cut: Path | None = None  # a segment whose rest is left out
    _heads: list[_Head] = field(default_factory=list)
    _lanes: dict[int, Lane | Malformed] = field(default_factory=dict)
    _kept: dict[int, FactsKey | Malformed | None] = field(default_factory=dict)
    _since: dict[bytes, int] = field(default_factory=dict)  # frame since which a schema is known
    _streams: dict[tuple[str, str], int] = field(default_factory=dict)
    _seen: list[Numbers] = field(default_factory=list)  # by stream
    _pending: list[tuple[Chunk, _Batches]] = field(default_factory=list)
    _bytes: int = 0

    @property
    def _most(self) -> float:
        """Bytes of numbers that may wait."""
        limit = self.store.max_bytes
        return _PENDING if limit is None else min(_PENDING, _PENDING_SHARE * limit)

    def take(self, path: Path, chunk: Chunk) -> None:
        """Take the next frames of a segment."""
        self._learn_heads(chunk.heads)
        if path == self._cut:
            return
        kinds, whats = chunk.frames[:, unpack.KIND], chunk.frames[:, unpack.WHAT]
        end, damage = self._sound(kinds, whats)
        begin = 0
        for place in np.flatnonzero(kinds[:end] != unpack.BATCH).tolist():
            kind, what = int(kinds[place]), int(whats[place])
            again = kind == unpack.REPEATED
            if again and self._settled(what):
                continue
            try:
                item = parse_item(self.reader.kept(what) if again else chunk.text(place))
            except Malformed as error:
                end, damage = place, error
                break
            if kind == unpack.OTHER:
                self._queue(chunk, begin, place)
                self.flush()
                begin = place + 1
            outcome = self._add(item, self._number + place)
            if what >= 0:
                self._kept[what] = outcome
        self._queue(chunk, begin, end)
        self._number += len(kinds)
        self.items += end
        if damage is not None:
            self._cut = path
            LOG.warning("%s; the rest of this segment is left out", damage)
        elif chunk.stuck_at is not None:
            self.flush()
            for item in readable(path, chunk.stuck_at):
                self._add(item, self._number)
                self._number += 1
                self.items += 1

    def flush(self) -> None:
        """Append the batches that wait."""
        pending, self._pending, self._bytes = self._pending, [], 0
        if not pending:
            return
        parts = [batches for _, batches in pending]
        names = _Batches.__dataclass_fields__
        found = _Batches(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))
        found = found.take(self._new(found))
        found = found.take(self._storable(found))
        arrival = self.store.batches + np.arange(len(found.head))
        lanes = {head: self._lanes[head] for head in np.unique(found.head).tolist()}
        groups: dict[object, int] = {}
        of_head = np.zeros(len(self._heads), np.int64)
        for head, lane in lanes.items():
            if isinstance(lane, Lane):
                of_head[head] = groups.setdefault(lane.group, len(groups))
        order = np.argsort(of_head[found.head], kind="stable")
        found, arrival = found.take(order), arrival[order]
        edges = np.flatnonzero(np.diff(found.head, prepend=-1, append=-1))
        group = of_head[found.head[edges[:-1]]]
        # Only the last run of a group: those before it may yet be moved to make room.
        settled = np.diff(group, append=-1) != 0
        with ThreadPoolExecutor(1) as thread:
            copies = Copies(thread)
            for (start, stop), last in zip(pairwise(edges.tolist()), settled.tolist(), strict=True):
                lane = lanes[int(found.head[start])]
                if isinstance(lane, Lane):
                    run = found.take(slice(start, stop))
                    self._extend(lane, run, arrival[start:stop], copies if last else None)
            copies.wait()

    def _extend(self, lane: Lane, run: _Batches, arrival: Ints, copies: Copies | None) -> None:
        """Append batches of one lane. copies: given, what may copy their numbers later."""
        _, _, walls, monos = self._heads[int(run.head[0])].sizes
        wall = mono = np.zeros((len(arrival), 1), np.int64)
        if walls:
            wall = mono = np.empty((len(arrival), walls), np.int64)
            copy_rows(run.times, wall)
        if monos:
            mono = np.empty((len(arrival), monos), np.int64)
            copy_rows(run.times + 8 * walls, mono)

        def fill(addresses: Ints) -> Fill:
            def copy(out: Values, at_once: bool) -> None:
                if at_once or copies is None:
                    copy_rows(addresses, out)
                else:
                    copies.later(addresses, out)

            return copy

        times = run.at[:, None] + wall, run.mono[:, None] + mono
        self.store.extend(lane, arrival, run.at, times, fill(run.ints), fill(run.floats))

    def _storable(self, found: _Batches) -> Ints:
        """Return the places of batches that fit a known schema; refuse the others."""
        since = [self._since.get(head.like.schema, _NEVER) for head in self._heads]
        early = found.number < np.array(since, np.int64)[found.head]
        for place in np.flatnonzero(early).tolist():
            like = self._heads[found.head[place]].like
            self.refused(unknown_schema(like.agent, int(found.seq[place])))
        places = np.flatnonzero(~early)
        heads, first = np.unique(found.head[places], return_index=True)
        wrong = np.zeros(len(self._heads), np.bool_)
        for number in heads[np.argsort(first)].tolist():
            head = self._heads[number]
            if number not in self._lanes:
                try:
                    self._lanes[number] = self.store.lane(head.like, head.sizes)
                except Malformed as error:
                    self._lanes[number] = error
            wrong[number] = isinstance(self._lanes[number], Malformed)
        for number in found.head[places][wrong[found.head[places]]].tolist():
            why = self._lanes[number]
            if isinstance(why, Malformed):
                self.refused(why)
        return places[~wrong[found.head[places]]]

    def _new(self, found: _Batches) -> Ints:
        """Return the places of batches that came for the first time, and note them."""
        stream = np.array([head.stream for head in self._heads], np.int64)[found.head]
        order = np.argsort(stream, kind="stable")
        stream, seq = stream[order], found.seq[order]
        begins = np.flatnonzero(np.diff(stream, prepend=-1))
        before = np.concatenate([[0], seq[:-1]])
        before[begins] = [self._seen[number].high for number in stream[begins].tolist()]
        next_in_turn = seq == before + 1
        next_in_turn[begins] |= before[begins] == 0  # what came before the first is not missed
        next_in_turn &= seq > 0
        new: Bools = np.ones(len(seq), np.bool_)
        for start, stop in pairwise([*begins.tolist(), len(seq)]):
            numbers = self._seen[int(stream[start])]
            if next_in_turn[start:stop].all():
                numbers.high = int(seq[stop - 1])
            else:
                new[start:stop] = [is_new(numbers, one) for one in seq[start:stop].tolist()]
        return np.sort(order[new])

    def _add(self, item: pb.Item, number: int) -> FactsKey | Malformed | None:
        """Add a single item; return what tells whether it must be added again, if it comes."""
        try:
            match item.WhichOneof("body"):
                case "facts":
                    key = self.store.add_facts(item.facts)
                    if self.took is not None:
                        self.took(item.facts)
                    return key
                case "schema":
                    self.store.add_schema(item.schema)
                    self._since.setdefault(item.schema.id, number)
                case "batch":
                    batch = item.batch
                    if is_new(self._seen[self._stream(batch)], batch.seq):
                        self.store.add_batch(batch)
                case _:
                    pass
        except Malformed as error:
            self.refused(error)
            return error
        return None

    def _settled(self, what: int) -> bool:
        """Tell whether adding a schema or facts again would change nothing."""
        if what not in self._kept:  # it came in the rest of a damaged segment
            return False
        outcome = self._kept[what]
        if isinstance(outcome, Malformed):
            self.refused(outcome)
            return True
        return outcome is None or self.store.holds(outcome)

    def _sound(self, kinds: Ints, whats: Ints) -> tuple[int, Malformed | None]:
        """Return up to which frame no head is damaged, and what is wrong with the next one."""
        wrong = np.array([head.error is not None for head in self._heads], np.bool_)
        batches = np.flatnonzero(kinds == unpack.BATCH)
        places: list[int] = batches[wrong[whats[batches]]].tolist()
        return (places[0], self._heads[whats[places[0]]].error) if places else (len(kinds), None)

    def _learn_heads(self, known: int) -> None:
        for number in range(len(self._heads), known):
            sizes = self.reader.sizes(number)
            try:
                like = self.reader.head(number)
            except Malformed as error:
                self._heads.append(_Head(pb.Batch(), sizes, 0, error))
            else:
                self._heads.append(_Head(like, sizes, self._stream(like)))

    def _stream(self, batch: pb.Batch) -> int:
        stream = self._streams.setdefault((batch.agent, batch.epoch), len(self._seen))
        if stream == len(self._seen):
            self._seen.append(Numbers())
        return stream

    def _queue(self, chunk: Chunk, begin: int, end: int) -> None:
        """Let the batches of some frames wait."""
        places = begin + np.flatnonzero(chunk.frames[begin:end, unpack.KIND] == unpack.BATCH)
        rows = chunk.frames[places]

        def addresses(array: Values, column: int) -> Ints:
            return array.ctypes.data + 8 * rows[:, column]

        batches = _Batches(
            rows[:, unpack.WHAT],
            self._number + places,
            rows[:, unpack.SEQ],
            rows[:, unpack.AT],
            rows[:, unpack.MONO],
            addresses(chunk.ints, unpack.INTS),
            addresses(chunk.floats, unpack.FLOATS),
            addresses(chunk.times, unpack.TIMES),
        )
        self._pending.append((chunk, batches))
        self._bytes += chunk.nbytes
        if self._bytes > self._most:
            self.flush()
