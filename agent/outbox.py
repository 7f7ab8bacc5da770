"""From passes to the tuner: a bounded queue, packing into the spool, sending the spool."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.config import Uplink
from agent.packing import Packer
from agent.sources import read_boot_id, software_version
from agent.spool import Spool
from agent.uplink import Sender
from collectors.model.catalogue import own
from collectors.model.reading import Pass
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import WIRE_VERSION

if TYPE_CHECKING:
    from agent.exposition import Vital

_log: Final = logging.getLogger("agent.outbox")

_QUEUE: Final = 1024  # passes that wait for the disk
_SYNC_S: Final = 5.0
_GATHER_S: Final = 0.1
_PACK_DRAIN_S: Final = 3.0
_UPLINK_DRAIN_S: Final = 5.0


class Outbox:
    """From passes to the tuner: queue, packer, spool, sender.

    fatal: why the tuner refuses this agent for good, '' while it does not; `stop` is set then.
    Raises FabricError where spool or TLS files cannot be used.
    """

    def __init__(self, config: Uplink, agent: str, procfs: Path, stop: threading.Event) -> None:
        boot_id = read_boot_id(procfs)
        hello = pb.Hello(
            wire_version=WIRE_VERSION,
            agent=agent,
            boot_id=boot_id,
            software=f"fabric-agent {software_version()}",
        )
        self.fatal = ""
        self.dropped_passes = 0
        self._stop_agent = stop
        self._packer = Packer(boot_id)
        self._spool = Spool(Path(config.spool), config.max_bytes, hello)
        self._sender = Sender(config, self._spool, self._refused, self._forget)
        self._queue: queue.Queue[tuple[str, Pass] | None] = queue.Queue(_QUEUE)
        self._amnesia = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """Start packing and sending."""
        self._thread.start()
        self._sender.start()

    def publish(self, collector: str, seen: Pass) -> None:
        """Take a pass; never blocks. Where the disk is that slow, the pass is counted as lost."""
        try:
            self._queue.put_nowait((collector, seen))
        except queue.Full:
            self.dropped_passes += 1

    def stop(self) -> int:
        """Pack what waits, deliver what the tuner takes in time; return how much is left."""
        try:
            self._queue.put(None, timeout=1)
        except queue.Full:
            _log.error("the spool's disk does not answer; passes in memory are lost")
        self._thread.join(_PACK_DRAIN_S)
        self._sender.stop(0.0 if self.fatal else _UPLINK_DRAIN_S)
        left = self._spool.waiting()
        self._spool.close()
        return left

    def vitals(self) -> Iterable[Vital]:
        """Yield numbers on spool and uplink for /metrics."""
        from agent.exposition import Vital

        spool, state = self._spool, self._sender.state
        yield Vital(own.UPLINK_CONNECTED, state.connected)
        yield Vital(own.UPLINK_REFUSED, bool(state.refused))
        yield Vital(own.UPLINK_REFUSED_ITEMS, state.refused_items)
        yield Vital(own.UPLINK_ACKNOWLEDGED_ITEMS, spool.current.acknowledged)
        yield Vital(own.SPOOL_ITEMS, spool.current.last)
        yield Vital(own.SPOOL_BYTES, spool.bytes())
        yield Vital(own.SPOOL_DROPPED_ITEMS, spool.dropped)
        yield Vital(own.SPOOL_WRITE_ERRORS, spool.write_errors)
        yield Vital(own.DROPPED_PASSES, self.dropped_passes)

    def _run(self) -> None:
        synced = time.monotonic()
        while (entry := self._next()) is not None:
            if self._amnesia.is_set():
                self._amnesia.clear()
                self._packer.forget_facts()
            try:
                for packed in self._packer.pack(*entry, time.time_ns(), time.monotonic_ns()):
                    self._spool.append(packed)
            except Exception:  # noqa: BLE001  a bug with one pass must not end the telemetry
                _log.exception("%s: a pass could not be packed", entry[0])
            now = time.monotonic()
            if now - synced >= _SYNC_S and self._spool.waiting():
                synced = now
                self._spool.sync()

    def _next(self) -> tuple[str, Pass] | None:
        with contextlib.suppress(queue.Empty):
            return self._queue.get_nowait()
        entry = self._queue.get()
        # Collectors wake together: waking once for all of them leaves the CPU to them, and jobs.
        time.sleep(_GATHER_S)
        return entry

    def _refused(self, why: str) -> None:
        self.fatal = f"tuner {why}"
        self._stop_agent.set()

    def _forget(self) -> None:
        self._amnesia.set()
