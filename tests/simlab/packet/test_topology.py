"""How many nodes and cables a fabric has, and which cable joins which."""

from collections import Counter

import pytest

from collectors.model.errors import ConfigInvalid
from simlab.packet.topology import (
    Cable,
    Topology,
    fat_tree,
    leaf_spine,
    next_hops,
    rail_optimised,
    star,
)

FAST, SLOW = 400e9, 200e9


def ends(fabric: Topology) -> list[tuple[int, int]]:
    return [(cable.a, cable.b) for cable in fabric.cables]


def joined(fabric: Topology) -> dict[tuple[int, int], list[float]]:
    """Return the rates of the cables between every two tiers."""
    found: dict[tuple[int, int], list[float]] = {}
    for cable in fabric.cables:
        low, high = sorted((fabric.tier[cable.a], fabric.tier[cable.b]))
        found.setdefault((low, high), []).append(cable.rate_bps)
    return found


def test_a_star_is_hosts_around_the_last_node():
    fabric = star(3, rate_bps=FAST, delay_s=5e-6)
    assert fabric.cables == tuple(Cable(host, 3, FAST, 5e-6) for host in range(3))
    assert (fabric.node_count, fabric.switches, fabric.tier) == (4, (3,), (0, 0, 0, 1))
    assert (fabric.name, fabric.nics_per_host, fabric.hosts) == ("star3", 1, (0, 1, 2))
    assert star(1).hosts == (0,)


def test_every_leaf_has_cables_to_every_spine():
    fabric = leaf_spine(2, 3, 2, rate_bps=SLOW, fabric_bps=FAST, delay_s=2e-6, parallel=2)
    assert ends(fabric)[:4] == [(0, 4), (1, 4), (2, 5), (3, 5)]
    up = Counter(ends(fabric)[4:])
    assert up == {(leaf, spine): 2 for leaf in (4, 5) for spine in (6, 7, 8)}
    assert joined(fabric) == {(0, 1): [SLOW] * 4, (1, 2): [FAST] * 12}
    assert fabric.tier == (0, 0, 0, 0, 1, 1, 2, 2, 2)
    assert (fabric.node_count, fabric.switches) == (9, (4, 5, 6, 7, 8))
    assert {cable.delay_s for cable in fabric.cables} == {2e-6}
    assert fabric.name == "leafspine2x3"
    plain = leaf_spine(2, 1, 1, rate_bps=SLOW)
    assert joined(plain) == {(0, 1): [SLOW] * 2, (1, 2): [SLOW] * 2}
    assert leaf_spine(1, 0, 1).switches == (1,)


@pytest.mark.parametrize(("ports", "hosts"), [(2, 2), (4, 16), (6, 54)])
def test_a_fat_tree_of_k_ports_has_k_cubed_over_4_hosts(ports, hosts):
    """Al-Fares et al., SIGCOMM'08: k pods of k/2 leaves and k/2 spines, (k/2)² cores."""
    half = ports // 2
    fabric = fat_tree(ports, rate_bps=SLOW, fabric_bps=FAST, delay_s=3e-6)
    assert Counter(fabric.tier) == {0: hosts, 1: ports * half, 2: ports * half, 3: half * half}
    assert fabric.node_count == hosts + 2 * ports * half + half * half
    assert joined(fabric) == {
        (0, 1): [SLOW] * hosts, (1, 2): [FAST] * hosts, (2, 3): [FAST] * hosts
    }  # fmt: skip
    degrees = Counter(node for pair in ends(fabric) for node in pair)
    assert {degrees[switch] for switch in fabric.switches} == {ports}
    assert {degrees[host] for host in fabric.hosts} == {1}
    assert max(Counter(ends(fabric)).values()) == 1
    assert {cable.delay_s for cable in fabric.cables} == {3e-6}
    assert fabric.name == f"fattree{ports}"


def test_pods_of_a_fat_tree_meet_only_at_the_cores_and_each_spine_has_its_own_ones():
    fabric = fat_tree(4)
    up = [pair for pair in ends(fabric) if fabric.tier[pair[0]] == 1]
    assert sorted(up) == sorted(
        (16 + 2 * pod + leaf, 24 + 2 * pod + spine)
        for pod in range(4) for leaf in range(2) for spine in range(2)
    )  # fmt: skip
    cores = {
        spine: {b for a, b in ends(fabric) if a == spine} for spine in range(24, 32)
    }  # fmt: skip
    assert [cores[spine] for spine in range(24, 32)] == [{32, 33}, {34, 35}] * 4


def test_fewer_hosts_on_a_leaf_leave_the_tree_as_it_is():
    fabric = fat_tree(4, hosts_per_leaf=1)
    assert ends(fabric)[:8] == [(host, 8 + host) for host in range(8)]
    assert Counter(fabric.tier) == {0: 8, 1: 8, 2: 8, 3: 4}


def test_rails_of_every_block_have_switches_of_their_own():
    fabric = rail_optimised(
        3, 2, 2, rate_bps=SLOW, fabric_bps=FAST, delay_s=4e-6, hosts_per_block=2
    )
    # hosts 0 and 1 are a block, host 2 another; two rails each: switches 6 to 9, spines 10 and 11
    assert ends(fabric)[:6] == [(0, 6), (1, 7), (2, 6), (3, 7), (4, 8), (5, 9)]
    assert ends(fabric)[6:] == [(leaf, spine) for leaf in range(6, 10) for spine in (10, 11)]
    assert joined(fabric) == {(0, 1): [SLOW] * 6, (1, 2): [FAST] * 8}
    assert fabric.tier == (0,) * 6 + (1,) * 4 + (2,) * 2
    assert (fabric.node_count, fabric.switches) == (12, (6, 7, 8, 9, 10, 11))
    assert (fabric.nics_per_host, fabric.name) == (2, "rail3x2")
    assert {cable.delay_s for cable in fabric.cables} == {4e-6}
    whole = rail_optimised(3, 2, 1, rate_bps=SLOW)
    assert Counter(whole.tier) == {0: 6, 1: 2, 2: 1}
    assert joined(whole) == {(0, 1): [SLOW] * 6, (1, 2): [SLOW] * 2}


def test_interfaces_are_numbered_from_one_in_the_order_of_the_cables():
    cables = (Cable(0, 2, SLOW, 0.0), Cable(2, 1, SLOW, 0.0), Cable(2, 3, SLOW, 0.0))
    fabric = Topology(4, (2, 3), cables)
    assert [fabric.end(port) for port in range(6)] == [0, 2, 2, 1, 2, 3]
    assert [fabric.peer(port) for port in range(6)] == [2, 0, 1, 2, 3, 2]
    assert fabric.ports_of() == [[0], [3], [1, 2, 4], [5]]
    assert fabric.interface_numbers() == [1, 1, 2, 1, 3, 1]
    assert fabric.nics_per_host == 1


def test_next_hops_towards_a_host_are_in_the_order_of_the_interfaces_or_against_it():
    fabric = Topology(2, (1,), (Cable(0, 1, SLOW, 0.0),) * 3)
    assert next_hops(fabric)[1, 0] == (1, 3, 5)
    assert next_hops(fabric, descending=True)[1, 0] == (5, 3, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: star(0),
        lambda: leaf_spine(0, 1, 1),
        lambda: leaf_spine(1, 1, 0),
        lambda: leaf_spine(1, -1, 1),
        lambda: leaf_spine(1, 1, 1, parallel=0),
        lambda: fat_tree(3),
        lambda: fat_tree(0),
        lambda: fat_tree(4, hosts_per_leaf=0),
        lambda: rail_optimised(0, 1, 1),
        lambda: rail_optimised(1, 0, 1),
        lambda: rail_optimised(1, 1, -1),
        lambda: rail_optimised(1, 1, 1, hosts_per_block=0),
    ],
)
def test_a_fabric_of_nothing_is_refused(wrong):
    with pytest.raises(ConfigInvalid):
        wrong()


def test_the_least_fabrics_are_made():
    assert [len(made.cables) for made in (fat_tree(2), rail_optimised(1, 1, 0))] == [6, 1]
