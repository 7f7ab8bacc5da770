"""A real tuner service on loopback with a fresh store for each recording that is put to it."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc

from collectors.wire.telemetry_pb2_grpc import add_TelemetryServicer_to_server
from simlab.packet.telemetry import AgentPass
from simlab.packet.uplink import TunerSink
from simlab.scenarios.observe import send
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.finding import Diagnosis
from tuner.diagnosis.registry import RULES
from tuner.fabric.graph import build_fabric
from tuner.server.ingest import Committer
from tuner.server.service import Telemetry
from tuner.store.disk import Retention
from tuner.store.sources import open_window
from tuner.store.store import Limits, Store
from tuner.store.window import Window


class Loop:
    """An event loop in a thread, on which servers run."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    @contextmanager
    def tuner(self) -> Iterator[str]:
        """Serve a fresh store and give its address."""
        with tempfile.TemporaryDirectory(prefix="bench-diagnose-") as folder:
            stop = asyncio.Event()
            ready: asyncio.Future[str] = self.loop.create_future()
            served = asyncio.run_coroutine_threadsafe(_serve(Path(folder), ready, stop), self.loop)
            target = asyncio.run_coroutine_threadsafe(_wait(ready), self.loop).result(30)
            try:
                yield target
            finally:
                self.loop.call_soon_threadsafe(stop.set)
                served.result(30)


async def _wait(ready: asyncio.Future[str]) -> str:
    return await ready


async def _serve(folder: Path, ready: asyncio.Future[str], stop: asyncio.Event) -> None:
    store = Store(folder, Retention(), Limits(), time.time_ns)
    committer = Committer(store, lambda *_: None)
    service = Telemetry(store, committer, time.time_ns, "bench diagnose")
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    add_TelemetryServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    running = asyncio.create_task(committer.run())
    ready.set_result(f"127.0.0.1:{port}")
    await stop.wait()
    service.stop()
    await server.stop(1)
    committer.stop()
    await running
    store.close()


def diagnosed(loop: Loop, passes: Sequence[AgentPass]) -> tuple[Window, Diagnosis]:
    """Stream passes to a tuner, read its window back as `tuner diagnose` does, and judge it."""
    with loop.tuner() as target:
        send(iter(passes), TunerSink(target))
        window, _ = open_window("", target, "10m")
    return window, diagnose(window, build_fabric(window), RULES)
