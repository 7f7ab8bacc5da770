"""Twenty switches through faults: no other target's data is late, memory flat, gaps counted.

./run bench switch_soak [SECONDS]; ten minutes by default. Two of twenty are down, one falls
silent in mid-stream, one restarts every half minute, one has twenty thousand more interfaces.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path) != Path(__file__).parent)]

from agent.switches import builders  # noqa: E402
from collectors.model.entities import Interface, Slot  # noqa: E402
from collectors.model.reading import Collector, Instant, Pass  # noqa: E402
from collectors.targets.fleet import Fleet  # noqa: E402
from tests.bench.packet_parts.report import Report  # noqa: E402

COUNT, PORTS, INTERVAL_S = 20, 8, 5.0
FAULTS = {1: "silent", 2: "silent", 3: "half_open", 4: "restart", 5: "huge"}
HEALTHY = {f"switch{number}" for number in range(1, COUNT + 1) if number not in FAULTS}
DEAD = {"switch1", "switch2"}


def clock() -> Instant:
    return Instant(time.time_ns(), time.monotonic_ns())


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass
class Watch:
    """What one fleet gave: when each switch was fresh, which gaps, which incarnations."""

    transport: str
    rounds: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    gaps: Counter[tuple[str, str]] = field(default_factory=Counter)
    unexplained: Counter[str] = field(default_factory=Counter)
    incarnations: dict[str, set[str]] = field(default_factory=dict)
    fell: Counter[str] = field(default_factory=Counter)
    _last: dict[tuple[str, str], float] = field(default_factory=dict)

    def take(self, result: Pass) -> None:
        """Note one round."""
        self.rounds += 1
        fresh = set()
        for reading in result.readings:
            entity = reading.entity.parent if isinstance(reading.entity, Slot) else reading.entity
            if not isinstance(entity, Interface):
                continue
            name = entity.switch.key
            fresh.add(name)
            self.incarnations.setdefault(name, set()).add(reading.incarnation)
            for column, value in reading.values.items():
                if column.metric == "fabric_interface_tx_bytes_total":
                    key = (name, entity.name)
                    self.fell[name] += value < self._last.get(key, 0)
                    self._last[key] = value
        with_gap = set()
        for gap in result.gaps:
            name = gap.subject.rpartition("/")[2]
            self.gaps[name, gap.reason] += 1
            with_gap.add(name)
        for number in range(1, COUNT + 1):
            name = f"switch{number}"
            if name not in fresh:
                self.missing[name] += 1
                self.unexplained[name] += name not in with_gap


def run(collector: Collector, watch: Watch, until: float) -> None:
    """Read every interval until the time is up."""
    due = time.monotonic()
    while time.monotonic() < until:
        watch.take(collector.read(clock))
        due = max(due + INTERVAL_S, time.monotonic())
        time.sleep(max(0.0, min(due, until) - time.monotonic()))


def soak(seconds: float) -> tuple[dict[str, Watch], list[float]]:
    """Return what the fleets saw and resident memory every five seconds."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            sys.executable, "-c", "from simlab.cli import app; app()", "switches", "up",
            "--count", str(COUNT), "--ports", str(PORTS), "--platform", "eos",
            "--interval", str(INTERVAL_S),
        ]  # fmt: skip
        for number, fault in FAULTS.items():
            argv += ["--fault", f"{number}={fault}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        collectors = []
        try:
            process.stdout.readline()
            until = time.monotonic() + seconds
            watches, threads, memory = {}, [], []
            for name, build, _ in builders(Path(folder) / "targets.yaml"):
                collector = build()
                collectors.append(collector)
                watch = watches[name] = Watch(name)
                threads.append(threading.Thread(target=run, args=(collector, watch, until)))
                threads[-1].start()
            while time.monotonic() < until:
                memory.append(resident_mb())
                time.sleep(min(5.0, max(0.1, until - time.monotonic())))
            for thread in threads:
                thread.join()
        finally:
            for collector in collectors:
                if isinstance(collector, Fleet):
                    collector.close()
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:  # it may hang in a stream that never ends
                process.kill()
                process.wait()
    return watches, memory


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    report = Report("switch_soak")
    report.title(f"{COUNT} EOS switches over SNMP and gNMI, {seconds:g} s, every {INTERVAL_S:g} s")
    watches, memory = soak(seconds)
    for name, watch in watches.items():
        late = sum(watch.missing[switch] for switch in HEALTHY)
        reasons = Counter[str]()
        for (_, reason), count in watch.gaps.items():
            reasons[reason] += count
        report.line(f"  {name}: {watch.rounds} rounds; gaps {dict(reasons)}")
        report.check(f"{name}: rounds without a healthy target", late, 0, "<=", "count")
        silent = sum(watch.unexplained.values())
        report.check(f"{name}: absences without a gap", silent, 0, "<=", "count")
    snmp = watches["switch_snmp"]
    fell = sum(watch.fell["switch4"] for watch in watches.values())
    report.check("counters seen to fall in the restarting one", fell, 1, ">=", "count")
    dead = min(snmp.missing[name] for name in DEAD)
    report.check("dead targets: rounds without data", dead, snmp.rounds, ">=", "count")
    begun = memory[len(memory) // 5]
    report.line(
        f"  memory: {begun:.0f} MB after a fifth of the time, {memory[-1]:.0f} MB at the end"
    )
    report.check("memory at the end", memory[-1] / begun, 1.1, "<=", "ratio")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
