"""Readings to batches and back.

A batch is a matrix, entities by columns, with a bitmap of the cells that are present: absent is
not zero. Integers stay integers (2^64-1 survives), floats stay floats. The schema that names
rows and columns is hashed and sent once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, get_args

from google.protobuf.message import DecodeError

from collectors.model.entities import Entity, label_of, parse_entity
from collectors.model.errors import Malformed
from collectors.model.metric import Column, Kind
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb

WIRE_VERSION: Final = 1
_MAX_INT: Final = (1 << 64) - 1
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)  # in the order of the enum in the .proto


@dataclass(frozen=True, slots=True)
class Key:
    """What makes a batch or facts known again: (agent, spool epoch, number)."""

    agent: str
    epoch: str
    seq: int


def pack_schema(readings: Sequence[Reading]) -> pb.Schema:
    """Return the schema of readings: one row each, in order; columns in order of appearance."""
    columns = dict.fromkeys(column for reading in readings for column in reading.values)
    schema = pb.Schema(
        entities=[
            pb.Entity(id=str(r.entity), label=label_of(r.entity), incarnation=r.incarnation)
            for r in readings
        ],
        columns=[_pack_column(column) for column in columns],
    )
    schema.id = schema_hash(schema)
    return schema


def schema_hash(schema: pb.Schema) -> bytes:
    """Return the content hash that names a schema."""
    data = schema.SerializeToString(deterministic=True)
    own = pb.Schema(id=schema.id).SerializeToString()  # the first field, left out of what it names
    return hashlib.blake2b(data[len(own) :], digest_size=16).digest()


def pack_batch(
    readings: Sequence[Reading],
    schema: pb.Schema,
    collector: str,
    boot_id: str,
    places: Mapping[Column, int] | None = None,
) -> pb.Batch:
    """Return the batch of readings whose rows and columns are those of the schema.

    The key (agent, epoch, seq) is left to whoever numbers the stream. places: column -> place in
    the schema, for callers that pack many batches of one schema; looked up in it otherwise.
    Raises Malformed for a value that no column can hold (an integer outside 0..2^64-1, a float
    that is not finite).
    """
    if places is None:
        places = {column: place for place, column in enumerate(columns_of(schema))}
    width = len(schema.columns)
    present = 0
    ints: list[int] = []
    floats: list[float] = []
    first = readings[0].when if readings else Instant(0, 0)
    for row, reading in enumerate(readings):
        cells = [(places[column], column, value) for column, value in reading.values.items()]
        cells.sort()  # places differ, so that columns are never compared
        mask = 0
        for place, column, value in cells:
            mask |= 1 << place
            if column.number == "float":
                floats.append(_checked(reading, column, value))
            elif type(value) is int and 0 <= value <= _MAX_INT:
                ints.append(value)
            else:
                ints.append(int(_checked(reading, column, value)))
        present |= mask << (row * width)
    at = [reading.when.at_ns - first.at_ns for reading in readings]
    mono = [reading.when.mono_ns - first.mono_ns for reading in readings]
    return pb.Batch(
        collector=collector,
        schema=schema.id,
        at_ns=first.at_ns,
        mono_ns=first.mono_ns,
        at_offset_ns=at if any(at) or any(mono) else (),
        mono_offset_ns=mono if mono != at else (),
        present=present.to_bytes((len(readings) * width + 7) // 8, "little"),
        ints=ints,
        floats=floats,
        boot_id=boot_id,
    )


def unpack_batch(batch: pb.Batch, schema: pb.Schema) -> tuple[Reading, ...]:
    """Return the readings of a batch, as they were packed. Raises Malformed."""
    entities = [(parse_entity(e.id, e.label), e.incarnation) for e in schema.entities]
    columns = columns_of(schema)
    check_shape(batch, schema)
    ints, floats = iter(batch.ints), iter(batch.floats)
    readings = []
    for row, (entity, incarnation) in enumerate(entities):
        values: dict[Column, int | float] = {}
        for place, column in enumerate(columns):
            bit = row * len(columns) + place
            if batch.present[bit >> 3] >> (bit & 7) & 1:
                values[column] = next(ints) if column.number == "int" else next(floats)
        readings.append(Reading(entity, values, _when(batch, row), incarnation))
    return tuple(readings)


def check_shape(batch: pb.Batch, schema: pb.Schema) -> None:
    """Raise Malformed unless bitmap, numbers and offsets of a batch fit its schema."""
    rows, width = len(schema.entities), len(schema.columns)
    subject = f"batch {batch.agent}/{batch.epoch}/{batch.seq}"
    if batch.schema != schema.id:
        raise Malformed(subject, "unpack", "it belongs to another schema")
    if len(batch.present) != (rows * width + 7) // 8:
        raise Malformed(
            subject, "unpack", f"bitmap of {len(batch.present)} bytes for {rows}x{width}"
        )
    present = int.from_bytes(batch.present, "little")
    if present >> (rows * width):
        raise Malformed(subject, "unpack", "bitmap has bits beyond the last cell")
    row_mask = (1 << width) - 1
    float_mask = sum(1 << place for place, c in enumerate(schema.columns) if c.is_float)
    floats = 0
    if float_mask:
        floats = sum(
            ((present >> (row * width)) & row_mask & float_mask).bit_count() for row in range(rows)
        )
    if len(batch.floats) != floats or len(batch.ints) != present.bit_count() - floats:
        raise Malformed(subject, "unpack", "bitmap and numbers disagree")
    for offsets in (batch.at_offset_ns, batch.mono_offset_ns):
        if offsets and len(offsets) != rows:
            raise Malformed(subject, "unpack", f"{len(offsets)} time offsets for {rows} entities")


def check_schema(schema: pb.Schema) -> tuple[tuple[Entity, ...], tuple[Column, ...]]:
    """Return the entities and columns of a schema.

    Raises Malformed unless the schema is named by its content and all of it can be parsed.
    """
    if schema.id != schema_hash(schema):
        raise Malformed("schema", "check", "its id is not the hash of its content")
    entities = tuple([parse_entity(entity.id, entity.label) for entity in schema.entities])
    columns = tuple(columns_of(schema))
    if len(set(columns)) != len(columns):
        raise Malformed("schema", "check", "a column stands twice")
    return entities, columns


def columns_of(schema: pb.Schema) -> list[Column]:
    """Return the columns of a schema, in order. Raises Malformed."""
    return [_parse_column(column.SerializeToString()) for column in schema.columns]


def key_of(item: pb.Item) -> Key | None:
    """Return the key of a batch or of facts, None for what is not numbered."""
    match item.WhichOneof("body"):
        case "batch":
            return Key(item.batch.agent, item.batch.epoch, item.batch.seq)
        case "facts":
            return Key(item.facts.agent, item.facts.epoch, item.facts.seq)
        case _:
            return None


def set_key(item: pb.Item, key: Key) -> None:
    """Give a batch or facts its key, in place."""
    body = item.batch if item.HasField("batch") else item.facts
    body.agent, body.epoch, body.seq = key.agent, key.epoch, key.seq


def parse_item(data: bytes) -> pb.Item:
    """Return the item of its bytes. Raises Malformed."""
    try:
        return pb.Item.FromString(data)
    except DecodeError as error:
        raise Malformed("item", "parse", str(error), data) from error


def split_readings(readings: Sequence[Reading], most: int) -> Iterator[Sequence[Reading]]:
    """Yield the readings in runs of at most `most`, so that no message grows without bound."""
    for start in range(0, len(readings), most):
        yield readings[start : start + most]


def _when(batch: pb.Batch, row: int) -> Instant:
    at = batch.at_offset_ns[row] if batch.at_offset_ns else 0
    mono = batch.mono_offset_ns[row] if batch.mono_offset_ns else at
    return Instant(batch.at_ns + at, batch.mono_ns + mono)


def _checked(reading: Reading, column: Column, value: float) -> float:
    """Return the value if its column can hold it. Raises Malformed."""
    if column.number == "float":
        if math.isfinite(value):
            return float(value)
        why = f"{value} is not finite"
    else:
        if not isinstance(value, float) and 0 <= value <= _MAX_INT:
            return value
        why = f"{value} is no integer in 0..2^64-1"
    raise Malformed(f"{reading.entity} {column.metric}", "pack", why)


def _pack_column(column: Column) -> pb.Column:
    return pb.Column(
        metric=column.metric,
        kind=pb.Column.Kind.Name(_KINDS.index(column.kind)),
        via=column.via,
        width=column.width,
        saturates=column.overflow == "saturates",
        is_float=column.number == "float",
        scale_numerator=column.scale.numerator,
        scale_denominator=column.scale.denominator,
    )


@lru_cache(maxsize=1 << 12)
def _parse_column(packed: bytes) -> Column:
    """Return a column of its serialized message: those of a thousand schemas are a few."""
    column = pb.Column.FromString(packed)
    if not 1 <= column.width <= 64 or not column.scale_numerator or not column.scale_denominator:
        raise Malformed(f"column {column.metric!r}", "parse", "width or scale out of range")
    if not 0 <= column.kind < len(_KINDS):
        raise Malformed(f"column {column.metric!r}", "parse", f"unknown kind {column.kind}")
    return Column(
        column.metric,
        _KINDS[column.kind],
        column.via,
        column.width,
        "saturates" if column.saturates else "wraps",
        Fraction(column.scale_numerator, column.scale_denominator),
        "float" if column.is_float else "int",
    )
