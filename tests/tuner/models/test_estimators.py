from collections.abc import Callable

import numpy as np
import pytest

from collectors.model.dcqcn import PAPER
from tuner.models.dcqcn_renewal import marking_for_flows
from tuner.models.ecmp_prediction import Floats
from tuner.models.estimators import (
    Estimate,
    TooFewWindowsError,
    burst_size,
    effective_flows,
    evenness_probability,
    flows_at_bottleneck,
    incast_degree,
    marking_ratio,
    offered_load,
    round_trip,
)
from tuner.models.fabric_graph import leaf_spine
from tuner.models.max_min import link_loads
from tuner.models.routing import Router, random_keys

Draw = Callable[[np.random.Generator], tuple[Estimate, float]]


def correlated(rng: np.random.Generator, count: int, rho: float) -> Floats:
    noise = rng.normal(size=count)
    out = np.empty(count)
    out[0] = noise[0]
    for i in range(1, count):
        out[i] = rho * out[i - 1] + np.sqrt(1 - rho**2) * noise[i]
    return out


def load_draw(rho: float) -> Draw:
    def draw(rng: np.random.Generator) -> tuple[Estimate, float]:
        load = rng.uniform(0.3, 0.8)
        rates = (load + 0.1 * correlated(rng, 120, rho)) * 100e9
        return offered_load(rates, 100e9), load

    return draw


def marking_draw(rng: np.random.Generator) -> tuple[Estimate, float]:
    p = 10 ** rng.uniform(-4, -1)
    packets = rng.poisson(20000, 60)
    marked = rng.binomial(packets, np.minimum(1, p * rng.gamma(2, 0.5, 60)))
    return marking_ratio(marked, packets), p


def flows_draw(rng: np.random.Generator) -> tuple[Estimate, float]:
    flows = int(rng.integers(2, 60))
    p = marking_for_flows(PAPER, 40e9, flows) * np.exp(0.016 * rng.normal())
    packets = rng.poisson(50000, 60)
    marking = marking_ratio(rng.binomial(packets, p), packets)
    return flows_at_bottleneck(marking, PAPER, 40e9), flows


def round_trip_draw(rng: np.random.Generator) -> tuple[Estimate, float]:
    truth = 10 ** rng.uniform(-5.3, -3.3)
    rates = rng.uniform(0.5, 1.5, 80) * 50e9
    in_flight = rng.poisson(rates / 8 * truth * rng.gamma(4, 0.25, 80) / 1000) * 1000.0
    return round_trip(in_flight, rates), truth


def incast_draw(rng: np.random.Generator) -> tuple[Estimate, float]:
    senders = int(rng.integers(2, 33))
    return incast_degree(1 - rng.binomial(200, 1 / senders, 100) / 200), senders


def turns_draw(rng: np.random.Generator) -> tuple[Estimate, float]:
    """One packet in every turn of about k, anywhere in the turn, and turns of unequal length."""
    senders, windows, packets = int(rng.integers(2, 13)), 20, 100.0
    turn = senders * (1 + 0.0018 * rng.normal())
    evenness = 10 ** rng.uniform(0, 4)
    starts = np.cumsum(turn * rng.gamma(evenness, 1 / evenness, 1500)) - 4 * senders
    at = starts + rng.uniform(0, turn, 1500)
    counts, _ = np.histogram(at, np.arange(windows + 1) * packets)
    return incast_degree(1 - counts / packets, counts / packets), senders


def burst_draw(rng: np.random.Generator) -> tuple[Estimate, float]:
    size, senders = 10 ** rng.uniform(5, 7), int(rng.integers(2, 16))
    peaks = rng.exponential(size, 60) * (1 - 1 / senders)
    return burst_size(np.ceil(peaks / 208) * 208, senders, 208), size


def evenness_draw(rng: np.random.Generator) -> tuple[Estimate, float]:
    flows, links = int(rng.integers(8, 512)), int(rng.choice([8, 16, 32]))
    return effective_flows(rng.multinomial(flows, np.ones(links) / links) * 1e6), flows


@pytest.mark.parametrize(
    "draw",
    [
        load_draw(0.0), load_draw(0.8), marking_draw, flows_draw, round_trip_draw, incast_draw,
        turns_draw, burst_draw, evenness_draw,
    ],
)  # fmt: skip
def test_the_interval_holds_the_truth_nine_times_in_ten(draw: Draw) -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(300):
        estimate, truth = draw(rng)
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.assumptions
        hits += estimate.low <= truth <= estimate.high
    assert 0.85 <= hits / 300 <= 0.95


def test_more_windows_narrow_the_interval_and_units_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.2, 0.9, 400) * 100e9
    few, many = offered_load(rates[:40], 100e9), offered_load(rates, 100e9)
    assert many.high - many.low < 0.6 * (few.high - few.low)
    same = offered_load(rates / 8, 100e9 / 8)
    assert same.value == pytest.approx(many.value)
    assert same.high == pytest.approx(many.high)


def test_limits() -> None:
    steady = offered_load(np.full(10, 50e9), 100e9)
    assert steady.low == steady.value == steady.high == 0.5
    unmarked = marking_ratio(np.zeros(10), np.full(10, 1000))
    assert unmarked.value == unmarked.low == 0
    assert 0 < unmarked.high < 1e-3
    assert marking_ratio(np.full(10, 5), np.full(10, 5)).value == 1
    alone = flows_at_bottleneck(unmarked, PAPER, 40e9)
    assert alone.value == 1
    crowd = flows_at_bottleneck(Estimate(0.9999, 0.999, 1.0, ()), PAPER, 40e9)
    assert crowd.high == 1e5
    assert incast_degree(np.zeros(5)).value == 1
    assert incast_degree(np.full(5, 0.75)).value == pytest.approx(4)
    assert effective_flows(np.full(8, 1e6)).value == float("inf")
    by_bytes = incast_degree(np.full(5, 0.77), np.full(5, 0.25))
    assert by_bytes.value == pytest.approx(4)
    with pytest.raises(ValueError, match="idle 25%"):
        incast_degree(np.full(5, 0.5), np.full(5, 0.25))


def test_what_cannot_be_estimated_is_refused() -> None:
    with pytest.raises(TooFewWindowsError, match="at least 5 windows, got 3"):
        offered_load(np.ones(3), 1e9)
    with pytest.raises(TooFewWindowsError, match="no packet"):
        marking_ratio(np.zeros(9), np.zeros(9))
    with pytest.raises(TooFewWindowsError, match="no traffic"):
        round_trip(np.zeros(9), np.zeros(9))
    with pytest.raises(TooFewWindowsError, match="with a burst, got 0"):
        burst_size(np.zeros(9), 2)
    with pytest.raises(ValueError, match="more than one sender"):
        burst_size(np.ones(9), 1)
    with pytest.raises(TooFewWindowsError, match="any up-link"):
        effective_flows(np.zeros(4))
    with pytest.raises(TooFewWindowsError, match="any up-link"):
        evenness_probability(np.zeros(4), 9)


def test_polarisation_shows_as_lost_entropy() -> None:
    graph = leaf_spine(2, 64, 16)
    source, target = np.arange(64).repeat(8), np.arange(64, 128).repeat(8)

    def up(keys: np.ndarray) -> Floats:
        paths = Router(graph).route(source, target, keys)
        return link_loads(paths, np.full(512, 1e6), len(graph.capacity_bps))[256:272]

    well = up(random_keys(512, 1))
    assert effective_flows(well).low < 512 < effective_flows(well).high
    assert evenness_probability(well, 512) > 0.01
    poor = up(random_keys(64, 1).repeat(8))
    assert effective_flows(poor).high < 512
    assert evenness_probability(poor, 512) < 0.01
