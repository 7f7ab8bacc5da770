"""Discovery against the fake subnet: complete, partial, odd."""

import pytest

from collectors.codec import mad_smp
from collectors.infiniband.discovery import discover, route_text
from collectors.infiniband.topology import End, IbPort
from collectors.infiniband.transactor import Limits
from collectors.model.errors import Unavailable
from simlab.ib.fabrics import Builder, fat_tree, three_tier, two_tier
from simlab.ib.fake import Agent
from tests.collectors.infiniband.ib_fabric import end, fabric, named


def same(found, real):
    assert set(found.nodes) == set(real.nodes)
    assert sorted(found.links()) == sorted(real.links())
    for guid, node in real.nodes.items():
        assert (found.nodes[guid].name, found.nodes[guid].kind) == (node.name, node.kind)
        assert found.nodes[guid].lft == node.lft
        for number, port in node.ports.items():
            seen = found.nodes[guid].ports[number]
            assert (seen.state, seen.lid) == (port.state, port.lid)
            if port.peer:
                assert seen.label == port.label


@pytest.mark.parametrize(
    "topology",
    [two_tier(4, 2, 2), two_tier(3, 2, 4, 3), fat_tree(4), three_tier(2, 2, 2, 2, 2)],
    ids=["4x2x2", "parallel cables", "fattree:4", "three tiers"],
)
def test_everything_is_found(topology):
    topology, subnet, transactor = fabric(topology)
    found = discover(transactor)
    same(found.topology, topology)
    assert found.misses == []
    assert not found.topology.partial
    assert found.topology.origin == subnet.enter_at.guid


def test_a_cable_is_asked_from_one_end_only():
    topology, subnet, transactor = fabric(two_tier(8, 4, 8))
    discover(transactor, forwarding=False)
    nodes, ports = len(topology.nodes), sum(len(n.ports) for n in topology.nodes.values())
    links = sum(1 for _ in topology.links())
    switches = sum(1 for _ in topology.switches())
    # NodeInfo per cable and root, description per node, SwitchInfo, PortInfo
    least = links + 1 + nodes + switches + ports
    assert subnet.wire.requests[0x81] <= least * 1.35


@pytest.mark.parametrize("width", [1, 2, 4, 8, 12])
@pytest.mark.parametrize("speed", ["SDR", "QDR", "FDR", "EDR", "HDR", "NDR", "XDR"])
def test_widths_and_speeds(width, speed):
    build = Builder(width, speed)
    leaf = build.switch("Leaf", 2)
    for i in (0, 1):
        build.cable(build.adapter(f"h{i} mlx5_0"), 1, leaf, i + 1)
    _topology, _, transactor = fabric(build.topology)
    port = discover(transactor).topology.port(End(leaf.guid, 1))
    assert port.label == f"{width}x{speed}"
    assert port.rate_bps == width * mad_smp.DATA_RATE_PER_LANE[speed]


def test_silent_switch_hides_what_is_behind_it_and_is_named():
    topology, subnet, transactor = fabric(limits=Limits(timeout_s=0.1, retries=1))
    subnet.agent_of(named(topology, "Leaf2").guid).silent = True
    found = discover(transactor)
    names = {node.name for node in found.topology.nodes.values()}
    # ports of a silent SMA still forward: its hosts are reached through nobody else here
    assert "Leaf2" not in names
    assert {"H4", "H5"} & names == set()
    assert {"Leaf0", "Leaf1", "Leaf3", "Spine0", "Spine1", "H0", "H7"} <= names
    assert found.topology.partial
    assert any("Spine0/3" in miss.subject or "Spine1/3" in miss.subject for miss in found.misses)
    assert {miss.what for miss in found.misses} == {"NodeInfo"}


@pytest.mark.parametrize("odd", ["garbage", "truncated", "late"])
def test_an_odd_host_is_a_miss_not_the_end(odd):
    topology, subnet, transactor = fabric(limits=Limits(timeout_s=0.1, retries=1))
    subnet.agent_of(named(topology, "H5").guid).odd = odd
    found = discover(transactor)
    names = {node.name for node in found.topology.nodes.values()}
    assert names >= {node.name for node in topology.nodes.values()} - {"H5"}
    assert found.misses


def test_lossy_fabric_is_found_by_retries():
    topology, _subnet, transactor = fabric(
        agent=Agent(loss=0.05), limits=Limits(timeout_s=0.05, retries=6)
    )
    same(discover(transactor).topology, topology)


def test_nothing_answers():
    _, _subnet, transactor = fabric(agent=Agent(silent=True), limits=Limits(timeout_s=0.1))
    with pytest.raises(Unavailable, match="local port: NodeInfo: no answer after 3 tries"):
        discover(transactor)


def test_unconnected_and_polling_ports_are_kept_as_down():
    topology, subnet, transactor = fabric()
    leaf = named(topology, "Leaf0")
    leaf.port_count += 1
    leaf.ports[5] = IbPort(5, mad_smp.PORT_DOWN, 2)
    subnet.changed()
    found = discover(transactor).topology
    assert not found.port(end(topology, "Leaf0", 5)).is_up
    assert found.port(end(topology, "Leaf0", 5)).peer is None


def test_two_port_adapter_is_one_node():
    build = Builder()
    left, right = build.switch("Left", 4), build.switch("Right", 4)
    build.cable(left, 4, right, 4)
    build.cable(build.adapter("probe"), 1, left, 1)
    two = build.adapter("two mlx5_0", 2)
    build.cable(two, 1, left, 2)
    build.cable(two, 2, right, 1)
    topology, _, transactor = fabric(build.topology)
    found = discover(transactor)
    same(found.topology, topology)
    assert found.topology.nodes[two.guid].ports[2].peer == End(right.guid, 1)


def test_a_router_is_an_end_of_the_subnet():
    build = Builder()
    leaf = build.switch("Leaf", 3)
    build.cable(build.adapter("probe"), 1, leaf, 1)
    router = build.adapter("SubnetRouter", 2)
    router.kind = "router"
    build.cable(router, 1, leaf, 2)
    _topology, _, transactor = fabric(build.topology)
    found = discover(transactor).topology
    assert found.nodes[router.guid].kind == "router"
    assert found.nodes[router.guid].ports[1].peer == End(leaf.guid, 2)
    assert len(found.nodes) == 3


def test_names_of_a_map_beat_descriptions():
    topology, _, transactor = fabric()
    guid = named(topology, "Leaf1").guid
    found = discover(transactor, names={guid: "rack7-tor"})
    assert found.topology.nodes[guid].name == "rack7-tor"


def test_route_text():
    assert route_text(b"\x01\x11") == "DR path 0,1,17"
