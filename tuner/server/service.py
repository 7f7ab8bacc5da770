"""The gRPC service: agents' uplinks in, spans and status out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any, Final

import grpc

from collectors.model.errors import FabricError, Malformed
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import WIRE_VERSION, key_of
from collectors.wire.telemetry_pb2_grpc import TelemetryServicer
from tuner.server.config import Peers
from tuner.server.ingest import Committer, Entry, Stream
from tuner.store.memory import FOREVER_NS
from tuner.store.store import Store, UnknownSchema

LOG: Final = logging.getLogger(__name__)
_CHUNK: Final = 64  # items read from disk at a time for one Fetch
_CONFLICT_S: Final = 12.0
MOST_U64: Final = (1 << 64) - 1


class Telemetry(TelemetryServicer):
    """Serves one store.

    now: wall clock. software: this program's name and version. limits: of what peers may ask.
    conflict_s: how long a second stream under one name waits for the first to end or to show
    that it is alive. over_limit: refusals so far, by the limit's name.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        now: Callable[[], int],
        software: str,
        limits: Peers = Peers(),
        conflict_s: float = _CONFLICT_S,
    ) -> None:
        self.over_limit = {"agents": 0, "schemas": 0}
        self._limits = limits
        self._schemas: dict[str, set[bytes]] = {}
        self._store = store
        self._committer = committer
        self._now = now
        self._software = software
        self._conflict_s = conflict_s
        self._live: dict[str, Stream] = {}
        self._stopping = False

    @property
    def connected(self) -> frozenset[str]:
        """Names of the agents that have a live stream."""
        return frozenset(self._live)

    def stop(self) -> None:
        """End all streams once what they delivered is acknowledged; admit no others."""
        self._stopping = True
        for stream in self._live.values():
            stream.wake.set()

    async def Upload(  # noqa: N802  gRPC's name
        self, request_iterator: AsyncIterator[pb.Item], context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Take an agent's items; acknowledge what is safe."""
        items = aiter(request_iterator)
        first = await anext(items, None)
        stream = await self._admit(first, context)
        if stream is None:
            return
        await context.write(pb.Answer(epoch=stream.epoch, acknowledged=stream.acknowledged))
        receiver = asyncio.create_task(self._receive(stream, items))
        receiver.add_done_callback(lambda _: stream.wake.set())
        try:
            await self._answer(stream, receiver, context)
        finally:
            stream.ended = True
            receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.RpcError, grpc.aio.AioRpcError):
                await receiver
            if self._live.get(stream.agent) is stream:
                del self._live[stream.agent]
                LOG.info("agent %s: stream ended at %d", stream.agent, stream.acknowledged)

    async def Fetch(  # noqa: N802  gRPC's name
        self, request: pb.Span, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Send what the disk holds of a span, a few items in memory at a time."""
        until_ns = request.until_ns or FOREVER_NS
        if until_ns < request.since_ns:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the span ends before it begins")
        found = self._store.read(request.since_ns, until_ns, list(request.agents))
        try:
            while part := await asyncio.to_thread(_some, found):
                for item in part:
                    await context.write(item)
        except FabricError as error:
            await context.abort(grpc.StatusCode.DATA_LOSS, str(error))

    async def Status(  # noqa: N802  gRPC's name
        self, _request: pb.StatusRequest, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.StatusReply:
        """Return one line for each agent."""
        ports = self._store.ports_by_agent()
        return pb.StatusReply(
            agents=[
                pb.AgentStatus(
                    agent=agent,
                    connected=agent in self._live,
                    epoch=record.epoch,
                    acknowledged=self._store.ledger.acknowledged(agent, record.epoch),
                    last_batch_at_ns=record.last_batch_at_ns,
                    batches=record.batches,
                    duplicates=record.duplicates,
                    values=record.values,
                    missing=min(record.missing, MOST_U64),
                    ports=ports.get(agent, 0),
                    software=record.software,
                )
                for agent, record in sorted(self._store.ledger.agents.items())
            ],
            now_ns=self._now(),
            software=self._software,
            trouble=self._committer.trouble,
        )

    async def _admit(
        self, first: pb.Item | None, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Stream | None:
        """Return the stream that a Hello opens, or answer why not."""
        if first is None:
            return None
        objection = (
            self._objection(first)
            or self._full(first.hello)
            or await self._await_other(first.hello)
        )
        if objection is not None:
            why, permanent = objection
            LOG.warning("refused a stream: %s", why)
            await context.write(pb.Answer(refused=why, permanent=permanent))
            return None
        hello = first.hello
        self._store.ledger.record(hello.agent).software = hello.software
        acknowledged = self._store.ledger.acknowledged(hello.agent, hello.epoch)
        stream = self._live[hello.agent] = Stream(hello.agent, hello.epoch, acknowledged)
        LOG.info("agent %s: connected (%s)", hello.agent, hello.software)
        return stream

    def _objection(self, first: pb.Item) -> tuple[str, bool] | None:
        """Return (why, for good) where a stream cannot begin with this item."""
        hello = first.hello
        if not first.HasField("hello"):
            return "the first item must be Hello", True
        if hello.wire_version != WIRE_VERSION:
            known = f"this tuner speaks {WIRE_VERSION}"
            return f"unknown wire version {hello.wire_version}: {known}", True
        if not hello.agent or not hello.epoch:
            return "Hello names no agent or no epoch", True
        if not (hello.agent + hello.epoch + hello.software).isprintable():
            return "Hello has control characters in its names: they would forge log lines", True
        if self._stopping:
            return "the tuner is stopping", False
        return None

    def _full(self, hello: pb.Hello) -> tuple[str, bool] | None:
        """Return (why, for good) where there is no room for another agent."""
        known, most = self._store.ledger.agents, self._limits.agents
        if len(self._schemas) > most:  # of agents that the ledger has forgotten
            self._schemas = {name: ids for name, ids in self._schemas.items() if name in known}
        if hello.agent in known or len(known) < most:
            return None
        self._store.ledger.forget_silent(self.connected)
        if len(known) < most:
            return None
        self.over_limit["agents"] += 1
        return f"this tuner takes {most} agents and knows as many; raise limits.agents", False

    def _learn(self, stream: Stream, schema: pb.Schema) -> None:
        """Take a schema; a stream that brings more than an agent may have is ended."""
        known = self._schemas.setdefault(stream.agent, set())
        most = self._limits.schemas
        if schema.id not in known and len(known) + len(stream.bad_schemas) >= most:
            known.intersection_update({i for i in known if self._store.memory.schema(i)})
            if len(known) + len(stream.bad_schemas) >= most:
                self.over_limit["schemas"] += 1
                why = f"more than {most} schemas of one agent are in use; raise limits.schemas"
                LOG.warning("agent %s: %s", stream.agent, why)
                stream.refuse(why, permanent=False)
                return
        try:
            self._store.check(pb.Item(schema=schema))
        except Malformed as error:
            stream.bad_schemas[schema.id] = str(error)
        else:
            known.add(schema.id)

    async def _await_other(self, hello: pb.Hello) -> tuple[str, bool] | None:
        """Make way for a new stream; (why, for good) where another agent of the name is alive.

        A stream of the same epoch is the same agent, back before its old connection was missed.
        """
        other = self._live.get(hello.agent)
        if other is None:
            return None
        if other.epoch == hello.epoch:
            other.refuse("a newer stream of this agent took over", permanent=False)
            del self._live[hello.agent]
            return None
        received = other.received
        for _ in range(max(1, round(self._conflict_s / 0.1))):
            await asyncio.sleep(0.1)
            if hello.agent not in self._live:
                return None
            if self._live[hello.agent] is not other or other.received != received:
                return f"another agent named {hello.agent!r} is sending: names must be unique", True
        return f"an agent named {hello.agent!r} is still connected from elsewhere", False

    async def _receive(self, stream: Stream, items: AsyncIterator[pb.Item]) -> None:
        """Queue what comes, until the agent ends its side or the stream is ended."""
        async for item in items:
            if stream.ended:
                return
            stream.received += 1
            entry = self._judge(stream, item)
            if entry is not None:
                await self._committer.put(entry)

    def _judge(self, stream: Stream, item: pb.Item) -> Entry | None:
        """Return what to do with an item; None where nothing is to be stored."""
        kind = item.WhichOneof("body")
        key = key_of(item)
        if kind == "schema":
            self._learn(stream, item.schema)
            return None
        if key is None or not key.seq:
            what = kind or "empty item"
            stream.refuse(f"{what} without a number", permanent=True)
            return None
        if (key.agent, key.epoch) != (stream.agent, stream.epoch):
            why = f"it is of agent {key.agent!r}, epoch {key.epoch!r}, not of this stream"
            return Entry(stream, key.seq, None, why)
        bad = stream.bad_schemas.get(item.batch.schema) if kind == "batch" else None
        if bad:
            return Entry(stream, key.seq, None, bad)
        try:
            checked = self._store.check(item)
        except UnknownSchema as error:
            stream.refuse(str(error), permanent=False, seq=key.seq)
            return None
        except Malformed as error:
            LOG.warning("agent %s: refused item %d: %s", stream.agent, key.seq, error)
            return Entry(stream, key.seq, None, str(error))
        return Entry(stream, key.seq, checked, size=item.ByteSize())

    async def _answer(
        self,
        stream: Stream,
        receiver: asyncio.Task[None],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> None:
        said = stream.acknowledged
        while True:
            await stream.wake.wait()
            stream.wake.clear()
            while stream.answers:
                await context.write(stream.answers.popleft())
            if stream.ended:
                return
            if stream.acknowledged > said:
                said = stream.acknowledged
                await context.write(pb.Answer(epoch=stream.epoch, acknowledged=said))
            if not stream.in_flight and (receiver.done() or self._stopping):
                return


def _some(items: Iterator[pb.Item]) -> list[pb.Item]:
    return list(islice(items, _CHUNK))
