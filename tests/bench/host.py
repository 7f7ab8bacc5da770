"""Host telemetry on a fake host with eight mlx5 adapters, against node_exporter on the same tree.

./run bench host [SECTION...] [--seconds N]; sections: scrape daemon burst series fuzz. CPU is
process time. --seconds is how long the daemon is watched (600 by default).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry, generate_latest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path) != Path(__file__).parent)]

from agent.exposition import Exposition  # noqa: E402
from agent.schedule import read_clock  # noqa: E402
from agent.snapshot import Snapshot  # noqa: E402
from collectors.host.burst import BurstCollector  # noqa: E402
from collectors.host.context import HostContext  # noqa: E402
from collectors.host.registry import HOST_COLLECTORS  # noqa: E402
from collectors.model.reading import Pass  # noqa: E402
from simlab.hosts.motion import moved, rewrite  # noqa: E402
from simlab.hosts.profile import FakeHost, build_host, write_host  # noqa: E402
from simlab.hosts.server import FakeKernel, KernelServer  # noqa: E402
from simlab.loopback import free_port  # noqa: E402
from tests.bench.host_parts.fuzz import fuzz  # noqa: E402
from tests.bench.packet_parts.report import Report  # noqa: E402
from tests.bench.processes import resident_bytes, scraped, used_cpu_s  # noqa: E402

NICS = 8
NODE_EXPORTER = "prometheus-node-exporter"
COUNTERS = ("sysfs", "sysfs_errors", "sysfs_rest", "hw_counters")  # what node_exporter reads
WITH_DRIVER = (*COUNTERS, "ethtool")
SCRAPES = 150
seconds_watched = 600.0


def context_of(host: FakeHost, root: Path, *, netlink: bool) -> HostContext:
    """Return the fake host as collectors see it; without netlink every counter is a file."""
    kernel = FakeKernel(host)
    return HostContext(
        host.name,
        root / "sys",
        root / "proc",
        open_netlink=kernel.open_netlink if netlink else None,
        open_ethtool=kernel.open_ethtool,
    )


def collectors(context: HostContext, names: tuple[str, ...]) -> dict[str, object]:
    """Return built collectors by name."""
    return {row.name: row.build(context) for row in HOST_COLLECTORS if row.name in names}


def scrape_once(
    built: dict, exposed: Exposition, registry: CollectorRegistry, board: Snapshot
) -> tuple[float, int]:
    """Return CPU seconds of reading all and writing the exposition, and how many values."""
    began = time.process_time()
    values = 0
    for name, collector in built.items():
        seen: Pass = collector.read(read_clock)
        values += sum(len(reading.values) for reading in seen.readings)
        board.succeeded(name, seen, time.monotonic_ns(), 0.01)
    exposed.text(openmetrics=False)
    generate_latest(registry)
    return time.process_time() - began, values


def our_scrape(context: HostContext, names: tuple[str, ...]) -> tuple[float, int]:
    """Return (CPU seconds per counter, counters) of a scrape, the median of many."""
    built = collectors(context, names)
    board = Snapshot()
    for name in built:
        board.register(name, 1)
    registry = CollectorRegistry(auto_describe=False)
    exposed = Exposition(board.outcomes, context.host)
    registry.register(exposed)
    scrape_once(built, exposed, registry, board)
    samples = [scrape_once(built, exposed, registry, board) for _ in range(30)]
    values = samples[-1][1]
    return statistics.median(cpu for cpu, _ in samples) / values, values


def open_files(pid: int) -> int:
    """Return the open descriptors of a process.

    A pass that is under way holds a file or two: the least of several looks is what stays.
    """
    looks = []
    for _ in range(20):
        looks.append(len(os.listdir(f"/proc/{pid}/fd")))
        time.sleep(0.01)
    return min(looks)


def wait_for(port: int) -> None:
    """Wait until something answers."""
    for _ in range(200):
        try:
            scraped(port)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"nothing answers on port {port}")


def node_exporter_scrape(root: Path) -> tuple[float, int]:
    """Return (CPU seconds per counter, counters) of node_exporter's infiniband collector."""
    port = free_port()
    argv = [NODE_EXPORTER, f"--path.sysfs={root}/sys", "--collector.disable-defaults",
            "--collector.infiniband", "--web.disable-exporter-metrics",
            f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        before = used_cpu_s(process.pid)
        for _ in range(SCRAPES):
            lines = scraped(port)
        cpu = (used_cpu_s(process.pid) - before) / SCRAPES
    finally:
        process.terminate()
        process.wait(10)
    counters = sum(line.startswith("node_infiniband_") for line in lines)
    return cpu / counters, counters


def scrape(report: Report, root: Path, host: FakeHost) -> None:
    """Time a whole scrape, reading and exposition, against node_exporter on the same tree."""
    report.title(f"A scrape of {NICS} mlx5 adapters, CPU for each counter")
    if shutil.which(NODE_EXPORTER) is None:
        raise SystemExit(f"{NODE_EXPORTER} is missing: ./run bench host installs it")
    theirs, their_count = node_exporter_scrape(root)
    for label, names, netlink in (
        ("the files that node_exporter reads, and hw_counters", COUNTERS, False),
        ("hw_counters over netlink", COUNTERS, True),
        ("with ethtool statistics", WITH_DRIVER, True),
    ):
        ours, count = our_scrape(context_of(host, root, netlink=netlink), names)
        report.line(f"  {label}: {count} counters; node_exporter: {their_count}")
        report.check(
            f"CPU for a counter: {label}", ours / theirs, 1.0, "<=", "x",
            ours=ours * 1e6, reference=theirs * 1e6, spread="us of CPU each",
        )  # fmt: skip
    version = subprocess.run(
        [NODE_EXPORTER, "--version"], capture_output=True, text=True, check=False
    )
    first = (version.stderr or version.stdout).splitlines()[0]
    report.note(f"{first}: it has no hw_counters before 1.11, so it reads fewer files here")
    report.note("netlink and ethtool answers are made in our own process, at our own expense")


def keep_moving(kernel: FakeKernel, root: Path, stop: threading.Event) -> None:
    """Let the counters of a busy host grow once a second, in files and in netlink's answers."""
    seconds = 0
    while not stop.wait(1.0):
        seconds += 1
        before = kernel.host
        after = moved(before, 1.0, seed=seconds)
        rewrite(before, after, root)
        kernel.host = after


def daemon(report: Report, root: Path, host: FakeHost) -> None:
    """Watch the daemon at 1 Hz with a scrape every 15 s: CPU, memory, its slope, descriptors."""
    report.title(f"fabric-agent run at 1 Hz, {NICS} busy adapters, scraped every 15 s")
    port = free_port()
    kernel, stop = FakeKernel(host), threading.Event()
    server = KernelServer(root / "kernel.sock", kernel)
    server.start()
    mover = threading.Thread(target=keep_moving, args=(kernel, root, stop), daemon=True)
    mover.start()
    config = {
        "agent": "gpu01",
        "interval": 1,
        "paths": {
            "sysfs": f"{root}/sys",
            "procfs": f"{root}/proc",
            "kernel": f"{root}/kernel.sock",
        },
        "metrics": {"address": "127.0.0.1", "port": port},
    }
    path = root / "agent.yaml"
    path.write_text(yaml.safe_dump(config))
    process = subprocess.Popen(
        [sys.executable, "-c", "from agent.cli import app; app()", "run", "--config", str(path)],
        stderr=(root / "log").open("wb"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    pid = process.pid
    try:
        wait_for(port)
        time.sleep(30)  # inventory, first facts, first slow passes
        scraped(port)
        files, cpu, rss = open_files(pid), used_cpu_s(pid), resident_bytes(pid)
        began = time.monotonic()
        points: list[tuple[float, int]] = [(0.0, rss)]
        while time.monotonic() - began < seconds_watched:
            time.sleep(15)
            series = sum(line[0] != "#" for line in scraped(port))
            cpu_now, rss_now = used_cpu_s(pid), resident_bytes(pid)
            points.append((time.monotonic() - began, rss_now))
            files_now = open_files(pid)
        passed = points[-1][0]
    finally:
        process.terminate()
        process.wait(20)
        stop.set()
        mover.join(5)
        server.shutdown()
        server.server_close()
    report.line(f"  {series} series; watched for {passed:.0f} s")
    report.check("daemon: share of one core", 100 * (cpu_now - cpu) / passed, 1.0, "<=", "%")
    report.check("daemon: resident memory", rss_now / 2**20, 80.0, "<=", "MiB")
    half = points[len(points) // 2 :]
    slope = statistics.linear_regression([t for t, _ in half], [r for _, r in half]).slope
    growth = slope * 3600 / 2**10
    report.line(f"  slope {growth:.0f} KiB an hour; from {rss / 2**20:.1f} MiB at the start")
    report.check("daemon: growth over the second half", growth, 1024.0, "<=", "KiB/h")
    report.check(
        "daemon: descriptors more than at the start", files_now - files, 0.0, "<=", "files"
    )
    if seconds_watched < 600:
        report.note(f"watched for {passed:.0f} s only; the goal is 600")


def burst(report: Report, root: Path, host: FakeHost) -> None:
    """Run the high-rate mode at 20 ms: eight interfaces, sixteen counters each."""
    report.title("High-rate mode, 8 ports x 16 counters every 20 ms")
    folder = root / "sys/class/net"
    names = sorted(f"statistics/{path.name}" for path in (folder / "eth0/statistics").iterdir())
    context = context_of(host, root, netlink=False)
    options = {"interval_ms": 20, "netdev": names}
    collector = BurstCollector(
        HostContext(context.host, context.sysfs, context.procfs, options=options)
    )
    sampled = len(names) * NICS
    collector.read(read_clock)
    began, cpu = time.monotonic(), time.process_time()
    passes = 0
    while time.monotonic() - began < 20:
        time.sleep(5)
        collector.read(read_clock)
        passes += 1
    share = 100 * (time.process_time() - cpu) / (time.monotonic() - began)
    collector.close()
    report.line(f"  {sampled} counters sampled, {passes} summaries")
    scaled = share * 128 / sampled
    report.check("burst: share of one core for 128 counters", scaled, 5.0, "<=", "%")
    if sampled != 128:
        report.note(f"{sampled} counters were sampled; the share is scaled to 128")


def series(report: Report, root: Path, host: FakeHost) -> None:
    """Count the series of one adapter with everything on that is on by default."""
    report.title("Series for each adapter, all default collectors")
    context = context_of(host, root, netlink=True)
    names = tuple(row.name for row in HOST_COLLECTORS if row.on and row.name != "lldp")
    count = sum(
        len(reading.values)
        for collector in collectors(context, names).values()
        for reading in collector.read(read_clock).readings
    )
    report.check("series for each adapter", count / NICS, 200.0, "<=", "series")


SECTIONS = {"scrape": scrape, "daemon": daemon, "burst": burst, "series": series, "fuzz": fuzz}


def main() -> int:
    """Run the sections asked for, all by default."""
    global seconds_watched  # noqa: PLW0603
    chosen = sys.argv[1:]
    if "--seconds" in chosen:
        at = chosen.index("--seconds")
        seconds_watched = float(chosen[at + 1])
        del chosen[at : at + 2]
    chosen = chosen or list(SECTIONS)
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        print(f"no section {unknown[0]!r}; known: {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    report = Report("host")
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        host = build_host("gpu01", "mlx5", NICS)
        write_host(host, root)
        for name in chosen:
            SECTIONS[name](report, root, host)
    finally:
        shutil.rmtree(root)
    report.note("files in memory stand in for sysfs: the kernel's own cost of a counter is not in")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
