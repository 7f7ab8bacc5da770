"""The stream to the tuner: what the spool holds, in order, until it is acknowledged.

One stream delivers one epoch. It begins with Hello; the tuner answers with the highest number
it has, and everything after that is sent. A stream that ends, for whatever reason, is opened
again after a pause that doubles. Two refusals are for good: of one item, which is skipped and
counted, and of the agent itself (a name that another agent has, an unknown wire version), which
stops the agent if the tuner has never taken anything from it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from agent.config import Uplink, UplinkTls
from agent.cursor import Cursor, read_hello
from agent.spool import Epoch, Spool
from collectors.targets.tls import read_pem
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import key_of

_log: Final = logging.getLogger("agent.uplink")

_PAUSE_LEAST_S: Final = 0.5
_PAUSE_MOST_S: Final = 10.0
_REFUSED_PAUSE_S: Final = 60.0
_GREETING_S: Final = 5.0  # a tuner that does not answer Hello is sent to all the same
_STALL_S: Final = 60.0  # without acknowledgement of what was sent: the stream is dead
_CHANNEL_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.enable_retries", 0),
    ("grpc.http2.bdp_probe", 0),  # a ping for each answer; a stream of small batches needs none
    # Else a new channel would inherit the pause of the one before it.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 1 << 20),
    ("grpc.enable_http_proxy", 0),  # a proxy for the web is none for the tuner
)


@dataclass
class UplinkState:
    """What is known of the uplink.

    connected: the tuner greeted this stream. sent: highest number of this run handed to gRPC.
    refused: why the tuner wants nothing from this agent, '' while it does. error: why the last
    stream ended.
    """

    connected: bool = False
    sent: int = 0
    refused_items: int = 0
    refused: str = ""
    error: str = ""


class Sender:
    """Delivers the spool to one tuner, in a thread of its own.

    on_fatal: called once, with one line, where the tuner refuses the agent before it has ever
    taken anything. on_amnesia: called where the tuner no longer knows what it acknowledged.
    Raises ConfigInvalid for TLS files that cannot be read.
    """

    def __init__(
        self,
        config: Uplink,
        spool: Spool,
        on_fatal: Callable[[str], None],
        on_amnesia: Callable[[], None],
    ) -> None:
        self.state = UplinkState()
        self._config = config
        self._spool = spool
        self._on_fatal = on_fatal
        self._on_amnesia = on_amnesia
        self._tls = _read_tls(config.tls) if config.tls else None
        self._stop = threading.Event()
        self._skip: set[tuple[str, int]] = set()
        self._accepted = False
        self._thread = threading.Thread(target=self._run, name="uplink", daemon=True)

    def start(self) -> None:
        """Start delivering."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Wait until all is acknowledged, for at most so long, and end; True where all is.

        A tuner that is away is not waited for: the spool keeps what it did not get.
        """
        until = time.monotonic() + (timeout_s if self.state.connected else min(timeout_s, 1))
        with self._spool.changed:
            while (left := until - time.monotonic()) > 0 and self._spool.waiting():
                self._spool.changed.wait(min(left, 0.2))
        self._stop.set()
        with self._spool.changed:
            self._spool.changed.notify_all()
        self._thread.join(3)
        return not self._spool.waiting()

    def _run(self) -> None:
        pause = _PAUSE_LEAST_S
        while not self._stop.is_set():
            epoch = self._spool.oldest()
            stream = _Stream(self._spool, epoch, self._skip, self._stop.is_set)
            try:
                self._deliver(stream)
            except Exception as error:  # noqa: BLE001  the thread must outlive every mishap
                self._note_error(error)
            self.state.connected = False
            if epoch is not self._spool.current and stream.delivered:
                self._spool.finished(epoch)
                continue
            if stream.progress:
                pause = _PAUSE_LEAST_S
            if self.state.refused:
                if not self._accepted:
                    self._on_fatal(f"{self._config.tuner}: {self.state.refused}")
                    return
                pause = _REFUSED_PAUSE_S
            self._stop.wait(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, _PAUSE_MOST_S)

    def _deliver(self, stream: _Stream) -> None:
        """Run one stream to its end. Raises grpc.RpcError."""
        import grpc

        from collectors.wire.telemetry_pb2_grpc import TelemetryStub

        former = stream.epoch is not self._spool.current
        hello = read_hello(stream.epoch) if former else self._spool.hello
        if hello is None:
            _log.error("%s: nothing in it can be read", stream.epoch.folder)
            stream.delivered = True
            return
        target = self._config.tuner
        credentials = self._tls and grpc.ssl_channel_credentials(*self._tls)
        channel = (
            grpc.secure_channel(target, credentials, options=_CHANNEL_OPTIONS)
            if credentials
            else grpc.insecure_channel(target, options=_CHANNEL_OPTIONS)
        )
        with channel:
            stub = TelemetryStub(channel)
            answers = stub.Upload(self._count(stream.items(hello), former))
            guard = threading.Thread(target=stream.guard, args=(answers.cancel,), daemon=True)
            guard.start()
            try:
                if not all(self._take(stream, answer) for answer in answers):
                    answers.cancel()
            finally:
                stream.end()
                guard.join()

    def _take(self, stream: _Stream, answer: pb.Answer) -> bool:
        """Act on one answer; False where it ends the stream."""
        epoch = stream.epoch
        if answer.epoch not in ("", epoch.name):
            return True
        if answer.refused:
            _log.error(
                "tuner %s refuses %s: %s",
                self._config.tuner,
                f"item {answer.refused_seq}" if answer.refused_seq else "this agent",
                answer.refused,
            )
            self.state.error = answer.refused
            if answer.permanent and answer.refused_seq:
                self._skip.add((epoch.name, answer.refused_seq))
                self.state.refused_items += 1
                stream.progress = True
                return True  # the tuner counts it as dealt with and goes on, or ends the stream
            if answer.permanent:
                self.state.refused = answer.refused
            return False
        if not self.state.connected:
            self.state.connected, self.state.refused, self.state.error = True, "", ""
            self._accepted = True
            _log.info("tuner %s: connected, has up to %d", self._config.tuner, answer.acknowledged)
            if answer.acknowledged < epoch.acknowledged:
                _log.warning("tuner %s lost what it had acknowledged", self._config.tuner)
                self._on_amnesia()
        stream.acknowledged(answer.acknowledged)
        self._skip = {key for key in self._skip if key > (epoch.name, answer.acknowledged)}
        return True

    def _count(self, items: Iterator[pb.Item], former: bool) -> Iterator[pb.Item]:
        for item in items:
            key = key_of(item)
            if key and not former:
                self.state.sent = max(self.state.sent, key.seq)
            yield item

    def _note_error(self, error: Exception) -> None:
        code, details = getattr(error, "code", None), getattr(error, "details", None)
        text = f"{code().name}: {details()}" if code and details else repr(error)
        if text != self.state.error:
            self.state.error = text
            _log.warning("tuner %s: %s; keeping data in the spool", self._config.tuner, text)


class _Stream:
    """One stream of one epoch, as its sending and receiving threads share it.

    progress: something got done. delivered: all of a former run's epoch is with the tuner.
    """

    def __init__(
        self,
        spool: Spool,
        epoch: Epoch,
        skip: set[tuple[str, int]],
        stopping: Callable[[], bool],
    ) -> None:
        self.epoch = epoch
        self.progress = False
        self.delivered = False
        self._spool = spool
        self._skip = frozenset(skip)
        self._stopping = stopping
        self._greeted = threading.Event()
        self._ended = threading.Event()
        self._sent = 0
        self._waits_since: float | None = None  # monotonic time since which something is in flight

    def items(self, hello: pb.Hello) -> Iterator[pb.Item]:
        """Yield what to send: Hello, then schemas and numbered items. Runs in gRPC's thread."""
        yield pb.Item(hello=hello)
        self._greeted.wait(_GREETING_S)
        former = self.epoch is not self._spool.current
        known: set[bytes] = set()
        cursor = Cursor(self._spool, self.epoch, self.epoch.acknowledged)
        try:
            while not self._over():
                found = cursor.next(1.0, self._over)
                if found is None and former and not self._over():
                    break
                if found is None:
                    continue
                # A schema may first stand before an item that was skipped or is acknowledged.
                fresh = {s.schema.id: s for s in found.schemas if s.schema.id not in known}
                known.update(fresh)
                yield from fresh.values()
                if (self.epoch.name, found.seq) in self._skip:
                    continue
                self._waits_since = self._waits_since or time.monotonic()
                self._sent = found.seq
                yield found.item
        finally:
            cursor.close()
        if former and not self._over():
            with self._spool.changed:
                self._spool.changed.wait_for(
                    lambda: self._over() or self.epoch.acknowledged >= self._sent
                )
            self.delivered = self.epoch.acknowledged >= self._sent

    def acknowledged(self, seq: int) -> None:
        """Note the tuner's answer."""
        self.progress = self.progress or seq > self.epoch.acknowledged
        self._spool.acknowledge(self.epoch, seq)
        self._waits_since = None if seq >= self._sent else time.monotonic()
        self._greeted.set()

    def guard(self, cancel: Callable[[], object]) -> None:
        """End the stream where the tuner stays silent, or where the agent stops."""
        while not self._ended.wait(1):
            since = self._waits_since
            if since is not None and time.monotonic() - since > _STALL_S:
                _log.warning("no acknowledgement for %g s; opening a new stream", _STALL_S)
                cancel()
                return
            if self._stopping():
                self._ended.wait(1)  # the request side half-closes; give the tuner its last word
                cancel()
                return

    def end(self) -> None:
        """Release the sending thread."""
        self._ended.set()
        self._greeted.set()
        with self._spool.changed:
            self._spool.changed.notify_all()

    def _over(self) -> bool:
        return self._ended.is_set() or self._stopping()


def _read_tls(tls: UplinkTls) -> tuple[bytes, bytes | None, bytes | None]:
    """Return the contents of the TLS files: roots, key, certificate."""
    where = "$.uplink.tls"
    key = read_pem(tls.key, f"{where}.key") if tls.key else None
    cert = read_pem(tls.cert, f"{where}.cert") if tls.cert else None
    return read_pem(tls.ca, f"{where}.ca") if tls.ca else b"", key, cert
