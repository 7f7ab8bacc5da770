"""Each planted fault is the root, its victims are victims: 128 hosts, then smaller fabrics."""

import pytest

from collectors.infiniband.routes import route
from collectors.infiniband.topology import End
from collectors.model.entities import Device, Interface, Port, Slot, Switch, link
from collectors.model.facts import Attribute
from simlab.ib.fabrics import fat_tree
from simlab.ib.fake import Agent, FakeSubnet
from simlab.ib.faults import Flow, add_rates, bad_cable, narrow, settle, steps
from simlab.ib.script import Step
from tests.tuner.diagnosis.ib_fabric import end, look, prepared
from tests.tuner.fake import lab
from tuner.advice.planning import build_plan
from tuner.advice.recommend import recommend
from tuner.diagnosis.registry import RULES
from tuner.render.opensm import render_opensm

RATE = 200e9
HOSTS = 128


def small():
    """Sixteen hosts in three tiers; enough where it is about one port."""
    return prepared(fat_tree(4))


def entity(topology, where):
    node = topology.nodes[where.guid]
    key = f"{node.guid:016x}"
    if node.is_switch:
        return Interface(Switch(key), str(where.port))
    return Port(Device(node.host, key), where.port)


def hosts(topology):
    return [end(topology, f"H{i}") for i in range(sum(1 for _ in topology.adapters()))]


def background(topology, share=0.2):
    """Every host sends to the one half the fabric away."""
    all_ = hosts(topology)
    half = len(all_) // 2
    return [Flow(a, all_[(i + half) % len(all_)], share * RATE) for i, a in enumerate(all_)]


def causes(diagnosis):
    """Findings that nothing else explains, without information."""
    return [f for f in diagnosis.findings if not f.explained_by and f.severity != "info"]


def advised(window, fabric, diagnosis):
    return recommend(diagnosis, window, fabric)


def options(recommendations, window, fabric):
    """The opensm.conf that the recommendations come down to."""
    plan = build_plan(recommendations, window, fabric, {})
    return render_opensm([step for device in plan.devices for step in device.steps])


def test_a_healthy_fabric_is_quiet():
    topology = prepared()
    _, _, diagnosis = look(topology, steps(topology, settle(topology, background(topology))))
    assert causes(diagnosis) == []
    said = {v.rule: v.outcome for v in diagnosis.verdicts if v.rule.startswith("ib-")}
    assert set(said.values()) == {"quiet"}
    assert len(said) == 9


def test_a_slow_receiver_is_the_root():
    topology = prepared()
    all_ = hosts(topology)
    senders = (20, 40, 60, 80, 100, 120)
    flows = background(topology) + [Flow(all_[i], all_[5], 0.1 * RATE) for i in senders]
    carried = settle(topology, flows, drains={all_[5]: 0.05 * RATE})
    window, fabric, diagnosis = look(topology, steps(topology, carried))
    [cause] = causes(diagnosis)
    assert cause.rule == "ib-slow-receiver"
    assert cause.subject == entity(topology, all_[5])
    waiting = {entity(topology, e) for e, share in carried.wait_share.items() if share >= 0.005}
    direct = entity(topology, topology.port(all_[5]).peer)
    assert set(cause.affected) == waiting - {direct}
    assert entity(topology, all_[20]) in cause.affected  # a sender waits: victim, not root
    [recommendation] = advised(window, fabric, diagnosis)
    assert recommendation.knob == "ib_host_receive_path"
    assert recommendation.scope == cause.subject


def test_an_oversubscribed_link_is_the_root():
    topology = prepared()
    all_ = hosts(topology)
    # hosts of one leaf whose targets all lie behind the same uplink
    by_uplink = {}
    for number in range(16, HOSTS):
        hop = route(topology, all_[0], topology.port(all_[number]).lid).hops[1]
        by_uplink.setdefault(hop.out, []).append(number)
    uplink, targets = next(iter(by_uplink.items()))
    flows = background(topology) + [
        Flow(all_[i], all_[targets[3 + 5 * i]], 0.6 * RATE) for i in range(4)
    ]
    carried = settle(topology, flows)
    window, fabric, diagnosis = look(topology, steps(topology, carried))
    [cause] = causes(diagnosis)
    assert cause.rule == "ib-oversubscribed-link"
    assert cause.subject == entity(topology, uplink)
    assert set(cause.affected) == {entity(topology, all_[i]) for i in range(4)}
    recommendations = advised(window, fabric, diagnosis)
    assert recommendations[0].knob == "opensm_routing_engine"
    load = recommendations[0].effects[0]
    assert load.before == pytest.approx(1.0, abs=0.02)
    assert load.low < 0.6  # the other three uplinks have room
    text = options(recommendations, window, fabric)
    assert "routing_engine ftree,updn,minhop" in text.splitlines()


def test_a_bad_cable_is_the_root_and_what_it_congests_is_explained():
    topology = prepared()
    all_ = hosts(topology)
    bad = route(topology, all_[0], topology.port(all_[64]).lid).hops[1].out
    far = topology.port(bad).peer
    narrow(topology, bad, 1)
    carried = settle(topology, background(topology, 0.4))
    window, fabric, diagnosis = look(
        topology, add_rates(steps(topology, carried), bad_cable(topology, bad))
    )
    [cause] = causes(diagnosis)
    assert cause.rule == "ib-bad-cable"
    assert cause.subject == link(entity(topology, bad), entity(topology, far))
    assert "1 lanes (4 as its like)" in cause.summary
    explained = {f.rule for f in diagnosis.findings if f.explained_by}
    assert {"ib-oversubscribed-link", "link-errors"} <= explained
    assert entity(topology, all_[0]) in cause.affected  # it waits for the narrow link
    [recommendation] = advised(window, fabric, diagnosis)
    assert recommendation.knob == "link_repair"
    assert recommendation.scope == cause.subject
    gain = next(e for e in recommendation.effects if e.unit == "ratio" and e.before == 1.0)
    assert gain.high == 4.0


def test_static_routing_hot_spot_explains_the_full_link():
    topology = small()
    all_ = hosts(topology)
    leaf = topology.find("Leaf0-0")
    ups = [n for n, p in leaf.ports.items() if p.peer and topology.nodes[p.peer.guid].is_switch]
    table = bytearray(leaf.lft)
    for lid, out in enumerate(table):
        if out in ups:
            table[lid] = ups[0]  # everything up by one port
    leaf.lft = bytes(table)
    carried = settle(topology, background(topology, 0.8))
    window, fabric, diagnosis = look(topology, steps(topology, carried))
    [cause] = causes(diagnosis)
    assert cause.rule == "ib-routing-hot-spot"
    assert cause.subject == entity(topology, End(leaf.guid, ups[0]))
    assert "2.0 times" in cause.summary
    full = [f for f in diagnosis.findings if f.rule == "ib-oversubscribed-link"]
    assert [f.explained_by for f in full] == [cause.id]
    assert advised(window, fabric, diagnosis)[0].knob == "opensm_routing_engine"
    assert entity(topology, all_[0]) in full[0].affected


def test_incast_is_a_full_host_link_not_a_slow_host():
    topology = small()
    all_ = hosts(topology)
    flows = [Flow(all_[i], all_[5], 0.7 * RATE) for i in (4, 12)]
    carried = settle(topology, flows)
    window, fabric, diagnosis = look(topology, steps(topology, carried))
    rules = [f.rule for f in causes(diagnosis)]
    assert rules == ["ib-oversubscribed-link"]
    [cause] = causes(diagnosis)
    assert cause.subject == entity(topology, topology.port(all_[5]).peer)
    assert "incast" in cause.summary
    assert advised(window, fabric, diagnosis)[0].knob == "opensm_congestion_control"


def test_discards_behind_a_slow_receiver_are_explained_and_alone_they_are_not():
    topology = small()
    all_ = hosts(topology)
    flows = [*background(topology), Flow(all_[10], all_[5], 0.3 * RATE)]
    carried = settle(topology, flows, drains={all_[5]: 0.05 * RATE})
    port = topology.port(all_[5]).peer
    name = topology.nodes[port.guid].name
    drops = Step(0, "rate", name, port.port, values=(("PortSwHOQLifetimeLimitDiscards", 3.0),))
    window, fabric, diagnosis = look(topology, [*steps(topology, carried), drops])
    assert [f.rule for f in causes(diagnosis)] == ["ib-slow-receiver"]
    [explained] = [f for f in diagnosis.findings if f.rule == "ib-hoq-discards"]
    assert explained.explained_by
    assert "90 packets after" in explained.summary
    calm = steps(topology, settle(topology, background(topology)))
    window, fabric, diagnosis = look(topology, add_rates(calm, [drops]))
    assert [f.rule for f in causes(diagnosis)] == ["ib-hoq-discards"]
    [recommendation] = advised(window, fabric, diagnosis)
    assert (recommendation.knob, recommendation.current) == ("opensm_hoq_lifetime", 18)
    assert "leaf_head_of_queue_lifetime 0x14" in options([recommendation], window, fabric)


def test_a_starved_lane_is_found_with_its_arbitration():
    topology = small()
    first = next(n for n in topology.nodes.values() if n.kind == "ca")
    subnet = FakeSubnet(topology, End(first.guid, 1))
    subnet.vl_arbitration = {1: (0 << 8 | 64, 1 << 8 | 64), 3: (0 << 8 | 64,)}  # lane 3: nothing
    leaf = topology.find("Leaf0-0")
    # 16 bits: it stands at its maximum after a moment, which says "at least"
    begun = Step(0, "set", leaf.name, 1, values=(("PortVLXmitWait3", 9.0),))
    waits = Step(0, "rate", leaf.name, 1, values=(("PortVLXmitWait3", 5000.0),))
    window, fabric, diagnosis = look(topology, [begun, waits], subnet=subnet)
    [cause] = causes(diagnosis)
    assert cause.rule == "ib-vl-starvation"
    assert cause.subject == Slot(entity(topology, End(leaf.guid, 1)), "vl", 3)
    assert "no weight in either arbitration table" in cause.summary
    [recommendation] = advised(window, fabric, diagnosis)
    text = options([recommendation], window, fabric)
    assert "qos_vlarb_low 0:64,1:64,2:64,3:64" in text


def test_too_eager_congestion_control():
    topology = small()
    first = next(n for n in topology.nodes.values() if n.kind == "ca")
    subnet = FakeSubnet(topology, End(first.guid, 1))
    for node in topology.switches():
        subnet.switch_settings[node.guid] = {"Threshold": 15, "Marking_Rate": 0}
    host = topology.find("H9")
    told = Step(0, "rate", host.name, 1, values=(("PortPktRcvBECN", 500.0),))
    calm = steps(topology, settle(topology, background(topology, 0.1)))
    window, fabric, diagnosis = look(topology, add_rates(calm, [told]), subnet=subnet)
    [cause] = causes(diagnosis)
    assert cause.rule == "ib-congestion-control"
    assert cause.subject == entity(topology, End(host.guid, 1))
    assert [(r.knob, r.current, r.proposed) for r in advised(window, fabric, diagnosis)] == [
        ("opensm_cc_threshold", 15, 8), ("opensm_cc_marking_rate", 0, 15),
    ]  # fmt: skip


def test_a_switch_that_cannot_mark_is_named():
    topology = small()
    first = next(n for n in topology.nodes.values() if n.kind == "ca")
    subnet = FakeSubnet(topology, End(first.guid, 1), agent=Agent(congestion=False))
    all_ = hosts(topology)
    flows = [Flow(all_[i], all_[5], 0.7 * RATE) for i in (4, 8, 12)]
    _window, _fabric, diagnosis = look(
        topology, steps(topology, settle(topology, flows)), subnet=subnet
    )
    [unable] = [f for f in diagnosis.findings if f.rule == "ib-congestion-control"]
    assert unable.severity == "info"
    assert "does not answer the congestion control class" in unable.summary


def test_rules_are_beside_the_point_on_ethernet():
    made = lab(3)
    for port in made.ports:
        made.telemetry.known[port]["link_layer"] = Attribute(port, "link_layer", "Ethernet")
        made.telemetry.known[port.device]["driver"] = Attribute(port.device, "driver", "mlx5")
    for rule in RULES:
        if rule.id.startswith("ib-"):
            assert rule.judge(rule, made.telemetry, made.fabric).outcome == "not_applicable"


def test_credits_that_vanish_without_a_cause():
    topology = small()
    leaf = topology.find("Leaf0-0")
    up = next(n for n, p in leaf.ports.items() if p.peer and topology.nodes[p.peer.guid].is_switch)
    ticks = 0.3 / (64 / RATE)
    waits = Step(0, "rate", leaf.name, up, values=(("PortXmitWait", ticks),))
    _, _, diagnosis = look(topology, [waits])
    [cause] = causes(diagnosis)
    assert cause.rule == "ib-credit-loss"
    assert cause.subject == entity(topology, leaf.ports[up].peer)
    assert "30% of the time" in cause.summary


def test_a_missing_uplink_is_odd():
    topology = small()
    leaf = topology.find("Leaf0-0")
    up = next(n for n, p in leaf.ports.items() if p.peer and topology.nodes[p.peer.guid].is_switch)
    far = topology.port(leaf.ports[up].peer)
    for port in (leaf.ports[up], far):
        port.peer, port.state, port.physical = None, 1, 2
    prepared(topology)
    calm = steps(topology, settle(topology, background(topology, 0.1)))
    window, fabric, diagnosis = look(topology, calm)
    odd = {f.subject for f in causes(diagnosis) if f.rule == "ib-cabling"}
    assert Switch(f"{leaf.guid:016x}") in odd
    assert {r.knob for r in advised(window, fabric, diagnosis)} >= {"ib_cabling"}
