"""Passes to wire items: schemas are reused from pass to pass, facts made only when they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.model.entities import Entity, label_of
from collectors.model.errors import Malformed
from collectors.model.facts import Facts, Gap
from collectors.model.metric import Column
from collectors.model.reading import Pass, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import pack_batch, pack_schema, split_readings

_ROWS: Final = 4096  # entities in one batch, so that no message nears gRPC's 4 MiB
_REFRESH_NS: Final = 600_000_000_000  # facts go again after this, for a tuner that lost its disk
_NO_FACTS: Final = Facts()


@dataclass(frozen=True, slots=True)
class Packed:
    """An item without its number, and the schema that must come before it."""

    item: pb.Item
    schema: pb.Schema | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a schema was made of: rows, and the place of every column seen with them so far."""

    rows: tuple[tuple[Entity, str, str], ...]
    places: Mapping[Column, int]
    schema: pb.Schema

    def has_rows_of(self, readings: Sequence[Reading]) -> bool:
        """Tell whether the readings are of the same entities, labels and incarnations."""
        return len(readings) == len(self.rows) and all(
            reading.incarnation == incarnation
            and (
                reading.entity is entity
                or (reading.entity == entity and label_of(reading.entity) == label)
            )
            for reading, (entity, label, incarnation) in zip(readings, self.rows, strict=True)
        )


class Packer:
    """Packs the passes of all collectors of one agent. For one thread."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._shapes: dict[tuple[str, int], _Shape] = {}
        self._facts: dict[str, Facts] = {}
        self._sent: dict[str, tuple[Facts, tuple[Gap, ...], int]] = {}

    def pack(self, collector: str, seen: Pass, at_ns: int, mono_ns: int) -> Iterator[Packed]:
        """Yield the batches of a pass, then its facts where they changed.

        at_ns, mono_ns: now; readings have times of their own. An entity with a value that no
        column can hold is left out, with a gap.
        """
        gaps = list(seen.gaps)
        for number, part in enumerate(split_readings(seen.readings, _ROWS)):
            try:
                yield self._batch((collector, number), part)
            except Malformed:
                sound, found = _without_malformed(collector, part)
                gaps += found
                yield self._batch((collector, number), sound)
        if seen.facts is not None:
            self._facts[collector] = seen.facts
        yield from self._facts_item(collector, tuple(gaps), at_ns, mono_ns)

    def forget_facts(self) -> None:
        """Let every collector's facts go again with its next pass, changed or not."""
        self._sent.clear()

    def _facts_item(
        self, collector: str, gaps: tuple[Gap, ...], at_ns: int, mono_ns: int
    ) -> Iterator[Packed]:
        facts = self._facts.get(collector, _NO_FACTS)
        if collector in self._sent:
            last, last_gaps, last_ns = self._sent[collector]
            same = gaps == last_gaps and (facts is last or facts == last)
            if same and mono_ns - last_ns < _REFRESH_NS:
                self._sent[collector] = (facts, gaps, last_ns)
                return
        elif facts == _NO_FACTS and not gaps:
            return
        self._sent[collector] = (facts, gaps, mono_ns)
        json = pack_facts(replace(facts, gaps=gaps))
        yield Packed(pb.Item(facts=pb.Facts(collector=collector, at_ns=at_ns, json=json)))

    def _batch(self, key: tuple[str, int], readings: Sequence[Reading]) -> Packed:
        shape = self._shapes.get(key)
        if shape is None or not shape.has_rows_of(readings):
            shape = self._new_shape(key, readings, ())
        try:
            batch = pack_batch(readings, shape.schema, key[0], self._boot_id, shape.places)
        except KeyError:  # a column not seen before
            # One that comes and goes stays in the schema from then on: absent cells cost a bit.
            shape = self._new_shape(key, readings, tuple(shape.places))
            batch = pack_batch(readings, shape.schema, key[0], self._boot_id, shape.places)
        return Packed(pb.Item(batch=batch), shape.schema)

    def _new_shape(
        self, key: tuple[str, int], readings: Sequence[Reading], known: tuple[Column, ...]
    ) -> _Shape:
        full = [replace(r, values={**dict.fromkeys(known, 0), **r.values}) for r in readings[:1]]
        columns = dict.fromkeys([*known, *(c for reading in readings for c in reading.values)])
        shape = self._shapes[key] = _Shape(
            tuple((r.entity, label_of(r.entity), r.incarnation) for r in readings),
            {column: place for place, column in enumerate(columns)},
            pack_schema([*full, *readings[1:]]),
        )
        return shape


def _without_malformed(
    collector: str, readings: Sequence[Reading]
) -> tuple[list[Reading], list[Gap]]:
    sound: list[Reading] = []
    gaps: list[Gap] = []
    for reading in readings:
        try:
            pack_batch([reading], pack_schema([reading]), collector, "")
        except Malformed as error:
            gaps.append(Gap(str(reading.entity), collector, "pack", "out of range", error.why))
        else:
            sound.append(reading)
    return sound, gaps
