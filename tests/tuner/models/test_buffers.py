import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.ecn import EcnThresholds
from tuner.models.ecn_before_pfc import (
    SharedBuffer,
    incast_bound,
    ordering,
    smallest_alpha,
    static_ecn_bound,
    static_pfc_bound,
    worst_case_bound,
)
from tuner.models.headroom import (
    SPECTRUM,
    headroom_parts,
    shortest_detection_s,
    sonic_headroom,
    watchdog_timing,
)

TRIDENT2 = SharedBuffer(12_000e3, 32, 8, 22.4e3)


@pytest.mark.parametrize(
    ("asic", "gbps", "cable", "small", "xoff"),
    [
        ("spectrum1", 100, 5, 100, 72_704),
        ("spectrum1", 100, 300, 0, 73_728),
        ("spectrum3", 200, 40, 100, 111_616),
        ("spectrum4", 400, 300, 100, 649_216),
        ("spectrum5", 800, 300, 0, 365_568),
    ],
)
def test_sonic_headroom_to_the_byte(
    asic: str, gbps: float, cable: float, small: float, xoff: int
) -> None:
    got = sonic_headroom(SPECTRUM[asic], gbps * 1e9, cable, small_packet_percent=small)
    assert got.xoff_bytes == xoff
    assert got.xon_bytes == 19 * 1024
    assert got.size_bytes == xoff + 19 * 1024


def test_sonic_variants() -> None:
    asic = SPECTRUM["spectrum4"]
    eight = sonic_headroom(asic, 800e9, 5, eight_lanes=True)
    assert eight.xon_bytes == 37 * 1024
    assert eight.size_bytes == 1024 * math.ceil((eight.xoff_bytes + eight.xon_bytes + 9100) / 1024)
    pooled = sonic_headroom(asic, 400e9, 5, shared_headroom_pool=True)
    assert pooled.size_bytes == pooled.xon_bytes
    with pytest.raises(ValueError, match=r"no pause response time for 1 Gb/s; known: 10G"):
        sonic_headroom(asic, 1e9, 5)


@given(st.floats(0, 500), st.floats(0, 100), st.integers(1500, 9216))
def test_headroom_is_monotone(cable: float, small: float, mtu: int) -> None:
    def xoff(cable: float, small: float, mtu: int) -> int:
        return sonic_headroom(
            SPECTRUM["spectrum3"], 400e9, cable, small_packet_percent=small, port_mtu=mtu
        ).xoff_bytes

    here = xoff(cable, small, mtu)
    assert xoff(cable + 50, small, mtu) >= here
    assert xoff(cable, min(100, small + 10), mtu) >= here
    assert xoff(cable, small, mtu + 1024) > here
    assert here % 1024 == 0


@pytest.mark.parametrize(
    ("gbps", "cable", "kilobytes"),
    [(40, 5, 24.4), (40, 300, 39.2), (100, 5, 54.7), (100, 100, 66.6), (100, 300, 91.6)],
)
def test_component_form(gbps: float, cable: float, kilobytes: float) -> None:
    parts = headroom_parts(gbps * 1e9, cable)
    assert parts.total_bytes == pytest.approx(kilobytes * 1e3, abs=60)
    assert parts.cable == pytest.approx(2 * cable * 5e-9 * gbps * 1e9 / 8)


def test_trident2() -> None:
    assert static_pfc_bound(TRIDENT2) == pytest.approx(24.475e3, rel=1e-3)
    assert static_ecn_bound(TRIDENT2) == pytest.approx(765, rel=1e-3)
    # β = α·L = 8 with eight lossless priorities.
    assert worst_case_bound(TRIDENT2, 1.0) == pytest.approx(21.755e3, rel=1e-3)


def test_bounds_at_the_threshold_itself() -> None:
    # Fill the queue to the bound: the ingress occupancy must equal its dynamic threshold.
    alpha, senders = 1 / 8, 5
    queue = incast_bound(TRIDENT2, alpha, senders)
    assert queue / senders == pytest.approx(alpha * (TRIDENT2.shared_bytes - queue))
    kmin = worst_case_bound(TRIDENT2, alpha)
    ingress = TRIDENT2.ports * kmin
    used = TRIDENT2.lossless_priorities * ingress
    assert ingress == pytest.approx(alpha * (TRIDENT2.shared_bytes - used))
    assert smallest_alpha(TRIDENT2, queue, senders) == pytest.approx(alpha)


@given(st.floats(1 / 64, 8), st.integers(1, 63), st.floats(2e6, 200e6))
def test_bounds_are_monotone_and_limited(alpha: float, senders: int, shared: float) -> None:
    buffer = SharedBuffer(shared, 32, 2, 10e3)
    here = incast_bound(buffer, alpha, senders)
    assert here < buffer.shared_bytes
    assert incast_bound(buffer, alpha, senders + 1) > here
    assert incast_bound(buffer, alpha * 2, senders) > here
    assert worst_case_bound(buffer, alpha) < incast_bound(buffer, alpha, 1)


def test_the_largest_bound_is_the_whole_buffer() -> None:
    assert incast_bound(TRIDENT2, 1e9, 4) == pytest.approx(TRIDENT2.shared_bytes)


def test_ordering_of_vendor_defaults() -> None:
    tomahawk4 = SharedBuffer(113.66e6, 64, 2, 300e3)
    got = ordering(tomahawk4, 1 / 8, EcnThresholds(1 << 20, 2 << 20, 0.05), 1)
    assert got.worst_case_bytes == pytest.approx(118e3, rel=0.01)
    assert got.incast_bytes == pytest.approx(8.4e6, rel=0.01)
    assert (got.safe_always, got.safe_for_incast, got.kmax_reachable) == (False, True, True)
    high = ordering(tomahawk4, 1 / 8, EcnThresholds(8e6, 9e6, 1), 1)
    assert (high.safe_for_incast, high.kmax_reachable) == (True, False)


def test_impossible_buffers_are_refused() -> None:
    with pytest.raises(ValueError, match="takes the whole buffer"):
        _ = SharedBuffer(1e6, 32, 8, 22.4e3).shared_bytes
    with pytest.raises(ValueError, match="at least one sender"):
        incast_bound(TRIDENT2, 1, 0)
    with pytest.raises(ValueError, match="more than the shared buffer"):
        smallest_alpha(TRIDENT2, 1e9, 1)


def test_watchdog() -> None:
    timing = watchdog_timing(0.2, 0.1, 100e9)
    assert (timing.earliest_s, timing.latest_s) == (0.2, pytest.approx(0.3))
    assert timing.arrived_bytes == pytest.approx(100e9 / 8 * 0.3)
    assert shortest_detection_s(12e6, 100e9, 3) == pytest.approx(2 * 3 * 12e6 * 8 / 100e9)
    with pytest.raises(ValueError, match="poll"):
        watchdog_timing(0.05, 0.1, 1)
