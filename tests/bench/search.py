"""Bench of the search: DCQCN, ECN and PFC settings for incasts and AllReduce, on unseen seeds.

Each case is recorded with NVIDIA's defaults in force, the twin is built from the recording, and
the search runs on the twin alone. Its answer and every preset are then scored on the case itself
with other seeds, and N, RTT and burst drawn within ±30 %, the same for all.

The check of a case: the median of what was found is not below that of the best preset. Which one
that is, is told by the seeds of the search; the median of every preset on the unseen seeds stands
beside it, so that a preset that is best by luck of these seeds is seen, too. A difference below
two standard errors of the difference of the medians (bootstrap over the seeds, both on the same)
is a tie; its width is printed (a preset whose score hangs on N makes it wide), and so are the
lowest scores of both. The settings found are written in the reference simulators' file format and
read back.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from collectors.model.dcqcn import NVIDIA_FIRMWARE
from collectors.model.ecn import EcnThresholds
from simlab.packet.collectives import Collective, Kind, collective
from simlab.packet.config import Config, FlowFile, Plan, Record, TopologyFile
from simlab.packet.fabric import run_fabric
from simlab.packet.hpcc_files import format_config, format_flows, format_topology, parse_config
from simlab.packet.parameters import CongestionControl, EcnAt, Form, Model, SwitchModel
from simlab.packet.topology import Topology, leaf_spine, star
from simlab.packet.traffic import Traffic
from simlab.packet.workloads import incast
from tuner.advice.search.candidate import Candidate, applied
from tuner.advice.search.objective import Weights, ideal_seconds, score
from tuner.advice.search.presets import PRESETS
from tuner.advice.search.search import Found, search
from tuner.advice.twin.budget import price_s
from tuner.advice.twin.replay import replay
from tuner.advice.twin.twin import build_twin
from tuner.fabric.graph import build_fabric
from tuner.store.sources import open_window

GBPS = 1e9
RATES = (100 * GBPS, 400 * GBPS, 800 * GBPS)
SENDERS = (8, 32, 128)
RUNNING = EcnThresholds(150e3, 1500e3, 1.0)
RUNS = "nvidia"  # the preset that these are
LEAF = 4  # leaves, and hosts of each
JOB_S = 1e-3  # of ideal time, an AllReduce
INCAST_S, SENDER_S = 2e-3, 5e-5  # an incast, by sender: long enough for DCQCN to act on each
SPREAD = 0.3
BUDGET_S = 10.0
LEAST, MOST = 160, 1000  # runs of a search, whatever the budget
PROPOSALS = 64
UNSEEN = 15
RESAMPLED = 2000


@dataclass(frozen=True)
class Case:
    """A fabric and its job; `watch`: the egress ports that matter, `rtt_s`: of its paths."""

    name: str
    topology: Topology
    rate_bps: float
    senders: int  # 0: AllReduce over all hosts
    watch: tuple[int, ...]

    def traffic(self, *, flows: float = 1.0, burst: float = 1.0) -> Traffic:
        """Return the job with so many times the senders' queue pairs and bytes."""
        size = self.seconds * self.rate_bps / 8 * burst
        if not self.senders:
            hosts = self.topology.hosts
            count = len(hosts)
            ranks = tuple(h for start in range(LEAF) for h in hosts[start::LEAF])  # all hops cross
            whole = round(size * count / 2 / (count - 1))
            load = Collective(
                kind=Kind.ALL_REDUCE, ranks=ranks, size_bytes=whole, qps=max(1, round(4 * flows))
            )
            return collective(load)
        wanted = max(2, round(self.senders * flows))
        chosen = [i % self.senders for i in range(wanted)]
        return incast(chosen, self.senders, round(size / wanted))

    def plan(self, **change: float) -> Plan:
        """Return the case with NVIDIA's defaults, N, RTT and burst times these factors."""
        rtt = change.pop("rtt", 1.0)
        cables = tuple(replace(c, delay_s=c.delay_s * rtt) for c in self.topology.cables)
        topology = replace(self.topology, cables=cables)
        model = Model(
            congestion=CongestionControl(form=Form.FIRMWARE, dcqcn=NVIDIA_FIRMWARE),
            switch=SwitchModel(
                ecn=(EcnAt(rate_bps=self.rate_bps, thresholds=RUNNING),), headroom_packets=6.0
            ),
        )
        config = Config(
            topology=TopologyFile(path=f"{self.name}.topology"),
            workload=FlowFile(path=f"{self.name}.flows"),
            duration_s=8 * self.seconds,
            name=self.name,
            telemetry=Record(interval_s=self.seconds / 2, switch_refresh_s=self.seconds / 2),
        )
        return Plan(config, topology, model, self.traffic(**change), ())

    @property
    def seconds(self) -> float:
        """Ideal time of the job."""
        return max(INCAST_S, SENDER_S * self.senders) if self.senders else JOB_S

    @property
    def rtt_s(self) -> float:
        """Base round trip of the longest path: two ways and one packet a hop."""
        hops = 2 if self.senders else 4
        return hops * (2 * self.topology.cables[0].delay_s + 4178 * 8 / self.rate_bps)


def cases() -> Iterator[Case]:
    """Yield the cases of the issue."""
    for rate in RATES:
        speed = f"{rate / GBPS:.0f}G"
        for senders in SENDERS:
            made = star(senders + 1, rate_bps=rate)
            yield Case(f"incast-{senders}-{speed}", made, rate, senders, (2 * senders + 1,))
        made = leaf_spine(LEAF, 2, LEAF, rate_bps=rate)  # half the hosts' rate upwards
        yield Case(f"allreduce-16-{speed}", made, rate, 0, (1, 9, 17, 25))


def found_for(case: Case, seed: int, budget_s: float) -> Found:
    """Return what the search finds from the telemetry of the case.

    It is not held to small steps here: the presets that it is compared with are not, either.
    """
    with tempfile.TemporaryDirectory() as folder:
        run_fabric(case.plan(), record=Path(folder) / "r", start_ns=1_700_000_000_000_000_000)
        window, _ = open_window(f"dir={folder}/r", "", "")
        whole_s = case.plan().config.duration_s
        twin = build_twin(window, build_fabric(window), most_hosts=256, slice_s=whole_s)
    price = price_s(twin.plan, twin.run(seed=seed).events)
    runs = max(LEAST, min(MOST, round(budget_s / price)))
    return search(twin, runs=runs, proposals=PROPOSALS, seed=seed, step=math.inf)


def objective(case: Case, candidate: Candidate | None, rng: Random, seed: int) -> float:
    """Return the score of a candidate (None: what runs) on the case, varied by chance."""
    change = {name: rng.uniform(1 - SPREAD, 1 + SPREAD) for name in ("flows", "rtt", "burst")}
    plan = case.plan(**change)
    if candidate is not None:
        plan = applied(plan, candidate, case.rate_bps)
    run = replay(plan, seed=seed, watch=case.watch)
    rtt = case.rtt_s * change["rtt"]
    return score(run, ideal_seconds(plan), rtt, case.rate_bps, Weights()).total


def scores(case: Case, candidate: Candidate | None, seed: int) -> list[float]:
    """Return the objective on unseen seeds, the same for every candidate."""
    return [
        objective(case, candidate, Random(f"{case.name} {seed} {i}"), 1000 * seed + i)
        for i in range(UNSEEN)
    ]


def export(case: Case, chosen: Candidate, folder: Path) -> None:
    """Write topology, flows and configuration for the reference simulators, and read them back."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = applied(case.plan(), chosen, case.rate_bps)
    text = format_config(plan.model, case.name)
    (folder / f"{case.name}.topology").write_text(format_topology(plan.topology))
    (folder / f"{case.name}.flows").write_text(format_flows(plan.traffic))
    (folder / f"{case.name}.config").write_text(text)
    back = parse_config(text, where=case.name)
    if chosen.ecn is not None and back.switch.ecn[0].thresholds != chosen.ecn:
        raise SystemExit(f"{case.name}: exported thresholds read back as {back.switch.ecn}")


@dataclass(frozen=True)
class Row:
    """What a case came to: scores on the unseen seeds, by candidate in the same order."""

    case: str
    found: Found
    ours: list[float]
    leave: list[float]
    presets: dict[str, list[float]]

    @property
    def best(self) -> str:
        """The preset that is best on the seeds of the search; NVIDIA's is what runs."""
        name = self.found.incumbent.candidate.name
        return RUNS if name == "leave it" else name

    @property
    def tie(self) -> float:
        """The difference to the best preset that chance may make, as a share of its median."""
        ours, best = np.array(self.ours), np.array(self.presets[self.best])
        picked = np.random.default_rng(1).integers(len(ours), size=(RESAMPLED, len(ours)))
        differences = np.median(ours[picked], axis=1) - np.median(best[picked], axis=1)
        return 2 * float(differences.std()) / float(np.median(best))

    @property
    def ratio(self) -> float:
        """Our median over that of the best preset."""
        return median(self.ours) / median(self.presets[self.best])

    @property
    def verdict(self) -> str:
        """How ours stands to the best preset."""
        if abs(self.ratio - 1) <= self.tie:
            return "tie"
        return "better" if self.ratio > 1 else "below"


def main() -> int:
    """Search, score, print, and end with the goals as one JSON object."""
    parser = argparse.ArgumentParser(description="search against presets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="of one search, seconds")
    parser.add_argument("--case", action="append", help="only these, by the start of the name")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "search-export")
    options = parser.parse_args()
    began, cpu = time.monotonic(), time.process_time()
    rows: list[Row] = []
    for case in cases():
        if options.case and not any(case.name.startswith(text) for text in options.case):
            continue
        found = found_for(case, options.seed, options.budget)
        best = found.best.candidate
        unseen = 100 + options.seed
        presets = {
            preset.name: scores(
                case,
                Candidate("", preset.ecn(case.rate_bps), preset.parameters(case.rate_bps), 1 / 8),
                unseen,
            )
            for preset in PRESETS
        }
        row = Row(case.name, found, scores(case, best, unseen), scores(case, None, unseen), presets)
        export(case, best, options.out)
        rows.append(row)
        show(row, first=len(rows) == 1)
    took = f"{time.monotonic() - began:.0f} s, {time.process_time() - cpu:.0f} CPU-s"
    notes = [
        f"seed {options.seed}, budget {options.budget:g} s a search, {UNSEEN} unseen seeds, {took}",
        f"settings in the reference simulators' format: {options.out}",
        *(f"{row.case}: {row.verdict}; {told(row.found.best.candidate)}" for row in rows),
    ]
    print(json.dumps({"bench": "search", "checks": goals(rows), "notes": notes}))
    return 0


def told(chosen: Candidate) -> str:
    """Return a candidate in one line."""
    if chosen.ecn is None or chosen.dcqcn is None:
        return f"{chosen.name}: DCQCN off, alpha {chosen.alpha:g}"
    ecn, nic = chosen.ecn, chosen.dcqcn
    return (
        f"{ecn.kmin_bytes / 1e3:.0f}/{ecn.kmax_bytes / 1e3:.0f} KB {ecn.pmax_ratio:.2f}, "
        f"AI {nic.ai_bps / 1e6:.0f} HAI {nic.hai_bps / 1e6:.0f} Mb/s, "
        f"T {nic.increase_timer_s * 1e6:.0f} cut {nic.cut_window_s * 1e6:.0f} us, g {nic.g:.4f}, "
        f"alpha {chosen.alpha:g}"
    )


def show(row: Row, *, first: bool) -> None:
    """Print one case: ours, leaving it, and the presets from the best down."""
    if first:
        print(
            "median objective (lowest) on unseen seeds; tie: two standard errors of the\n"
            "difference of medians to *, the best preset on the seeds of the search\n"
            f"{'case':17} runs {'found':>13} {'':6} {'tie':>6} {'*':>13} {'leave':>6}  presets"
        )
    medians = {name: median(values) for name, values in row.presets.items()}
    text = "  ".join(
        f"{name}{'*' if name == row.best else ''} {medians[name]:.3f}"
        for name in sorted(medians, key=lambda name: -medians[name])
    )
    ours, best = (
        f"{median(values):.3f} ({min(values):.3f})" for values in (row.ours, row.presets[row.best])
    )
    print(
        f"{row.case:17} {row.found.evaluations:4} {ours} {row.verdict:6} {row.tie:6.2%} {best} "
        f"{median(row.leave):6.3f}  {text}",
        flush=True,
    )


def goals(rows: list[Row]) -> list[dict[str, object]]:
    """Return one check a case: ours against the best preset of that case; and one of all."""
    checks = [
        _check(
            f"{row.case} against {row.best}",
            median(row.ours),
            median(row.presets[row.best]),
            1 - row.tie,
        )
        for row in rows
    ]
    if rows:
        means = {
            preset.name: sum(median(row.presets[preset.name]) for row in rows) / len(rows)
            for preset in PRESETS
        }
        best = max(means, key=lambda name: means[name])
        ours = sum(median(row.ours) for row in rows) / len(rows)
        checks.append(_check(f"mean against {best}, best preset everywhere", ours, means[best], 1))
    return checks


def _check(name: str, ours: float, reference: float, limit: float) -> dict[str, object]:
    return {
        "name": name, "ours": ours, "reference": reference, "ratio": ours / reference,
        "op": ">=", "limit": limit, "unit": "objective",
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
