"""Our results next to the reference simulators', metric by metric."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import fmean, median, pstdev

import numpy as np
from packet_parts.reference import Case, case_of, rows
from packet_parts.report import Report
from packet_parts.series import series

from simlab.packet import layout as at
from simlab.packet.results import flow_table, jain, qp_rows, qp_total, summary, watermarks
from simlab.packet.simulation import Simulation

SEEDS = range(1, 11)
MOST_SEEDS, SCATTER_CPU_S = 100, 40.0  # of a scenario with a metric out of its bound
END_S = 49.999999e-3
# metric -> largest relative deviation; Jain's is absolute
BOUNDS = {
    "goodput_gbps": 0.01,
    "queue_mean_kb": 0.10,
    "queue_p99_kb": 0.10,
    "ecn_marked": 0.15,
    "cuts": 0.15,
    "pause_frames": 0.15,
    "fct_ms_p50": 0.05,
    "fct_ms_max": 0.05,
    "slowdown_p50": 0.05,
    "slowdown_p95": 0.05,
    "single_flow_ns": 0.001,
}
SIGNS = ("drops", "pause_frames")


def measure(sim: Simulation, case: Case) -> dict[str, float]:
    """Run one seed and return the metrics that the reference has."""
    found: dict[str, float] = {}
    if case.incast:
        receiver = case.topology.node_count - 2
        sim.watch([(2 * receiver + 1, 3)], 1e-6, 0.05)
        sim.run(END_S / 2)
        half = qp_rows(sim)[:, at.QP_UNACKED].copy()
        sim.run(END_S)
        queue = sim.samples()[:, 0] / 1000
        steady = queue[len(queue) // 2 :]
        goodput = (qp_rows(sim)[:, at.QP_UNACKED] - half) * 8000 / (END_S / 2) / 1e9
        found |= {
            "queue_mean_kb": float(steady.mean()),
            "queue_p99_kb": float(np.percentile(steady, 99)),
            "queue_max_kb": float(queue.max()),
            "goodput_gbps": float(goodput.sum()),
            "jain": jain(goodput),
        }
    else:
        sim.run(1.0, stop_when_done=True)
        flows = flow_table(sim)
        fct = np.sort(flows["fct_s"]) * 1e3
        found |= {
            "fct_ms_p50": float(fct[len(fct) // 2 - (len(fct) % 2 == 0)] + fct[len(fct) // 2]) / 2,
            "fct_ms_mean": float(fct.mean()),
            "fct_ms_max": float(fct.max()),
            "single_flow_ns": float(fct[0] * 1e6),
        }
        for percent in (50, 95, 99):
            found[f"slowdown_p{percent}"] = float(np.percentile(flows["slowdown"], percent))
    total = summary(sim)
    found |= {
        "ecn_marked": total.ecn_marked,
        "cnps": qp_total(sim, "cnp_handled"),
        "cuts": total.cuts,
        "pause_frames": total.pause_frames,
        "drops": total.drops,
        "link_packets": total.link_packets,
        "queue_max_kb": found.get("queue_max_kb", watermarks(sim).max() / 1000),
    }
    return found


def compare(report: Report, only: str = "") -> None:
    """Print every scenario and add its checks."""
    wanted = [row for row in rows() if only in f"{row['sim']}/{row['scenario']}"]
    for number, row in enumerate(wanted, start=1):
        label = f"{row['sim']}/{row['scenario']}"
        case = case_of(row)
        fresh = Simulation(case.topology, case.model, case.traffic)
        seeds = (1,) if case.name == "smoke_single" else SEEDS
        runs = []
        first = fresh
        for seed in seeds:
            report.progress(f"{number} of {len(wanted)} scenarios: {label}, seed {seed}")
            sim = fresh.reseeded(seed)
            runs.append(measure(sim, case))
            first = sim if seed == 1 else first
        scatter = runs
        if any(_outside(key, ref, [run[key] for run in runs]) for key, ref in case.metrics.items()):
            report.progress(f"{label} is out of a bound: more seeds, to see how it scatters")
            scatter = [*runs, *_more(fresh, case)]
        report.title(f"{label} (median of {len(runs)} seeds, least and most)")
        for metric, reference in case.metrics.items():
            values = sorted(run[metric] for run in runs)
            why = _reason(reference, [run[metric] for run in scatter])
            _judge(report, label, metric, reference, values, why)
        series(report, case, first)


def _outside(metric: str, reference: float, values: list[float]) -> bool:
    if metric not in BOUNDS or not reference:
        return False
    return abs(median(values) / reference - 1) > BOUNDS[metric]


def _more(fresh: Simulation, case: Case) -> Iterator[dict[str, float]]:
    """Run further seeds, as many as their time allows."""
    began = time.process_time()
    for seed in range(len(SEEDS) + 1, MOST_SEEDS + 1):
        if time.process_time() - began > SCATTER_CPU_S:
            return
        yield measure(fresh.reseeded(seed), case)


def _judge(
    report: Report, label: str, metric: str, reference: float, values: list[float], why: str
) -> None:
    ours = median(values)
    spread = f"{values[0]:.6g} .. {values[-1]:.6g}"
    if metric == "jain":
        report.check(
            f"{label} {metric}", abs(ours - reference), 0.01, "<=", "", ours=ours,
            reference=reference, spread=spread,
        )  # fmt: skip
    elif metric in BOUNDS and reference:
        report.check(
            f"{label} {metric}", abs(ours / reference - 1), BOUNDS[metric], "<=", "relative",
            ours=ours, reference=reference, spread=spread,
            why=why,
        )  # fmt: skip
    elif metric not in SIGNS:
        report.row(f"{metric}", ours, reference, spread, "")
    if metric in SIGNS:
        same = (ours > 0) == (reference > 0)
        report.check(
            f"{label} {metric} on the same side of zero", int(same), 1, ">=", "", ours=ours,
            reference=reference, spread=spread,
        )  # fmt: skip


def _reason(reference: float, values: list[float]) -> str:
    """Say where the reference's one run lies in the scatter of our seeds."""
    middle = median(values)
    beyond = sum(
        value >= reference if reference > middle else value <= reference for value in values
    )
    apart = abs(reference - fmean(values)) / max(pstdev(values), 1e-9)
    place = f"{apart:.1f} standard deviations of our {len(values)} seeds off"
    among = f"{beyond} of them lie there" if beyond else "beyond them all"
    return (
        f"the reference's one run is {place}: {among}. Section replay runs its random numbers: if "
        "there all is equal, this is what they happened to be"
    )


def truncation(report: Report) -> None:
    """Show what the reference's 1 ns clock does: the same case with exact time."""
    report.title("without the reference's truncation to 1 ns")
    for row in rows():
        if row["sim"] == "hpcc" and row["scenario"] in ("smoke_single", "incast8_k100_400"):
            case = case_of(row, truncate_ns=False)
            found = measure(Simulation(case.topology, case.model, case.traffic), case)
            for metric in ("single_flow_ns", "goodput_gbps", "queue_mean_kb"):
                if metric in case.metrics:
                    report.row(metric, found[metric], case.metrics[metric], "exact time", "")
