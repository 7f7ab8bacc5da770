"""fabric-agent run: schedule, listener, spool and uplink as one process.

Data goes one way: worker threads publish passes into a bounded queue; one thread packs them
into the spool; one thread sends the spool to the tuner. /metrics reads the snapshot. The main
thread keeps time: deadlines, the watchdog, signals.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.config import Config
from agent.listener import Listener, prometheus_render
from agent.schedule import Schedule
from agent.sdnotify import notify, watchdog_s
from agent.snapshot import Snapshot
from agent.sources import (
    host_context,
    jobs,
    read_rdma_devices,
)
from collectors.model.reading import Pass

if TYPE_CHECKING:
    from agent.exposition import Exposition
    from agent.outbox import Outbox

_log: Final = logging.getLogger("agent")

_TICK_MOST_S: Final = 1.0
_COLLECT_S: Final = 60.0
_COLLECT_SHARE: Final = 0.001  # of the time, where there is much to walk
_M_ARENA_MAX: Final = -8  # of glibc's malloc.h
_WORKERS_DRAIN_S: Final = 3.0


def run(config: Config, file: str) -> int:
    """Run until SIGTERM or SIGINT, and return the exit code.

    file: of the configuration, for errors. Raises FabricError where it cannot start.
    """
    stop = threading.Event()
    # Before anything else: a signal during a slow start must stop the agent, too.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    planned = jobs(config, file)
    snapshot = Snapshot()
    outbox = _outbox(config, stop)
    publish = outbox.publish if outbox else _drop
    schedule = Schedule(planned, snapshot, publish, config.agent)
    listener = _listen(config, snapshot, outbox)
    if not planned:
        _log.warning("no collector is on: nothing will be read")
    if any(job.host for job in planned) and not read_rdma_devices(host_context(config)):
        _log.warning("no RDMA device in %s/class/infiniband", config.paths.sysfs)
    if outbox:
        outbox.start()
    _settle_memory()
    schedule.start()
    where = f"metrics on port {listener.port}" if listener else "no metrics listener"
    to = f"tuner {config.uplink.tuner}" if config.uplink else "no tuner"
    _log.info("%s: %d collectors, %s, %s", config.agent, len(planned), where, to)
    notify("READY=1", f"STATUS={len(planned)} collectors, {where}, {to}")
    _keep_time(schedule, stop)
    notify("STOPPING=1", "STATUS=draining")
    _log.info("stopping")
    hanging = schedule.stop(_WORKERS_DRAIN_S)
    if hanging:
        _log.warning("left behind, they do not return: %s", ", ".join(hanging))
    left = outbox.stop() if outbox else 0
    if left:
        _log.warning("%d items are not acknowledged; they wait in the spool", left)
    if listener:
        listener.close()
    if outbox and outbox.fatal:
        _log.critical("%s", outbox.fatal)
        return 1
    return 0


def _outbox(config: Config, stop: threading.Event) -> Outbox | None:
    """Return the way to the tuner; without one, protobuf and gRPC are never loaded."""
    if config.uplink is None:
        return None
    from agent.outbox import Outbox

    return Outbox(config.uplink, config.agent, Path(config.paths.procfs), stop)


def _drop(_collector: str, _seen: Pass) -> None:
    """Publish to nobody: the snapshot is all there is."""


def _settle_memory() -> None:
    """Keep the process from growing for hours: what is loaded stays, threads share one arena.

    Each thread would have an arena of malloc of its own, which keeps the most it ever had.
    """
    gc.freeze()  # a collection need not walk what stays
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _keep_time(schedule: Schedule, stop: threading.Event) -> None:
    every = watchdog_s()
    most_s = min(every or _TICK_MOST_S, _TICK_MOST_S)
    fed = collect_at = 0.0
    while not stop.wait(min(schedule.quiet_s(), most_s)):
        schedule.check_deadlines()
        now = time.monotonic()
        if now >= collect_at:
            # Only a full collection empties the interpreter's free lists, which hold 2,000
            # tuples of each length; without it the process grows for a quarter of an hour.
            gc.collect()
            took_s = time.monotonic() - now
            collect_at = now + max(_COLLECT_S, took_s / _COLLECT_SHARE)
        if every is not None and now - fed >= every:
            fed = now
            notify("WATCHDOG=1")


def _listen(config: Config, snapshot: Snapshot, outbox: Outbox | None) -> Listener | None:
    if config.metrics is None:
        return None
    metrics = config.metrics

    def exposition() -> Exposition:
        from agent.exposition import Exposition

        return Exposition(
            snapshot.outcomes,
            config.agent,
            node_infiniband=metrics.node_infiniband,
            infiniband_exporter=metrics.infiniband_exporter,
            stale_after_s=metrics.stale_after,
            vitals=outbox.vitals if outbox else tuple,
        )

    return Listener(metrics, prometheus_render(exposition))
