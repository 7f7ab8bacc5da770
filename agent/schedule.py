"""Runs collectors on threads so that none can cost the others.

The sources of this host share a thread: their passes begin together and follow one another,
because waking a thread on a cold processor costs more than most passes do. A pass that holds
the others up keeps the thread for itself, from then on, and they go on with a new one. Every
other source waits for a network and has a thread of its own from the start.

A pass that overruns its deadline is counted and left alone: threads cannot be killed, and a
second one would hang where the first does. The collector starts again once it has returned.
Time is the monotonic clock; the wall clock may jump as it likes.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agent.snapshot import Snapshot
from agent.sources import Job
from collectors.model.errors import (
    Denied,
    FabricError,
    Malformed,
    NotSupported,
    Unavailable,
)
from collectors.model.facts import Gap
from collectors.model.reading import Clock, Collector, Instant, Pass

_log: Final = logging.getLogger("agent.schedule")

_FREE_FAILURES: Final = 2  # in a row before the interval grows
_BACKOFF_MOST_S: Final = 300.0
_STAGGER_S: Final = 0.01  # passes at the same moment would only fight for the interpreter's lock
_LOOK_S: Final = 0.25  # between looks at the passes under way
_PATIENCE_S: Final = 0.5  # that a pass may hold up the others of its thread
_REASONS: Final = (
    (NotSupported, "not_supported"),
    (Denied, "denied"),
    (Unavailable, "unavailable"),
    (Malformed, "malformed"),
)

Publish = Callable[[str, Pass], None]


def read_clock() -> Instant:
    """Return the present moment of this host."""
    return Instant(time.time_ns(), time.monotonic_ns())


def reason_of(error: Exception) -> str:
    """Return the countable word for an error of a pass."""
    for kind, word in _REASONS:
        if isinstance(error, kind):
            return word
    return "failed" if isinstance(error, FabricError) else "internal"


def backoff_s(interval_s: float, failures: int, reason: str) -> float:
    """Return seconds to the next start after so many failures in a row, the last for `reason`.

    What is not supported here will not be in five seconds either: it waits the longest at once.
    """
    most = max(interval_s, _BACKOFF_MOST_S)
    if reason == "not_supported":
        return most
    doublings = min(max(failures - _FREE_FAILURES, 0), 30)
    return min(interval_s * 2.0**doublings, most)


@dataclass
class _Worker:
    """A job and what the schedule must know of it."""

    job: Job
    due: float = 0.0  # monotonic start of the next pass
    started: float | None = None  # monotonic start of the pass under way
    late: bool = False
    failures: int = 0
    last_error: str = ""
    collector: Collector | None = None


@dataclass
class _Lane:
    """A thread and the workers whose passes it runs, one after the other."""

    workers: list[_Worker]
    thread: threading.Thread | None = None


class Schedule:
    """Workers for jobs.

    publish: called by the worker's thread after every pass, failed ones too (they carry a gap);
    must not block. clock: handed to the collectors.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        snapshot: Snapshot,
        publish: Publish,
        host: str,
        clock: Clock = read_clock,
    ) -> None:
        self._workers = [_Worker(job) for job in jobs]
        self._lanes: list[_Lane] = []
        self._snapshot = snapshot
        self._publish = publish
        self._host = host
        self._clock = clock
        self._stop = threading.Event()
        self._lock = threading.Lock()
        for job in jobs:
            snapshot.register(job.name, job.interval_s)

    def start(self) -> None:
        """Start the threads; the first passes begin at once, one shortly after the other."""
        shared = [worker for worker in self._workers if worker.job.host]
        alone = [[worker] for worker in self._workers if not worker.job.host]
        for place, workers in enumerate([shared, *alone] if shared else alone):
            begin = time.monotonic() + place * _STAGGER_S
            for worker in workers:
                worker.due = begin
            self._open_lane(workers)

    def _open_lane(self, workers: list[_Worker]) -> None:
        lane = _Lane(workers)
        name = workers[0].job.name if len(workers) == 1 else "host"
        lane.thread = threading.Thread(target=self._run, args=(lane,), name=name, daemon=True)
        self._lanes.append(lane)
        lane.thread.start()

    def check_deadlines(self) -> None:
        """Count the passes that have overrun since the last call; call it when quiet_s() is over.

        A pass that holds up the others of its thread loses them to a new one.
        """
        now = time.monotonic()
        for lane in list(self._lanes):
            self._relieve(lane, now)
        for worker in self._workers:
            with self._lock:
                overrun = (
                    worker.started is not None
                    and not worker.late
                    and now - worker.started > worker.job.deadline_s
                )
                if overrun:
                    worker.late = True
                    self._snapshot.late(worker.job.name)
            if overrun:
                why = f"no answer within {worker.job.deadline_s:g} s; waiting for it to return"
                _log.warning("%s: %s", worker.job.name, why)
                self._publish(worker.job.name, self._failure(worker.job, "deadline", why))

    def quiet_s(self) -> float:
        """Return seconds for which check_deadlines() will have nothing to find."""
        now = time.monotonic()
        with self._lock:
            if any(worker.started is not None for worker in self._workers):
                return _LOOK_S
            first = min((worker.due for worker in self._workers), default=now)
        return max(_LOOK_S, first + _LOOK_S - now)

    def _relieve(self, lane: _Lane, now: float) -> None:
        """Give a new thread to those that wait behind a slow pass."""
        with self._lock:
            slow = next((w for w in lane.workers if w.started is not None), None)
            if slow is None or slow.started is None or len(lane.workers) == 1:
                return
            if now - slow.started <= min(_PATIENCE_S, slow.job.deadline_s):
                return
            waiting = [worker for worker in lane.workers if worker is not slow]
            lane.workers = [slow]
        _log.info("%s: is slow, and has a thread of its own from now on", slow.job.name)
        self._open_lane(waiting)

    def stop(self, timeout_s: float) -> tuple[str, ...]:
        """Start nothing more, wait for what is under way, and name what did not return."""
        self._stop.set()
        until = time.monotonic() + timeout_s
        hanging: list[str] = []
        for lane in self._lanes:
            if lane.thread is None:
                continue
            lane.thread.join(max(0.0, until - time.monotonic()))
            if lane.thread.is_alive():
                hanging += [w.job.name for w in lane.workers if w.started is not None]
        return tuple(hanging)

    def run_once(self, timeout_s: float) -> None:
        """Run one pass of each job side by side and return when all are done or late."""
        threads = []
        for worker in self._workers:
            thread = threading.Thread(
                target=self._pass, args=(worker,), name=worker.job.name, daemon=True
            )
            thread.start()
            threads.append(thread)
        until = time.monotonic() + timeout_s
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
            self.check_deadlines()
            if all(
                worker.late or not thread.is_alive()
                for worker, thread in zip(self._workers, threads, strict=True)
            ):
                return
            for thread in threads:
                thread.join(0.02)

    def _run(self, lane: _Lane) -> None:
        while not self._stop.is_set():
            worker = min(lane.workers, key=lambda worker: worker.due)
            wait_s = worker.due - time.monotonic()
            if wait_s > 0:
                self._stop.wait(wait_s)
            else:
                self._turn(worker)
        for worker in lane.workers:
            _close(worker)

    def _turn(self, worker: _Worker) -> None:
        """Run one pass and set when the next is due."""
        reason = self._pass(worker)
        interval_s = worker.job.interval_s
        now = time.monotonic()
        if reason:
            worker.due = now + backoff_s(interval_s, worker.failures, reason)
            return
        worker.due += interval_s
        if worker.due <= now:  # missed starts are skipped, not made up for
            worker.due = now + interval_s - (now - worker.due) % interval_s

    def _pass(self, worker: _Worker) -> str:
        """Run one pass; return the reason of a failure, '' for none."""
        job = worker.job
        began = time.monotonic()
        with self._lock:
            worker.started, worker.late = began, False
        try:
            if worker.collector is None:
                worker.collector = job.build()
            seen = worker.collector.read(self._clock)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs this collector only
            reason = reason_of(error)
            text = (
                str(error) if isinstance(error, FabricError) else f"{type(error).__name__}: {error}"
            )
            with self._lock:
                worker.started = None
                self._snapshot.failed(job.name, reason, text, time.monotonic() - began)
            self._report(worker, reason, text, error)
            self._publish(job.name, self._failure(job, reason, text))
            _close(worker)
            return reason
        now = self._clock()
        with self._lock:
            worker.started = None
            self._snapshot.succeeded(job.name, seen, now.mono_ns, time.monotonic() - began)
        if worker.failures:
            _log.info("%s: answers again", job.name)
        worker.failures, worker.last_error = 0, ""
        self._publish(job.name, seen)
        return ""

    def _failure(self, job: Job, reason: str, text: str) -> Pass:
        return Pass(gaps=(Gap(f"host/{self._host}", job.name, "pass", reason, text),))

    def _report(self, worker: _Worker, reason: str, text: str, error: Exception) -> None:
        """Log a failure when it is new, not each time it recurs."""
        worker.failures += 1
        if text != worker.last_error:
            worker.last_error = text
            trace = error if reason == "internal" else None
            _log.warning("%s: %s", worker.job.name, text, exc_info=trace)


def _close(worker: _Worker) -> None:
    close = getattr(worker.collector, "close", None)
    worker.collector = None
    if close is not None:
        with contextlib.suppress(Exception):
            close()
