"""Subnets in the agent: configuration, the names of other exporters; I5, I6, I7, I8, I9."""

import re
import time
from pathlib import Path

import pytest

from agent import infiniband_exporter
from agent.config import parse_config
from agent.exposition import Exposition, whole_text
from agent.snapshot import Snapshot
from agent.sources import jobs
from collectors.infiniband.collector import InfinibandCollector, SweepOptions
from collectors.infiniband.topology import End
from collectors.infiniband.transactor import Limits
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.errors import ConfigInvalid
from simlab.ib.fabrics import assign_lids, route_minhop, two_tier
from simlab.ib.fake import Agent, FakeSubnet
from tests.collectors.passes import clock

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
QUIET = "collectors: {}\n"


def only_subnets(text):
    return [job for job in jobs(parse_config(text, "agent.yaml")) if job.name.startswith("ib")]


def test_a_subnet_is_a_job():
    [job] = only_subnets("infiniband: [{name: ib-main, interval: 10, deadline: 8}]")
    assert (job.interval_s, job.deadline_s) == (10, 8)
    collector = job.build()  # opens nothing yet
    assert collector.options.budget_s == 8
    assert collector.options.limits.per_device == 4


def test_keys_come_from_files_and_are_never_said(tmp_path):
    key = tmp_path / "m_key"
    key.write_text("0x1122aabb\n")
    [job] = only_subnets(f"infiniband: [{{name: ib, m_key_file: {key}}}]")
    assert job.build().options.m_key == 0x1122AABB
    key.write_text("secret-words\n")
    with pytest.raises(ConfigInvalid) as caught:
        job.build()
    assert "not a hex number" in str(caught.value)
    assert "secret-words" not in str(caught.value)


def test_node_name_map(tmp_path):
    names = tmp_path / "names"
    names.write_text('0x200000 "rack1"\n')
    [job] = only_subnets(f"infiniband: [{{name: ib, node_names: {names}}}]")
    assert job.build().options.names == {0x200000: "rack1"}
    [job] = only_subnets("infiniband: [{name: ib, node_names: /nonexistent}]")
    with pytest.raises(ConfigInvalid, match=r"infiniband\[0\].node_names: read /nonexistent"):
        job.build()


@pytest.mark.parametrize(
    "wrong", ["{groups: [everything]}", "{per_device: 0}", "{speed: 3}", "{sl: 16}"]
)
def test_wrong_options_name_their_place(wrong):
    with pytest.raises(ConfigInvalid, match=r"\$\.infiniband\[0\]"):
        parse_config(f"infiniband: [{wrong}]", "agent.yaml")


def swept(topology=None, **counters):
    topology = topology or two_tier(2, 2, 2)
    assign_lids(topology)
    route_minhop(topology)
    first = next(n for n in topology.nodes.values() if n.kind == "ca")
    subnet = FakeSubnet(topology, End(first.guid, 1), agent=Agent())
    for node in topology.nodes.values():
        for number in node.ports:
            subnet.count(End(node.guid, number), **counters)
    collector = InfinibandCollector(
        lambda: subnet, SweepOptions(groups=("details",), limits=Limits(timeout_s=0.1, retries=0))
    )
    return topology, subnet, collector


def exposition(collector, *, compatible=True, node_infiniband=True):
    board = Snapshot()
    board.register("ib", 30)
    board.succeeded("ib", collector.read(clock), time.monotonic_ns(), 0.1)
    made = Exposition(
        board.outcomes,
        "probe",
        infiniband_exporter=compatible,
        node_infiniband=node_infiniband,
    )
    return board, whole_text(made)


def test_names_of_other_exporters_only_when_asked_for():
    _, _, collector = swept(PortXmitData=100)
    _, text = exposition(collector, compatible=False)
    assert "infiniband_switch_" not in text
    _, _, collector = swept(PortXmitData=100)
    _, text = exposition(collector)
    assert (
        'infiniband_switch_port_transmit_data_bytes_total{guid="0x0000000000200000",port="1"} 400.0'
        in text
    )
    assert 'infiniband_hca_info{guid="0x0000000000100001",hca="H0",lid="' in text
    assert 'infiniband_switch_info{guid="0x0000000000200000",lid="' in text
    [uplink] = re.findall(
        r'^infiniband_hca_uplink_info\{guid="0x0000000000100001".*$', text, re.MULTILINE
    )
    assert 'uplink="Leaf0"' in uplink
    assert 'uplink_type="SW"' in uplink


def test_swept_counters_stay_where_node_exporter_serves_the_host():
    _, _, collector = swept(PortXmitData=100)
    _, text = exposition(collector, node_infiniband=False)
    assert "node_infiniband_port_data_transmitted_bytes_total" in text


def test_names_are_those_of_the_exporter_s_own_tests():
    source = FIXTURES / "treydock__infiniband_exporter"
    if not source.exists():
        pytest.skip("fixtures of other projects are not here")
    fields = set()
    for file in source.glob("collectors/fixtures/perfquery*/*.out"):
        fields |= set(re.findall(r"^(\w+):\.+", file.read_text(), re.MULTILINE))
    # every counter that its recorded perfquery shows has a name here
    ours = {
        key.partition(".")[2]
        for metric in infiniband_exporter.NAMES
        for source in CATALOGUE[metric].sources
        if source.via == "mad"
        for key in (source.key,)
    }
    spelled = {"PortMalformedPktErrors": "PortMalformedPacketErrors"}
    selectors = {"PortSelect", "CounterSelect", "CounterSelect2"}
    assert {spelled.get(f, f) for f in fields} - selectors <= ours


def test_i5_rate_is_each_port_s_own():
    """I5: the rate of a switch was wrong where its ports differ."""
    topology = two_tier(2, 2, 2)
    slow = End(topology.find("Leaf0").guid, 1)
    for end in (slow, topology.port(slow).peer):
        topology.port(end).speed = "QDR"
    _, _, collector = swept(topology)
    _, text = exposition(collector)
    rates = dict(
        re.findall(
            r'infiniband_switch_port_rate_bytes_per_second\{guid="0x0000000000200000",port="(\d)"\}'
            r" (\S+)",
            text,
        )
    )
    assert float(rates["1"]) == 5e9
    assert float(rates["2"]) == 25e9
    [whole] = re.findall(
        r'infiniband_switch_rate_bytes_per_second\{guid="0x0000000000200000"\} (\S+)', text
    )
    assert float(whole) == 25e9


def test_i6_what_did_not_answer_is_absent_and_its_age_shows():
    """I6: a lost sensor looked fine, a cache hid the state. (Power supplies have no MAD.)"""
    topology, subnet, collector = swept(PortXmitData=100)
    board, text = exposition(collector)
    line = 'infiniband_hca_port_transmit_data_bytes_total{guid="0x0000000000100001",port="1"}'
    assert line in text
    subnet.agent_of(topology.find("H0").guid).silent = True
    board.succeeded("ib", collector.read(clock), time.monotonic_ns(), 0.1)
    [outcome] = board.outcomes()
    assert outcome.gap_counts["timeout"] >= 1
    now = whole_text(Exposition(board.outcomes, "probe", infiniband_exporter=True))
    assert line not in now  # absent, not zero and not the last value
    assert 'fabric_agent_collector_age_seconds{collector="ib"}' in now
    assert re.search(r'fabric_agent_gaps_total\{collector="ib",reason="timeout"\} [1-9]', now)


def test_i7_one_name_one_kind_one_label_set():
    """I7: two collectors served one name with other labels; gauges were called `_total`."""
    _, _, collector = swept(PortXmitData=100)
    _, text = exposition(collector)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels = {}
    for name, inside in re.findall(r"^(infiniband_\w+)\{([^}]*)\}", text, re.MULTILINE):
        labels.setdefault(name, set()).add(tuple(sorted(re.findall(r"(\w+)=", inside))))
    assert labels
    for name, sets in labels.items():
        assert len(sets) == 1, name
        assert name.endswith("_total") == (kinds[name] == "counter"), name


def test_i9_a_sweep_of_900_hosts_fits_into_a_second():
    """I9: asked for a 1 s interval on 900 nodes. Devices that take 200 us, 4 outstanding each."""
    topology = two_tier(45, 20, 20)
    assign_lids(topology)
    first = next(n for n in topology.nodes.values() if n.kind == "ca")
    subnet = FakeSubnet(topology, End(first.guid, 1), agent=Agent(latency_s=200e-6))
    from collectors.infiniband.counters import CounterSweep
    from collectors.infiniband.transactor import Transactor

    sweep = CounterSweep(Transactor(subnet), ())
    sweep.sweep(topology)
    again = sweep.sweep(topology)
    assert len(again.ports) == 900 * 2 + 45 * 20 * 2
    assert again.seconds < 0.1  # of the fabric's own time; the bench has what we add to it
