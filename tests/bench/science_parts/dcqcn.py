"""DCQCN: fixed points, phase margins, fluid runs, convergence, recovery, two round trips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from collectors.model.dcqcn import NVIDIA_FIRMWARE, PAPER
from collectors.model.ecn import EcnThresholds
from tests.bench.science_parts.check import Check, between, near, same, within
from tuner.models.dcqcn_convergence import convergence, recovery_s
from tuner.models.dcqcn_fixed_point import FluidConstants, fixed_point, marking_closed_form
from tuner.models.dcqcn_fluid import FluidCase, integrate_case
from tuner.models.dcqcn_stability import (
    critical_delay_s,
    linearise_as_published,
    phase_margin,
)

DEPLOYED = EcnThresholds(5e3, 200e3, 0.01)
MATLAB = EcnThresholds(5e3, 2000e3, 0.1)  # same slope, saturates ten times as high

# Gb/s, N, closed form, exact p*, q* in KB (None: saturated); computed with the paper's constants.
FIXED = (
    (40, 2, 9.25e-4, 7.77e-4, 20.2), (40, 4, 2.32e-3, 1.89e-3, 41.8),
    (40, 10, 7.85e-3, 6.03e-3, 122.6), (40, 16, 1.47e-2, 1.09e-2, None),
    (40, 64, 9.31e-2, 5.91e-2, None), (100, 8, 1.73e-3, 1.42e-3, 32.7),
    (100, 32, 1.09e-2, 8.2e-3, 165), (400, 8, 2.76e-4, 2.39e-4, 9.7),
    (400, 128, 1.09e-2, 8.2e-3, 165),
)  # fmt: skip

# CoNEXT'16, figures/pm_*.txt: Gb/s, AI Mb/s, Kmax KB, delay µs → phase margins by N.
MARGINS = {
    (40, 40, 200, 0): {2: 26.624, 10: 4.7564, 20: 9.6336, 40: 27.368, 64: 43.472, 100: 56.48},
    (40, 40, 200, 50): {
        2: 8.2626, 4: -0.75215, 6: -4.9328, 8: -6.4319, 10: -6.5844, 14: -5.1236, 20: -0.95129,
        22: 0.67343, 30: 7.5322, 40: 15.73, 50: 22.546, 64: 29.548, 80: 35.006, 100: 39.811,
    },
    (40, 40, 200, 100): {
        2: -10.099, 10: -17.925, 20: -11.536, 40: 4.0933, 64: 15.625, 100: 23.142,
    },
    (40, 10, 200, 50): {
        2: 39.145, 4: 39.061, 10: 12.613, 22: 4.2528, 40: 8.2587, 64: 17.871, 100: 29.215,
    },
    (40, 10, 1000, 50): {
        2: 62.877, 4: 63.793, 10: 53.724, 12: 20.392, 14: 20.047, 22: 25.907, 64: 38.188,
        100: 41.703,
    },
    (100, 40, 200, 0): {
        2: 23.919, 10: 12.363, 20: 2.9893, 38: -0.37086, 64: 2.7514, 100: 10.758,
    },
    (100, 40, 200, 50): {2: -16.686, 20: -15.302, 100: -3.7909},
    (100, 40, 200, 100): {2: -57.292, 10: -32.642, 20: -33.594, 64: -26.955, 100: -18.34},
}  # fmt: skip
# Same figures: which even N from 2 to 100 are unstable, first and last (None: none).
UNSTABLE = {
    (40, 40, 200, 0): None, (40, 40, 200, 1): None, (40, 40, 200, 10): None,
    (40, 40, 200, 25): (8, 12), (40, 40, 200, 50): (4, 20), (40, 40, 200, 100): (2, 34),
    (40, 10, 200, 50): None, (40, 10, 200, 100): (14, 34), (40, 10, 1000, 50): None,
    (40, 10, 1000, 100): None, (100, 40, 200, 0): (32, 44), (100, 40, 200, 50): (2, 100),
    (100, 40, 200, 100): (2, 100),
}  # fmt: skip
# ECN, delay µs, N → mean queue KB, utilisation, swings; a 1 µs-step integration of the model.
FLUID = (
    (MATLAB, 4, 2, 20.5, 1.0, False), (MATLAB, 4, 10, 125.3, 1.0, False),
    (MATLAB, 4, 64, 1183, 1.0, False), (MATLAB, 85, 2, 20.5, 1.0, False),
    (MATLAB, 85, 10, 132.5, 0.997, True), (MATLAB, 85, 64, 1183, 1.0, False),
    (DEPLOYED, 85, 2, 20.2, 1.0, False), (DEPLOYED, 85, 10, None, 0.949, True),
    (DEPLOYED, 85, 64, None, 0.864, True),
)  # fmt: skip
CONVERGENCE = (
    (40, 200, 1 / 256, {2: 0.0969, 4: 0.0636, 10: 0.0359, 20: 0.0236, 60: 0.0129}),
    (10, 200, 1 / 256, {2: 0.358, 10: 0.121, 60: 0.0357}),
    (40, 1000, 1 / 256, {2: 0.103}),
    (40, 200, 1 / 16, {2: 0.100}),
)


def checks() -> Iterator[Check]:
    """Yield every DCQCN comparison."""
    yield from fixed_points()
    yield from margins()
    yield from fluid_runs()
    yield from times()


def fixed_points() -> Iterator[Check]:
    """p*, q* against the exact root's table."""
    k = FluidConstants.of(PAPER)
    for gbps, flows, approximate, marking, queue in FIXED:
        at = fixed_point(PAPER, DEPLOYED, gbps * 1e9, flows)
        where = f"{gbps}G N={flows}"
        yield near(f"p* exact, {where}", at.marking_ratio, marking, 0.01)
        closed = marking_closed_form(gbps * 1e9 / flows / 8e3, k)
        yield near(f"p* closed form, {where}", closed, approximate, 0.01)
        if queue is None:
            yield same(f"p* > Pmax is told, {where}", int(not at.saturated), 1)
        else:
            yield near(f"q* KB, {where}", at.queue_bytes / 1e3, queue, 0.01)


def margins() -> Iterator[Check]:
    """Phase margins of the paper's own linear system, worst of each table, and unstable N."""

    def margin(key: tuple[int, int, int, int], flows: int) -> float:
        gbps, ai, kmax, delay = key
        ecn = EcnThresholds(5e3, kmax * 1e3, 0.01)
        linear = linearise_as_published(replace(PAPER, ai_bps=ai * 1e6), ecn, gbps * 1e9, flows)
        return phase_margin(linear, delay * 1e-6).phase_margin_deg

    for key, table in MARGINS.items():
        got = {flows: margin(key, flows) for flows in table}
        worst = max(table, key=lambda flows: abs(got[flows] - table[flows]))
        name = "phase margin {}G AI {} Kmax {} τ* {} µs".format(*key)
        yield within(
            f"{name}: worst of {len(table)}, N={worst}", got[worst], table[worst], 0.2, "degrees"
        )
    for key, span in UNSTABLE.items():
        unstable = [flows for flows in range(2, 101, 2) if margin(key, flows) < 0]
        want = [] if span is None else list(range(span[0], span[1] + 1, 2))
        name = "unstable N {}G AI {} Kmax {} τ* {} µs".format(*key)
        yield same(name, len(set(unstable) ^ set(want)), 50)


def fluid_runs() -> Iterator[Check]:
    """Delay-differential runs: means, who settles, peaks, the exact linearisation's verdict."""
    for ecn, delay, flows, mean, use, swings in FLUID:
        case = FluidCase(PAPER, ecn, 40e9, (delay * 1e-6,) * flows, "fair_share")
        run = integrate_case(case, 0.2, measure_from_s=0.1)
        where = f"Kmax {ecn.kmax_bytes / 1e3:.0f}K τ* {delay} µs N={flows}"
        if mean is not None:
            yield near(f"fluid mean queue KB, {where}", run.mean_queue_bytes / 1e3, mean, 0.03)
        yield near(f"fluid utilisation, {where}", run.utilisation, use, 0.03)
        yield same(f"fluid swings as published, {where}", int(run.oscillates != swings), 1)
        if ecn is MATLAB:
            verdict = critical_delay_s(PAPER, ecn, 40e9, flows) < delay * 1e-6
            yield same(f"exact Jacobian agrees, {where}", int(verdict != run.oscillates), 1)
    for flows, peak in ((2, 0.26), (10, 3.6), (64, 31)):
        case = FluidCase(PAPER, DEPLOYED, 40e9, (4e-6,) * flows)
        run = integrate_case(case, 0.02)
        yield near(
            f"fluid peak MB from line rate, N={flows}", run.peak_queue_bytes / 1e6, peak, 0.03
        )
    ecn = EcnThresholds(1e6, 2e6, 0.05)
    run = integrate_case(FluidCase(PAPER, ecn, 40e9, (2e-6, 1.77e-3)), 0.5)
    yield near("NSDI'23 two RTTs: queue watermark MB", run.max_queue_bytes / 1e6, 1.36, 0.1)
    yield near("NSDI'23 two RTTs: Jain of the two", run.jain, 1.0, 0.01)
    yield near("NSDI'23 two RTTs: rate Gb/s", run.rates_bps.mean() / 1e9, 17, 0.1)


def times() -> Iterator[Check]:
    """Convergence bounds and recovery times."""
    for ai, kmax, g, table in CONVERGENCE:
        parameters = replace(PAPER, ai_bps=ai * 1e6, g=g)
        for flows, bound in table.items():
            got = convergence(parameters, kmax * 1e3, 40e9, flows).bound_s
            name = f"convergence s, AI {ai}M Kmax {kmax}K g 1/{1 / g:.0f} N={flows}"
            yield near(name, got, bound, 0.01)
    deep = {"rate_bps": 200e9, "target_bps": 200e9, "byte_counter": False}
    slow = recovery_s(NVIDIA_FIRMWARE, 400e9, **deep, reach_bps=399e9, hyper=False)
    yield near("400G recovery s, firmware AI only", slow, 12, 0.03)
    fast = recovery_s(NVIDIA_FIRMWARE, 400e9, **deep, reach_bps=399e9)
    yield near("400G recovery s, firmware HAI", fast, 1.2, 0.03)
    cut = recovery_s(
        NVIDIA_FIRMWARE, 400e9, **{**deep, "target_bps": 400e9}, reach_bps=0.97 * 400e9
    )
    yield near("400G recovery ms, one cut, to 97 %", cut * 1e3, 1.5, 0.03)
    relaxed = {}
    for factor in (1, 2):
        ecn = EcnThresholds(200e3 * factor, 800e3 * factor, 0.2)
        case = FluidCase(PAPER.scaled_rates(5), ecn, 200e9, (20e-6,) * 32, "fair_share")
        relaxed[factor] = integrate_case(case, 0.1)
    gain = relaxed[2].utilisation / relaxed[1].utilisation - 1
    yield between("V10 relaxed ECN at 200G: throughput gain", gain, 0, 0.05, 0.03)
    peak = relaxed[2].max_queue_bytes / relaxed[1].max_queue_bytes
    yield between("V10 relaxed ECN at 200G: queue peak ratio (PFC 2-3x)", peak, 1.5, 4, 2.5)
