"""Roles, holes and routes of a small Clos fabric."""

from dataclasses import replace

import pytest
from msgspec import structs

from collectors.model.ecmp_hash import FlowKey, HashAlgorithm, HashField, HashSpec, choose_member
from collectors.model.entities import Device, Host, Interface, Netdev, Port, Switch
from collectors.model.facts import Attribute, Neighbour, QueuePairFact
from tests.tuner.diagnosis.audit_fabric import Clos, interface
from tuner.fabric.holes import holes_of
from tuner.fabric.roles import Roles, tiers
from tuner.fabric.routes import Router, flow_of, hash_fields, hash_spec

FLOW = FlowKey(int.from_bytes((10, 0, 0, 0)), int.from_bytes((10, 0, 0, 5)), 50007)


def test_tiers_count_from_the_hosts():
    found = {switch.name: tier for switch, tier in tiers(Clos().fabric).items()}
    assert {tier for name, tier in found.items() if name.startswith("leaf")} == {0}
    assert {tier for name, tier in found.items() if name.startswith("spine")} == {1}
    assert {tier for name, tier in found.items() if name.startswith("core")} == {2}


def test_roles_tell_direction_and_model():
    made = Clos()
    roles = Roles(made.telemetry, made.fabric)
    assert roles.of(interface("leaf00", "h0")) == "host-facing port of leaf x64"
    assert roles.of(interface("spine00", "down1")) == "down-facing port of spine x64"
    assert roles.of(made.netdev(0)) == "interface of mlx5"
    assert roles.of(interface("leaf00", "unused")) is None
    assert roles.of(Host("h0")) is None


def test_a_sound_fabric_has_no_holes():
    made = Clos()
    assert holes_of(made.telemetry, made.fabric) == []


def test_holes_one_sided_unknown_uncabled_and_hosts_without_links():
    made = Clos()
    made.telemetry.cables.remove(Neighbour(made.leaf_port(0), made.netdev(0), "lldp"))
    gone = {made.netdev(1), made.netdev(2, 0), made.netdev(2, 1)}
    made.telemetry.cables = [
        claim for claim in made.telemetry.cables if not {claim.local, claim.remote} & gone
    ]
    stranger = Interface(Switch("stranger", "stranger"), "1")
    made.telemetry.cables.append(Neighbour(interface("core0", "p99"), stranger, "lldp"))
    found = {(hole.kind, hole.place) for hole in holes_of(made.telemetry, made.fabric)}
    assert found == {
        ("one end", made.netdev(0)),
        ("unknown device", stranger),
        ("uncabled port", made.port(1)),
        ("host without links", Host("h2")),
    }


def test_two_claims_for_a_port_are_a_conflict_and_no_cable():
    made = Clos()
    made.telemetry.cables.append(Neighbour(made.netdev(0), made.leaf_port(1), "topology file"))
    fabric = made.fabric
    assert {conflict.wire for conflict in fabric.conflicts} == {made.netdev(0), made.leaf_port(1)}
    assert fabric.peer(made.netdev(0)) is None


def test_all_shortest_ways_and_the_way_down():
    made = Clos()
    router = Router(made.fabric)
    assert [w.name for w in router.exits(Switch("leaf00"), made.netdev(5))] == ["up0", "up1"]
    assert [w.name for w in router.exits(Switch("spine00"), made.netdev(5))] == ["up0", "up1"]
    assert [w.name for w in router.exits(Switch("spine10"), made.netdev(5))] == ["down0"]
    assert router.exits(Switch("leaf10"), made.netdev(5)) == (made.leaf_port(5),)
    assert router.exits(Switch("leaf01"), Netdev("nowhere", "eth0")) == ()


def test_a_known_hash_predicts_every_hop():
    made = Clos()
    path = Router(made.fabric).path(made.netdev(0), made.netdev(5), FLOW, made.telemetry)
    assert path.whole
    assert [hop.how for hop in path.hops] == [*["predicted"] * 3, "only", "only"]
    fields = (HashField.SRC_IP, HashField.DST_IP, HashField.PROTOCOL, HashField.SRC_PORT,
              HashField.DST_PORT)  # fmt: skip
    first = choose_member(FLOW, 2, HashSpec(HashAlgorithm.CRC_32LO, fields, 0))
    assert path.hops[0].out == (interface("leaf00", f"up{first}"),)
    assert path.hops[-1].out == (made.leaf_port(5),)
    taken = {
        Router(made.fabric).path(made.netdev(0), made.netdev(5), replace(FLOW, src_port=p),
                                 made.telemetry).hops[0].out
        for p in range(50000, 50064)
    }  # fmt: skip
    assert len(taken) == 2


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ecmp_hash_seed", None, "seed unknown"),
        ("ecmp_hash_algorithm", "random", "not public"),
        ("load_balancing", "per_packet", "no fixed path"),
        ("ecmp_hash_fields", ("udf7",), "not known here"),
    ],
)
def test_what_cannot_be_predicted_is_candidates_with_the_reason(name, value, why):
    made = Clos()
    leaf = Switch("leaf00")
    if value is None:
        del made.telemetry.set_to[leaf][name]
    else:
        made.telemetry.put(leaf, name, value)
    path = Router(made.fabric).path(made.netdev(0), made.netdev(5), FLOW, made.telemetry)
    assert not path.whole
    assert [hop.how for hop in path.hops][:2] == ["candidates", "candidates"]
    assert {switch.name for switch in path.hops[1].switches} == {"spine00", "spine01"}
    assert path.hops[-1].out == (made.leaf_port(5),)
    assert [wire.name for wire in path.hops[0].out] == ["up0", "up1"]
    assert why in path.hops[0].why


def test_infiniband_is_routed_by_tables():
    made = Clos()
    far = Port(Device("ib1", "k1", "mlx5_0"), 1)
    made.telemetry.cables.append(Neighbour(interface("leaf10", "ib"), far, "ib"))
    made.telemetry.known[far] = {}
    hop = Router(made.fabric).path(made.netdev(0), far, FLOW, made.telemetry).hops[0]
    assert hop.how == "candidates"
    assert "forwarding tables" in hop.why


def test_vendors_words_for_hash_fields():
    assert hash_fields(("SRC_IP", "dst-ip", "L4_SRC_PORT")) == hash_fields(
        ("source-ip", "destination-ip", "source-port")
    )
    assert hash_fields(()) is None
    made = Clos()
    made.telemetry.put(Switch("leaf00"), "ecmp_hash_rdma_qp", True)
    spec = hash_spec(made.telemetry.settings(Switch("leaf00")))
    assert isinstance(spec, HashSpec)
    assert HashField.DST_QP in spec.fields


def test_the_flow_of_a_queue_pair():
    pair = QueuePairFact(
        Device("h", "k"), 1, 5, 7, local_address="::ffff:10.0.0.1", remote_address="10.0.0.2",
        udp_source_port=50000,
    )  # fmt: skip
    flow = flow_of(pair)
    assert flow is not None
    assert (flow.src_ip, flow.dst_ip, flow.dst_qp) == (0x0A000001, 0x0A000002, 7)
    assert flow_of(structs.replace(pair, udp_source_port=None)) is None
    assert flow_of(structs.replace(pair, local_address="?")) is None


def test_a_port_that_two_agents_name_is_one_port():
    made = Clos()
    port = Port(Device("h0", made.port(0).device.key, "renamed"), 1)
    made.telemetry.known[port] = {"netdev": Attribute(port, "netdev", "eth0")}
    assert len([p for p in made.fabric.ports() if p == port]) == 1
