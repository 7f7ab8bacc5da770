import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.dcqcn import NVIDIA_FIRMWARE, PAPER, DcqcnParameters
from collectors.model.ecn import EcnThresholds
from tuner.models.dcqcn_convergence import convergence, recovery_s
from tuner.models.dcqcn_fixed_point import (
    FluidConstants,
    fixed_point,
    marking_at_equilibrium,
    most_flows_before_saturation,
)
from tuner.models.dcqcn_fluid import FluidCase, integrate, integrate_case
from tuner.models.dcqcn_renewal import flows_for_marking, marking_for_flows
from tuner.models.dcqcn_stability import (
    critical_delay_s,
    linearise,
    linearise_as_published,
    phase_margin,
    stability,
)

DEPLOYED = EcnThresholds(5e3, 200e3, 0.01)
SAME_SLOPE = EcnThresholds(5e3, 2000e3, 0.1)


def faster(parameters: DcqcnParameters, factor: float) -> DcqcnParameters:
    """The same protocol on a clock `factor` times as fast."""
    return replace(
        parameters.scaled_rates(factor),
        alpha_period_s=parameters.alpha_period_s / factor,
        cut_window_s=parameters.cut_window_s / factor,
        cnp_interval_s=parameters.cnp_interval_s / factor,
        increase_timer_s=parameters.increase_timer_s / factor,
    )


@pytest.mark.parametrize(
    ("gbps", "flows", "marking", "queue"),
    [(40, 2, 7.77e-4, 20.2e3), (40, 10, 6.03e-3, 122.6e3), (400, 8, 2.39e-4, 9.7e3)],
)
def test_published_fixed_points(gbps: float, flows: int, marking: float, queue: float) -> None:
    at = fixed_point(PAPER, DEPLOYED, gbps * 1e9, flows)
    assert at.marking_ratio == pytest.approx(marking, rel=0.01)
    assert at.queue_bytes == pytest.approx(queue, rel=0.01)
    assert not at.saturated


def test_fixed_point_makes_every_derivative_vanish() -> None:
    # The integrator is written apart from the root finder: started there, it must stay there.
    case = FluidCase(PAPER, SAME_SLOPE, 40e9, (4e-6,) * 8, start="fixed_point")
    run = integrate_case(case, 0.02, measure_from_s=0)
    at = fixed_point(PAPER, SAME_SLOPE, 40e9, 8)
    assert run.mean_queue_bytes == pytest.approx(at.queue_bytes, rel=1e-6)
    assert run.std_queue_bytes < 1e-6 * at.queue_bytes


@given(
    st.floats(1e9, 800e9),
    st.integers(1, 500),
    st.floats(0.1, 10),
    st.sampled_from([PAPER, NVIDIA_FIRMWARE]),
)
@settings(max_examples=60)
def test_fixed_point_properties(
    link_bps: float, flows: int, factor: float, parameters: DcqcnParameters
) -> None:
    at = fixed_point(parameters, DEPLOYED, link_bps, flows)
    more = fixed_point(parameters, DEPLOYED, link_bps, flows + 1)
    assert more.marking_ratio > at.marking_ratio
    assert more.queue_bytes >= at.queue_bytes
    pushier = fixed_point(parameters.scaled_rates(1.5), DEPLOYED, link_bps, flows)
    assert pushier.marking_ratio > at.marking_ratio
    clocked = fixed_point(faster(parameters, factor), DEPLOYED, link_bps * factor, flows)
    assert clocked.marking_ratio == pytest.approx(at.marking_ratio, rel=1e-6)
    assert clocked.alpha == pytest.approx(at.alpha, rel=1e-6)
    assert 0 < at.marking_ratio < 1
    assert at.target_bps >= at.rate_bps * (1 - 1e-12)


def test_saturation_tells_pmax_too_small() -> None:
    most = most_flows_before_saturation(PAPER, 0.01, 40e9)
    assert not fixed_point(PAPER, DEPLOYED, 40e9, most).saturated
    assert fixed_point(PAPER, DEPLOYED, 40e9, most + 1).saturated
    assert most_flows_before_saturation(PAPER, 1e-6, 40e9) == 0
    assert most_flows_before_saturation(PAPER, 1.0, 40e9, limit=64) == 64


def test_what_has_no_fixed_point_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one flow"):
        fixed_point(PAPER, DEPLOYED, 40e9, 0)
    with pytest.raises(ValueError, match="additive increase"):
        fixed_point(PAPER.scaled_rates(0), DEPLOYED, 40e9, 1)


def test_byte_counter_off_is_the_limit_of_a_long_one() -> None:
    off = FluidConstants.of(replace(PAPER, byte_counter_bytes=None))
    long = FluidConstants.of(replace(PAPER, byte_counter_bytes=1e15))
    rate = 5e9 / 8e3
    assert marking_at_equilibrium(rate, off) == pytest.approx(marking_at_equilibrium(rate, long))


@pytest.mark.parametrize(
    ("gbps", "delay_us", "flows", "degrees"),
    [(40, 0, 10, 4.7564), (40, 50, 10, -6.5844), (40, 100, 64, 15.625), (100, 50, 2, -16.686)],
)
def test_published_phase_margins(gbps: float, delay_us: float, flows: int, degrees: float) -> None:
    linear = linearise_as_published(PAPER, DEPLOYED, gbps * 1e9, flows)
    assert phase_margin(linear, delay_us * 1e-6).phase_margin_deg == pytest.approx(degrees, abs=0.1)


def test_linearisation_agrees_with_the_fluid_model_on_the_critical_delay() -> None:
    critical = critical_delay_s(PAPER, SAME_SLOPE, 40e9, 10)
    assert stability(PAPER, SAME_SLOPE, 40e9, 10, critical).phase_margin_deg == pytest.approx(
        0, abs=1e-3
    )

    def swings(delay_s: float) -> bool:
        case = FluidCase(PAPER, SAME_SLOPE, 40e9, (delay_s,) * 10, start="fair_share")
        return integrate_case(case, 1.0, measure_from_s=0.9).oscillates

    assert not swings(0.9 * critical)
    assert swings(1.1 * critical)


@given(st.floats(0, 200e-6), st.integers(1, 128), st.floats(0.2, 5))
@settings(max_examples=30, deadline=None)
def test_stability_properties(delay_s: float, flows: int, factor: float) -> None:
    here = stability(PAPER, DEPLOYED, 100e9, flows, delay_s)
    later = stability(PAPER, DEPLOYED, 100e9, flows, delay_s + 10e-6)
    assert later.phase_margin_deg < here.phase_margin_deg
    clocked = stability(faster(PAPER, factor), DEPLOYED, 100e9 * factor, flows, delay_s / factor)
    assert clocked.phase_margin_deg == pytest.approx(here.phase_margin_deg, abs=1e-3)
    gentle = EcnThresholds(5e3, 20e6, 0.01)
    assert critical_delay_s(PAPER, gentle, 100e9, flows) > critical_delay_s(
        PAPER, DEPLOYED, 100e9, flows
    )


def test_jacobian_is_the_slope_of_the_equations() -> None:
    linear = linearise(PAPER, DEPLOYED, 40e9, 10)
    k = FluidConstants.of(PAPER)
    assert linear.now[0, 0] == pytest.approx(-k.g / k.alpha_period)
    assert linear.gain == pytest.approx(10 * 0.01 / 195)
    assert linear.marking[2] < 0 < linear.marking[0]


def test_one_flow_alone_fills_the_link() -> None:
    run = integrate_case(FluidCase(PAPER, DEPLOYED, 40e9, (0.0,)), 0.05)
    assert run.utilisation == pytest.approx(1.0, abs=1e-6)
    assert run.rates_bps[0] == pytest.approx(40e9, rel=1e-6)


def test_step_size_does_not_matter() -> None:
    case = FluidCase(PAPER, SAME_SLOPE, 40e9, (8e-6, 40e-6, 80e-6))
    coarse, fine = (integrate_case(case, 0.05, step_s=step) for step in (1e-6, 0.25e-6))
    assert coarse.mean_queue_bytes == pytest.approx(fine.mean_queue_bytes, rel=0.01)
    assert coarse.peak_queue_bytes == pytest.approx(fine.peak_queue_bytes, rel=0.01)


def test_start_at_line_rate_overshoots_and_converges_to_fairness() -> None:
    run = integrate_case(FluidCase(PAPER, SAME_SLOPE, 40e9, (4e-6,) * 10), 0.2)
    assert run.peak_queue_bytes == pytest.approx(3.6e6, rel=0.03)
    assert run.jain > 0.9999
    assert run.queue_bytes[0] == 0
    assert run.flow_bps[0] == pytest.approx([40e9] * 10)
    assert len(run.times_s) == len(run.queue_bytes) == 200


def test_pmax_below_the_fixed_point_parks_the_queue_at_kmax() -> None:
    run = integrate_case(FluidCase(PAPER, DEPLOYED, 40e9, (85e-6,) * 64, "fair_share"), 0.2)
    assert run.oscillates
    assert run.max_queue_bytes == pytest.approx(443e3, rel=0.03)
    assert run.utilisation == pytest.approx(0.864, rel=0.01)


def test_per_flow_parameters_share_by_aggressiveness() -> None:
    pushy = PAPER.scaled_rates(4)
    run = integrate_case(FluidCase((PAPER, pushy), SAME_SLOPE, 40e9, (4e-6, 4e-6)), 0.3)
    assert run.rates_bps[1] > 1.3 * run.rates_bps[0]
    assert run.rates_bps.sum() == pytest.approx(40e9, rel=1e-3)


def test_caps_and_floors_hold() -> None:
    slow = replace(PAPER, max_rate_bps=1e9, min_rate_bps=0.5e9)
    run = integrate_case(FluidCase(slow, DEPLOYED, 40e9, (4e-6,) * 4), 0.01)
    assert run.rates_bps == pytest.approx([1e9] * 4, rel=1e-9)
    assert run.max_queue_bytes == 0
    crowd = integrate_case(FluidCase(slow, DEPLOYED, 1e9, (4e-6,) * 4, nic_bps=40e9), 0.01)
    assert min(crowd.rates_bps) >= 0.5e9 * (1 - 1e-12)


def test_batch_keeps_order_and_threads_change_nothing() -> None:
    cases = [FluidCase(PAPER, DEPLOYED, 40e9, (4e-6,) * n) for n in (1, 3, 2)]
    alone = integrate(cases, 0.002)
    together = integrate(cases, 0.002, threads=2)
    assert [len(run.rates_bps) for run in alone] == [1, 3, 2]
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.queue_bytes, other.queue_bytes)


def test_wrong_cases_are_refused() -> None:
    with pytest.raises(ValueError, match="needs flows"):
        integrate_case(FluidCase(PAPER, DEPLOYED, 40e9, ()), 1)
    with pytest.raises(ValueError, match="1 parameter sets for 2 flows"):
        integrate_case(FluidCase((PAPER,), DEPLOYED, 40e9, (0.0, 0.0)), 1)
    with pytest.raises(ValueError, match="two steps"):
        integrate_case(FluidCase(PAPER, DEPLOYED, 40e9, (0.0,)), 1e-9)


@pytest.mark.parametrize(
    ("ai_mbps", "kmax", "g", "flows", "seconds"),
    [
        (40, 200e3, 1 / 256, 2, 0.0969),
        (40, 200e3, 1 / 256, 60, 0.0129),
        (10, 200e3, 1 / 256, 10, 0.121),
        (40, 1000e3, 1 / 256, 2, 0.103),
        (40, 200e3, 1 / 16, 2, 0.100),
    ],
)
def test_published_convergence_bounds(
    ai_mbps: float, kmax: float, g: float, flows: int, seconds: float
) -> None:
    parameters = replace(PAPER, ai_bps=ai_mbps * 1e6, g=g)
    assert convergence(parameters, kmax, 40e9, flows).bound_s == pytest.approx(seconds, rel=5e-3)


def test_recovery_at_400g_with_default_firmware() -> None:
    deep = {"rate_bps": 200e9, "target_bps": 200e9, "reach_bps": 399e9, "byte_counter": False}
    assert recovery_s(NVIDIA_FIRMWARE, 400e9, **deep, hyper=False) == pytest.approx(12, rel=0.01)
    assert recovery_s(NVIDIA_FIRMWARE, 400e9, **deep) == pytest.approx(1.2, rel=0.02)
    shallow = {**deep, "target_bps": 400e9, "reach_bps": 0.968 * 400e9}
    assert recovery_s(NVIDIA_FIRMWARE, 400e9, **shallow) == pytest.approx(1.2e-3)
    assert recovery_s(NVIDIA_FIRMWARE.scaled_rates(10), 400e9, **deep) < 0.13
    assert recovery_s(NVIDIA_FIRMWARE.scaled_rates(0), 400e9, **deep) == math.inf


def test_cut_by_cut_equilibrium_against_the_packet_simulator() -> None:
    # simlab.packet, paper form, 40G, 1000 B packets: marked / all over 2 s (./run bench science).
    for flows, packets in ((2, 1.0168e-3), (4, 2.4805e-3), (8, 6.104e-3), (12, 1.0427e-2)):
        assert marking_for_flows(PAPER, 40e9, flows) == pytest.approx(packets, rel=0.03)


@given(st.floats(1, 200), st.floats(0.2, 5))
@settings(max_examples=15, deadline=None)
def test_cut_by_cut_properties(flows: float, factor: float) -> None:
    marking = marking_for_flows(PAPER, 40e9, flows)
    assert marking < marking_for_flows(PAPER, 40e9, flows * 1.1)
    assert flows_for_marking(PAPER, 40e9, marking, most=1e5) == pytest.approx(flows, rel=1e-4)
    clocked = marking_for_flows(faster(PAPER, factor), 40e9 * factor, flows)
    assert clocked == pytest.approx(marking, rel=1e-3)
    fluid = fixed_point(PAPER, DEPLOYED, 40e9, max(1, round(flows))).marking_ratio
    assert marking_for_flows(PAPER, 40e9, max(1, round(flows))) > fluid


def test_cut_by_cut_limits() -> None:
    assert flows_for_marking(PAPER, 40e9, 0.0, most=100) == 1
    assert flows_for_marking(PAPER, 40e9, 1.0, most=100) == 100
    off = replace(PAPER, byte_counter_bytes=None)
    short = replace(PAPER, byte_counter_bytes=150e3)
    assert marking_for_flows(off, 40e9, 8) < marking_for_flows(short, 40e9, 8)
    with pytest.raises(ValueError, match="additive increase"):
        marking_for_flows(PAPER.scaled_rates(0), 40e9, 8)
