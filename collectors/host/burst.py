"""High-rate mode: chosen counters every 10 to 100 ms, told as maximum, p99, busy time, pause.

Only counters that lie in memory may be read so often: interface statistics, and the hardware
counters of drivers that count in software. A source that costs the device a command is refused.
Files are kept open and read with one system call each; a file that fails is opened anew.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from collectors.host.context import HostCollector, HostContext, refuse_unknown
from collectors.host.inventory import Inventory, RdmaDevice, RdmaPort
from collectors.host.kernel_file import Unreadable, folder, parse_count, read_optional
from collectors.host.sysfs import parse_rate
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Netdev, Port
from collectors.model.errors import ConfigInvalid
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Pass, Reading

IN_MEMORY: Final = frozenset({"rxe", "siw"})  # their hardware counters cost no device command
_LEAST_MS: Final = 10
_MOST_MS: Final = 100
_MOST_SAMPLES: Final = 2_000
_BITS: Final = 8

_RX: Final = frozenset({"statistics/rx_bytes", "rx_bytes"})
_TX: Final = frozenset({"statistics/tx_bytes", "tx_bytes"})


@dataclass(frozen=True)
class BurstOptions:
    """interval_ms: from sample to sample. busy_ratio: share of line rate that counts as busy.

    netdev: statistics of interfaces to sample. hw_counters: of ports whose driver counts in
    software.
    """

    interval_ms: int = 20
    busy_ratio: float = 0.9
    netdev: tuple[str, ...] = ("statistics/rx_bytes", "statistics/tx_bytes")
    hw_counters: tuple[str, ...] = ()


def parse_options(options: Mapping[str, object]) -> BurstOptions:
    """Return the options of the collector. Raises ConfigInvalid."""

    def wrong(name: str, why: str) -> ConfigInvalid:
        return ConfigInvalid("burst", f"option {name}", why)

    refuse_unknown("burst", options, "interval_ms", "busy_ratio", "netdev", "hw_counters")
    interval = options.get("interval_ms", 20)
    if not isinstance(interval, int) or not _LEAST_MS <= interval <= _MOST_MS:
        raise wrong("interval_ms", f"must be {_LEAST_MS} to {_MOST_MS}")
    busy = options.get("busy_ratio", 0.9)
    if not isinstance(busy, int | float) or not 0 < busy <= 1:
        raise wrong("busy_ratio", "must be above 0 and at most 1")
    lists: dict[str, tuple[str, ...]] = {}
    allowed = {"netdev": {key for key in columns("netdev") if key.startswith("statistics/")}}
    for name in ("netdev", "hw_counters"):
        value = options.get(name, getattr(BurstOptions, name))
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise wrong(name, "must be a list of counters")
        bad = set(value) - allowed.get(name, set(value))
        if bad:
            raise wrong(name, f"{min(bad)!r} is no statistic of interfaces")
        lists[name] = tuple(value)
    return BurstOptions(interval, float(busy), lists["netdev"], lists["hw_counters"])


@dataclass
class Track:
    """Samples of one counter since the last pass; a hole in them ends a run."""

    path: str
    key: str
    times: array[int] = field(default_factory=lambda: array("Q"))
    values: array[int] = field(default_factory=lambda: array("Q"))
    handle: int | None = None
    last_error: str = ""

    def sample(self, now_ns: int) -> None:
        """Read once; an error closes the file, the next sample opens it anew."""
        try:
            if self.handle is None:
                self.handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            value = parse_count(os.pread(self.handle, 32, 0))
        except (OSError, Unreadable) as error:
            self.last_error = str(error)
            self.close()
            return
        self.last_error = ""
        if len(self.values) < _MOST_SAMPLES:
            self.times.append(now_ns)
            self.values.append(value)

    def take(self) -> tuple[array[int], array[int]]:
        """Return the samples; the last one begins the next span."""
        times, values = self.times, self.values
        self.times, self.values = times[-1:], values[-1:]
        return times, values

    def close(self) -> None:
        """Close the file."""
        if self.handle is not None:
            with contextlib.suppress(OSError):
                os.close(self.handle)
            self.handle = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A span of samples of a byte counter. Rates in bit/s, times in seconds."""

    max_bps: float
    p99_bps: float
    busy_ratio: float
    pause_max_s: float


def summarise(
    times: array[int], values: array[int], line_bps: float, busy_ratio: float
) -> Summary | None:
    """Return the summary of a byte counter, None for fewer than two samples.

    A decrease is a reset: that step is left out. A pause lies between two times with traffic.
    """
    rates: list[float] = []
    busy_ns = total_ns = 0
    quiet_ns = longest_ns = 0
    ran = False
    for at in range(1, len(values)):
        span = times[at] - times[at - 1]
        grown = values[at] - values[at - 1]
        if span <= 0 or grown < 0:
            continue
        rate = grown * _BITS * 1e9 / span
        rates.append(rate)
        total_ns += span
        if line_bps and rate >= busy_ratio * line_bps:
            busy_ns += span
        if grown:
            longest_ns = max(longest_ns, quiet_ns) if ran else longest_ns
            quiet_ns, ran = 0, True
        else:
            quiet_ns += span
    if not rates:
        return None
    ordered = sorted(rates)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Summary(ordered[-1], p99, busy_ns / total_ns, longest_ns / 1e9)


class BurstCollector:
    """Samples in a thread of its own; a pass takes and summarises what came since the last."""

    name = "burst"

    def __init__(
        self, context: HostContext, mono_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Raises ConfigInvalid for options that are wrong."""
        self._context = context
        self._options = parse_options(context.options)
        self._inventory = Inventory.of(context)
        self._mono_ns = mono_ns
        self._lock = threading.Lock()
        self._tracks: dict[tuple[Port | Netdev, str], Track] = {}
        self._line_bps: dict[Port | Netdev, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, clock: Clock) -> Pass:
        """Summarise the samples; the first pass starts the sampler."""
        gaps = GapLog(self.name)
        self._plan(clock, gaps)
        if self._thread is None and self._tracks:
            self._thread = threading.Thread(target=self._run, name="burst", daemon=True)
            self._thread.start()
        known = columns("derived")
        found: dict[Port | Netdev, dict[Column, int | float]] = {}
        with self._lock:
            for (entity, key), track in self._tracks.items():
                if track.last_error:
                    gaps.add(entity, key, "unreadable", track.last_error)
            taken = {place: track.take() for place, track in self._tracks.items()}
        for (entity, key), (times, values) in taken.items():
            line = self._line_bps.get(entity, 0.0)
            for name, value in self._told(key, times, values, line):
                held = found.setdefault(entity, {})
                column = known[f"burst {name}"]
                held[column] = max(value, held.get(column, value))
        when = clock()
        readings = tuple(Reading(entity, values, when) for entity, values in found.items())
        return Pass(readings, gaps.gaps())

    def close(self) -> None:
        """Stop the sampler and close its files."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
        with self._lock:
            for track in self._tracks.values():
                track.close()

    def sample(self) -> None:
        """Read every chosen counter once."""
        with self._lock:
            for track in self._tracks.values():
                track.sample(self._mono_ns())

    def _run(self) -> None:
        period_ns = self._options.interval_ms * 1_000_000
        due = self._mono_ns()
        while not self._stop.is_set():
            self.sample()
            due += period_ns
            late = self._mono_ns() - due
            if late > 0:  # never catch up by sampling faster
                due += -(-late // period_ns) * period_ns
            self._stop.wait(max(0, due - self._mono_ns()) / 1e9)

    def _told(
        self, key: str, times: array[int], values: array[int], line_bps: float
    ) -> Iterator[tuple[str, float]]:
        way = "rx" if key in _RX else "tx" if key in _TX else ""
        if not way:
            steps = [b - a for a, b in pairwise(values) if b >= a]
            if steps:
                yield "events max", float(max(steps))
            return
        summary = summarise(times, values, line_bps, self._options.busy_ratio)
        if summary is not None:
            yield f"{way} max", summary.max_bps
            yield f"{way} p99", summary.p99_bps
            yield f"{way} pause", summary.pause_max_s
            if line_bps:
                yield f"{way} busy", summary.busy_ratio

    def _plan(self, clock: Clock, gaps: GapLog) -> None:
        devices = self._inventory.devices(clock, gaps)
        wanted: dict[tuple[Port | Netdev, str], str] = {}
        for name, netdev in self._inventory.netdevs(clock, gaps).items():
            home = folder(self._context.sysfs, "class", "net", name)
            speed = read_optional(f"{home}/speed")
            self._line_bps[netdev] = float(speed) * 1e6 if speed.isdecimal() else 0.0
            wanted |= {(netdev, key): f"{home}/{key}" for key in self._options.netdev}
        for device in devices:
            for port in device.ports:
                wanted |= self._hw_counters(device, port, gaps)
        with self._lock:
            for gone in set(self._tracks) - set(wanted):
                self._tracks.pop(gone).close()
            for place, path in wanted.items():
                if place not in self._tracks:
                    self._tracks[place] = Track(path, place[1])

    def _hw_counters(
        self, device: RdmaDevice, port: RdmaPort, gaps: GapLog
    ) -> dict[tuple[Port | Netdev, str], str]:
        if not self._options.hw_counters:
            return {}
        if device.driver not in IN_MEMORY:
            why = "each read costs the device a command; sample the interface instead"
            gaps.add(port.entity, "hw_counters", "refused", why)
            return {}
        with contextlib.suppress(Unreadable):
            self._line_bps[port.entity] = parse_rate(read_optional(f"{port.path}/rate")) * _BITS
        return {
            (port.entity, key): f"{port.path}/hw_counters/{key}"
            for key in self._options.hw_counters
        }


BURST: Final = HostCollector(
    "burst",
    "high-rate samples of in-memory counters: maximum, p99, busy time, longest pause",
    BurstCollector,
    interval_s=5.0,
    on=False,
)
