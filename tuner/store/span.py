"""Reading segments back: a whole folder, or what it holds of a span of time."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Final

from collectors.model.errors import FabricError
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import key_of
from collectors.wire.segment import read_segment, torn_bytes
from tuner.store.ledger import Numbers

LOG: Final = logging.getLogger(__name__)


def read_span(
    paths: Iterable[Path], since_ns: int, until_ns: int, agents: Container[str] = ()
) -> Iterator[pb.Item]:
    """Yield what segments hold of a span, oldest first: schemas as needed, batches, facts.

    The facts that held at the begin come first. agents: empty for all. One item is in memory
    at a time, and the early facts.
    """
    sent: set[bytes] = set()
    early: dict[tuple[str, str], pb.Facts] | None = {}
    for schema, item in _numbered(paths, until_ns, agents):
        facts = item.facts if item.HasField("facts") else None
        if time_of(item) < since_ns and (facts is None or early is not None):
            if facts is not None and early is not None:
                early[facts.agent, facts.collector] = facts
            continue
        if early is not None:
            yield from (pb.Item(facts=held) for held in early.values())
            early = None
        if schema is not None and schema.id not in sent:
            sent.add(schema.id)
            yield pb.Item(schema=schema)
        yield item
    yield from (pb.Item(facts=held) for held in (early or {}).values())


def _numbered(
    paths: Iterable[Path], until_ns: int, agents: Container[str]
) -> Iterator[tuple[pb.Schema | None, pb.Item]]:
    """Yield (schema of a batch, batch or facts); facts that segments repeat come once."""
    repeated: set[tuple[str, str, int]] = set()
    for path in paths:
        schemas: dict[bytes, pb.Schema] = {}
        for item in readable(path):
            if item.HasField("schema"):
                schemas[item.schema.id] = item.schema
                continue
            key = key_of(item)
            if key is None or time_of(item) > until_ns or (agents and key.agent not in agents):
                continue
            if item.HasField("batch"):
                schema = schemas.get(item.batch.schema)
                if schema is None:  # no segment of ours is like this
                    LOG.warning("%s: a batch without its schema is left out", path)
                    continue
                yield schema, item
            elif (known := (key.agent, key.epoch, key.seq)) not in repeated:
                repeated.add(known)
                yield None, item


def read_once(paths: Iterable[Path]) -> Iterator[pb.Item]:
    """Yield the items of segments, every batch once; damage and cut ends are logged."""
    seen: dict[tuple[str, str], Numbers] = {}
    for path in paths:
        for item in readable(path):
            batch = item.batch if item.HasField("batch") else None
            if batch is None or is_new(
                seen.setdefault((batch.agent, batch.epoch), Numbers()), batch.seq
            ):
                yield item
        tell_torn(path, torn_end(path))


def is_new(numbers: Numbers, seq: int) -> bool:
    """Tell whether a batch came for the first time, and note it; 0 is no number."""
    if not seq:
        return True
    if numbers.knows(seq):
        return False
    numbers.note(seq)
    return True


def time_of(item: pb.Item) -> int:
    """Return the wall clock of a batch or facts, 0 for other items."""
    match item.WhichOneof("body"):
        case "batch":
            return item.batch.at_ns
        case "facts":
            return item.facts.at_ns
        case _:
            return 0


def torn_end(path: Path) -> int:
    """Return how many bytes at the end of a segment are no whole item; 0 where none can be read."""
    try:
        return torn_bytes(path)
    except FabricError:
        return 0  # reading it says why


def tell_torn(path: Path, left: int) -> None:
    """Log that a segment ends with so many bytes that are no whole item, where there are any."""
    if left:
        LOG.warning("%s was cut short: its last %d bytes, no whole item, are lost", path, left)


def readable(path: Path, start: int = 0) -> Iterator[pb.Item]:
    """Yield the items of a segment, from a place on, up to its end or damage, which is logged."""
    try:
        yield from read_segment(path, start)
    except FabricError as error:
        LOG.warning("%s; the rest of this segment is left out", error)
