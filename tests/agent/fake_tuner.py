"""A small ingest server that does to an agent what tuners and networks do.

Its `Disk` outlives it, as a tuner's does: what is on it was acknowledged.
"""

import contextlib
import threading
from collections import Counter
from concurrent import futures

import grpc

from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import check_schema, check_shape, key_of
from collectors.wire.telemetry_pb2_grpc import (
    TelemetryServicer,
    add_TelemetryServicer_to_server,
)


class Disk:
    """What is safe: items by key, how often each came, acknowledged number by (agent, epoch)."""

    def __init__(self):
        self.lock = threading.Condition()
        self.items = {}
        self.came = Counter()
        self.top = {}
        self.hellos = []

    def stored(self, epoch=None):
        with self.lock:
            return sorted((k.epoch, k.seq) for k in self.items if epoch is None or k.epoch == epoch)

    def wait(self, done, timeout=20):
        with self.lock:
            assert self.lock.wait_for(done, timeout), f"never came; has {len(self.items)} items"

    def bodies(self, kind):
        with self.lock:
            return [getattr(i, kind) for i in self.items.values() if i.WhichOneof("body") == kind]


class FakeTuner(TelemetryServicer):
    """refuse: item -> Answer to end the stream with, or None. die_after: items of one stream
    before it breaks without acknowledging the last. greet: answer Hello. keep: items are kept
    and acknowledged. port: to come back where it was.
    """

    def __init__(
        self, disk=None, *, port=0, refuse=lambda item: None, die_after=None, greet=True,
        acknowledge=True, credentials=None,
    ):  # fmt: skip
        self.disk = disk or Disk()
        self.refuse, self.die_after, self.greet = refuse, die_after, greet
        self.acknowledge = acknowledge
        self._server = grpc.server(
            futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)]
        )
        add_TelemetryServicer_to_server(self, self._server)
        address = f"127.0.0.1:{port}"
        self.port = (
            self._server.add_secure_port(address, credentials)
            if credentials
            else self._server.add_insecure_port(address)
        )
        self.address = f"127.0.0.1:{self.port}"
        self._server.start()

    def kill(self):
        self._server.stop(None).wait(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def Upload(self, requests, context):  # noqa: N802  name of the service
        disk = self.disk
        hello = next(requests).hello
        assert hello.agent
        who = (hello.agent, hello.epoch)
        with disk.lock:
            disk.hellos.append(hello)
            top = disk.top.get(who, 0)
        if answer := self.refuse(pb.Item(hello=hello)):
            yield answer
            return
        if self.greet:
            yield pb.Answer(epoch=hello.epoch, acknowledged=top)
        schemas, seen = {}, 0
        for item in requests:
            if item.HasField("schema"):
                check_schema(item.schema)
                schemas[item.schema.id] = item.schema
                continue
            if answer := self.refuse(item):
                yield answer
                return
            key = key_of(item)
            assert (key.agent, key.epoch) == who, "an item of another agent or epoch"
            if item.HasField("batch"):  # a schema must have come in this very stream
                check_shape(item.batch, schemas[item.batch.schema])
            seen += 1
            if self.die_after is not None and seen > self.die_after:
                context.abort(grpc.StatusCode.INTERNAL, "died")
            with disk.lock:
                disk.came[key] += 1
                disk.items.setdefault(key, item)
                if self.acknowledge:
                    disk.top[who] = max(disk.top.get(who, 0), key.seq)
                disk.lock.notify_all()
            if self.acknowledge:
                yield pb.Answer(epoch=hello.epoch, acknowledged=key.seq)


@contextlib.contextmanager
def restarting(disk, **options):
    """A tuner, and a function that kills it and starts it again on the same port and disk."""
    tuner = FakeTuner(disk, **options)
    try:

        def restart(**changed):
            nonlocal tuner
            port = tuner.port
            tuner.kill()
            tuner = FakeTuner(disk, port=port, **changed)
            return tuner

        yield tuner, restart
    finally:
        tuner.kill()
