"""The kernel tools' text, recorded in the lab after scenario no-ect."""

from pathlib import Path

import pytest

from simlab.rxe.counters import LabCountersError, parse_counters, retransmissions, since

TEXT = (Path(__file__).parents[2] / "fixtures/rxe_lab/no-ect/snapshot.txt").read_text()


def test_a_snapshot_has_every_host_and_port():
    counters = parse_counters(TEXT)
    hosts = ["h1", "h2", "h3", "h4"]
    assert sorted(counters.rdma) == sorted(counters.ip6) == sorted(counters.netdev) == hosts
    assert sorted(counters.ports) == ["p1", "p2", "p3", "p4"]
    p4 = counters.ports["p4"]
    assert (p4.rate_bps, p4.mtu_bytes, p4.ecn, p4.pmax_ratio) == (5_000_000, 1500, True, 0.2)
    assert (p4.kmin_bytes, p4.kmax_bytes, p4.limit_bytes) == (30_000, 300_000, 1_000_000)


def test_marks_and_drops_are_told_apart_and_marks_arrive():
    counters = parse_counters(TEXT)
    assert counters.ports["p4"].marked == counters.ip6["h4"]["Ip6InCEPkts"] > 0
    assert counters.ports["p4"].drops > 0
    assert counters.ports["p1"].drops == 0


def test_difference_of_a_snapshot_with_itself_keeps_settings_and_counts_nothing():
    counters = parse_counters(TEXT)
    none = since(counters, counters)
    assert not any(value for row in none.rdma.values() for value in row.values())
    assert none.ports["p4"].marked == none.ports["p4"].drops == 0
    assert none.ports["p4"].rate_bps == 5_000_000


def test_a_host_that_is_new_counts_from_zero():
    after = parse_counters(TEXT)
    lines = [line for line in TEXT.splitlines(keepends=True) if "/h3:" not in line]
    before = parse_counters("".join(lines))
    assert since(before, after).ip6["h3"] == after.ip6["h3"]


def test_retransmissions_are_the_senders():
    counters = parse_counters(TEXT)
    assert retransmissions(counters, "h3") > 0
    assert retransmissions(counters, "h9") == 0


@pytest.mark.parametrize("text", ["", "x", TEXT.replace("[{", "{", 1), TEXT[: len(TEXT) // 2]])
def test_broken_text_is_one_error(text):
    with pytest.raises(LabCountersError):
        parse_counters(text)
