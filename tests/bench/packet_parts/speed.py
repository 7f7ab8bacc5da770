"""Link packets per CPU-second: ours with the whole model, against plain UDP in stock ns-3."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import time
from pathlib import Path

from packet_parts.reference import HERE, Case, case_of, rows
from packet_parts.report import Report
from packet_parts.series import REFSIM

from simlab.packet.hpcc_files import format_topology
from simlab.packet.simulation import Simulation

ROUNDS = 3
LIBRARIES = ("applications", "internet", "traffic-control", "point-to-point", "network", "core")
# scenario of the table -> (least M link packets per CPU-second, simulated ns-3 µs)
GOALS = {
    "incast8_k100_400": (12.0, 4000),
    "incast32_k100_400": (0.0, 4000),
    "ls2x4_100G_perm_1qp": (8.0, 400),
    "fat320_alistorage_30": (4.0, 20),
}
STARS = ("incast8_k100_400", "incast32_k100_400")
# Quiet runs of the HPCC simulator on another day (refsim.md section 5); no row has k100_400.
QUIET = {
    "incast8_k100_400": "incast8_k400_1600",
    "incast32_k100_400": "incast32_k400_1600",
}


def build_ns3(folder: Path) -> Path | None:
    """Compile the yardstick; None if ns-3 is not installed."""
    program = folder / "ns3_udp"
    libraries = [f"-lns3-{name}" for name in LIBRARIES]
    argv = ["g++", "-O3", "-DNDEBUG", "-std=c++17", "-o", str(program), str(HERE / "ns3_udp.cc")]
    try:
        subprocess.run([*argv, *libraries], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return program


def ns3_rate(program: Path, folder: Path, case: Case, micros: int) -> float:
    """Return ns-3's link packets per CPU-second: every sender at its fair share, no losses."""
    topology = folder / "topology.txt"
    topology.write_text(format_topology(case.topology))
    hosts = len(case.topology.hosts)
    if case.incast:
        rows_ = [f"{i} {hosts - 1} {100e9 / (hosts - 1):.0f}" for i in range(hosts - 1)]
    else:
        rows_ = [f"{i} {(i + hosts // 2) % hosts} 20e9" for i in range(hosts)]
    flows = folder / "flows.txt"
    flows.write_text("\n".join(rows_) + "\n")
    done = subprocess.run(
        [str(program), str(topology), str(flows), str(micros)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    result = json.loads(done.stdout)
    return float(result["link_packets"] / result["cpu_s"])


def our_rate(fresh: Simulation, case: Case, seed: int) -> float:
    sim = fresh.reseeded(seed)
    if case.incast:
        sim.run(0.05)
    else:
        sim.run(1.0, stop_when_done=True)
    return sim.link_packets / sim.cpu_s


def speed(report: Report) -> None:
    """Alternate ours and ns-3, best of some rounds each; compiled before the clock starts."""
    report.title("speed: M link packets per CPU-second, ours and plain UDP in ns-3")
    quiet = _quiet()
    cases = {row["scenario"]: case_of(row) for row in rows() if row["sim"] == "hpcc"}
    began = time.process_time()
    warm = Simulation(
        *(getattr(cases["smoke_single"], n) for n in ("topology", "model", "traffic"))
    )
    warm.run(1.0, stop_when_done=True)
    report.line(
        f"  compiling or loading the compiled engine: {time.process_time() - began:.1f} CPU s"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build_ns3(folder)
        if program is None:
            report.note("ns-3 (libns3-dev, g++) is not installed: no ratios")
        for scenario, (least, micros) in GOALS.items():
            case = cases[scenario]
            fresh = Simulation(case.topology, case.model, case.traffic)
            ours, theirs = [], []
            for seed in range(1, ROUNDS + 1):
                report.progress(f"speed of {scenario}, round {seed} of {ROUNDS}")
                ours.append(our_rate(fresh, case, seed) / 1e6)
                if program is not None:
                    theirs.append(ns3_rate(program, folder, case, micros) / 1e6)
            spread = f"{min(ours):.3g} .. {max(ours):.3g}"
            if least:
                report.check(
                    f"speed {scenario}", max(ours), least, ">=", "M link packets/CPU-s",
                    spread=spread,
                )  # fmt: skip
            if theirs:
                ratio = max(ours) / max(theirs)
                report.line(f"  {scenario}: ns-3 UDP {max(theirs):.3f} M/s, ours {ratio:.0f} x")
                if scenario in STARS:
                    report.check(f"speed {scenario} over ns-3 UDP", ratio, 80, ">=", "x")
            old = quiet.get(QUIET.get(scenario, scenario))
            if old:
                report.line(
                    f"  {scenario}: HPCC simulator, recorded {old:.3f} M/s, "
                    f"ours {max(ours) / old:.0f} x"
                )


def _quiet() -> dict[str, float]:
    path = REFSIM / "speed_quiet.csv"
    if not path.exists():  # the figures of refsim.md section 5
        return {
            "incast8_k400_1600": 0.611, "incast32_k400_1600": 0.515, "ls2x4_100G_perm_1qp": 0.669,
            "fat320_alistorage_30": 0.273,
        }  # fmt: skip
    with path.open() as stream:
        return {
            row["scenario"]: float(row["link_tx_pkts"]) / float(row["cpu_run_s"]) / 1e6
            for row in csv.DictReader(stream)
            if row["sim"] == "hpcc"
        }
