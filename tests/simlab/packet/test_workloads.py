"""Point-to-point workloads: the published size distribution, Poisson arrivals, who sends where."""

import math
from itertools import pairwise

import pytest

from collectors.model.errors import ConfigInvalid
from collectors.model.roce import source_port
from simlab.packet import workloads
from simlab.packet.topology import fat_tree, leaf_spine, rail_optimised, star
from simlab.packet.workloads import (
    Flow,
    SizeDistribution,
    from_ports,
    incast,
    permutation,
    poisson,
    traffic_of_flows,
)

# DCTCP (SIGCOMM'10) figure 4 as the HPCC simulator's WebSearch_distribution.txt has it.
WEB_SEARCH = {
    1: 0.0, 10_000: 0.15, 20_000: 0.2, 30_000: 0.3, 50_000: 0.4, 80_000: 0.53, 200_000: 0.6,
    1_000_000: 0.7, 2_000_000: 0.8, 5_000_000: 0.9, 10_000_000: 0.97, 30_000_000: 1.0,
}  # fmt: skip


def test_the_web_search_distribution_is_the_published_one():
    sizes = workloads.WEB_SEARCH
    assert dict(zip(sizes.bytes_, sizes.probability, strict=True)) == WEB_SEARCH
    middles = [
        (q - p) * (a + b) / 2 for (a, p), (b, q) in pairwise(WEB_SEARCH.items())
    ]  # fmt: skip
    assert sizes.mean_bytes == pytest.approx(sum(middles))
    assert 1.6e6 < sizes.mean_bytes < 1.8e6  # the 1.7 MB that papers name


def test_a_size_is_read_off_the_line_between_two_points():
    sizes = SizeDistribution((100, 200, 1000), (0.25, 0.5, 1.0))
    wanted = {0.0: 100, 0.25: 100, 0.375: 150, 0.5: 200, 0.75: 600, 1.0: 1000}
    assert {share: sizes.size_at(share) for share in wanted} == wanted
    assert sizes.mean_bytes == 100 * 0.25 + 150 * 0.25 + 600 * 0.5


def test_a_step_of_a_distribution_is_a_size_by_itself():
    sizes = SizeDistribution((100, 200, 300, 300), (0.5, 0.5, 0.5, 1.0))
    assert [sizes.size_at(share) for share in (0.4, 0.5, 0.6, 1.0)] == [100, 100, 300, 300]
    assert SizeDistribution((1000, 2000), (0.0, 1.0)).size_at(0.5) == 1500
    assert SizeDistribution((100, 300, 300), (0.5, 1.0, 1.0)).size_at(1.0) == 300
    assert SizeDistribution((0, 1), (0.0, 1.0)).size_at(0.1) == 1
    assert SizeDistribution((0, 1), (0.5, 1.0)).size_at(0.1) == 1  # at least a byte


@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        ((100,), (1.0,)),
        ((100, 50), (0.0, 1.0)),
        ((100, 200), (0.6, 0.5)),
        ((100, 200, 300), (0.0, 1.0, 0.9)),
        ((100, 200, 300), (0.5, 0.4, 1.0)),
        ((100, 300, 200), (0.5, 0.5, 1.0)),
        ((100, 200, 300), (0.0, 1.0)),
        ((1, 2), (-0.1, 1.0)),
        ((), ()),
        ((100, 200), (0.0, 0.99)),
        ((100, 200), (0.0, 1.01)),
    ],
)
def test_a_distribution_rises_to_one_in_two_points_at_least(sizes, shares):
    with pytest.raises(ConfigInvalid, match="rising points that end at 1"):
        SizeDistribution(sizes, shares)


@pytest.mark.parametrize(
    ("sizes", "shares", "wrong"),
    [
        ((0, 2), (0.0, 1.0), False),
        ((-1, 2), (0.0, 1.0), True),
        ((0, 0), (0.0, 1.0), True),
        ((1e15, 1e15), (0.0, 1.0), False),
        ((1e15, 1e15 + 1), (0.0, 1.0), True),
    ],
)
def test_a_mean_size_is_above_0_and_fits_the_engine(sizes, shares, wrong):
    if wrong:
        with pytest.raises(ConfigInvalid, match="mean above 0"):
            SizeDistribution(sizes, shares)
    else:
        assert SizeDistribution(sizes, shares).mean_bytes > 0


def test_the_least_flows_are_made_and_none_of_nothing():
    assert incast([0], 1, 1, qps=1).messages[0].size_bytes == 1
    for wrong in ({"size_bytes": 0}, {"qps": 0}):
        asked = {"size_bytes": 1, "qps": 1, **wrong}
        with pytest.raises(ConfigInvalid, match="is not at least 1"):
            incast([0], 1, **asked)
        with pytest.raises(ConfigInvalid, match="is not at least 1"):
            permutation((0, 1), shift=1, **asked)


def test_poisson_flows_load_every_senders_link_as_asked():
    """4 senders at 40 % of 80 Gbit/s with flows of 10 kB: 400,000 flows/s each."""
    sizes = SizeDistribution((10_000, 10_000), (0.0, 1.0))
    hosts = (3, 5, 8, 9)
    traffic = poisson(hosts, sizes, load=0.4, rate_bps=80e9, duration_s=10e-3)
    starts: dict[int, list[float]] = {host: [] for host in hosts}
    for message in traffic.messages:
        starts[traffic.connections[message.connection].src].append(message.start_s)
    for times in starts.values():
        assert len(times) == pytest.approx(4000, abs=4 * math.sqrt(4000))
        assert 0 <= min(times) < max(times) < 10e-3
        gaps = [b - a for a, b in pairwise(sorted(times))]
        mean = sum(gaps) / len(gaps)
        assert mean == pytest.approx(2.5e-6, rel=0.07)
        spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
        assert spread == pytest.approx(mean, rel=0.1)  # exponential
    pairs = {(one.src, one.dst) for one in traffic.connections}
    assert pairs == {(a, b) for a in hosts for b in hosts if a != b}
    assert {message.size_bytes for message in traffic.messages} == {10_000}
    assert traffic.flows
    assert traffic.name == "poisson0.4"


def test_poisson_flows_go_by_seed():
    def starts(**more):
        sizes = SizeDistribution((1000, 2000), (0.0, 1.0))
        asked = {"load": 0.5, "rate_bps": 1e9, "duration_s": 1e-3, **more}
        made = poisson((0, 1), sizes, **asked)
        return [message.start_s for message in made.messages]

    assert starts() == starts(seed=1) != starts(seed=2)
    assert starts()[0] not in starts(duration_s=starts()[0])  # which is when nothing starts


@pytest.mark.parametrize("load", [0.0, -0.5, 1.01, math.nan])
def test_a_load_is_above_zero_and_one_at_most(load):
    sizes = SizeDistribution((1000, 2000), (0.0, 1.0))
    with pytest.raises(ConfigInvalid, match="load"):
        poisson((0, 1), sizes, load=load, rate_bps=1e9, duration_s=1e-6)
    assert poisson((0, 1), sizes, load=1.0, rate_bps=1e9, duration_s=1e-4).messages


def test_an_incast_starts_sender_after_sender():
    made = incast([4, 2, 7], 1, 5000, qps=2, gap_s=3e-6)
    assert [one.src for one in made.connections] == [4, 4, 2, 2, 7, 7]
    assert {one.dst for one in made.connections} == {1}
    starts = [message.start_s for message in made.messages]
    assert starts == pytest.approx([0.0, 0.0, 3e-6, 3e-6, 6e-6, 6e-6])
    assert {message.size_bytes for message in made.messages} == {5000}
    assert (made.name, made.flows) == ("incast3", False)
    plain = incast([4, 2], 1, 5000)
    assert [message.start_s for message in plain.messages] == [0.0, 0.0]


def test_a_permutation_with_a_shift_goes_to_the_host_so_much_further():
    made = permutation((10, 11, 12, 13), 9001, qps=2, shift=3)
    ends = [(one.src, one.dst) for one in made.connections]
    assert ends[::2] == ends[1::2] == [(10, 13), (11, 10), (12, 11), (13, 12)]
    assert {message.size_bytes for message in made.messages} == {4500}
    assert {message.size_bytes for message in permutation((0, 1), 1, qps=2).messages} == {1}
    assert len(permutation((0, 1, 2), 900, shift=1).connections) == 3
    assert made.flows is False


def test_a_random_permutation_is_one_cycle_by_seed():
    hosts = tuple(range(20, 28))
    next_of = {one.src: one.dst for one in permutation(hosts, 900).connections}
    node, seen = 20, []
    while node not in seen:
        seen.append(node)
        node = next_of[node]
    assert (node, sorted(seen)) == (20, list(hosts))
    again = [permutation(hosts, 900, seed=seed).connections for seed in (1, 1, 2)]
    assert again[0] == again[1] == permutation(hosts, 900).connections
    assert again[1] != again[2]


def test_queue_pairs_are_numbered_by_host_in_start_order_and_ports_follow_the_kernel():
    flows = [
        Flow(src=0, dst=1, size_bytes=10, start_s=2e-6, priority=5),
        Flow(src=2, dst=1, size_bytes=20, start_s=1e-6, sport=7, dport=9),
    ]
    made = traffic_of_flows(flows)
    early, late = made.connections
    assert (early.src, early.src_qp, early.dst_qp) == (2, 0x100, 0x100)
    assert (late.src, late.src_qp, late.dst_qp) == (0, 0x100, 0x101)
    assert (early.sport, early.dport, early.priority) == (7, 9, 3)
    assert (late.sport, late.dport, late.priority) == (source_port(0x100, 0x101), 4791, 5)
    sent = [(one.connection, one.size_bytes, one.start_s) for one in made.messages]
    assert sent == [(0, 20, 1e-6), (1, 10, 2e-6)]
    assert (made.flows, made.name) == (True, "flows")
    assert not traffic_of_flows(flows, reuse=False).flows


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: star(10**8), "topology: size"),
        (lambda: leaf_spine(1, 1, 1, parallel=10**9), "topology: size"),
        (lambda: leaf_spine(20_000, 20_000, 1), "topology: size"),
        (lambda: fat_tree(2000), "topology: size"),
        (lambda: rail_optimised(10**8, 2, 1), "topology: size"),
        (lambda: incast([0], 1, 9, qps=10**9), "incast: size"),
        (lambda: permutation([0, 1], 9, qps=10**9), "permutation: size"),
        (lambda: permutation([0, 1], 0), "permutation: size_bytes"),
        (
            lambda: poisson([0, 1], workloads.WEB_SEARCH, load=1, rate_bps=1e9, duration_s=1e18),
            "poisson: size",
        ),
        (
            lambda: poisson([0], workloads.WEB_SEARCH, load=1, rate_bps=1e9, duration_s=1),
            "poisson: hosts",
        ),
        (lambda: SizeDistribution((0, 0), (0.0, 1.0)), "sizes"),
        (lambda: SizeDistribution((-5, 10), (0.0, 1.0)), "sizes"),
        (lambda: SizeDistribution((1, 10), (-1.0, 1.0)), "sizes"),
    ],
)
def test_what_is_too_much_or_nothing_is_refused_before_it_is_made(make, place):
    with pytest.raises(ConfigInvalid, match=place):
        make()


def test_a_host_gives_its_queue_pairs_the_chosen_ports_in_turn():
    made = from_ports(incast([0, 1], 2, 9, qps=3), (1000, 2000))
    assert [(one.src, one.sport) for one in made.connections] == [
        (0, 1000), (0, 2000), (0, 1000), (1, 1000), (1, 2000), (1, 1000),
    ]  # fmt: skip
    assert {one.dport for one in made.connections} == {4791}
    for wrong in ((), (-1,), (65_536,)):
        with pytest.raises(ConfigInvalid, match="sports"):
            from_ports(made, wrong)


def test_the_first_and_the_last_port_may_be_chosen():
    made = from_ports(incast([0], 1, 1, qps=2), (0, 65535))
    assert [one.sport for one in made.connections] == [0, 65535]
