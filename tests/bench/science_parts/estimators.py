"""Do the estimators' 90 % intervals hold the truth: 200 draws each, on fluid and drawn runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from collectors.model.dcqcn import PAPER
from collectors.model.ecn import EcnThresholds
from tests.bench.science_parts.check import Check, between
from tuner.models.dcqcn_fluid import FluidCase, FluidResult, integrate_case
from tuner.models.estimators import (
    Estimate,
    burst_size,
    effective_flows,
    incast_degree,
    marking_ratio,
    offered_load,
    round_trip,
)
from tuner.models.fabric_graph import leaf_spine
from tuner.models.max_min import link_loads
from tuner.models.routing import Router, random_keys

DRAWS = 200
ECN = EcnThresholds(5e3, 2000e3, 0.1)
LINK = 40e9
WINDOWS = 60
Draw = Callable[[np.random.Generator], tuple[Estimate, float]]


class FluidTelemetry:
    """Windows of counters drawn from fluid runs: packets, marks, bytes in flight, rates."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Integrate twenty stable cases, 2 to 60 flows, delays 2 to 30 µs, until α has settled."""
        self.runs: list[tuple[float, FluidResult]] = []
        for _ in range(20):
            flows, delay = int(rng.integers(2, 60)), rng.uniform(2e-6, 30e-6)
            case = FluidCase(PAPER, ECN, LINK, (delay,) * flows, "fair_share")
            self.runs.append((delay, integrate_case(case, 0.3, samples=2000)))

    def pick(self, rng: np.random.Generator) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the delay, and queue and flow rates over windows of the steady half."""
        delay, run = self.runs[rng.integers(len(self.runs))]
        at = np.sort(rng.choice(np.arange(1000, 2000), WINDOWS, replace=False))
        return delay, run.queue_bytes[at], run.flow_bps[at]

    def marks(self, rng: np.random.Generator) -> tuple[Estimate, float]:
        """Return the marking estimate and the true mean marking ratio."""
        _, queue, _ = self.pick(rng)
        p = np.array([ECN.marking_ratio(value) for value in queue])
        packets = rng.poisson(LINK / 8e3 * 10e-3, len(p))
        return marking_ratio(rng.binomial(packets, p), packets), float(p.mean())


def checks() -> Iterator[Check]:
    """Yield the coverage of every estimator."""
    telemetry = FluidTelemetry(np.random.default_rng(3))

    def marking(rng: np.random.Generator) -> tuple[Estimate, float]:
        return telemetry.marks(rng)

    def rtt(rng: np.random.Generator) -> tuple[Estimate, float]:
        delay, queue, rates = telemetry.pick(rng)
        whole = delay + queue * 8 / LINK
        packets = rng.poisson(rates[:, 0] / 8e3 * whole)
        return round_trip(packets * 1e3, rates[:, 0]), float(whole.mean())

    for name, draw in (
        ("marking probability (fluid)", marking),
        ("round-trip time (fluid)", rtt),
        ("offered load (AR(1), ρ = 0.7)", _load),
        ("incast degree (slotted service)", _incast),
        ("burst size (cells of 208 B)", _bursts),
        ("up-link evenness (routed flows)", _evenness),
    ):
        rng = np.random.default_rng(17)
        inside = 0
        for _ in range(DRAWS):
            estimate, truth = draw(rng)
            inside += estimate.low <= truth <= estimate.high
        yield between(f"90 % interval covers, {name}", inside / DRAWS, 0.85, 0.95, 0.90)


def _load(rng: np.random.Generator) -> tuple[Estimate, float]:
    load, noise = rng.uniform(0.3, 0.8), rng.normal(size=WINDOWS * 2)
    walk = [noise[0]]
    for step in noise[1:]:
        walk.append(0.7 * walk[-1] + np.sqrt(1 - 0.49) * step)
    return offered_load((load + 0.1 * np.array(walk)) * LINK, LINK), load


def _incast(rng: np.random.Generator) -> tuple[Estimate, float]:
    senders = int(rng.integers(2, 33))
    served = rng.binomial(200, 1 / senders, WINDOWS)
    return incast_degree(1 - served / 200), senders


def _bursts(rng: np.random.Generator) -> tuple[Estimate, float]:
    size, senders = 10 ** rng.uniform(5, 7), int(rng.integers(2, 16))
    peaks = rng.exponential(size, WINDOWS) * (1 - 1 / senders)
    return burst_size(np.ceil(peaks / 208) * 208, senders, 208), size


_GRAPH = leaf_spine(2, 64, 16)
_ROUTER = Router(_GRAPH)


def _evenness(rng: np.random.Generator) -> tuple[Estimate, float]:
    flows = int(rng.integers(16, 512))
    source, target = rng.integers(0, 64, flows), rng.integers(64, 128, flows)
    keys = random_keys(flows, int(rng.integers(2**31)))
    paths = _ROUTER.route(source, target, keys, seed=int(rng.integers(2**31)))
    loads = link_loads(paths, np.full(flows, 1e6), len(_GRAPH.capacity_bps))
    return effective_flows(loads[256:272]), flows
