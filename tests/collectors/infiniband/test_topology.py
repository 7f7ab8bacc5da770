"""Topologies: files, differences, names; I4, I5."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.infiniband.netfile import format_net, parse_net
from collectors.infiniband.tiers import infer_tiers
from collectors.infiniband.topology import (
    Change,
    Node,
    Topology,
    diff,
    parse_node_names,
    with_names,
)
from simlab.ib.fabrics import fat_tree, parse_topology, two_tier
from tests.collectors.infiniband.ib_fabric import end, fabric, named

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"


def fixture(*parts):
    path = FIXTURES.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"fixtures of other projects are not here: {parts[0]}")
    return path.read_text()


@pytest.mark.parametrize("text", ["fattree:4", "clos:3x2x4", "clos:2x2x2x3"])
def test_what_is_written_is_read(text):
    made = parse_topology(text)
    back, skipped = parse_net(format_net(made))
    assert skipped == []
    assert sorted(back.links()) == sorted(made.links())
    assert {g: (n.name, n.kind, n.port_count) for g, n in back.nodes.items()} == {
        g: (n.name, n.kind, n.port_count) for g, n in made.nodes.items()
    }
    assert {e: back.port(e).label for a in back.links() for e in a} == {
        e: made.port(e).label for a in made.links() for e in a
    }


@given(st.text(alphabet='SwitchCa\t "[]()#x123HDR\n-', max_size=400))
def test_any_text_is_skipped_line_by_line(text):
    topology, skipped = parse_net(text)
    assert len(topology.nodes) + len(skipped) <= text.count("\n") * 2 + 2


def test_i4_unconnected_split_and_unknown_lines_cost_only_themselves():
    """I4: split (NDR) ports, unconnected ports that are not SDR, `???` peers."""
    text = """
vendid=0x2c9
switchguid=0xb83fd20300aabb00(b83fd20300aabb00)
Switch\t129 "S-b83fd20300aabb00"\t\t# "MF0;ndr1:MQM9700/U1" enhanced port 0 lid 7 lmc 0
[1]\t"H-b83fd20300000001"[1](b83fd20300000001) \t\t# "node1 mlx5_0" lid 2 2xNDR
[2]\t"H-b83fd20300000002"[1](b83fd20300000002) \t\t# "node2 mlx5_0" lid 3 4xNDR
[3]\t"???"[0]\t\t# "???" lid 0 4x???
[4]  4xHDR
[128]\t"S-b83fd20300ffff00"[5]\t\t# "not in this file" lid 9 4xXDR

caguid=0xb83fd20300000001
Ca\t1 "H-b83fd20300000001"\t\t# "node1 mlx5_0"
[1](b83fd20300000001) \t"S-b83fd20300aabb00"[1]\t\t# lid 2 lmc 0 "MF0;ndr1:MQM9700/U1" lid 7 2xNDR

caguid=0xb83fd20300000002
Ca\t1 "H-b83fd20300000002"\t\t# "node2 mlx5_0"
[1](b83fd20300000002) \t"S-b83fd20300aabb00"[2]\t\t# lid 3 lmc 0 "MF0;ndr1:MQM9700/U1" lid 7 4xNDR
"""
    topology, skipped = parse_net(text)
    assert len(topology.nodes) == 3
    assert len(list(topology.links())) == 2
    assert len(skipped) == 3  # the bare line, and the two peers that are not in the file
    switch = topology.nodes[0xB83FD20300AABB00]
    # I5: the rate is each port's own
    assert [switch.ports[n].label for n in (1, 2)] == ["2xNDR", "4xNDR"]
    assert switch.ports[1].rate_bps * 2 == switch.ports[2].rate_bps
    assert switch.lid == 7


def test_real_outputs_of_ibnetdiscover():
    for text, nodes, links, aggregation in (
        (fixture("own_ibsim", "ibnetdiscover.txt"), 14, 16, 0),
        (fixture("Mellanox__ufm_sdk_3.0", "topo", "small_topo_file"), 15, 16, 1),
        (fixture("Mellanox__ufm_sdk_3.0", "topo", "selene.compute.txt"), 5007, 12852, 666),
    ):
        topology, skipped = parse_net(text)
        assert skipped == []
        assert len(topology.nodes) == nodes
        assert len(list(topology.links())) == links
        assert sum(n.is_aggregation for n in topology.nodes.values()) == aggregation
        for a, b in topology.links():  # each end names the other
            assert topology.port(b).peer == a


def test_aggregation_nodes_are_no_hosts():
    topology, _ = parse_net(fixture("Mellanox__ufm_sdk_3.0", "topo", "selene.compute.txt"))
    assert len(list(topology.adapters())) == 3675
    assert set(infer_tiers(topology).values()) >= {0, 1, 2}


def changed(edit):
    before, after = fat_tree(4), fat_tree(4)
    edit(after)
    return diff(before, after)


def test_no_difference():
    assert changed(lambda t: None) == []


def test_differences():
    def rename(t):
        named(t, "H1").name = "new"

    assert changed(rename) == [Change("renamed", "H1", "new")]

    def slow(t):
        for e in (end(t, "H1", 1), t.port(end(t, "H1", 1)).peer):
            t.port(e).width = 1

    [change] = changed(slow)
    assert (change.what, change.detail) == ("width or speed changed", "4xHDR -> 1xHDR")

    def pull(t):
        far = t.port(end(t, "H1", 1)).peer
        t.port(end(t, "H1", 1)).peer = t.port(far).peer = None

    assert [c.what for c in changed(pull)] == ["link gone"]

    def move(t):
        a, b = end(t, "H0", 1), end(t, "H1", 1)
        pa, pb = t.port(a).peer, t.port(b).peer
        t.port(a).peer, t.port(b).peer, t.port(pa).peer, t.port(pb).peer = pb, pa, b, a

    assert {c.what for c in changed(move)} == {"link moved"}
    assert len(changed(move)) == 2

    def lose(t):
        del t.nodes[named(t, "H1").guid]

    assert "node gone" in {c.what for c in changed(lose)}


def test_nothing_is_gone_from_a_partial_sweep():
    def partial(t):
        t.partial = True
        del t.nodes[named(t, "H1").guid]

    assert changed(partial) == []


def test_node_name_map():
    names = parse_node_names(
        '# comment\n0x200000 "rack 1 leaf"  # x\n0x200001\tignored\n0x200002 bare\nnonsense "x"\n'
    )
    assert names == {0x200000: "rack 1 leaf", 0x200002: "bare"}
    topology = two_tier(2, 1, 1)
    assert with_names(topology, names).nodes[0x200000].name == "rack 1 leaf"
    assert topology.nodes[0x200000].name == "Leaf0"


def test_find():
    topology, _, _ = fabric()
    node = named(topology, "H3")
    assert topology.find("H3") is node
    assert topology.find(str(node.lid)) is node
    assert topology.find(f"0x{node.guid:x}") is node
    assert topology.find(f"0x{node.guid + 1:x}") is node  # its port
    assert topology.find("nonesuch") is None
    assert topology.find("0xzz") is None
    named(topology, "H4").name = "H3"
    assert topology.find("H3") is None  # two of that name


def test_host_names():
    named_node = Node(1, "ca", "node7 mlx5_2")
    assert (named_node.host, named_node.device_name) == ("node7", "mlx5_2")
    nobody = Node(0xABC, "ca", "MT4123 ConnectX6   Mellanox Technologies")
    assert (nobody.host, nobody.device_name) == ("0000000000000abc", "")
    sharp = Node(5, "ca", "Mellanox Technologies Aggregation Node", system_guid=0x10)
    assert sharp.host == "sharp-0000000000000010"
    assert Topology({5: sharp}).find("x") is None
