"""What is known of schemas: parsed once, and where the numbers of a batch belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from collectors.model.entities import Entity
from collectors.model.errors import Malformed
from collectors.model.metric import Column
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import check_schema
from tuner.store.arithmetic import Ints, Values

_MOST_NS: Final = 1 << 62  # the year 2116: later is damage, and sums must fit 64 bits
MOST_COLUMNS: Final = 1 << 16  # the number of a column has 16 bits in the key of a cell
_NO_FLOATS: Final = np.zeros(0, np.float64)


@dataclass(frozen=True)
class KnownSchema:
    """A schema, checked and parsed."""

    message: pb.Schema
    entities: tuple[Entity, ...]
    incarnations: tuple[str, ...]
    columns: tuple[Column, ...]

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Canonical strings of the entities."""
        return tuple([entity.id for entity in self.message.entities])

    @cached_property
    def floats(self) -> bytes:
        """Of each column, 1 where its numbers are floats."""
        return bytes([column.number == "float" for column in self.columns])

    def cells(self, present: bytes) -> tuple[Ints, Ints]:
        """Return the flat places (entity * columns + column) of integers and of floats.

        Raises Malformed where the bitmap does not fit.
        """
        return cells_of(present, len(self.entities), self.floats)


@lru_cache(maxsize=1 << 14)
def cells_of(present: bytes, rows: int, floats: bytes) -> tuple[Ints, Ints]:
    """Do what `KnownSchema.cells` says: the schemas of a fleet's hosts share a few bitmaps."""
    size = rows * len(floats)
    if len(present) != (size + 7) // 8:
        raise Malformed("batch", "unpack", f"bitmap of {len(present)} bytes for {size} cells")
    bits = np.unpackbits(np.frombuffer(present, np.uint8), bitorder="little")
    if bits[size:].any():
        raise Malformed("batch", "unpack", "bitmap has bits beyond the last cell")
    there = np.flatnonzero(bits[:size]).astype(np.int64)
    if not size:
        return there, there
    is_float = np.frombuffer(floats, np.bool_)[there % len(floats)]
    return there[~is_float], there[is_float]


def know_schema(schema: pb.Schema, columns: dict[Column, Column]) -> KnownSchema:
    """Return a schema checked and parsed. Raises Malformed.

    columns: those of other schemas; equal ones become the same object, which compares faster.
    """
    if len(schema.columns) > MOST_COLUMNS:
        raise Malformed("schema", "check", f"{len(schema.columns)} columns, {MOST_COLUMNS} at most")
    entities, of_schema = check_schema(schema)
    return KnownSchema(
        schema,
        entities,
        tuple([entity.incarnation for entity in schema.entities]),
        tuple(columns.setdefault(column, column) for column in of_schema),
    )


@dataclass(frozen=True, slots=True)
class Numbers:
    """The arrays of a batch, checked: packed integers and floats, times by row or of all."""

    ints: Values
    floats: Values
    at_ns: Ints | int
    mono_ns: Ints | int


def decode_batch(batch: pb.Batch, schema: KnownSchema) -> Numbers:
    """Return the arrays of a batch. Raises Malformed unless it fits its schema."""
    sizes = [
        len(numbers)
        for numbers in (batch.ints, batch.floats, batch.at_offset_ns, batch.mono_offset_ns)
    ]
    check_sizes(batch, schema, sizes)
    ints, floats = np.array(batch.ints, np.uint64), _NO_FLOATS
    if sizes[1]:
        floats = np.array(batch.floats, np.float64)
        if not np.isfinite(floats).all():
            raise Malformed("batch", "unpack", "a float is not finite")
    return Numbers(ints, floats, *_times(batch, len(schema.entities)))


def check_sizes(batch: pb.Batch, schema: KnownSchema, sizes: Sequence[int]) -> None:
    """Raise Malformed unless the bitmap of a batch and the sizes of its numbers fit its schema.

    sizes: of integers, floats, offsets of wall clock and of monotonic time.
    """
    ints, floats = schema.cells(batch.present)
    if sizes[0] != len(ints) or sizes[1] != len(floats):
        raise Malformed("batch", "unpack", "bitmap and numbers disagree")
    rows = len(schema.entities)
    for offsets in sizes[2:]:
        if offsets not in (0, rows):
            raise Malformed("batch", "unpack", f"{offsets} time offsets for {rows} entities")


def check_time(at_ns: int) -> None:
    """Raise Malformed for a time that no clock shows: it would pass for the newest for good."""
    if at_ns > _MOST_NS:
        raise Malformed("item", "unpack", "a time is out of range")


def _times(batch: pb.Batch, rows: int) -> tuple[Ints | int, Ints | int]:
    """Return wall clock and monotonic time: of each row, or one number where all share it."""
    check_time(batch.at_ns)
    check_time(batch.mono_ns)
    if not batch.at_offset_ns and not batch.mono_offset_ns:
        return batch.at_ns, batch.mono_ns
    offsets = _offsets(batch.at_offset_ns)
    mono_offsets = _offsets(batch.mono_offset_ns) if batch.mono_offset_ns else offsets
    times = np.empty((2, rows), np.int64)
    np.add(offsets, batch.at_ns, out=times[0])
    np.add(mono_offsets, batch.mono_ns, out=times[1])
    # Sums stay below 3/4 of 2^64: one that is too large shows as negative.
    if rows and times.min() < 0:
        raise Malformed("batch", "unpack", "a time is out of range")
    return times[0], times[1]


def _offsets(offsets: Sequence[int]) -> Ints | int:
    return np.array(offsets, np.int64) if offsets else 0
