"""The reference simulators' results as a compact table, and their inputs made again by us."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from collectors.model.dcqcn import DcqcnParameters, profile
from collectors.model.ecn import EcnThresholds
from simlab.packet.compat import conweave_model, hpcc_model
from simlab.packet.parameters import EcnAt, Model
from simlab.packet.topology import Cable, Topology, leaf_spine, star
from simlab.packet.traffic import Traffic
from simlab.packet.workloads import Flow, traffic_of_flows

HERE = Path(__file__).parent
US = 1e-6
MBPS = 1e6
FOREVER_BYTES = 2_000_000_000
BEGIN_S = 2.0


@dataclass(frozen=True)
class Case:
    """One reference run: who ran it, its inputs and what it measured."""

    sim: str
    name: str
    metrics: dict[str, float]
    topology: Topology
    traffic: Traffic
    model: Model

    @property
    def incast(self) -> bool:
        return self.name.startswith("incast")


def fat320() -> Topology:
    """320 hosts at 100G under 20 ToR, 20 aggregation and 16 core switches at 400G."""
    cables = [Cable(host, 320 + host // 16, 100e9, 1e-6) for host in range(320)]
    cables += [
        Cable(320 + pod * 4 + tor, 340 + pod * 4 + agg, 400e9, 1e-6)
        for pod in range(5)
        for tor in range(4)
        for agg in range(4)
    ]
    cables += [
        Cable(340 + pod * 4 + agg, 360 + agg * 4 + core, 400e9, 1e-6)
        for pod in range(5)
        for agg in range(4)
        for core in range(4)
    ]
    tier = (0,) * 320 + (1,) * 20 + (2,) * 20 + (3,) * 16
    return Topology(376, tuple(range(320, 376)), tuple(cables), tier, name="fat320")


def topology_of(name: str) -> Topology:
    if name.startswith("incast"):
        return star(int(name.split("_", maxsplit=1)[0].removeprefix("incast")) + 1)
    if name.startswith("ls2x4"):
        return leaf_spine(2, 4, 8)
    if name.startswith("leafspine128"):
        return leaf_spine(8, 8, 16)
    return fat320() if name.startswith("fat320") else star(3)


def _ring(order: list[int], size: int) -> list[Flow]:
    return [
        Flow(src=a, dst=b, size_bytes=size)
        for a, b in zip(order, order[1:] + order[:1], strict=True)
    ]


def as_read(start_s: float) -> float:
    """Return a start as the reference's clock has it, from its file: half of them are 1 ns less.

    The file has 9 decimals; 2.002 as a double is a little less, and is cut to 2,001,999,999 ns.
    """
    read = Fraction(float(f"{BEGIN_S + start_s:.9f}"))
    return (int(read * 10**9) - round(BEGIN_S * 1e9)) * 1e-9


def flows_of(name: str) -> list[Flow]:
    """Return the flows of a scenario in the order of the reference's file."""
    if name.startswith("incast"):
        count = int(name.split("_", maxsplit=1)[0].removeprefix("incast"))
        gap = 2e-3 if "stag" in name else 0.0
        return [
            Flow(src=i, dst=count, size_bytes=FOREVER_BYTES, start_s=as_read(i * gap))
            for i in range(count)
        ]
    if "perm" in name:
        qps = int(name[-3])
        size = 25_000_000 // qps
        return [
            Flow(src=i, dst=(i + 8) % 16, size_bytes=size, dport=100 + qp)
            for i in range(16)
            for qp in range(qps)
        ]
    if "ring_cross" in name:
        return _ring([host for pair in zip(range(8), range(8, 16), strict=True) for host in pair],
                     31_457_280)  # fmt: skip
    if "ring_natural" in name:
        return _ring(list(range(16)), 31_457_280)
    if name == "smoke_single":
        return [Flow(src=0, dst=2, size_bytes=10_000_000)]
    with np.load(HERE / "poisson_flows.npz") as stored:
        columns = [stored[f"{name}.{key}"].tolist() for key in ("src", "dst", "size", "start_ns")]
    return [
        Flow(src=src, dst=dst, size_bytes=size, start_s=as_read(start * 1e-9))
        for src, dst, size, start in zip(*columns, strict=True)
    ]


def numbered(flows: list[Flow], sim: str) -> list[Flow]:
    """Give the flows the UDP ports that the simulator gives them."""
    pairs: dict[tuple[int, int], int] = {}
    sources: dict[int, int] = {}
    targets: dict[int, int] = {}
    result = []
    for flow in flows:
        earlier = pairs.get((flow.src, flow.dst), 0)
        dport = flow.dport if flow.dport != 4791 else 100
        if sim == "conweave":
            earlier, dport = sources.get(flow.src, 0), 100 + targets.get(flow.dst, 0)
        pairs[flow.src, flow.dst] = pairs.get((flow.src, flow.dst), 0) + 1
        sources[flow.src] = sources.get(flow.src, 0) + 1
        targets[flow.dst] = targets.get(flow.dst, 0) + 1
        result.append(replace(flow, sport=10000 + earlier, dport=dport))
    return result


def parameters_of(row: dict[str, Any]) -> DcqcnParameters:
    return replace(
        profile("hpcc", 100e9),
        g=row["g"],
        alpha_period_s=row["alpha_us"] * US,
        cut_window_s=row["window_us"] * US,
        increase_timer_s=row["timer_us"] * US,
        ai_bps=row["ai_mbps"] * MBPS,
        hai_bps=row["hai_mbps"] * MBPS,
        min_rate_bps=row["min_mbps"] * MBPS,
    )


def thresholds_of(row: dict[str, Any]) -> tuple[EcnAt, ...]:
    """HPCC scales the thresholds with the port's speed, conweave does not."""
    entries = []
    for rate in (100e9, 200e9, 400e9):
        scale = 1000 * (rate / 100e9 if row["sim"] == "hpcc" else 1)
        limits = EcnThresholds(row["kmin_kb"] * scale, row["kmax_kb"] * scale, row["pmax"])
        entries.append(EcnAt(rate_bps=rate, thresholds=limits))
    return tuple(entries)


def case_of(row: dict[str, Any], *, truncate_ns: bool = True) -> Case:
    make = hpcc_model if row["sim"] == "hpcc" else conweave_model
    model = make(
        parameters_of(row), thresholds_of(row), buffer_mib=row["buffer_mib"],
        truncate_ns=truncate_ns,
    )  # fmt: skip
    name = row["scenario"]
    traffic = traffic_of_flows(numbered(flows_of(name), row["sim"]), name=name)
    return Case(row["sim"], name, row["metrics"], topology_of(name), traffic, model)


def rows() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((HERE / "reference.json").read_text())
    return loaded
