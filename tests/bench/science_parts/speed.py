"""The models' cost in CPU-seconds and memory, per unit of work."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from collectors.model.dcqcn import PAPER
from collectors.model.ecn import EcnThresholds
from tests.bench.science_parts.check import Check, at_most
from tuner.models.dcqcn_fluid import FluidCase, integrate
from tuner.models.ecmp_prediction import predict_rings
from tuner.models.fabric_graph import three_tier

CANDIDATES, SIMULATED_S, FLOWS, STEP_S = 1000, 20e-3, 64, 1e-6
NICS, SEEDS, QPS = 24576, 100, 8
LIMIT_CPU_S, LIMIT_GB = 60.0, 4.0


def checks(notes: list[str]) -> Iterator[Check]:
    """Yield the speed goals; adds the costs per unit of work to `notes`."""
    yield _candidates(notes)
    yield from _large_ring(notes)


def _candidates(notes: list[str]) -> Check:
    """Different thresholds, increase steps and per-flow delays in every candidate."""
    draw = np.random.default_rng(5)
    cases = []
    for _ in range(CANDIDATES):
        kmin = draw.uniform(20e3, 400e3)
        ecn = EcnThresholds(kmin, kmin * draw.uniform(2, 10), draw.uniform(0.01, 1))
        parameters = replace(PAPER, ai_bps=draw.uniform(5e6, 400e6), g=1 / draw.integers(16, 512))
        delays = tuple(draw.uniform(2e-6, 50e-6, FLOWS))
        cases.append(FluidCase(parameters, ecn, 100e9, delays, "fair_share"))
    integrate(cases[:1], 1e-4)  # compiles
    began = time.process_time()
    integrate(cases, SIMULATED_S, step_s=STEP_S)
    spent = time.process_time() - began
    each = spent / (CANDIDATES * SIMULATED_S / STEP_S * FLOWS) * 1e9
    notes.append(f"fluid model: {each:.1f} ns per flow and step ({STEP_S * 1e6:g} µs)")
    return at_most("1,000 DCQCN candidates x 20 ms x 64 flows", spent, LIMIT_CPU_S, "CPU-s")


def _large_ring(notes: list[str]) -> Iterator[Check]:
    """Random rank order, so that almost every hop climbs to the third tier."""
    graph = three_tier(24, 32, 32, 32, 32)
    assert graph.nics == NICS
    order = np.random.default_rng(2).permutation(NICS)
    predict_rings(three_tier(2, 2, 2, 2, 2), np.arange(8), QPS, [0])  # compiles
    began = time.process_time()
    got = predict_rings(graph, order, QPS, range(SEEDS))
    spent = time.process_time() - began
    flows = NICS * QPS * SEEDS
    notes.append(
        f"ring prediction: {spent / flows * 1e6:.2f} µs per flow and seed, routed and shared; "
        f"slowest hop p50 {got.quantiles()[1]:.3f} of line rate"
    )
    name = f"{NICS:,} NICs, 3 tiers, {SEEDS} seeds, {QPS} QPs"
    yield at_most(name, spent, LIMIT_CPU_S, "CPU-s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield at_most(f"{name}: memory of the process", peak, LIMIT_GB, "GB")
