import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.models.infiniband import (
    ForwardingTables,
    RoutingLoopError,
    buffer_for_full_rate,
    cct_behaviour,
    cct_delay,
    cct_rate_ratio,
    credit_bound_bps,
    geometric_cct,
    incast_stall_ratio,
    longest_cable_m,
    pack_cct_entry,
    quadratic_cct,
    shift_load,
    stall_ratio,
    static_loads,
)


def test_credits() -> None:
    assert credit_bound_bps(16 * 4096, 10e-6, 100e9) == pytest.approx(16 * 4096 * 8 / 10e-6)
    assert credit_bound_bps(1e9, 10e-6, 100e9) == 100e9
    assert credit_bound_bps(64, 0, 100e9) == 100e9
    need = buffer_for_full_rate(100e9, 10e-6, 4096)
    assert need % 64 == 0
    assert credit_bound_bps(need, 10e-6, 100e9) == 100e9
    assert longest_cable_m(need, 100e9, 4096) == pytest.approx(1000, rel=1e-3)
    assert longest_cable_m(4096, 100e9, 4096) == 0


def test_stalls() -> None:
    assert incast_stall_ratio(4) == 0.75
    assert incast_stall_ratio(1) == 0
    assert stall_ratio(1e6, 1e-7, 0.4) == pytest.approx(0.25)
    assert stall_ratio(1e9, 1e-7, 1) == 1


def two_level(leaves: int, ports: int, spines: int) -> ForwardingTables:
    """A fat tree routed by destination: end port d goes up to spine d mod spines."""
    ends = leaves * ports
    home = np.arange(ends) // ports
    out = np.full((leaves + spines, ends), -1, dtype=np.int64)
    link_to = np.empty(2 * leaves * spines, dtype=np.int64)
    for leaf in range(leaves):
        for spine in range(spines):
            link_to[leaf * spines + spine] = leaves + spine
            link_to[leaves * spines + spine * leaves + leaf] = leaf
    for end in range(ends):
        for leaf in range(leaves):
            if leaf != home[end]:
                out[leaf, end] = leaf * spines + end % spines
        for spine in range(spines):
            out[leaves + spine, end] = leaves * spines + spine * leaves + home[end]
    return ForwardingTables(out, link_to, home)


def test_full_fat_tree_has_no_shift_congestion() -> None:
    got = shift_load(two_level(4, 4, 4), np.arange(16))
    assert got.worst_max == 1
    assert got.mean_rate_ratio == 1


def test_half_the_spines_double_the_load() -> None:
    tables = two_level(4, 4, 2)
    got = shift_load(tables, np.arange(16))
    assert got.worst_max == 2
    loads = static_loads(tables, np.arange(4), np.arange(4, 8))
    assert loads.sum() == 8
    assert shift_load(tables, np.arange(1)).worst_max == 1


def test_a_loop_is_named() -> None:
    tables = two_level(4, 4, 2)
    out = tables.out_link.copy()
    out[4, 15] = 4 * 2  # the first spine sends end port 15 to leaf 0, which sends it back
    with pytest.raises(RoutingLoopError, match="from end port 0 to 15"):
        static_loads(
            ForwardingTables(np.where(out == 1, 0, out), tables.link_to, tables.home),
            np.array([0]),
            np.array([15]),
        )
    out[0, 15] = -1
    with pytest.raises(RoutingLoopError, match="no entry"):
        static_loads(
            ForwardingTables(out, tables.link_to, tables.home), np.array([0]), np.array([15])
        )


@given(st.floats(0, 16383))
def test_cct_entries_hold_the_delay(delay: float) -> None:
    entry = pack_cct_entry(delay)
    assert 0 <= entry <= 0xFFFF
    finest = 1 / 16 if delay < 2047 else 0.5
    assert abs(cct_delay(entry) - delay) <= finest


def test_cct_tables() -> None:
    table = geometric_cct(128, 32)
    rates = [cct_rate_ratio(entry) for entry in table]
    assert rates[0] == 1
    assert rates[-1] == pytest.approx(1 / 32)
    assert rates == sorted(rates, reverse=True)
    square = quadratic_cct(128, 31)
    assert cct_delay(square[64]) == pytest.approx(31 * (64 / 127) ** 2, abs=0.07)
    how = cct_behaviour(table, ccti_timer=150, ccti_limit=127)
    assert how.most_senders == pytest.approx(32)
    assert how.recovery_s == pytest.approx(127 * 150 * 1.024e-6)
    assert cct_behaviour(table, 150, 10).deepest_ratio > how.deepest_ratio
    with pytest.raises(ValueError, match="packet times"):
        pack_cct_entry(-1)
