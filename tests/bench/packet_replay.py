"""Our model with the random numbers and the order of events that the HPCC simulator had.

./run bench packet_replay [SCENARIO...]. Two simulators that draw from different generators can only
be compared by how their results scatter. Here ours takes the reference's draws, one by one, and
does what falls on one nanosecond in the reference's order (packet_parts/ns3_order.py): if both have
the same model, every flow ends at the same nanosecond and every sample of every queue is the same.
Then it draws other numbers, which shows how the reference's own results would have scattered: how
much of a deviation is the one draw that it published. `./run bench packet` runs this as a section.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, median, pstdev

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from packet_parts import ns3_order, ns3_words
from packet_parts.compare import measure
from packet_parts.reference import Case, case_of, rows
from packet_parts.report import Report
from packet_parts.series import completions, flow_times, queue_samples

from simlab.packet.results import port_table
from simlab.packet.simulation import Simulation

COUNTED = ("ecn_marked", "cnps", "cuts", "pause_frames", "drops", "link_packets")
TIMED = ("fct_ms_p50", "fct_ms_mean", "fct_ms_max")
SCATTERED = ("ls2x4_100G_perm_1qp", "ls2x4_100G_perm_4qp", "ls2x4_100G_ring_cross")
SHOWN = ("fct_ms_p50", "fct_ms_max", "ecn_marked", "cuts", "pause_frames")
OTHER_DRAWS = 100
MOST_DRAWN = ns3_words.MOST_DRAWS
LAST_DECIMAL = 1e-4  # of the table
PERIOD_NS, DATA_QUEUE = 2000, 3


def replay(report: Report, case: Case, fresh: Simulation, drawn: list[float]) -> None:
    """Run one scenario with the reference's numbers and check that all of it is equal."""
    label = f"{case.sim}/{case.name} replayed:"
    report.title(f"{case.sim}/{case.name}, with the reference's random numbers")
    sim = fresh.reseeded(1)
    ns3_words.begin(sim, np.array(drawn), _longest_s(case))
    samples = queue_samples(case)
    queues = {queue: _number(sim, queue) for queue in samples}
    if samples and not case.incast:
        period_s, until_s = PERIOD_NS * 1e-9, case.metrics["fct_ms_max"] * 1e-3
        sim.watch([(number, DATA_QUEUE) for number in queues.values()], period_s, until_s)
    found = measure(sim, case)
    found["cuts"] += ns3_words.late_cuts()
    known = [name for name in (*COUNTED, *TIMED) if name in case.metrics]
    differ = [name for name in known if abs(found[name] - case.metrics[name]) >= LAST_DECIMAL]
    report.check(
        f"{label} differ of {len(known)} totals", len(differ), 0, "<=", "",
        why=", ".join(differ),
    )  # fmt: skip
    report.check(f"{label} numbers drawn", ns3_words.drawn(), len(drawn), "<=", "")
    ours = flow_times(sim, case)
    theirs = dict(completions(case))
    if theirs:
        ends = sum(round(ours[key]) != round(fct) for key, fct in theirs.items())
        report.check(f"{label} other ns of {len(theirs)} flows", ends, 0, "<=", "")
    if samples:
        period_ns = 1000 if case.incast else PERIOD_NS
        taken = sim.samples()
        other = 0
        for column, queue in enumerate(queues):
            at = period_ns * np.arange(len(taken))
            there = np.array([samples[queue].get(time, 0) for time in at.tolist()])
            other += int((taken[:, column] != there).sum())
        report.check(f"{label} differ of {taken.size} queue samples", other, 0, "<=", "")


def _number(sim: Simulation, queue: tuple[int, int]) -> int:
    """Return the directed port of a switch's interface."""
    ports = port_table(sim)
    at = (ports["node"] == queue[0]) & (ports["interface"] == queue[1])
    return int(np.flatnonzero(at)[0])


def _longest_s(case: Case) -> float:
    """Return how far keys of events reach: the less, the more events have room at one ns."""
    return 2.09e-3 if case.name.startswith("fat320") else 0.06


def scatter(report: Report, case: Case, fresh: Simulation) -> None:
    """Show how the reference's results would have scattered with other random numbers."""
    report.title(f"{case.sim}/{case.name}: {OTHER_DRAWS} other draws, in the reference's order")
    runs = []
    for seed in range(OTHER_DRAWS):
        sim = fresh.reseeded(1)
        numbers = np.random.default_rng(seed).random(MOST_DRAWN)
        ns3_words.begin(sim, numbers, _longest_s(case))
        runs.append(measure(sim, case))
    for name in SHOWN:
        values = [run[name] for run in runs]
        middle, drawn = median(values), case.metrics[name]
        beyond = sum(value >= drawn if drawn > middle else value <= drawn for value in values)
        spread = f"{min(values):.6g} .. {max(values):.6g}"
        report.row(name, middle, drawn, spread, f"{beyond} of {len(runs)} at it or beyond")
        if name == "fct_ms_max":
            apart = abs(drawn - fmean(values)) / pstdev(values)
            report.note(
                f"{case.sim}/{case.name} {name}: the reference's {drawn:g} ms is one draw; others "
                f"give it {middle:.3f} ms ({spread}): {apart:.1f} standard deviations, "
                f"{beyond} of {len(runs)} there or beyond"
            )


def main() -> int:
    """Replay the scenarios of the HPCC simulator, or those named."""
    report = Report("packet_replay")
    wanted = sys.argv[1:]
    cases = {row["scenario"]: case_of(row) for row in rows() if row["sim"] == "hpcc"}
    unknown = [name for name in wanted if name not in cases]
    if unknown:
        print(f"no scenario {unknown[0]!r}; known: {', '.join(cases)}", file=sys.stderr)
        return 2
    ns3_order.install()
    chosen = [cases[name] for name in wanted or cases]
    before = {case.name: ns3_words.PER_NODE * case.topology.node_count for case in chosen}
    report.progress("drawing the reference's random numbers")
    numbers = ns3_words.streams(ns3_words.FIRST_STREAM, max(before.values()) + MOST_DRAWN)
    for case in chosen:
        report.progress(f"replaying {case.name}")
        fresh = Simulation(case.topology, case.model, case.traffic)
        first = before[case.name]
        replay(report, case, fresh, numbers[first : first + MOST_DRAWN])
        if case.name in SCATTERED and not wanted:
            scatter(report, case, fresh)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
