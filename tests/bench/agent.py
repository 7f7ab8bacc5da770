"""The agent on a fake host with eight 400G adapters: CPU for each counter, memory, disk, scrape.

./run bench agent [SECTION...]; sections: collect spool scrape daemon. CPU is process time, the
median of several runs; both sides of each ratio run here, one after the other.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

ROOT = Path(__file__).resolve().parents[2]
# This file is called agent, too: its own folder must not be where `agent` is looked for.
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path) != Path(__file__).parent)]

from agent.config import Config, parse_config  # noqa: E402
from agent.exposition import Exposition  # noqa: E402
from agent.packing import Packer  # noqa: E402
from agent.schedule import read_clock  # noqa: E402
from agent.snapshot import Snapshot  # noqa: E402
from agent.sources import jobs  # noqa: E402
from agent.spool import Spool  # noqa: E402
from collectors.model.catalogue.registry import columns  # noqa: E402
from collectors.model.reading import Pass  # noqa: E402
from collectors.wire import telemetry_pb2 as pb  # noqa: E402
from collectors.wire.pack import WIRE_VERSION  # noqa: E402
from simlab.hosts.tree import (  # noqa: E402
    FakeDevice,
    FakeNetdev,
    FakePort,
    write_device,
    write_netdev,
)
from simlab.loopback import free_port  # noqa: E402
from tests.agent.fake_tuner import FakeTuner  # noqa: E402
from tests.bench.packet_parts.report import Report  # noqa: E402
from tests.bench.processes import resident_bytes, scraped, used_cpu_s  # noqa: E402

NICS = 8
RUNS = 15
FAST = ("sysfs", "sysfs_errors", "hw_counters", "ip_ecn", "netdev")


def write_host(root: Path) -> None:
    """Write a host as an 8-GPU node has it: one mlx5 port and interface for each GPU."""
    pma = [key for key in columns("sysfs_counters") if not key.startswith("port_xmit_constraint")]
    statistic = [k.split("/")[1] for k in columns("netdev") if k.startswith("statistics/")]
    for number in range(NICS):
        pci, netdev = f"0000:{0x17 + number:02x}:00.0", f"eth{number}"
        big = 10**12 + 7919 * number
        port = FakePort(
            counters={key: big + place for place, key in enumerate(pma)},
            hw_counters={key: big // 3 + p for p, key in enumerate(columns("hw_counters", "mlx5"))},
            gids={3: (f"0000:0000:0000:0000:0000:ffff:0a00:00{number:02x}", "RoCE v2", netdev)},
        )
        guid = f"b83f:d203:0012:34{number:02x}"
        write_device(root, FakeDevice(f"mlx5_{number}", "mlx5_core", pci, guid, (port,)))
        write_netdev(
            root,
            FakeNetdev(
                netdev,
                number + 2,
                pci,
                statistics={key: big + p for p, key in enumerate(statistic)},
                snmp6=dict.fromkeys(columns("dev_snmp6"), big),
            ),
        )


def config_of(root: Path) -> Config:
    """Return the configuration that reads the fake host, fast collectors only."""
    text = {"agent": "gpu01", "paths": {"sysfs": str(root / "sys"), "procfs": str(root / "proc")}}
    return parse_config(yaml.safe_dump(text), "bench")


def cpu_s(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the median process time of one call, after one to warm up."""
    work()
    times = []
    for _ in range(runs):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def passes_of(root: Path) -> tuple[Callable[[], list[tuple[str, Pass]]], int]:
    """Return a function that reads the host once, and how many values that gives."""
    built = {job.name: job.build() for job in jobs(config_of(root)) if job.name in FAST}

    def read() -> list[tuple[str, Pass]]:
        return [(name, collector.read(read_clock)) for name, collector in built.items()]

    read()  # inventory and facts, which are not read each time
    return read, sum(len(r.values) for _, seen in read() for r in seen.readings)


def collect(report: Report, root: Path) -> None:
    """Time one pass against the least it can cost: opening, reading and closing the same files."""
    report.title(f"One pass over {NICS} adapters, CPU for each counter")
    read, values = passes_of(root)
    report.line(f"  {values} values from {', '.join(FAST)}")
    files = [
        str(path)
        for group in ("counters", "hw_counters", "statistics")
        for path in sorted((root / "sys/devices").rglob(f"{group}/*"))
    ]

    def bare() -> None:
        for path in files:
            handle = os.open(path, os.O_RDONLY)
            int(os.read(handle, 64))
            os.close(handle)

    ours, floor = cpu_s(read) / values * 1e6, cpu_s(bare) / len(files) * 1e6
    report.check(
        "CPU for a counter, against open, read, close alone",
        ours / floor, 3.0, "<=", "x", ours=ours, reference=floor, spread="us of CPU each",
    )  # fmt: skip


def spool(report: Report, root: Path) -> None:
    """Time packing and spooling, and weigh what is on disk, against text exposition."""
    report.title("From a pass to the disk")
    read, values = passes_of(root)
    packer = Packer("boot")
    hello = pb.Hello(wire_version=WIRE_VERSION, agent="gpu01")
    folder = Path(tempfile.mkdtemp(dir=root))
    box = Spool(folder / "spool", 1 << 30, hello)

    def whole() -> None:
        for name, seen in read():
            for packed in packer.pack(name, seen, time.time_ns(), time.monotonic_ns()):
                box.append(packed)

    alone, with_spool = cpu_s(read), cpu_s(whole)
    report.check(
        "CPU for a counter, read and spooled, against read alone",
        with_spool / alone, 2.0, "<=", "x",
        ours=with_spool / values * 1e6, reference=alone / values * 1e6, spread="us of CPU each",
    )  # fmt: skip
    before, count = box.bytes(), 50
    for _ in range(count):
        whole()
    weight = (box.bytes() - before) / count / values
    _, text = exposition_of(read())
    report.check(
        "bytes in the spool for a value, against Prometheus' text",
        weight / (len(text()) / values), 0.25, "<=", "x",
        ours=weight, reference=len(text()) / values, spread="bytes each",
    )  # fmt: skip
    box.close()


def exposition_of(seen: list[tuple[str, Pass]]) -> tuple[int, Callable[[], bytes]]:
    """Return how many samples /metrics has for these passes, and the function that writes it."""
    board = Snapshot()
    for name, one in seen:
        board.register(name, 1)
        board.succeeded(name, one, time.monotonic_ns(), 0.01)
    registry = CollectorRegistry(auto_describe=False)
    exposed = Exposition(board.outcomes, "gpu01")
    registry.register(exposed)

    def whole() -> bytes:
        return exposed.text(openmetrics=False) + generate_latest(registry)

    return sum(line[:1] != b"#" for line in whole().splitlines()), whole


def scrape(report: Report, root: Path) -> None:
    """Time a scrape against prometheus-client serving as many ready-made samples."""
    report.title("A scrape of /metrics")
    read, _ = passes_of(root)
    samples, ours = exposition_of(read())
    registry = CollectorRegistry()
    per_family = samples // NICS
    for number in range(per_family):
        kind = Counter if number % 2 else Gauge
        family = kind(f"family_{number}", "A metric.", ["device", "port"], registry=registry)
        for device in range(NICS):
            child = family.labels(f"mlx5_{device}", "1")
            (child.inc if kind is Counter else child.set)(10**12 + number)
    mine, theirs = cpu_s(ours), cpu_s(lambda: generate_latest(registry))
    report.check(
        f"CPU for a scrape of {samples} samples, against the library's own metrics",
        mine / theirs, 1.5, "<=", "x", ours=mine * 1e3, reference=theirs * 1e3,
        spread="ms of CPU each",
    )  # fmt: skip


def daemon(report: Report, root: Path, seconds: float = 40.0) -> None:
    """Run the daemon at 1 Hz with uplink and scrapes, and read its use from /proc."""
    report.title(f"fabric-agent run, 1 Hz, {NICS} adapters, uplink, a scrape every 15 s")
    with FakeTuner() as tuner, tempfile.TemporaryDirectory(dir=root) as scratch:
        port = free_port()
        config = {
            "agent": "gpu01",
            "interval": 1,
            "paths": {"sysfs": str(root / "sys"), "procfs": str(root / "proc")},
            "metrics": {"address": "127.0.0.1", "port": port},
            "uplink": {"tuner": tuner.address, "spool": f"{scratch}/spool"},
        }
        path = Path(scratch) / "agent.yaml"
        path.write_text(yaml.safe_dump(config))
        program = [sys.executable, "-c", "from agent.cli import app; app()"]
        process = subprocess.Popen(
            [*program, "run", "--config", str(path)],
            stderr=(Path(scratch) / "log").open("wb"),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            time.sleep(10)  # start, inventory, first scrape
            scraped(port)
            cpu, rss = used_cpu_s(process.pid), resident_bytes(process.pid)
            began = time.monotonic()
            for _ in range(max(1, round(seconds / 15))):
                time.sleep(15)
                scraped(port)
            passed = time.monotonic() - began
            cpu_after, rss_after = used_cpu_s(process.pid), resident_bytes(process.pid)
            share = 100 * (cpu_after - cpu) / passed
            per_second = sum(
                line.startswith(("node_infiniband_", "fabric_")) for line in scraped(port)
            )
        finally:
            process.terminate()
            process.wait(20)
        report.line(f"  {per_second} series, {len(tuner.disk.items)} items at the tuner")
        report.check("daemon: share of one core", share, 1.0, "<=", "%")
        report.check("daemon: resident memory", rss_after / 2**20, 80.0, "<=", "MiB")
        report.note(f"memory grew by {(rss_after - rss) / 2**10:.0f} KiB in {passed:.0f} s")


SECTIONS = {"collect": collect, "spool": spool, "scrape": scrape, "daemon": daemon}


def main() -> int:
    """Run the sections asked for, all by default."""
    chosen = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        print(f"no section {unknown[0]!r}; known: {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    report = Report("agent")
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        write_host(root)
        for name in chosen:
            SECTIONS[name](report, root)
    finally:
        shutil.rmtree(root)
    report.note(
        f"load of this machine meanwhile: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
        "threads that wake cold beside other work cost the daemon more than the passes themselves"
    )
    report.note("files in memory stand in for sysfs: the kernel's own cost of a counter is not in")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
