"""SNMP: our poll against snmpbulkwalk and snmp_exporter on the same agent, and whole fleets.

./run bench snmp [SECTION...]; sections: compare fleet64 fleet512. CPU is process time; the
agents run in a process of their own. Medians of several runs.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path) != Path(__file__).parent)]

from agent.schedule import read_clock  # noqa: E402
from agent.switches import Switchboard  # noqa: E402
from collectors.model.reading import Pass  # noqa: E402
from collectors.targets.fleet import Fleet, Member  # noqa: E402
from simlab.loopback import free_port  # noqa: E402
from tests.bench.packet_parts.report import Report  # noqa: E402
from tests.bench.processes import used_cpu_s  # noqa: E402

TABLE = "1.3.6.1.4.1.9.9.813.1.2.1"
RUNS = 7
MODULE = f"""
pfc:
  walk: [{TABLE}]
  max_repetitions: 60
  timeout: 20s
  metrics:
  - {{name: cpfcIfPriorityRequests, oid: {TABLE}.2, type: counter, help: tx, indexes: &both
      [{{labelname: ifIndex, type: gauge}}, {{labelname: priority, type: gauge}}]}}
  - {{name: cpfcIfPriorityIndications, oid: {TABLE}.3, type: counter, help: rx, indexes: *both}}
"""


@contextmanager
def switches(folder: Path, count: int, ports: int) -> Iterator[Path]:
    """Run simulated NX-OS switches in a process of their own; yield their inventory."""
    argv = [
        sys.executable, "-c", "from simlab.cli import app; app()", "switches", "up",
        "--count", str(count), "--ports", str(ports), "--platform", "nxos", "--tick", "0",
        "--same", "--no-gnmi",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if "up" not in process.stdout.readline():
            raise SystemExit("the simulated switches did not come up")
        yield folder / "targets.yaml"
    finally:
        process.terminate()
        process.wait(30)


def values_of(result: Pass) -> int:
    return sum(len(reading.values) for reading in result.readings)


async def ours(board: Switchboard) -> tuple[float, float, int]:
    """Return wall and CPU seconds (medians) of a poll once names are known, and its values."""
    (target,) = board.inventory.targets
    poller = board.poller(target, "snmp", 60.0)
    await poller.poll(read_clock)
    walls, cpus, values = [], [], 0
    for _ in range(RUNS):
        began, spent = time.perf_counter(), time.process_time()
        values = values_of(await poller.poll(read_clock))
        walls.append(time.perf_counter() - began)
        cpus.append(time.process_time() - spent)
    return statistics.median(walls), statistics.median(cpus), values


def bulkwalk(port: int, repetitions: int) -> tuple[float, int]:
    """Return wall seconds (median) and rows of snmpbulkwalk."""
    walls, rows = [], 0
    for _ in range(RUNS):
        began = time.perf_counter()
        done = subprocess.run(
            ["snmpbulkwalk", "-v2c", "-cpublic", "-On", f"-Cr{repetitions}",
             f"127.0.0.1:{port}", TABLE],
            capture_output=True, check=True,
        )  # fmt: skip
        walls.append(time.perf_counter() - began)
        rows = done.stdout.count(b"\n")
    return statistics.median(walls), rows


def exporter(folder: Path, port: int) -> tuple[float, float, int]:
    """Return wall and CPU seconds of a scrape (medians) and the rows of snmp_exporter."""
    config = folder / "snmp.yml"
    config.write_text(MODULE)
    listen = free_port()
    process = subprocess.Popen(
        ["prometheus-snmp-exporter", f"--config.file={config}",
         f"--web.listen-address=127.0.0.1:{listen}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{listen}/snmp?module=pfc&target=127.0.0.1:{port}"

    def scrape() -> bytes:
        with urllib.request.urlopen(url, timeout=60) as answer:
            body: bytes = answer.read()
            return body

    try:
        for _ in range(100):
            try:
                scrape()
                break
            except OSError:
                time.sleep(0.1)
        walls, before = [], used_cpu_s(process.pid)
        many = RUNS * 3  # ticks are 10 ms: many scrapes, one total
        rows = 0
        for _ in range(many):
            began = time.perf_counter()
            rows = scrape().count(b"\ncpfcIf")
            walls.append(time.perf_counter() - began)
        return statistics.median(walls), (used_cpu_s(process.pid) - before) / many, rows
    finally:
        process.terminate()
        process.wait(10)


def compare(report: Report) -> None:
    report.title("one switch, 256 ports x 8 priorities, against others on the same agent")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with switches(folder, 1, 256) as inventory:
            board = Switchboard(inventory)
            port = board.inventory.targets[0].snmp.port  # type: ignore[union-attr]
            wall, cpu, values = asyncio.run(ours(board))
            walks = {reps: bulkwalk(port, reps) for reps in (10, 60)}
            exporter_wall, exporter_cpu, exporter_rows = exporter(folder, port)
    report.line(f"  ours: {values} values in {wall:.3f} s wall, {cpu:.3f} s CPU")
    for reps, (seconds, rows) in walks.items():
        report.line(f"  snmpbulkwalk -Cr{reps}: {rows} rows in {seconds:.3f} s wall")
    report.line(
        f"  snmp_exporter: {exporter_rows} rows in {exporter_wall:.3f} s wall, "
        f"{exporter_cpu:.3f} s CPU"
    )
    best = max(rows / seconds for seconds, rows in walks.values())
    rate, per_cpu = values / wall, values / cpu
    other_cpu = exporter_rows / exporter_cpu
    report.check(
        "values per second of wall, snmpbulkwalk", rate / best, 1, ">=", "ratio",
        ours=rate, reference=best,
    )  # fmt: skip
    report.check(
        "values per CPU-second, snmp_exporter", per_cpu / other_cpu, 2, ">=", "ratio",
        ours=per_cpu, reference=other_cpu,
    )  # fmt: skip
    report.note("snmpbulkwalk: the better of 10 (its default) and 60 rows a reply; ours asks 60")
    report.note(
        "snmp_exporter 0.21 (Debian 12) walks the PFC table only; our poll reads all tables"
    )


def fleet(report: Report, count: int, interval_s: float) -> None:
    report.title(f"{count} switches x 64 ports x 8 priorities, every {interval_s:g} s")
    with tempfile.TemporaryDirectory() as name, switches(Path(name), count, 64) as inventory:
        board = Switchboard(inventory)
        members = [
            Member(board.poller(target, "snmp", 600.0)) for target in board.inventory.targets
        ]
        made = Fleet("snmp", members, wait_s=600.0)
        made.read(read_clock)
        cpus, walls, result = [], [], Pass()
        for _ in range(3):
            began, spent = time.perf_counter(), time.process_time()
            result = made.read(read_clock)
            cpus.append(time.process_time() - spent)
            walls.append(time.perf_counter() - began)
        made.close()
    cpu = statistics.median(cpus)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    values = values_of(result)
    report.line(
        f"  {values} values a round: {cpu:.2f} s CPU, {statistics.median(walls):.2f} s wall "
        f"on a shared machine; peak memory of this process {peak_mb:.0f} MB"
    )
    lost = [gap for gap in result.gaps if gap.reason in ("deadline", "Unavailable")]
    report.check(f"{count} switches: share of one core", cpu / interval_s, 0.5, "<=", "ratio")
    report.check(f"{count} switches: targets without answer", len(lost), 0, "<=", "count")


def main() -> int:
    sections = sys.argv[1:] or ["compare", "fleet64", "fleet512"]
    report = Report("snmp")
    if "compare" in sections:
        compare(report)
    if "fleet64" in sections:
        fleet(report, 64, 10.0)
    if "fleet512" in sections:
        fleet(report, 512, 30.0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
