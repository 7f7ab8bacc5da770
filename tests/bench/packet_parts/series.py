"""The reference's whole series next to ours, where its files are present: queues, flows, links."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from packet_parts.reference import HERE, Case
from packet_parts.report import Report

from simlab.packet.hpcc_files import read_text
from simlab.packet.results import flow_table, port_table
from simlab.packet.routing import host_address
from simlab.packet.simulation import Simulation

REFSIM = HERE.parents[2].parent / "shared/refsim"
PERCENTILES = (5, 25, 50, 75, 95, 99)
LINK_BOUND = 0.01
Ends = tuple[int, int, int, int]  # source, destination and both UDP ports
Queue = tuple[int, int]  # a switch and its port


def series(report: Report, case: Case, sim: Simulation) -> None:
    """Compare one run of ours with every series of the reference's that is there."""
    folder = REFSIM / case.sim / case.name
    label = f"{case.sim}/{case.name}"
    samples = queue_samples(case)
    if sim.watched and samples:
        _queue(report, sim.samples()[:, 0], samples)
    _flows(report, case, sim)
    if (folder / "links.csv").exists():
        _links(report, label, sim, folder / "links.csv")


def _queue(report: Report, ours: NDArray[np.int64], samples: dict[Queue, dict[int, int]]) -> None:
    theirs = np.zeros(50_000)
    for of_queue in samples.values():
        for at_ns, size in of_queue.items():
            if at_ns // 1000 < len(theirs):
                theirs[at_ns // 1000] = size
    ours = ours[: len(theirs)]
    half = len(theirs) // 2
    mine, other = (np.percentile(x[half:], PERCENTILES) / 1000 for x in (ours, theirs))
    report.line(f"  steady queue, percentiles {PERCENTILES}: {_kb(mine)} / {_kb(other)} KB")
    grid = np.sort(np.concatenate((ours[half:], theirs[half:])))
    shares = [np.searchsorted(np.sort(x[half:]), grid, "right") / half for x in (ours, theirs)]
    apart = float(np.abs(shares[0] - shares[1]).max())
    report.line(f"  steady queue, largest distance of the two distributions: {apart:.3f}")
    first = [x[:2000].reshape(20, 100).mean(axis=1) / 1000 for x in (ours, theirs)]
    report.line(f"  first 2 ms, 100 µs means: {_kb(first[0][:8])} ... / {_kb(first[1][:8])} ... KB")


def _kb(values: NDArray[np.float64]) -> str:
    return " ".join(f"{value:.0f}" for value in values)


def _flows(report: Report, case: Case, sim: Simulation) -> None:
    """Compare every flow's completion time with the reference's of the same flow."""
    ours = flow_times(sim, case)
    ratios = np.array([ours[key] / fct for key, fct in completions(case) if key in ours])
    if not len(ratios):
        return
    apart = np.abs(ratios - 1)
    within = ", ".join(
        f"{(apart <= limit).mean():.1%} within {limit:.1%}" for limit in (1e-3, 0.01, 0.05)
    )
    report.line(
        f"  {len(ratios)} flows one by one: {within}; median {np.median(ratios) - 1:+.2%}, "
        f"total {ratios.mean() - 1:+.2%}"
    )


def flow_times(sim: Simulation, case: Case) -> dict[Ends, float]:
    """Return our completion times (ns) by flow."""
    ours = {}
    for index, seconds in enumerate(flow_table(sim)["fct_s"].tolist()):
        one = case.traffic.connections[case.traffic.messages[index].connection]
        ours[one.src, one.dst, one.sport, one.dport] = seconds * 1e9
    return ours


def completions(case: Case) -> Iterator[tuple[Ends, float]]:
    """Yield the reference's completion times (ns) by flow; none where its files are not."""
    paths = [REFSIM / case.sim / case.name / name for name in ("fct.txt", "fct.txt.gz")]
    nodes = {host_address(host): host for host in case.topology.hosts}
    for line in (line for path in paths if path.exists() for line in read_text(path).splitlines()):
        src, dst, sport, dport, _size, _start, fct = line.split()[:7]
        if case.sim == "hpcc":  # addresses in hexadecimal; conweave has node numbers
            ends = (nodes[int(src, 16)], nodes[int(dst, 16)])
        else:
            ends = (int(src), int(dst))
        yield (*ends, int(sport), int(dport)), float(fct)


def queue_samples(case: Case) -> dict[Queue, dict[int, int]]:
    """Return the reference's samples above 0 by queue and ns; none where its files are not."""
    path = REFSIM / case.sim / case.name / "queue_ts.csv.gz"
    found: dict[Queue, dict[int, int]] = {}
    if path.exists():
        with gzip.open(path, "rt") as stream:
            for row in csv.DictReader(stream):
                queue = found.setdefault((int(row["switch"]), int(row["port"])), {})
                queue[int(row["t_ns"])] = int(row["egress_bytes"])
    return found


def _links(report: Report, label: str, sim: Simulation, path: Path) -> None:
    """The same paths must put the same bytes on every link."""
    ports = port_table(sim)
    keys = zip(ports["node"].tolist(), ports["interface"].tolist(), strict=True)
    sent = dict(zip(keys, ports["tx_bytes"].tolist(), strict=True))
    worst, links = 0.0, 0
    with path.open() as stream:
        for row in csv.DictReader(stream):
            theirs = float(row["tx_bytes"])
            ours = sent[int(row["switch"]), int(row["port"])]
            links += 1
            worst = max(worst, abs(ours - theirs) / max(theirs, 1.0))
    report.check(
        f"{label} bytes on each of {links} links", worst, LINK_BOUND, "<=", "relative",
        ours=worst, reference=0.0,
    )  # fmt: skip
