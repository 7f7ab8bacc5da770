import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.ecmp_hash import (
    E_ECMP,
    NS3_FIELDS,
    FlowKey,
    HashAlgorithm,
    HashField,
    HashSpec,
    hash_value,
    pack_hash_key,
)
from tuner.models.balls_in_bins import max_load_distribution, max_over_mean_quantile, spread
from tuner.models.collective import (
    Hierarchy,
    all_to_all_connections,
    all_to_all_s,
    allreduce_bus_bandwidth,
    half_ring_s,
    hierarchical_allreduce_s,
    job_cost,
    pinning_conflicts,
    ring_allreduce_s,
    ring_connections,
    tree_allreduce_s,
    tree_connections,
)
from tuner.models.ecmp_prediction import (
    connection_rates,
    hops_across,
    oversubscribed_rate,
    predict_connections,
    predict_rings,
    rail_rings,
    slice_keys,
)
from tuner.models.fabric_graph import FabricGraph, leaf_spine, three_tier
from tuner.models.hashing import hash_keys, key_bytes
from tuner.models.max_min import link_loads, max_min_rates
from tuner.models.routing import NoPathError, Paths, Router, random_keys


@pytest.mark.parametrize(
    ("flows", "links", "ratio"), [(8, 8, 2.60), (64, 16, 1.97), (512, 16, 1.32), (2048, 64, 1.44)]
)
def test_published_max_loads(flows: int, links: int, ratio: float) -> None:
    assert spread(flows, links).max_over_mean == pytest.approx(ratio, rel=0.005)


def test_spread_agrees_with_counting_every_outcome() -> None:
    loads = [np.bincount(ways, minlength=3) for ways in itertools.product(range(3), repeat=4)]
    got = spread(4, 3)
    assert got.max_over_mean == pytest.approx(np.mean([load.max() for load in loads]) / (4 / 3))
    assert got.slowest_share == pytest.approx(np.mean([4 / 3 / load.max() for load in loads]))
    carried = np.mean([np.minimum(load, 4 / 3).sum() / 4 for load in loads])
    assert got.carried_ratio == pytest.approx(carried)
    assert got.no_collision_ratio == 0
    assert spread(2, 3).no_collision_ratio == pytest.approx(2 / 3)


@given(st.integers(1, 200), st.integers(1, 64))
@settings(max_examples=40, deadline=None)
def test_spread_properties(flows: int, links: int) -> None:
    distribution = max_load_distribution(flows, links)
    assert distribution.sum() == pytest.approx(1)
    assert distribution.min() >= 0
    got = spread(flows, links)
    assert got.max_over_mean >= 1 - 1e-9
    assert got.slowest_share <= 1 + 1e-9
    assert got.carried_ratio <= 1 + 1e-9
    more = spread(2 * flows, links)
    assert more.carried_ratio >= got.carried_ratio - 1e-9
    median, tail = (max_over_mean_quantile(flows, links, q) for q in (0.5, 0.99))
    assert 1 - 1e-9 <= median <= tail


def test_one_link_is_no_gamble() -> None:
    assert spread(7, 1).max_over_mean == pytest.approx(1)
    with pytest.raises(ValueError, match="needs flows and links"):
        spread(0, 4)


def test_vectorised_hashes_equal_the_scalar_ones() -> None:
    draw = random.Random(5)
    flows = [
        FlowKey(*(draw.getrandbits(bits) for bits in (32, 32, 16)), dst_qp=draw.getrandbits(24))
        for _ in range(50)
    ]
    columns = {
        field: np.array([getattr(flow, field.value) for flow in flows])
        for field in (*NS3_FIELDS, HashField.DST_QP)
    }
    for algorithm in HashAlgorithm:
        for fields in (E_ECMP, NS3_FIELDS, E_ECMP[:-2]):
            spec = HashSpec(algorithm, fields, seed=0x1234567)
            got = hash_keys(key_bytes(columns, spec, len(flows)), spec)
            want = [hash_value(pack_hash_key(f, spec), algorithm, spec.seed) for f in flows]
            assert got.tolist() == want
    turned = HashSpec(rotate=4)
    plain = hash_keys(key_bytes(columns, HashSpec(), 50), HashSpec())
    rotated = hash_keys(key_bytes(columns, turned, 50), turned)
    assert (rotated == (plain >> np.uint64(4) | (plain & np.uint64(15)) << np.uint64(12))).all()
    with pytest.raises(KeyError, match="in_port"):
        key_bytes(columns, HashSpec(fields=(HashField.IN_PORT,)), 50)


def brute_force_max_min(paths: list[list[int]], capacity: list[float]) -> list[float]:
    rates: list[float | None] = [None] * len(paths)
    left = list(capacity)
    while None in rates:
        open_on = [
            sum(rates[i] is None for i, path in enumerate(paths) if link in path)
            for link in range(len(left))
        ]
        level, link = min((left[k] / n, k) for k, n in enumerate(open_on) if n)
        for i, path in enumerate(paths):
            if rates[i] is None and link in path:
                rates[i] = level
                for k in path:
                    left[k] -= level
    return [rate for rate in rates if rate is not None]


@given(
    st.lists(
        st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True), min_size=1, max_size=20
    ),
    st.lists(st.floats(0.1, 10), min_size=8, max_size=8),
)
@settings(max_examples=100, deadline=None)
def test_max_min_is_progressive_filling(paths: list[list[int]], capacity: list[float]) -> None:
    start = np.cumsum([0, *map(len, paths)])
    links = np.array([link for path in paths for link in path])
    packed = Paths(start, links, np.ones(len(links)))
    rates = max_min_rates(packed, np.array(capacity))
    assert rates == pytest.approx(brute_force_max_min(paths, capacity), rel=1e-9)
    loads = link_loads(packed, rates, 8)
    assert (loads <= np.array(capacity) * (1 + 1e-9)).all()
    # Unit change: rates scale with capacities.
    scaled = max_min_rates(packed, np.array(capacity) * 1e9)
    assert scaled == pytest.approx(rates * 1e9, rel=1e-9)


def test_routes_are_shortest_connected_paths() -> None:
    graph = three_tier(4, 2, 3, 2, 2)
    router = Router(graph)
    source, target = all_to_all_connections(np.arange(graph.nics))
    paths = router.route(source, target, random_keys(len(source), 1), seed=1)
    for i in range(0, len(source), 7):
        links = paths.links[paths.start[i] : paths.start[i + 1]]
        assert links[0] == source[i]
        assert links[-1] == graph.nics + target[i]
        inner = links[1:-1] - 2 * graph.nics
        at = graph.nic_leaf[source[i]]
        for link in inner:
            assert graph.link_from[link] == at
            at = graph.link_to[link]
        assert at == graph.nic_leaf[target[i]]
        same_leaf = graph.nic_leaf[source[i]] == graph.nic_leaf[target[i]]
        same_pod = source[i] // 6 == target[i] // 6
        assert len(inner) == (0 if same_leaf else 2 if same_pod else 4)


def test_choices_are_uniform_and_independent_between_tiers() -> None:
    graph = three_tier(2, 4, 8, 4, 4)
    router = Router(graph)
    source = np.repeat(np.arange(32), 200)
    target = np.tile(np.arange(32, 64), 200)
    paths = router.route(source, target, random_keys(len(source), 3), seed=3)
    loads = link_loads(paths, np.ones(paths.flows), len(graph.capacity_bps))[128:]
    core_links = loads[np.isin(graph.link_from, np.flatnonzero(graph.tier == 2))]
    up = loads[(graph.tier[graph.link_from] == 1) & (graph.tier[graph.link_to] == 2)]
    assert np.count_nonzero(up) == 16
    assert up[up > 0].std() < 4 * np.sqrt(6400 / 16)
    assert core_links.sum() == 6400


def test_one_hash_for_both_tiers_polarises() -> None:
    graph = three_tier(2, 4, 8, 4, 4)
    source, target = np.arange(32).repeat(50), np.arange(32, 64).repeat(50)
    keys = random_keys(len(source), 4)
    used = {}
    for name, values in (("same", keys), ("other", np.stack([keys, keys >> np.uint64(20)]))):
        paths = Router(graph).route(source, target, values)
        loads = link_loads(paths, np.ones(paths.flows), len(graph.capacity_bps))[128:]
        up = (graph.tier[graph.link_from] == 1) & (graph.tier[graph.link_to] == 2)
        used[name] = np.count_nonzero(loads[up])
    assert used == {"same": 4, "other": 16}


def test_weights_and_failures() -> None:
    graph = leaf_spine(2, 1, 2)
    weighted = FabricGraph(
        graph.nic_leaf,
        graph.nic_bps,
        graph.tier,
        graph.link_from,
        graph.link_to,
        graph.link_bps,
        np.array([3, 1, 3, 1, 1, 1, 1, 1]),
    )
    source, target = np.zeros(8000, dtype=np.int64), np.ones(8000, dtype=np.int64)
    loads = link_loads(
        Router(weighted).route(source, target, random_keys(8000, 1), seed=2), np.ones(8000), 12
    )
    assert loads[4] == pytest.approx(6000, rel=0.03)
    sprayed = Router(weighted).spray(source[:1], target[:1])
    assert sorted(sprayed.share.tolist()) == [0.25, 0.25, 0.75, 0.75, 1, 1]
    half = graph.without_links(np.array([0]))
    loads = link_loads(Router(half).route(source, target, random_keys(8000, 1)), np.ones(8000), 11)
    assert np.count_nonzero(loads[4:]) == 2
    with pytest.raises(NoPathError, match=r"NIC 0 \(leaf 0\) has no path to NIC 1 \(leaf 1\)"):
        Router(graph.without_links(np.array([0, 1]))).route(source, target, random_keys(8000, 1))


def test_wrong_graphs_are_refused() -> None:
    graph = leaf_spine(2, 1, 2)
    with pytest.raises(ValueError, match="link_to names a switch"):
        FabricGraph(
            graph.nic_leaf,
            graph.nic_bps,
            graph.tier,
            graph.link_from,
            graph.link_to + 9,
            graph.link_bps,
        )
    with pytest.raises(ValueError, match="differ in length"):
        FabricGraph(
            graph.nic_leaf,
            graph.nic_bps[:1],
            graph.tier,
            graph.link_from,
            graph.link_to,
            graph.link_bps,
        )


def shuffled(nics: int):
    return lambda draw: draw.permutation(nics)


def test_published_ring_under_ecmp() -> None:
    graph = leaf_spine(8, 16, 16)
    got = predict_rings(graph, shuffled(128), 8, range(60))
    assert got.slowest_bps.mean() == pytest.approx(0.713, rel=0.03)
    split = predict_rings(graph, shuffled(128), 8, range(60), mode="split")
    assert split.slowest_bps.mean() == pytest.approx(0.521, rel=0.04)
    low, middle, high = got.quantiles()
    assert low < middle < high <= 1
    assert got.quantiles(rebalanced=True)[1] == pytest.approx(middle)


def test_what_helps_and_its_limits() -> None:
    def median(flows: int, **how: object) -> float:
        uplink = float(how.pop("uplink", 1.0))  # type: ignore[arg-type]
        graph = leaf_spine(4, 8, 8, uplink_bps=uplink)
        return predict_rings(graph, shuffled(32), flows, range(30), **how).quantiles()[1]  # type: ignore[arg-type]

    assert median(1) < median(4) < median(16) < median(64) <= 1
    assert median(4) < median(4, uplink=2.0)
    assert median(4, mode="split") < median(4)
    assert median(1, sprayed=True) == pytest.approx(1)
    # One flow per connection: splitting over it changes nothing.
    assert median(1, mode="split") == pytest.approx(median(1))
    # Infinite up-links: nothing but the NIC limits.
    assert median(1, uplink=1e9) == pytest.approx(1)


def test_path_pinning() -> None:
    graph = leaf_spine(8, 16, 16)
    aligned = rail_rings(np.arange(16), 8)
    keys = slice_keys(16)
    assert predict_rings(graph, aligned, 1, [0], keys=keys).slowest_bps[0] == pytest.approx(1)

    def scattered(draw: np.random.Generator) -> np.ndarray:
        return rail_rings(draw.permutation(16), 8)

    got = predict_rings(graph, scattered, 1, range(40), keys=keys)
    assert got.slowest_bps.mean() == pytest.approx(0.52, abs=0.02)
    for seed in range(5):
        rings = scattered(np.random.default_rng([seed, 1]))
        conflicts = pinning_conflicts(
            *ring_connections(rings), graph.nic_leaf, 16, np.arange(128) % 16
        )
        one = predict_rings(graph, rings, 1, [0], keys=keys).slowest_bps[0]
        assert one == pytest.approx(1 / conflicts)
    inside = ring_connections(np.arange(4))
    assert pinning_conflicts(*inside, graph.nic_leaf, 16, np.arange(128) % 16) == 0


def test_connections_of_collectives() -> None:
    order = np.array([5, 3, 9, 1])
    source, target = ring_connections(order)
    assert list(zip(source.tolist(), target.tolist(), strict=True)) == [
        (5, 3), (3, 9), (9, 1), (1, 5),
    ]  # fmt: skip
    source, target = all_to_all_connections(order)
    assert len(source) == 12
    assert (source != target).all()
    for members in (2, 5, 16, 33):
        order = np.arange(members)
        source, target = tree_connections(order)
        pairs = set(zip(source.tolist(), target.tolist(), strict=True))
        assert {(b, a) for a, b in pairs} == pairs
        assert set(source.tolist()) == set(order.tolist())
        assert len(source) == 4 * (members - 1)
        sent = np.bincount(source[: 2 * (members - 1)])
        assert sent.max() <= 3


def test_connection_rates_by_mode() -> None:
    rates = np.array([1.0, 2.0, 3.0, 3.0])
    assert connection_rates(rates, 2, "round_robin").tolist() == [3, 6]
    assert connection_rates(rates, 2, "split").tolist() == [2, 6]
    graph = leaf_spine(2, 4, 4)
    pairs = (np.arange(4), np.arange(4, 8))
    got = predict_connections(graph, pairs, 4, range(3))
    assert [len(rates) for rates in got] == [4, 4, 4]
    assert max(rates.max() for rates in got) <= 1 + 1e-9
    tree = predict_connections(graph, lambda draw: tree_connections(draw.permutation(8)), 1, [0])
    assert tree[0].max() <= 1 + 1e-9


def test_collective_times() -> None:
    assert ring_allreduce_s(1e9, 4, 50e9) == pytest.approx(1.5 * 1e9 / 50e9)
    assert half_ring_s(1e9, 4, 50e9, 1e-6) * 2 == pytest.approx(
        ring_allreduce_s(1e9, 4, 50e9, 1e-6)
    )
    assert tree_allreduce_s(1e9, 8, 50e9, 1e-6) == pytest.approx(2e9 / 50e9 + 6e-6)
    assert tree_allreduce_s(1e9, 1, 50e9) == ring_allreduce_s(1e9, 1, 50e9) == 0
    assert all_to_all_s(1e9, 4, 50e9) == pytest.approx(0.75 * 1e9 / 50e9)
    assert allreduce_bus_bandwidth(1e9, 4, ring_allreduce_s(1e9, 4, 50e9)) == pytest.approx(50e9)


def test_oversubscription_as_published() -> None:
    def time_at(ratio: float) -> float:
        return hierarchical_allreduce_s(1e9, Hierarchy(8, 64, 450e9, 50e9 / ratio))

    assert time_at(7) / time_at(1) == pytest.approx(4.4, rel=0.02)
    assert time_at(2.8) / time_at(1) == pytest.approx(2.0, rel=0.02)
    groups = np.arange(64) // 8
    assert hops_across(np.arange(64), groups) == 8
    assert hops_across(np.arange(64).reshape(8, 8).T.ravel(), groups) == 64
    assert oversubscribed_rate(50e9, 16, 400e9) == 25e9
    assert oversubscribed_rate(50e9, 8, 400e9) == 50e9
    assert oversubscribed_rate(50e9, 0, 0) == 50e9


def test_job_cost() -> None:
    cost = job_cost(1.0, 0.6, overlap_ratio=0.5, gpus=1024, steps=3600)
    assert cost.step_s == pytest.approx(1.1)
    assert cost.gpu_hours == pytest.approx(1024 * 1.1)
    assert cost.communication_ratio == pytest.approx(0.1 / 1.1)
    hidden = job_cost(1.0, 0.4, overlap_ratio=0.5, gpus=1, steps=1)
    assert hidden.communication_ratio == 0
    with pytest.raises(ValueError, match="overlap"):
        job_cost(1, 1, overlap_ratio=1.1, gpus=1, steps=1)
