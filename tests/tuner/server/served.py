"""A service on a channel of its own, and an agent that talks to it."""

import asyncio
import contextlib
from dataclasses import dataclass

import grpc

from collectors.model.entities import Device, Port
from collectors.model.metric import Column
from collectors.model.reading import Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.telemetry_pb2_grpc import TelemetryStub, add_TelemetryServicer_to_server
from tests.tuner.builders import START_NS, at
from tuner.server.ingest import Committer
from tuner.server.service import Telemetry
from tuner.store.disk import Retention
from tuner.store.store import Limits, Store

COUNTER = Column("c_total", "counter", "hw_counters")
PORT = Port(Device("node1", "0000:01:00.0"), 1)


@dataclass
class Served:
    store: Store
    committer: Committer
    service: Telemetry
    stub: TelemetryStub
    channel: grpc.aio.Channel


@contextlib.asynccontextmanager
async def served(folder, **how):
    store = Store(folder, Retention(), Limits(), lambda: START_NS)
    committer = Committer(store, lambda *_: None)
    service = Telemetry(store, committer, lambda: START_NS, "tuner test", **how)
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    add_TelemetryServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    running = asyncio.create_task(committer.run())
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Served(store, committer, service, TelemetryStub(channel), channel)
        service.stop()
        await server.stop(1)
    committer.stop()
    await running
    store.close()


class Client:
    """One stream of an agent."""

    def __init__(self, stub, agent="node1", epoch="e1", version=1):
        self._queue: asyncio.Queue = asyncio.Queue()
        self.call = stub.Upload(self._items())
        self._answers = aiter(self.call)
        self.hello = pb.Hello(wire_version=version, agent=agent, epoch=epoch, software="test")

    async def _items(self):
        while (item := await self._queue.get()) is not None:
            yield item

    async def open(self):
        self._queue.put_nowait(pb.Item(hello=self.hello))
        return await self.answer()

    async def send(self, items):
        for item in items:
            self._queue.put_nowait(item)

    def done(self):
        self._queue.put_nowait(None)

    async def answer(self):
        """The next answer, None at the end of the stream."""
        try:
            return await asyncio.wait_for(anext(self._answers, None), 60)
        except grpc.aio.AioRpcError as error:
            # Client-side artefact of grpc.aio: a write after the server's end of the stream.
            if error.code() is not grpc.StatusCode.INTERNAL:
                raise
            return None

    async def acknowledged(self, seq):
        while True:
            answer = await self.answer()
            assert answer is not None
            assert not answer.refused
            if answer.acknowledged >= seq:
                return answer.acknowledged


def batch(up, second, value=None):
    return up.batch([Reading(PORT, {COUNTER: second if value is None else value}, at(second))])


def run(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, 240))
