"""Real `tuner` processes on loopback, and a sender that behaves as an agent's uplink does."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

import grpc

from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import key_of
from collectors.wire.telemetry_pb2_grpc import TelemetryStub
from simlab.loopback import free_port

TUNER = [sys.executable, "-c", "from tuner.cli.main import app; app(prog_name='tuner')"]


def tuner(*args: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run([*TUNER, *args], capture_output=True, text=True, timeout=timeout)


class Serving:
    """A `tuner serve` process; ready once it told systemd (us) so."""

    def __init__(self, folder: Path, *args: str, port: int | None = None) -> None:
        self.folder, self.args = folder, args
        self.port = port or free_port()
        self.notified: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, **environment: str) -> Self:
        self.notified = []
        notify = self.folder.with_suffix(".notify")
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(notify))
            listener.settimeout(30)
            self.process = subprocess.Popen(
                [*TUNER, "serve", "--listen", self.target, "--data", str(self.folder),
                 *(() if "--metrics" in self.args else ("--metrics", "off")), *self.args],
                env={**os.environ, "NOTIFY_SOCKET": str(notify), **environment},
                stderr=subprocess.PIPE,
                text=True,
            )  # fmt: skip
            deadline = time.monotonic() + 90
            while not any("READY=1" in text for text in self.notified):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    raise RuntimeError(f"tuner serve: {self.process.communicate()[1]}")
                listener.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    self.notified.append(listener.recv(4096).decode())
        return self

    def kill(self) -> None:
        """As the power cut does."""
        if self.process is None:
            return
        self.process.kill()
        self.process.communicate()
        self.process = None

    def stop(self) -> tuple[int, str]:
        """SIGTERM; return exit code and what was logged."""
        if self.process is None:
            raise RuntimeError("not running")
        self.process.terminate()
        try:
            _, log = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        code, self.process = self.process.returncode, None
        return code, log

    def __enter__(self) -> Self:
        return self if self.process else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


class Sender(threading.Thread):
    """Keeps items until they are acknowledged, and comes back after every end of a stream."""

    def __init__(self, target: str, agent: str, epoch: str = "e1") -> None:
        super().__init__(daemon=True)
        self.target, self.agent, self.epoch = target, agent, epoch
        self.schemas: dict[bytes, pb.Item] = {}
        self.waiting: dict[int, pb.Item] = {}
        self.acknowledged = 0
        self.streams = 0
        self.refusals: list[pb.Answer] = []
        self._lock = threading.Lock()
        self._feed: queue.SimpleQueue[pb.Item | None] | None = None
        self._over = threading.Event()

    def put(self, items: list[pb.Item]) -> None:
        with self._lock:
            for item in items:
                key = key_of(item)
                if key is None:
                    self.schemas[item.schema.id] = item
                else:
                    self.waiting[key.seq] = item
                if self._feed is not None:
                    self._feed.put(item)

    def finish(self, timeout: float = 120) -> None:
        """Wait until everything is acknowledged."""
        deadline = time.monotonic() + timeout
        while self.waiting:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.agent}: {len(self.waiting)} items not acknowledged")
            time.sleep(0.01)
        self._over.set()
        with self._lock:
            if self._feed is not None:
                self._feed.put(None)
        self.join(10)

    def run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(grpc.RpcError), grpc.insecure_channel(self.target) as channel:
                self._stream(channel)
            self._over.wait(0.05)

    def _stream(self, channel: grpc.Channel) -> None:
        feed: queue.SimpleQueue[pb.Item | None] = queue.SimpleQueue()
        feed.put(pb.Item(hello=pb.Hello(wire_version=1, agent=self.agent, epoch=self.epoch)))
        with self._lock:
            for item in (*self.schemas.values(), *self.waiting.values()):
                feed.put(item)
            self._feed = feed
        self.streams += 1
        try:
            for answer in TelemetryStub(channel).Upload(iter(feed.get, None)):
                if answer.refused:
                    self.refusals.append(answer)
                with self._lock:
                    self.acknowledged = max(self.acknowledged, answer.acknowledged)
                    for seq in [seq for seq in self.waiting if seq <= answer.acknowledged]:
                        del self.waiting[seq]
        finally:
            with self._lock:
                self._feed = None
            feed.put(None)
