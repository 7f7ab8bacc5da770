"""Egress queues from the dump recorded on the lab's switch, with interfaces of a fake sysfs."""

from pathlib import Path

import pytest

from collectors.host.qdisc import QdiscCollector
from collectors.host.topology import TopologyCollector, parse_topology
from collectors.model.errors import ConfigInvalid, Malformed, NotSupported, Unavailable
from simlab.hosts.tree import FakeNetdev, write_netdev

DUMP = Path(__file__).parents[2] / "fixtures/qdisc/lab-switch/dump.hex"


class Recorded:
    def __init__(self, error=None):
        self.error = error
        self.closed = 0

    def request(self, _message):
        if self.error:
            raise self.error
        return [bytes.fromhex(line) for line in DUMP.read_text().split()]

    def close(self):
        self.closed += 1


@pytest.fixture
def switch(host, tmp_path):
    for name, index in indices().items():
        write_netdev(tmp_path, FakeNetdev(name, index=index))

    def build(**changes):
        socket = changes.pop("socket", Recorded())
        options = changes.pop("options", {"switch": "sw"})
        return QdiscCollector(host(open_netlink=lambda _: socket, options=options, **changes))

    return build


def indices():
    from collectors.codec.netlink import parse_messages
    from collectors.codec.qdisc import parse_qdisc

    data = [bytes.fromhex(line) for line in DUMP.read_text().split()]
    found = [q for part in data for m in parse_messages(part) if (q := parse_qdisc(m))]
    red = sorted({q.index for q in found if q.kind == "red"})
    return dict(zip(("p1", "p2", "p3", "p4"), red, strict=True))


def test_queue_of_a_switch_port(switch, clock):
    done = switch().read(clock)
    by_entity = {str(reading.entity): reading for reading in done.readings}
    values = {c.metric: v for c, v in by_entity["queue/0/interface/sw/p4"].values.items()}
    assert set(values) == {
        "fabric_queue_tx_bytes_total",
        "fabric_queue_tx_packets_total",
        "fabric_queue_drop_packets_total",
        "fabric_queue_ecn_marked_packets_total",
        "fabric_queue_occupancy_bytes",
    }
    assert values["fabric_queue_ecn_marked_packets_total"] > 0
    assert values["fabric_queue_drop_packets_total"] > 0
    assert "interface/sw/p4" in by_entity  # its own statistics, too
    assert all(gap.subject.startswith("interface/sw/p") for gap in done.gaps)  # a bare fake tree


def test_settings_are_facts_and_sent_once(switch, clock):
    collector = switch()
    facts = collector.read(clock).facts
    assert facts is not None
    of_p4 = {s.name: s.value for s in facts.settings if str(s.entity) == "queue/0/interface/sw/p4"}
    assert of_p4["ecn_enabled"] is True
    assert of_p4["queue_rate_bps"] == 5_000_000
    assert of_p4["kmin_bytes"] < of_p4["kmax_bytes"] < of_p4["queue_limit_bytes"]
    assert of_p4["pmax_ratio"] == pytest.approx(0.2)
    assert any(s.name == "mtu_bytes" and str(s.entity) == "interface/sw/p4" for s in facts.settings)
    assert collector.read(clock).facts is None


def test_on_a_host_the_ends_are_netdevs_and_others_read_their_statistics(switch, clock):
    done = switch(options={}).read(clock)
    assert {str(r.entity) for r in done.readings} == {
        f"queue/0/netdev/n1/p{n}" for n in range(1, 5)
    }


def test_an_excluded_interface_is_left_out(switch, clock):
    done = switch(exclude=("p4",)).read(clock)
    assert "queue/0/interface/sw/p4" not in {str(r.entity) for r in done.readings}
    assert "queue/0/interface/sw/p3" in {str(r.entity) for r in done.readings}


def test_a_failed_socket_is_opened_anew(switch, clock):
    broken = Recorded(Unavailable("NETLINK_ROUTE", "await reply", "timed out"))
    collector = switch(socket=broken)
    with pytest.raises(Unavailable):
        collector.read(clock)
    assert broken.closed == 1


def test_without_netlink_it_says_so(host, clock):
    with pytest.raises(NotSupported):
        QdiscCollector(host()).read(clock)


@pytest.mark.parametrize("options", [{"swich": "sw"}, {"switch": 3}, {"switch": ""}])
def test_wrong_options(host, options):
    with pytest.raises(ConfigInvalid, match=next(iter(options))):
        QdiscCollector(host(options=options))


LINKS = """
links:
  - [{host: h1, netdev: h1}, {switch: sw, interface: p1}]
"""


def test_topology_file_is_read_again_when_it_changes(host, tmp_path, clock):
    path = tmp_path / "cables.yaml"
    path.write_text(LINKS)
    collector = TopologyCollector(host(options={"file": str(path)}))
    (neighbour,) = collector.read(clock).facts.neighbours
    assert (str(neighbour.local), str(neighbour.remote)) == ("netdev/h1/h1", "interface/sw/p1")
    assert collector.read(clock).facts is None
    path.write_text("links: []")
    assert collector.read(clock).facts.neighbours == ()
    path.unlink()
    with pytest.raises(Unavailable, match="read topology"):
        collector.read(clock)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("links: 3", "no list"),
        ("link: []", "one key"),
        ("links: [[1]]", "links[0]: a link has two ends"),
        ("links: [[{host: a}, {switch: b, interface: c}]]", "links[0]: an end is"),
        ("links: [", "parse topology"),
    ],
)
def test_a_wrong_topology_names_file_and_link(text, says):
    with pytest.raises(Malformed) as error:
        parse_topology(text, "cables.yaml")
    assert str(error.value).startswith("cables.yaml")
    assert says in str(error.value)


def test_topology_options(host):
    with pytest.raises(ConfigInvalid):
        TopologyCollector(host(options={"path": "x"}))
