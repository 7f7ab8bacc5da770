"""Counter scripts and the fluid of planted traffic."""

import pytest

from collectors.infiniband.topology import End
from collectors.model.errors import ConfigInvalid
from simlab.ib.fabrics import assign_lids, fat_tree, parse_topology, route_minhop, two_tier
from simlab.ib.fake import FakeSubnet
from simlab.ib.faults import Flow, add_rates, bad_cable, settle, steps
from simlab.ib.script import ScriptState, Step, apply_to_fake, ibsim_commands, parse_script

SCRIPT = """
- {at: 5, set: {node: H4, port: 1, SymbolErrorCounter: 70000}}
- {at: 0, rate: {node: Leaf3, port: 1, PortXmitWait: 100, PortXmitData: 5}}
- {at: 10, unlink: {node: Leaf0, port: 3}}
- {at: 12, link: {node: Leaf0, port: 3, peer: Spine0, peer_port: 1}}
- {at: 15, silent: {node: H6}}
- {at: 15, speak: {node: Spine0}}
"""


def test_steps_happen_in_their_time():
    state = ScriptState(parse_script(SCRIPT))
    assert list(state.advance(4)) == []
    assert state.counters == {
        ("Leaf3", 1, "PortXmitWait"): 400.0,
        ("Leaf3", 1, "PortXmitData"): 20.0,
    }
    assert [s.verb for s in state.advance(11)] == ["unlink"]
    assert state.counters["Leaf3", 1, "PortXmitWait"] == 1100.0
    assert state.counters["H4", 1, "SymbolErrorCounter"] == 70000
    assert [s.verb for s in state.advance(20)] == ["link", "silent", "speak"]


def test_commands_for_ibsim_s_console():
    topology = two_tier(4, 2, 2)
    state = ScriptState(parse_script(SCRIPT))
    lines = list(ibsim_commands(state, list(state.advance(20)), topology))
    assert 'Unlink "Leaf0"[3]' in lines
    assert 'Link "Leaf0"[3] "Spine0"[1]' in lines
    assert 'Error "H6"[1] 100' in lines
    assert [line for line in lines if line.startswith('Error "Spine0"')] == [
        f'Error "Spine0"[{n}] 0' for n in (1, 2, 3, 4)
    ]
    # clamped at its width, as hardware does; data both narrow and wide
    assert 'PerformanceSet "H4"[1] PortCounters.SymbolErrorCounter=65535' in lines
    assert 'PerformanceSet "Leaf3"[1] PortCounters.PortXmitData=100' in lines
    assert 'PerformanceSet "Leaf3"[1] PortCountersExtended.PortXmitData=100' in lines
    assert 'PerformanceSet "Leaf3"[1] PortCounters.PortXmitWait=2000' in lines
    assert not [line for line in lines if "Extended.PortXmitWait" in line]  # ibsim has none


@pytest.mark.parametrize(
    "wrong",
    [
        "{a: 1}",
        "- {at: 1}",
        "- {at: 1, explode: {node: x}}",
        "- {at: 1, set: {port: 1}}",
        "- {at: 1, set: {node: x, port: y}}",
        "- [",
        "- {at: 1, set: {node: x}, rate: {node: x}}",
    ],
)
def test_wrong_scripts_name_the_place(wrong):
    with pytest.raises(ConfigInvalid, match=r"mine\.yaml"):
        parse_script(wrong, "mine.yaml")


@pytest.mark.parametrize("text", ["ring:3", "fattree:", "fattree:3", "clos:2x2", "fattree:4x4"])
def test_wrong_topologies(text):
    with pytest.raises(ConfigInvalid):
        parse_topology(text)


def test_part_of_a_fat_tree():
    assert sum(1 for _ in fat_tree(8, 100).adapters()) == 100
    with pytest.raises(ConfigInvalid, match="has 16 hosts, asked for 17"):
        fat_tree(4, 17)


def test_the_same_script_on_a_fake_subnet():
    topology = two_tier(4, 2, 2)
    assign_lids(topology)
    subnet = FakeSubnet(topology, End(topology.find("H0").guid, 1))
    state = ScriptState(parse_script(SCRIPT))
    leaf, far = End(topology.find("Leaf0").guid, 3), End(topology.find("Spine0").guid, 1)
    apply_to_fake(subnet, state, list(state.advance(11)))
    assert topology.port(leaf).peer is None
    assert topology.port(far).peer is None
    assert subnet.counters[End(topology.find("Leaf3").guid, 1)]["PortXmitWait"] == 1100
    apply_to_fake(subnet, state, list(state.advance(20)))
    assert topology.port(leaf).peer == far
    assert subnet.agent_of(topology.find("H6").guid).silent
    state = ScriptState([Step(0, "silent", "nobody")])
    with pytest.raises(ConfigInvalid, match="nobody: script: no such node"):
        apply_to_fake(subnet, state, list(state.advance(1)))


# --- the fluid -----------------------------------------------------------------------------------
def prepared():
    topology = two_tier(2, 2, 4)
    assign_lids(topology)
    route_minhop(topology)
    return topology, lambda name, port=1: End(topology.find(name).guid, port)


G = 200e9


def test_two_senders_share_one_receiver_and_wait_half_the_time():
    topology, at = prepared()
    flows = [Flow(at("H1"), at("H0"), G), Flow(at("H2"), at("H0"), G)]
    made = settle(topology, flows)
    assert made.rates == pytest.approx([G / 2, G / 2], rel=1e-5)
    assert made.wait_share[at("H1")] == pytest.approx(0.5, rel=1e-4)
    assert at("Leaf0") not in made.wait_share  # the full link itself does not wait
    assert made.tx_bps[at("Leaf0")] == pytest.approx(G, rel=1e-5)
    assert made.rx_bps[at("H0")] == pytest.approx(G, rel=1e-5)


def test_max_min_gives_the_rest_to_who_can_use_it():
    topology, at = prepared()
    flows = [
        Flow(at("H1"), at("H0"), G),
        Flow(at("H2"), at("H0"), 0.1 * G),
        Flow(at("H2"), at("H3"), G),
    ]
    made = settle(topology, flows)
    assert made.rates == pytest.approx([0.9 * G, 0.1 * G, 0.9 * G], rel=1e-4)


def test_a_slow_drain_makes_its_last_port_wait():
    topology, at = prepared()
    made = settle(topology, [Flow(at("H1"), at("H0"), 0.5 * G)], drains={at("H0"): 0.1 * G})
    assert made.rates == pytest.approx([0.1 * G], rel=1e-5)
    assert made.wait_share[at("Leaf0")] == pytest.approx(0.9, rel=1e-4)
    assert made.wait_share[at("H1")] == pytest.approx(0.4, rel=1e-4)


def test_uncongested_traffic_waits_nowhere():
    topology, at = prepared()
    made = settle(topology, [Flow(at("H0"), at("H7"), 0.3 * G)])
    assert made.wait_share == {}
    assert all(bps == pytest.approx(0.3 * G) for bps in made.tx_bps.values())


def test_rates_of_several_causes_add_up():
    topology, at = prepared()
    calm = steps(topology, settle(topology, [Flow(at("H0"), at("H7"), 0.3 * G)]))
    both = add_rates(calm, bad_cable(topology, at("H0"), errors_per_s=10))
    [one] = [s for s in both if s.node == "H0"]
    assert dict(one.values)["SymbolErrorCounter"] == 10
    assert dict(one.values)["PortXmitData"] == pytest.approx(0.3 * G / 32)
    assert {s.node for s in both if dict(s.values).get("PortRcvErrors")} == {"H0", "Leaf0"}
    assert isinstance(one, Step)
