"""Routes and loads, held against counting flow by flow."""

from collections import Counter

import pytest

from collectors.infiniband import routes
from collectors.infiniband.tiers import check_tree, infer_rails, infer_tiers
from collectors.infiniband.topology import End
from simlab.ib.fabrics import Builder, fat_tree, three_tier, two_tier
from tests.collectors.infiniband.ib_fabric import end, fabric, named

SHAPES = [two_tier(4, 2, 2), two_tier(3, 2, 4, 3), fat_tree(4), three_tier(3, 2, 2, 2, 3)]


@pytest.mark.parametrize("topology", SHAPES)
def test_every_route_arrives(topology):
    topology, _, _ = fabric(topology)
    ends = routes.adapter_ports(topology)
    for a in ends:
        for b in ends:
            found = routes.route(topology, a, topology.port(b).lid)
            assert found.error == ""
            if a != b:
                assert found.hops[0].out == a
                assert found.hops[-1].into == b
                for one, other in zip(found.hops, found.hops[1:], strict=False):
                    assert one.into.guid == other.out.guid


@pytest.mark.parametrize("topology", SHAPES)
def test_all_to_all_is_the_sum_of_its_flows(topology):
    topology, _, _ = fabric(topology)
    ends = routes.adapter_ports(topology)
    slow = routes.pairs(topology, [(a, b) for a in ends for b in ends if a != b])
    fast = routes.all_to_all(topology, ends)
    assert {e: n for e, n in fast.items() if n} == dict(slow)
    some = ends[1::2]
    slow = routes.pairs(topology, [(a, b) for a in some for b in some if a != b])
    assert {e: n for e, n in routes.all_to_all(topology, some).items() if n} == dict(slow)


def test_ring_and_host_order():
    topology, _, _ = fabric()
    ends = routes.adapter_ports(topology, ["H3", "H1", "H0"])
    assert [topology.nodes[e.guid].name for e in ends] == ["H3", "H1", "H0"]
    load = routes.ring(topology, ends)
    assert load[ends[0]] == load[ends[1]] == load[ends[2]] == 1
    assert load[end(topology, "Leaf0", 1)] == 1  # to H0, from H1


def test_flows_through_a_port_are_who_shares_it():
    topology, _, _ = fabric()
    flows = [(end(topology, f"H{i}", 1), end(topology, "H7", 1)) for i in range(8)]
    assert routes.flows_through(topology, flows, end(topology, "Leaf3", 2)) == flows[:7]
    assert routes.flows_through(topology, flows, end(topology, "H2", 1)) == flows[2:3]
    load = routes.pairs(topology, flows)
    for out, count in load.items():
        assert len(routes.flows_through(topology, flows, out)) == count


def test_routes_that_do_not_arrive_say_where():
    topology, _, _ = fabric()
    leaf, target = named(topology, "Leaf0"), topology.port(end(topology, "H7", 1)).lid
    table = bytearray(leaf.lft)
    table[target] = 0xFF
    leaf.lft = bytes(table)
    found = routes.route(topology, end(topology, "H0", 1), target)
    assert found.error == f"Leaf0: no route to LID {target}"
    table[target] = 1  # back to the host that it came from
    leaf.lft = bytes(table)
    found = routes.route(topology, end(topology, "H1", 1), target)
    assert "an adapter forwards nothing" in found.error
    assert routes.route(topology, end(topology, "H0", 1), 4999).error == (
        "LID 4999 belongs to nobody here"
    )


def test_a_loop_is_named_and_carries_no_load():
    topology, _, _ = fabric()
    leaf, spine = named(topology, "Leaf0"), named(topology, "Spine0")
    target = topology.port(end(topology, "H7", 1)).lid
    for node, out in ((leaf, 3), (spine, 1)):
        table = bytearray(node.lft)
        table[target] = out
        node.lft = bytes(table)
    assert "loop" in routes.route(topology, end(topology, "H0", 1), target).error
    ends = routes.adapter_ports(topology)
    assert routes.all_to_all(topology, ends)[end(topology, "Leaf3", 2)] < 7


def test_hot_spot_is_found_and_even_load_is_not():
    topology, _, _ = fabric(two_tier(4, 4, 4))
    ends = routes.adapter_ports(topology)
    tiers = infer_tiers(topology)
    assert routes.hot_spots(topology, routes.all_to_all(topology, ends), tiers) == []
    leaf = named(topology, "Leaf1")
    leaf.lft = bytes(5 if out > 5 and out != 0xFF else out for out in leaf.lft)
    [worst, *_] = routes.hot_spots(topology, routes.all_to_all(topology, ends), tiers)
    assert worst.out == End(leaf.guid, 5)
    assert worst.ratio > 3


# --- tiers and rails ---------------------------------------------------------------------------
def test_tiers():
    topology, _, _ = fabric(fat_tree(4))
    tiers = infer_tiers(topology)
    by_name = {topology.nodes[g].name.rstrip("0123456789-"): t for g, t in tiers.items()}
    assert by_name == {"Leaf": 0, "Spine": 1, "Core": 2}


def rails(hosts=4, devices=2, swap=None):
    build = Builder()
    leaves = [build.switch(f"Rail{r}", hosts + 2) for r in range(devices)]
    spine = build.switch("Spine", devices)
    for h in range(hosts):
        for d in range(devices):
            leaf = leaves[d]
            if swap == h:
                leaf = leaves[(d + 1) % devices]
            build.cable(build.adapter(f"node{h} mlx5_{d}"), 1, leaf, h + 1)
    for r, leaf in enumerate(leaves):
        build.cable(leaf, hosts + 1, spine, r + 1)
    return build.topology


def test_rails_and_a_swapped_pair_of_cables():
    topology, _, _ = fabric(rails())
    found = infer_rails(topology)
    assert Counter(found.values()) == {0: 4, 1: 4}
    assert check_tree(topology, infer_tiers(topology), found) == []
    topology, _, _ = fabric(rails(6, 2, swap=3))
    found = infer_rails(topology)
    odd = check_tree(topology, infer_tiers(topology), found)
    assert {o.what for o in odd} <= {"on another rail"}
    # with one host of six swapped no leaf is of one rail: nothing can be said, or the two are
    assert {o.where for o in odd} in (set(), {"node3 mlx5_0/1", "node3 mlx5_1/1"})


def test_one_swapped_host_among_many_leaves():
    build = Builder()
    leaves = {(g, r): build.switch(f"g{g}r{r}", 6) for g in range(3) for r in range(2)}
    for g in range(3):
        for h in range(4):
            for d in range(2):
                r = 1 - d if (g, h) == (1, 2) else d
                build.cable(build.adapter(f"n{g}{h} mlx5_{d}"), 1, leaves[g, r], h + 1)
    topology, _, _ = fabric(build.topology)
    odd = check_tree(topology, infer_tiers(topology), infer_rails(topology))
    assert {o.where for o in odd if o.what == "on another rail"} == {
        "n12 mlx5_0/1",
        "n12 mlx5_1/1",
    }


def test_mlx5_10_comes_after_mlx5_2():
    build = Builder()
    leaf = build.switch("Leaf", 12)
    for d in range(11):
        build.cable(build.adapter(f"n mlx5_{d}"), 1, leaf, d + 1)
    found = infer_rails(build.topology)
    assert [rail for _, rail in sorted(found.items())] == list(range(11))


def test_missing_and_slow_links_are_odd():
    topology, _, _ = fabric(two_tier(4, 2, 4))
    assert check_tree(topology, infer_tiers(topology), {}) == []
    up = topology.port(end(topology, "Leaf2", 5))
    far = topology.port(up.peer)
    for port in (up, far):
        port.peer = None
    odd = {(o.what, o.where) for o in check_tree(topology, infer_tiers(topology), {})}
    assert ("links missing", "Leaf2") in odd
    assert ("unequal up and down", "Leaf2") in odd
    topology, _, _ = fabric(two_tier(4, 2, 4))
    for e in (end(topology, "Leaf1", 6), topology.port(end(topology, "Leaf1", 6)).peer):
        topology.port(e).speed = "QDR"
    [slow] = [
        o for o in check_tree(topology, infer_tiers(topology), {}) if o.what == "reduced rate"
    ]
    assert "Leaf1/6" in slow.where
    assert slow.detail == "4xQDR, its like have 4xHDR"


def test_a_fabric_built_oversubscribed_is_not_odd():
    topology, _, _ = fabric(two_tier(4, 1, 8))
    assert check_tree(topology, infer_tiers(topology), {}) == []
