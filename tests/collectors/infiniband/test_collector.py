"""The subnet as a collector: readings, links, settings, gaps, in the project's words."""

import pytest

from collectors.codec import mad_perf
from collectors.infiniband.audit import arbitration_weights
from collectors.infiniband.collector import InfinibandCollector, SweepOptions
from collectors.infiniband.counters import GROUPS
from collectors.infiniband.readings import _TABLES
from collectors.infiniband.transactor import Limits
from collectors.model.catalogue import infiniband as ib
from collectors.model.catalogue import rdma
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.catalogue.settings import ATTRIBUTES, SETTINGS
from collectors.model.entities import Device, Interface, Port, Slot, Switch, kind_of
from collectors.model.errors import Unavailable
from collectors.model.reading import Instant
from simlab.ib.fabrics import Builder
from simlab.ib.fake import Agent
from tests.collectors.infiniband.ib_fabric import end, fabric, named
from tests.collectors.passes import clock


def collected(topology=None, options=None, **agent):
    topology, subnet, _ = fabric(topology, agent=Agent(**agent))
    options = options or SweepOptions(groups=tuple(GROUPS), limits=Limits(timeout_s=0.2, retries=1))
    return topology, subnet, InfinibandCollector(lambda: subnet, options)


def values_of(made, entity, metric):
    for reading in made.readings:
        for column, value in reading.values.items():
            if reading.entity == entity and column.metric == metric.name:
                return column.to_unit(value)
    return None


def test_readings_are_in_the_catalogue_s_words():
    topology, subnet, collector = collected()
    leaf, host = named(topology, "Leaf1"), named(topology, "H2")
    port = end(topology, "Leaf1", 1)
    subnet.count(port, PortXmitData=1000, PortXmitWait=55, PortSwHOQLifetimeLimitDiscards=3)
    subnet.count_each(port, "PortVLXmitWait", (0, 0, 7))
    made = collector.read(clock)
    interface = Interface(Switch(f"{leaf.guid:016x}"), "1")
    assert values_of(made, interface, rdma.TX_BYTES) == 4000  # words became bytes
    assert values_of(made, interface, rdma.TX_WAIT) == 55
    assert values_of(made, interface, ib.DISCARDS_HOQ) == 3
    assert values_of(made, Slot(interface, "vl", 2), ib.VL_TX_WAIT) == 7
    assert values_of(made, interface, ib.WAIT_TICK) == pytest.approx(64 / 200e9)
    assert values_of(made, interface, ib.LANES) == 4
    assert values_of(made, interface, rdma.RATE) == 25e9
    adapter = Port(Device("H2", f"{host.guid:016x}"), 1)
    assert values_of(made, adapter, rdma.STATE) == 4
    assert values_of(made, adapter, ib.ROUTE_LOAD) == 7
    assert made.gaps == ()
    for reading in made.readings:
        for column, value in reading.values.items():
            assert kind_of(reading.entity) in CATALOGUE[column.metric].on, column.metric
            assert isinstance(value, float if column.number == "float" else int)


def fields_without_row(layout):
    named = {field for fields in _TABLES[layout.name] for field, *_ in fields}
    return set(layout.names) - named - {"PortSelect", "CounterSelect", "CounterSelect2"}


def test_every_counter_of_an_attribute_has_a_row():
    counters = [layout for group in GROUPS.values() for layout in group]
    counters += [mad_perf.PORT_COUNTERS, mad_perf.PORT_COUNTERS_EXTENDED]
    lacking = {layout.name: fields_without_row(layout) for layout in counters}
    assert {name: fields for name, fields in lacking.items() if fields} == {
        "PortOpRcvCounters": {"PortOpRcvPkts", "PortOpRcvData"},
        "PortExtendedSpeedsCounters": {"UnknownBlockCounter"},
    }


def test_facts_name_links_and_settings():
    topology, subnet, collector = collected()
    subnet.switch_settings[named(topology, "Leaf0").guid] = {"Threshold": 9, "Marking_Rate": 15}
    facts = collector.read(clock).facts
    assert len(facts.neighbours) == 16
    assert {n.how for n in facts.neighbours} == {"ib"}
    leaf = Switch(f"{named(topology, 'Leaf0').guid:016x}")
    of_leaf = {s.name: s.value for s in facts.settings if s.entity == leaf}
    assert of_leaf == {
        "ib_cc_supported": True,
        "ib_cc_threshold": 9,
        "ib_cc_marking_rate": 15,
        "ib_cc_packet_size": 0,
    }
    of_port = {s.name: s.value for s in facts.settings if s.entity == Interface(leaf, "1")}
    assert of_port["ib_hoq_life"] == 18
    assert of_port["ib_operational_vls"] == 8
    assert of_port["ib_sl_to_vl"][9] == 1
    assert of_port["ib_vl_arbitration_low"][:8] == (4,) * 8
    assert {s.name for s in facts.settings} <= set(SETTINGS)
    assert {a.name for a in facts.attributes} <= set(ATTRIBUTES)
    tiers = {a.entity: a.value for a in facts.attributes if a.name == "ib_tier"}
    assert tiers[leaf] == 0


def test_a_device_without_congestion_control_says_so():
    _, _, collector = collected(congestion=False)
    facts = collector.read(clock).facts
    assert {s.value for s in facts.settings if s.name == "ib_cc_supported"} == {False}


def test_second_pass_sweeps_only():
    _, subnet, collector = collected()
    collector.read(clock)
    before = subnet.wire.requests.copy()
    again = collector.read(clock)
    assert again.facts is None
    spent = subnet.wire.requests - before
    assert spent[0x21] == 0
    assert spent[0x81] == sum(len(n.ports) for n in collector.topology.nodes.values())


def test_a_pulled_cable_brings_discovery_forward():
    topology, subnet, collector = collected()
    collector.read(clock)
    a = end(topology, "Leaf0", 3)
    b = topology.port(a).peer
    for e in (a, b):
        topology.port(e).peer, topology.port(e).state = None, 1
    subnet.changed()
    again = collector.read(clock)
    assert again.facts is not None
    assert len(again.facts.neighbours) == 15
    assert [c.what for c in collector.changes] == ["link gone"]
    odd = [x.value for x in again.facts.attributes if x.name == "ib_oddity"]
    assert any("links missing" in text for text in odd)


def test_rediscovery_is_due_after_its_time():
    moment = [0]
    _, _, collector = collected()
    at = lambda: Instant(moment[0], moment[0])
    assert collector.read(at).facts is not None
    moment[0] = int(299e9)
    assert collector.read(at).facts is None
    moment[0] = int(301e9)
    assert collector.read(at).facts is not None


def test_i1_silence_becomes_gaps_with_entities():
    topology, subnet, collector = collected()
    collector.read(clock)
    subnet.agent_of(named(topology, "H5").guid).silent = True
    again = collector.read(clock)
    guid = f"{named(topology, 'H5').guid:016x}"
    assert {g.subject for g in again.gaps} == {f"port/H5/{guid}/1"}
    assert {g.reason for g in again.gaps} == {"timeout"}
    seen = {r.entity for r in again.readings}
    assert len({e for e in seen if isinstance(e, (Port, Interface))}) == 32


def test_states_of_ports_are_fresh():
    build = Builder()
    leaf = build.switch("Leaf", 3)
    for i in range(3):
        build.cable(build.adapter(f"h{i} mlx5_0"), 1, leaf, i + 1)
    topology, subnet, collector = collected(build.topology)
    collector.read(clock)
    topology.port(end(topology, "Leaf", 3)).state = 2
    subnet.changed()
    again = collector.read(clock)
    interface = Interface(Switch(f"{leaf.guid:016x}"), "3")
    assert values_of(again, interface, rdma.STATE) == 2


def test_a_lost_local_port_is_opened_anew():
    _, subnet, _ = fabric()
    opened = []

    def open_port():
        opened.append(1)
        return subnet

    options = SweepOptions(limits=Limits(timeout_s=0.1, retries=0))
    collector = InfinibandCollector(open_port, options)
    subnet.default_agent.silent = True
    with pytest.raises(Unavailable, match="local port"):
        collector.read(clock)
    subnet.default_agent.silent = False
    assert collector.read(clock).facts is not None
    assert len(opened) == 2


def test_a_management_key_never_leaves_the_parser():
    _topology, _, collector = collected()
    collector.read(clock)
    for node in collector.topology.nodes.values():
        assert not any("M_Key" in port.info for port in node.ports.values())


def test_arbitration_weights():
    assert arbitration_weights([0x0004, 0x0104, 0x0110, 0x0F20])[:3] == (4, 20, 0)
