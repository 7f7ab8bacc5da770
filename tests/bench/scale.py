"""./run bench scale: diagnosis and advice on 24,576 NIC ports from the embedded store on disk.

3,072 hosts of 8 ports under 1,920 switches of three tiers, five minutes of counters; three
planted faults must be found. Each command runs as a user runs it, in a process of its own on two
cores: wall clock, CPU and peak memory are the operating system's figures. Every command runs once
to warm the caches of files and compiled code, which is noted, and then three times, of which the
median must hold; advice is asked for without packet search. `--pods N` for a smaller fabric (even;
96 pods are the whole), `--keep DIR` to use the store again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from collectors.model.entities import link
from collectors.wire.segment import segments
from tests.bench.packet_parts.report import Report
from tests.bench.scale_parts.clos import Clos
from tests.bench.scale_parts.telemetry import NARROW, STARVED, UNGUARDED, write_store

TUNER = [sys.executable, "-c", "from tuner.cli.main import app; app(prog_name='tuner')"]
RAIL = 2
CORES = 2
DIAGNOSE_S, SUGGEST_S, MEMORY_BYTES = 15.0, 20.0, 6e9


@dataclass(frozen=True)
class Run:
    """What one run of a command took, and its answer."""

    document: dict[str, Any]
    code: int
    wall_s: float
    cpu_s: float
    peak_bytes: float


def run(*args: str) -> Run:
    """Run a command of the tuner to its end."""
    began = time.perf_counter()
    with subprocess.Popen([*TUNER, *args, "--format", "json"], stdout=subprocess.PIPE) as process:
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode not in (0, 3, 4):
        raise SystemExit(f"tuner {args[0]} ended with {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return Run(json.loads(text), process.returncode, wall, cpu, usage.ru_maxrss * 1024.0)


def measure(report: Report, runs: int, name: str, limit_s: float, *args: str) -> dict[str, Any]:
    """Run a command several times, print best and median, check the median and all peaks."""
    first = run(*args)
    report.note(f"{name}, first run: wall {first.wall_s:.1f} s, CPU {first.cpu_s:.1f} s")
    made = [run(*args) for _ in range(runs)]
    walls, cpus = sorted(one.wall_s for one in made), sorted(one.cpu_s for one in made)
    report.note(
        f"{name}, {runs} runs: wall best {walls[0]:.1f} s, median {median(walls):.1f} s, worst "
        f"{walls[-1]:.1f} s; CPU best {cpus[0]:.1f} s, median {median(cpus):.1f} s; exit code "
        f"{made[-1].code}; load average {os.getloadavg()[0]:.1f} of {len(os.sched_getaffinity(0))}"
        " cores"
    )
    report.check(f"{name}, wall clock, median of {runs}", median(walls), limit_s, "<=", "s")
    peak = max(one.peak_bytes for one in (first, *made))
    report.check(f"{name}, peak memory", peak, MEMORY_BYTES, "<=", "bytes")
    return made[-1].document


def planted(clos: Clos) -> set[tuple[str, str]]:
    """Return (rule, place) of the planted faults."""

    def cable(host: int) -> str:
        netdev = clos.netdevs(host)[RAIL]
        return str(link(netdev, clos.leaf_port(netdev)))

    return {
        ("receiver-not-ready", str(clos.ports(STARVED)[RAIL])),
        ("mtu-mismatch", cable(NARROW)),
        ("pfc-mismatch", cable(UNGUARDED)),
    }


def main() -> None:
    """Write the store, ask it, print the table and the line for machines."""
    parser = argparse.ArgumentParser(prog="./run bench scale")
    parser.add_argument("--pods", type=int, default=96)
    parser.add_argument("--samples", type=int, default=30, help="passes of each host, every 10 s")
    parser.add_argument("--runs", type=int, default=3, help="of each command, beside the first")
    parser.add_argument("--keep", type=Path, help="folder of the store; used again where it is")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    report = Report("scale")
    clos = Clos(options.pods)
    print(f"{clos.hosts} hosts, {clos.hosts * 8} NIC ports, {len(clos.switches)} switches")
    with tempfile.TemporaryDirectory(prefix="fabric-scale-") as scratch:
        folder = options.keep or Path(scratch) / "store"
        if not segments(folder):
            began = time.process_time()
            values = write_store(folder, clos, options.samples, lambda _: None)
            report.note(
                f"store of {values} values written in {time.process_time() - began:.0f} s of CPU"
            )
        size = sum(path.stat().st_size for path in segments(folder))
        report.note(f"store on disk: {size / 1e6:.0f} MB in {len(segments(folder))} segments")
        source = ("--source", f"dir={folder}")
        document = measure(report, options.runs, "full diagnosis", DIAGNOSE_S, "diagnose", *source)
        found = {(finding["rule"], finding["place"]["entity"]) for finding in document["findings"]}
        report.check("planted faults found", len(planted(clos) & found), 3, ">=", "of 3")
        graver = [f for f in document["findings"] if f["severity"] != "info"]
        report.check("findings above information beside them", len(graver) - 3, 0, "<=", "findings")
        broken = [r["rule"] for r in document["rules"] if "does not break" in str(r["missing"])]
        report.check("rules that broke", len(broken), 0, "<=", "rules")
        advice = measure(
            report, options.runs, "suggest", SUGGEST_S, "suggest", "--budget", "0", *source
        )
        helped = {place for rec in advice["recommendations"] for place in rec["because"]}
        cured = [f for f in graver if f["id"] in helped]
        report.check("planted faults with advice", len(cured), 3, ">=", "of 3")
    report.finish()


if __name__ == "__main__":
    main()
