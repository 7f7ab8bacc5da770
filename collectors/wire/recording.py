"""Recordings: a folder of segments, written by `record`, read back as a stream of items.

Both `fabric-agent record` and `tuner record` write through `RecordingWriter`; given
`Pseudonyms` it anonymises every item on its way, schemas, batches and facts alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collectors.model.entities import label_of, parse_entity
from collectors.model.errors import ConfigInvalid, Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts, parse_facts
from collectors.wire.pack import schema_hash
from collectors.wire.pseudonyms import Pseudonyms
from collectors.wire.segment import SUFFIX, SegmentWriter, read_segment, segments, translate

_SEGMENT_BYTES: Final = 16 << 20


@dataclass
class Anonymiser:
    """Maps items to the same items under pseudonyms.

    Names of schemas follow their new content, so items must pass in their order: a schema
    before its batches. Keys (agent, epoch, number) stay consistent; a Hello loses its software.
    """

    pseudonyms: Pseudonyms

    def __post_init__(self) -> None:
        self._schemas: dict[bytes, bytes] = {}

    def item(self, item: pb.Item) -> pb.Item:
        """Return the item under pseudonyms. Raises Malformed for one that cannot be parsed."""
        names = self.pseudonyms
        out = pb.Item()
        out.CopyFrom(item)
        match item.WhichOneof("body"):
            case "hello":
                out.hello.agent = names.host(item.hello.agent)
                out.hello.epoch = names.opaque(item.hello.epoch)
                out.hello.boot_id = names.opaque(item.hello.boot_id)
            case "schema":
                self._schema(out.schema)
                self._schemas[item.schema.id] = out.schema.id
            case "batch":
                out.batch.agent = names.host(item.batch.agent)
                out.batch.epoch = names.opaque(item.batch.epoch)
                out.batch.boot_id = names.opaque(item.batch.boot_id)
                out.batch.schema = self._schemas.get(item.batch.schema, item.batch.schema)
            case "facts":
                out.facts.agent = names.host(item.facts.agent)
                out.facts.epoch = names.opaque(item.facts.epoch)
                out.facts.json = pack_facts(names.facts(parse_facts(item.facts.json)))
            case _:
                pass
        return out

    def _schema(self, schema: pb.Schema) -> None:
        for row in schema.entities:
            entity = self.pseudonyms.entity(parse_entity(row.id, row.label))
            row.id, row.label = str(entity), label_of(entity)
            row.incarnation = self.pseudonyms.opaque(row.incarnation)
        schema.id = schema_hash(schema)


class RecordingWriter:
    """Writes items to a new folder, in segments that stand on their own.

    folder: made; must be empty. pseudonyms: given, everything is written under them. Each
    segment repeats the schemas that its batches need. Raises ConfigInvalid for a folder that
    holds something, Denied or Unavailable where it cannot be written, Malformed for a bad item.
    """

    def __init__(self, folder: Path, pseudonyms: Pseudonyms | None = None) -> None:
        self.folder = folder
        self.items = 0
        self._anonymiser = Anonymiser(pseudonyms) if pseudonyms else None
        self._schemas: dict[bytes, pb.Item] = {}
        self._written: set[bytes] = set()
        self._segment: SegmentWriter | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise ConfigInvalid(str(folder), "record", "the folder is not empty")
        except OSError as error:
            raise translate(error, folder, "make folder") from error

    def append(self, item: pb.Item) -> None:
        """Append one item; a schema must come before the batches that refer to it."""
        if self._anonymiser:
            item = self._anonymiser.item(item)
        body = item.WhichOneof("body")
        if body == "schema":
            self._schemas[item.schema.id] = item
            return
        segment = self._current()
        if body == "batch" and item.batch.schema not in self._written:
            if item.batch.schema not in self._schemas:
                raise Unavailable(
                    f"batch {item.batch.agent}/{item.batch.seq}", "record", "its schema never came"
                )
            segment.append(self._schemas[item.batch.schema])
            self._written.add(item.batch.schema)
        segment.append(item)
        self.items += 1

    def close(self) -> None:
        """Make everything safe on disk and close; one without items is a recording, too."""
        segment = self._current()
        segment.sync()
        segment.close()
        self._segment = None

    def _current(self) -> SegmentWriter:
        if self._segment and self._segment.size >= _SEGMENT_BYTES:
            self._segment.sync()
            self._segment.close()
            self._segment = None
        if self._segment is None:
            number = len(segments(self.folder)) + 1
            self._segment = SegmentWriter(self.folder / f"{number:08d}{SUFFIX}")
            self._written.clear()
        return self._segment


def read_recording(folder: Path) -> Iterator[pb.Item]:
    """Yield the items of a recording, in order.

    Raises ConfigInvalid where the folder holds no segment, Malformed, Denied or Unavailable for
    a segment that cannot be read.
    """
    paths = segments(folder)
    if not paths:
        raise ConfigInvalid(str(folder), "replay", f"no recording here (no *{SUFFIX})")
    for path in paths:
        yield from read_segment(path)
