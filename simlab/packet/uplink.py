"""Sends the telemetry of a simulated fabric to a tuner, or writes it as a recording.

Every simulated host is an agent of its own, and one more agent polls the switches. Each has one
stream, acknowledged as any agent's.
"""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from collectors.model.errors import Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import WIRE_VERSION, Key, key_of, pack_batch, pack_schema, set_key
from collectors.wire.recording import RecordingWriter
from simlab.packet.telemetry import AgentPass

SOFTWARE = "simlab fabric"
ANSWER_S = 30.0


class Sink(Protocol):
    """Takes items of agents in their order."""

    def put(self, agent: str, item: pb.Item) -> None:
        """Take one item."""

    def close(self) -> None:
        """Return when everything is safe."""


@dataclass
class _Stream:
    """What one agent has sent so far."""

    seq: int = 0
    schemas: set[bytes] = field(default_factory=set)


class Packer:
    """Numbers and packs the passes of all agents of one run."""

    def __init__(self, sink: Sink, boot_id: str) -> None:
        self._sink = sink
        self._boot_id = boot_id
        self._epoch = uuid.uuid4().hex
        self._streams: dict[str, _Stream] = {}

    def _hello(self, agent: str) -> pb.Item:
        return pb.Item(
            hello=pb.Hello(
                wire_version=WIRE_VERSION, agent=agent, epoch=self._epoch, boot_id=self._boot_id,
                software=SOFTWARE,
            )
        )  # fmt: skip

    def send(self, passes: Iterable[AgentPass]) -> int:
        """Pack passes and hand them on; return the number of values."""
        values = 0
        for one in passes:
            stream = self._streams.get(one.agent)
            if stream is None:
                stream = self._streams[one.agent] = _Stream()
                self._sink.put(one.agent, self._hello(one.agent))
            if one.seen.facts is not None:
                json = pack_facts(one.seen.facts)
                facts = pb.Facts(collector=one.collector, at_ns=one.at_ns, json=json)
                self._put_numbered(one.agent, stream, pb.Item(facts=facts))
            if one.seen.readings:
                schema = pack_schema(one.seen.readings)
                if schema.id not in stream.schemas:
                    stream.schemas.add(schema.id)
                    self._sink.put(one.agent, pb.Item(schema=schema))
                batch = pack_batch(one.seen.readings, schema, one.collector, self._boot_id)
                self._put_numbered(one.agent, stream, pb.Item(batch=batch))
                values += sum(len(reading.values) for reading in one.seen.readings)
        return values

    def _put_numbered(self, agent: str, stream: _Stream, item: pb.Item) -> None:
        stream.seq += 1
        set_key(item, Key(agent, self._epoch, stream.seq))
        self._sink.put(agent, item)


class RecordingSink:
    """Writes a recording that `--source dir=` replays."""

    def __init__(self, folder: Path) -> None:
        self._writer = RecordingWriter(folder)

    def put(self, agent: str, item: pb.Item) -> None:  # noqa: ARG002  all agents share the folder
        """Append one item; greetings are not recorded."""
        if not item.HasField("hello"):
            self._writer.append(item)

    def close(self) -> None:
        """Make everything safe on disk."""
        self._writer.close()


class TunerSink:
    """Streams to a tuner over gRPC, one stream an agent, and waits for its acknowledgements."""

    def __init__(self, target: str) -> None:
        import grpc

        self._target = target
        self._channel = grpc.insecure_channel(target)
        self._agents: dict[str, _Upload] = {}

    def put(self, agent: str, item: pb.Item) -> None:
        """Queue one item; Unavailable where the tuner refused or lost this agent's stream."""
        upload = self._agents.get(agent)
        if upload is None:
            from collectors.wire.telemetry_pb2_grpc import TelemetryStub

            stub = TelemetryStub(self._channel)
            upload = self._agents[agent] = _Upload(self._target, stub.Upload)
        upload.put(item)

    def close(self) -> None:
        """Wait until the tuner has acknowledged everything; Unavailable if it does not."""
        try:
            for upload in self._agents.values():
                upload.finish()
        finally:
            self._channel.close()


class _Upload:
    """One agent's stream in a thread."""

    def __init__(
        self, target: str, call: Callable[[Iterator[pb.Item]], Iterable[pb.Answer]]
    ) -> None:
        self._target = target
        self._items: queue.Queue[pb.Item | None] = queue.Queue(maxsize=256)
        self._sent = 0
        self._acknowledged = 0
        self._trouble = ""
        self._progress = threading.Condition()
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, item: pb.Item) -> None:
        key = key_of(item)
        if key is not None:
            self._sent = key.seq
        while not self._trouble:
            try:
                self._items.put(item, timeout=0.5)
            except queue.Full:
                continue
            return
        raise Unavailable(self._target, "stream", self._trouble)

    def finish(self) -> None:
        with self._progress:
            done = self._progress.wait_for(
                lambda: self._acknowledged >= self._sent or bool(self._trouble), ANSWER_S
            )
        self._items.put(None)
        self._thread.join(3)
        if self._trouble or not done:
            raise Unavailable(
                self._target, "stream", self._trouble or "the tuner does not acknowledge"
            )

    def _items_to_send(self) -> Iterator[pb.Item]:
        while (item := self._items.get()) is not None:
            yield item

    def _run(self) -> None:
        import grpc

        try:
            for answer in self._call(self._items_to_send()):
                with self._progress:
                    self._acknowledged = max(self._acknowledged, answer.acknowledged)
                    self._trouble = answer.refused or self._trouble
                    self._progress.notify_all()
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed
            details = getattr(error, "details", None)
            with self._progress:
                self._trouble = str(details() if details else error)
                self._progress.notify_all()
