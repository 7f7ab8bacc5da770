"""What /metrics serves: names, labels, values, age."""

import re
from fractions import Fraction

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from agent.exposition import Exposition, Vital, whole_text
from agent.labels import labels
from collectors.model.catalogue.own import OWN
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.entities import (
    Device,
    Host,
    Netdev,
    Port,
    QueuePair,
    Slot,
    Switch,
    priority,
    queue,
)
from collectors.model.facts import Attribute, Facts, Gap
from collectors.model.metric import Column
from collectors.model.reading import Pass
from tests.agent.boards import LEAF, LIFESPAN, MTU_DROPS, PORT, RX_WORDS, STATE, reading, snapshot


def text_of(board, now=10**9, **options):
    return whole_text(Exposition(board.outcomes, "gpu01", mono_ns=lambda: now, **options))


def samples(text):
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_values_are_in_the_unit_of_the_metric():
    text = text_of(snapshot(reading(PORT, {RX_WORDS: 100, STATE: 4, LIFESPAN: 10})))
    port = (("device", "mlx5_0"), ("port", "1"))
    found = samples(text)
    assert found["node_infiniband_port_data_received_bytes_total", port] == 400  # words, any lanes
    assert found["node_infiniband_state_id", port] == 4
    assert found["node_infiniband_lifespan_seconds", port] == 0.01
    assert "# TYPE node_infiniband_port_data_received_bytes_total counter" in text
    assert "# TYPE node_infiniband_state_id gauge" in text
    help_line = f"# HELP node_infiniband_state_id {CATALOGUE['node_infiniband_state_id'].meaning}"
    assert help_line in text


@pytest.mark.parametrize("native", [0, 1, 2**53 + 1, 2**64 - 1])
def test_u13_values_of_any_size_are_written_whole(native):
    column = Column("node_infiniband_port_packets_received_total", "counter", "x")
    words = Column(
        "node_infiniband_port_data_received_bytes_total", "counter", "x", 64, "wraps", Fraction(4)
    )
    text = text_of(snapshot(reading(PORT, {column: native, words: native})))
    port = '{device="mlx5_0",port="1"}'
    assert f"{column.metric}{port} {native}\n" in text
    assert f"{words.metric}{port} {4 * native}\n" in text


@pytest.mark.parametrize(
    ("entity", "wanted"),
    [
        (Host("gpu01"), {}),
        (Host("other"), {"host": "other"}),
        (PORT, {"device": "mlx5_0", "port": "1"}),
        (Port(Device("gpu01", "0000:3b:00.0"), 2), {"device": "0000:3b:00.0", "port": "2"}),
        (Port(Device("far", "k", "mlx5_0"), 1), {"host": "far", "device": "mlx5_0", "port": "1"}),
        (Netdev("gpu01", "eth0"), {"netdev": "eth0"}),
        (Switch("aa:bb"), {"switch": "aa:bb"}),
        (LEAF, {"switch": "leaf1", "interface": "Ethernet1/1"}),
        (priority(LEAF, 3), {"switch": "leaf1", "interface": "Ethernet1/1", "priority": "3"}),
        (queue(Netdev("gpu01", "e"), 5), {"netdev": "e", "queue": "5"}),
        (Slot(PORT, "vl", 0), {"device": "mlx5_0", "port": "1", "vl": "0"}),
        (QueuePair(PORT.device, 17), {"device": "mlx5_0", "qp": "17"}),
    ],
)
def test_n4_n5_labels_are_frozen_and_called_device_and_port(entity, wanted):
    assert labels(entity, "gpu01") == wanted


def test_names_of_any_bytes_can_be_scraped():
    odd = Netdev("gpu01", 'a"b\n\\\udcfe')
    found = samples(text_of(snapshot(reading(odd, {MTU_DROPS: 1}))))
    assert ("fabric_interface_rx_drops_total", (("netdev", 'a"b\n\\?'),)) in found


def test_two_sources_of_one_metric_give_one_series():
    board = snapshot(reading(PORT, {STATE: 4}))
    board.register("netlink", 5)
    other = Column("node_infiniband_state_id", "state", "netlink")
    board.succeeded("netlink", Pass((reading(PORT, {other: 1}),)), 0, 0.1)
    text = text_of(board)
    assert len(re.findall(r"^node_infiniband_state_id\{", text, re.MULTILINE)) == 1
    assert 'node_infiniband_state_id{device="mlx5_0",port="1"} 4\n' in text


def test_n4_identity_is_on_info_series_only_with_frozen_labels():
    facts = Facts(
        attributes=(
            Attribute(PORT.device, "driver", "mlx5"),
            Attribute(PORT.device, "firmware", "28.39"),
            Attribute(PORT.device, "board_id", "MT_1"),
            Attribute(PORT.device, "hca_type", "MT4129"),
            Attribute(PORT.device, "node_guid", "0c42:a103:0016:054c"),
            Attribute(PORT.device, "pci_address", "0000:3b:00.0"),
            Attribute(PORT.device, "is_vf", False),
            Attribute(PORT, "link_layer", "Ethernet"),
            Attribute(PORT, "netdev", "eth3"),
        )
    )
    text = text_of(snapshot(reading(PORT, {STATE: 4}), facts=facts))
    assert (
        'fabric_port_info{device="mlx5_0",driver="mlx5",is_vf="false",link_layer="Ethernet",'
        'netdev="eth3",node_guid="0c42a1030016054c",pci_addr="0000:3b:00.0",port="1"} 1.0'
    ) in text
    assert (
        'node_infiniband_info{board_id="MT_1",device="mlx5_0",firmware_version="28.39",'
        'hca_type="MT4129"} 1.0'
    ) in text
    off = text_of(snapshot(reading(PORT, {STATE: 4}), facts=facts), node_infiniband=False)
    assert "node_infiniband" not in off
    assert "fabric_port_info{" in off


def test_age_success_duration_and_reasons():
    gaps = (Gap("port/x/y/1", "sysfs", "VL15_dropped", "EINVAL", count=3),)
    board = snapshot(gaps=gaps, at=10**9)
    board.register("netlink", 5)
    board.failed("netlink", "denied", "no", 0.5)
    board.register("slow", 5)
    board.late("slow")
    found = samples(text_of(board, now=4 * 10**9))

    def of(name, collector, **more):
        return found.get((name, tuple(sorted({"collector": collector, **more}.items()))))

    assert of("fabric_agent_collector_age_seconds", "sysfs") == 3
    assert of("fabric_agent_collector_age_seconds", "netlink") is None  # absent is not zero
    assert of("fabric_agent_collector_success", "sysfs") == 1
    assert of("fabric_agent_collector_success", "netlink") == 0
    assert of("fabric_agent_collector_success", "slow") == 0
    assert of("fabric_agent_collector_overruns_total", "slow") == 1
    assert of("fabric_agent_collector_duration_seconds", "sysfs") == 0.25
    assert of("fabric_agent_collector_failures_total", "netlink", reason="denied") == 1
    assert of("fabric_agent_gaps_total", "sysfs", reason="EINVAL") == 3
    own = {name: {label for label, _ in of} for name, of in found if name in OWN}
    assert len(own) == 8  # of the agent and of its collectors
    assert all(set(OWN[name].labels) <= labels for name, labels in own.items())


def test_stale_readings_are_no_longer_served():
    board = snapshot(reading(PORT, {STATE: 4}), at=0)
    assert "node_infiniband_state_id" in text_of(board, now=59 * 10**9, stale_after_s=60)
    gone = text_of(board, now=61 * 10**9, stale_after_s=60)
    assert "node_infiniband_state_id" not in gone
    assert "fabric_port_info" not in gone
    assert 'fabric_agent_collector_age_seconds{collector="sysfs"} 61.0' in gone


def test_vitals():
    vital = Vital(OWN["fabric_agent_spool_dropped_items_total"], 7)
    text = text_of(snapshot(), vitals=lambda: [vital])
    assert "fabric_agent_spool_dropped_items_total 7.0" in text


ODD = Netdev("gpu01", 'we"ird\\if\n')


class Library:
    """Readings as prometheus-client writes them."""

    def __init__(self, *readings):
        self.readings = readings

    def collect(self):
        families = {}
        for one in self.readings:
            for column, value in one.values.items():
                name, row = column.metric, CATALOGUE[column.metric]
                kind = "counter" if row.kind == "counter" else "gauge"
                family = families.setdefault(
                    name, Family(name.removesuffix("_total"), row.meaning, kind)
                )
                family.add_sample(name, labels(one.entity, "gpu01"), column.to_unit(value))
        yield from families.values()


def test_our_own_text_says_what_the_library_would():
    readings = (
        reading(PORT, {RX_WORDS: 25, STATE: 4, LIFESPAN: 10}),
        reading(ODD, {MTU_DROPS: 7}),
        reading(priority(LEAF, 3), {MTU_DROPS: 8}),
    )
    exposed = Exposition(snapshot(*readings).outcomes, "gpu01", mono_ns=lambda: 10**9)
    ours = exposed.text(openmetrics=False).decode()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Library(*readings))
    theirs = generate_latest(registry).decode()
    assert samples(ours) == samples(theirs)
    assert len(samples(ours)) == 5
    headers = [line for line in ours.splitlines() if line[0] == "#"]
    assert sorted(headers) == sorted(line for line in theirs.splitlines() if line[0] == "#")
    openmetrics = exposed.text(openmetrics=True).decode() + "# EOF\n"
    families = list(openmetrics_families(openmetrics))
    assert {sample.name for family in families for sample in family.samples} == {
        key[0] for key in samples(ours)
    }
