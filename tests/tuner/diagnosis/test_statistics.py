"""Statistics: against brute force, against chance, and properties that must hold for any input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tuner.diagnosis.statistics import (
    binomial_tail,
    change_points,
    coincidence,
    effective_flows,
    elephants,
    imbalance,
    occupancy,
    polarisation,
)

LOADS = arrays(np.float64, st.integers(1, 24), elements=st.floats(0, 1e12))


def hashed(random, flows, links):
    return np.bincount(random.integers(0, links, flows), minlength=links).astype(float)


def test_a_random_hash_is_seldom_called_uneven():
    random = np.random.default_rng(1)
    alarms = [imbalance(hashed(random, 64, 16), 64).p_value < 0.01 for _ in range(400)]
    assert np.mean(alarms) <= 0.025


def test_a_pinned_hash_is_called_uneven():
    loads = np.full(16, 4.0)
    loads[:2] += 20
    found = imbalance(loads, 104)
    assert found.p_value < 1e-3
    assert found.max_over_mean > 2 * found.expected


def test_the_expectation_is_that_of_the_reference_table():
    assert imbalance(np.ones(16), 64).expected == pytest.approx(1.97, abs=0.01)
    assert imbalance(np.ones(8), 8).expected == pytest.approx(2.60, abs=0.01)


@given(LOADS, st.integers(1, 300), st.floats(1e-3, 1e3))
def test_imbalance_knows_no_unit_and_is_a_chance(loads, flows, unit):
    if loads.mean() <= 0 or (loads * unit).mean() <= 0:  # the smallest number halves to none
        with pytest.raises(ValueError):
            imbalance(np.zeros(len(loads)), flows)
        return
    found = imbalance(loads, flows)
    assert 0 <= found.p_value <= 1
    assert found.max_over_mean >= 1 - 1e-9
    assert imbalance(loads * unit, flows).max_over_mean == pytest.approx(found.max_over_mean)


@given(LOADS)
def test_effective_flows_lie_between_one_and_all(sizes):
    count = effective_flows(sizes)
    assert count == 0 if sizes.max() == 0 else 1 - 1e-9 <= count <= len(sizes) + 1e-9


def test_effective_flows_of_equal_ones_are_their_number():
    assert effective_flows(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_flows(np.array([1.0, 0, 0])) == 1


@given(st.integers(1, 40), st.integers(1, 20))
def test_occupancy_is_a_distribution_with_the_known_mean(flows, links):
    chances = occupancy(flows, links)
    assert chances.sum() == pytest.approx(1)
    mean = chances @ np.arange(links + 1)
    assert mean == pytest.approx(links * (1 - (1 - 1 / links) ** flows))
    assert chances[min(flows, links) + 1 :].sum() == 0


@pytest.mark.parametrize(("first", "second"), [(16, 8), (16, 12), (8, 16), (16, 16)])
def test_tiers_that_hash_alike_are_told_from_chance(first, second):
    """Behind one uplink of the first tier, hash mod second reaches second / gcd links."""
    hashes = np.random.default_rng(2).integers(0, 2**32, 4096)
    behind = hashes[hashes % first == 3]
    loads = np.bincount(behind % second, minlength=second).astype(float)
    found = polarisation(loads, len(behind))
    assert found.used == second // math.gcd(first, second)
    assert found.p_value < 1e-6
    fresh = np.random.default_rng(3).integers(0, second, len(behind))
    sound = polarisation(np.bincount(fresh, minlength=second).astype(float), len(behind))
    assert sound.used == second
    assert sound.p_value > 0.1


def test_few_flows_that_leave_links_empty_are_no_polarisation():
    assert polarisation(np.array([5.0, 5, 5, 0, 0, 0, 0, 0]), 4).p_value > 0.2


def test_elephants_are_the_few_that_carry_most():
    volumes = np.ones(100)
    volumes[[7, 42]] = [400, 300]
    assert elephants(volumes).tolist() == [7, 42] or elephants(volumes).tolist() == [7]
    assert elephants(volumes, share=0.8).tolist() == [7, 42]
    assert elephants(np.ones(50)).tolist() == []
    assert elephants(np.zeros(5)).tolist() == []


@given(LOADS)
def test_an_elephant_carries_several_times_an_even_share(volumes):
    kept = elephants(volumes)
    assert len(set(kept.tolist())) == len(kept)
    assert all(volumes[kept] >= 4 * volumes.sum() / len(volumes))
    assert list(volumes[kept]) == sorted(volumes[kept], reverse=True)


def test_a_step_is_found_where_it_is():
    random = np.random.default_rng(4)
    values = np.concatenate([random.normal(10, 1, 40), random.normal(14, 1, 30)])
    [change] = change_points(values)
    assert abs(change.place - 40) <= 2
    assert change.before == pytest.approx(10, abs=0.6)
    assert change.after == pytest.approx(14, abs=0.6)


def test_up_and_down_again_are_two_changes():
    values = np.concatenate([np.zeros(20), np.full(15, 9.0), np.zeros(20)])
    assert [change.place for change in change_points(values)] == [20, 35]


def test_noise_has_no_change_points():
    random = np.random.default_rng(5)
    alarms = [bool(change_points(random.normal(0, 1, 60))) for _ in range(300)]
    assert np.mean(alarms) < 0.05


def test_a_lone_spike_is_no_shift_of_level():
    values = np.random.default_rng(6).normal(10, 1, 60)
    values[30] += 12
    assert all(abs(change.after - change.before) < 6 for change in change_points(values))


@given(
    arrays(np.float64, st.integers(0, 60), elements=st.floats(-1e3, 1e3, width=32)),
    st.sampled_from([2.0, 1024.0, 0.125]),
)
def test_scaling_moves_no_change_point(values, scale):
    found = change_points(values)
    places = [change.place for change in found]
    assert places == sorted(set(places))
    assert all(3 <= place <= len(values) - 3 for place in places)
    assert [change.place for change in change_points(values * scale)] == places


def test_changes_that_follow_events_are_told_from_chance():
    random = np.random.default_rng(7)
    events = np.sort(random.uniform(0, 1000, 12))
    follows = coincidence(events + 1.5, events, 3.0, (0, 1000))
    assert follows.matched == 12
    assert follows.p_value < 1e-9
    assert follows.lags == pytest.approx([1.5] * 12)
    chance = coincidence(random.uniform(0, 1000, 12), events, 3.0, (0, 1000))
    assert chance.p_value > 0.001


def test_a_change_before_its_event_does_not_follow_it():
    assert coincidence(np.array([9.0]), np.array([10.0]), 5.0, (0, 100)).matched == 0
    assert coincidence(np.array([10.0]), np.array([10.0]), 5.0, (0, 100)).matched == 1
    assert coincidence(np.array([1.0]), np.zeros(0), 5.0, (0, 100)).p_value == 1.0


TIMES = arrays(np.float64, st.integers(0, 20), elements=st.floats(0, 100, width=32))


@given(TIMES, TIMES, st.floats(0, 50))
def test_coincidence_counts_as_one_by_one(changes, events, window):
    found = coincidence(changes, events, window, (0, 100))
    assert found.matched == sum(any(0 <= c - e <= window for e in events) for c in changes)
    assert 0 <= found.p_value <= 1
    assert 0 <= found.expected <= len(changes) + 1e-9


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0, 1))
def test_the_tail_of_the_binomial(least, trials, chance):
    brute = sum(
        math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(least, trials + 1)
    )
    assert binomial_tail(least, trials, chance) == pytest.approx(brute, abs=1e-9)
