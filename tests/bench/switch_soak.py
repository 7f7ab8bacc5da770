"""Twenty switches through faults: no other target's data is late, memory flat, gaps counted.

./run bench switch_soak [SECONDS]; ten minutes by default. Two of twenty are down, one falls
silent in mid-stream, one restarts every half minute, one has twenty thousand more interfaces.
The five run in a process of their own, because real switches do not share a CPU either. A
target's data is late in a round without it, from its first data on; how long the first takes is
a check of its own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path) != Path(__file__).parent)]

from agent.schedule import read_clock  # noqa: E402
from agent.switches import builders  # noqa: E402
from collectors.model.catalogue import interface  # noqa: E402
from collectors.model.entities import Interface, Slot  # noqa: E402
from collectors.model.reading import Collector, Pass  # noqa: E402
from collectors.targets.fleet import Fleet  # noqa: E402
from tests.bench.packet_parts.report import Report  # noqa: E402
from tests.bench.processes import resident_bytes  # noqa: E402

WELL, PORTS, INTERVAL_S = 15, 8, 5.0
FAULTS = {1: "silent", 2: "silent", 3: "half_open", 4: "restart", 5: "huge"}
HEALTHY = {f"well{number}" for number in range(1, WELL + 1)}
FAULTY = {f"faulty{number}" for number in FAULTS}
DEAD, RESTARTING = {"faulty1", "faulty2"}, "faulty4"


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
    first_s: dict[str, float] = field(default_factory=dict)
    late: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
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
                if column.metric == interface.TX_BYTES.name:
                    key = (name, entity.name)
                    self.fell[name] += value < self._last.get(key, 0)
                    self._last[key] = value
        with_gap = set()
        for gap in result.gaps:
            name = gap.subject.rpartition("/")[2]
            self.gaps[name, gap.reason] += 1
            with_gap.add(name)
        for name in HEALTHY | FAULTY:
            if name in fresh:
                self.first_s.setdefault(name, time.monotonic() - self.began)
            else:
                self.missing[name] += 1
                self.late[name] += name in self.first_s
                self.unexplained[name] += name not in with_gap


def run(collector: Collector, watch: Watch, until: float) -> None:
    """Read every interval until the time is up."""
    due = time.monotonic()
    while time.monotonic() < until:
        watch.take(collector.read(read_clock))
        due = max(due + INTERVAL_S, time.monotonic())
        time.sleep(max(0.0, min(due, until) - time.monotonic()))


@dataclass
class Machine:
    """What might excuse lateness. lag_s: of the fleets' event loops; memory: MB over time.

    cpu_s: of this process, fleets included. stalled_ratio: share of the time in which something
    on this machine waited for a CPU (PSI), None where the kernel does not say.
    """

    lags_s: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    stalled_ratio: float | None = None

    def look(self, fleets: list[Fleet]) -> None:
        """Take a sample: how long each loop needs to come round to a piece of work."""

        async def nothing() -> Pass:
            return Pass()

        self.memory.append(resident_bytes(os.getpid()) / 2**20)
        for fleet in fleets:
            began = time.monotonic()
            fleet.run(nothing())
            self.lags_s.append(time.monotonic() - began)


def stalled_s() -> float | None:
    """Return for how long something has waited for a CPU since boot."""
    try:
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6


@contextmanager
def lab(folder: Path) -> Iterator[Path]:
    """Run both sets of switches, each in a process of its own; yield the inventory of all."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes, merged = [], {}
    try:
        for name, count, faults in (("well", WELL, {}), ("faulty", len(FAULTS), FAULTS)):
            file = folder / f"{name}.yaml"
            argv = [
                sys.executable, "-c", "from simlab.cli import app; app()", "switches", "up",
                "--count", str(count), "--ports", str(PORTS), "--platform", "eos",
                "--interval", str(INTERVAL_S), "--inventory", str(file),
            ]  # fmt: skip
            for number, fault in faults.items():
                argv += ["--fault", f"{number}={fault}"]
            process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)
            processes.append(process)
            assert process.stdout is not None
            process.stdout.readline()
            rows = yaml.safe_load(file.read_text())
            for number, target in enumerate(rows["targets"], 1):
                target["name"] = f"{name}{number}"
            merged = {**rows, "targets": merged.get("targets", []) + rows["targets"]}
        inventory = folder / "targets.yaml"
        inventory.write_text(yaml.safe_dump(merged))
        yield inventory
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:  # it may hang in a stream that never ends
                process.kill()
                process.wait()


def soak(seconds: float) -> tuple[dict[str, Watch], Machine]:
    """Return what the fleets saw, and how the machine was meanwhile."""
    with tempfile.TemporaryDirectory() as name, lab(Path(name)) as inventory:
        fleets: list[Fleet] = []
        try:
            until = time.monotonic() + seconds
            watches, threads, machine = {}, [], Machine()
            stalled, spent = stalled_s(), time.process_time()
            for fleet, build, _ in builders(inventory):
                collector = build()
                fleets += [collector] if isinstance(collector, Fleet) else []
                watch = watches[fleet] = Watch(fleet)
                threads.append(threading.Thread(target=run, args=(collector, watch, until)))
                threads[-1].start()
            while time.monotonic() < until:
                machine.look(fleets)
                time.sleep(min(1.0, max(0.1, until - time.monotonic())))
            for thread in threads:
                thread.join()
            machine.cpu_s = time.process_time() - spent
            if stalled is not None and (now := stalled_s()) is not None:
                machine.stalled_ratio = (now - stalled) / seconds
        finally:
            for made in fleets:
                made.close()
    return watches, machine


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    report = Report("switch_soak")
    count = WELL + len(FAULTS)
    report.title(f"{count} EOS switches over SNMP and gNMI, {seconds:g} s, every {INTERVAL_S:g} s")
    watches, machine = soak(seconds)
    memory = machine.memory
    for name, watch in watches.items():
        late = sum(watch.late[switch] for switch in HEALTHY)
        first = max(watch.first_s.get(switch, seconds) for switch in HEALTHY)
        reasons = Counter[str]()
        for (_, reason), count in watch.gaps.items():
            reasons[reason] += count
        report.line(f"  {name}: {watch.rounds} rounds; gaps {dict(reasons)}")
        report.check(f"{name}: rounds in which a healthy one is late", late, 0, "<=", "count")
        report.check(f"{name}: first data of all healthy", first, 3 * INTERVAL_S, "<=", "s")
        silent = sum(watch.unexplained.values())
        report.check(f"{name}: absences without a gap", silent, 0, "<=", "count")
    snmp = watches["switch_snmp"]
    fell = sum(watch.fell[RESTARTING] for watch in watches.values())
    report.check("counters seen to fall in the restarting one", fell, 1, ">=", "count")
    dead = min(snmp.missing[name] for name in DEAD)
    report.check("dead targets: rounds without data", dead, snmp.rounds, ">=", "count")
    begun = memory[len(memory) // 5]
    report.line(
        f"  memory: {begun:.0f} MB after a fifth of the time, {memory[-1]:.0f} MB at the end"
    )
    report.check("memory at the end", memory[-1] / begun, 1.1, "<=", "ratio")
    report.note(f"CPU of both fleets: {machine.cpu_s / seconds:.1%} of one core")
    report.note(
        f"event loops came round in {statistics.median(machine.lags_s) * 1e3:.1f} ms (median), "
        f"{max(machine.lags_s) * 1e3:.0f} ms at worst"
    )
    if machine.stalled_ratio is not None:
        report.note(f"something waited for a CPU {machine.stalled_ratio:.0%} of the time")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
