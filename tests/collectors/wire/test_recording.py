"""Recordings and their pseudonyms: the site is gone, what belongs together still does."""

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.entities import (
    Device,
    Host,
    Interface,
    Netdev,
    Port,
    QueuePair,
    Slot,
    Switch,
    link,
    parse_entity,
    priority,
)
from collectors.model.errors import ConfigInvalid, Unavailable
from collectors.model.facts import Attribute, Facts, Gap, Gid, Neighbour, QueuePairFact, Setting
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts, parse_facts
from collectors.wire.pack import check_schema, pack_batch, pack_schema, unpack_batch
from collectors.wire.pseudonyms import Pseudonyms
from collectors.wire.recording import RecordingWriter, read_recording
from tests.collectors import strategies

BYTES = Column("node_infiniband_port_data_received_bytes_total", "counter", "sysfs_counters")
GUID = "0c42a1030016054c"
PORT = Port(Device("gpu-rack7-01", GUID, "mlx5_bond_acme"), 1)
NETDEV = Netdev("gpu-rack7-01", "acme0")
LEAF = Interface(Switch("aa:bb:cc:01:02:03", "leaf-acme-9"), "Ethernet1/7")

SECRET = re.compile(
    r"gpu-rack7|acme|0c42a1030016054c|0c42:a103:0016:054c|aa:bb:cc:01:02:03|10\.20\.30|192\.168\.77"
    r"|2001:db8:7|Jane|train-gpt"
)

FACTS = Facts(
    settings=(Setting(NETDEV, "mtu_bytes", 9000, "/sys/class/net/acme0/mtu"),),
    attributes=(
        Attribute(PORT, "netdev", "acme0"),
        Attribute(PORT.device, "driver", "mlx5"),
        Attribute(PORT.device, "firmware", "28.39.1002"),
        Attribute(PORT.device, "node_guid", "0c42:a103:0016:054c"),
        Attribute(PORT.device, "node_description", "Jane's box"),
        Attribute(NETDEV, "address", ("10.20.30.4", "2001:db8:7::9", "fe80::e42:a103:16:54c")),
        Attribute(NETDEV, "mac", "aa:bb:cc:01:02:03"),
    ),
    gids=(Gid(PORT, 3, "::ffff:10.20.30.4", "RoCE v2", "acme0"),),
    neighbours=(Neighbour(NETDEV, LEAF, "lldp"),),
    queue_pairs=(
        QueuePairFact(
            PORT.device, 1, 77, process="train-gpt", job="Jane/17",
            local_address="10.20.30.4", remote_address="192.168.77.1",
        ),
    ),
    gaps=(
        Gap(str(PORT), "sysfs", "counters/acme0", "EINVAL", "gpu-rack7-01: mlx5_bond_acme is odd"),
        Gap("192.168.77.1:161", "snmp", "get", "timeout", "at 12:34:56"),
    ),
)  # fmt: skip


def record(folder, pseudonyms=None, passes=3):
    writer = RecordingWriter(folder, pseudonyms)
    made = []
    writer.append(pb.Item(facts=pb.Facts(agent="gpu-rack7-01", seq=1, json=pack_facts(FACTS))))
    for number in range(passes):
        now = Instant(10**18 + number, 10**9 + number)
        readings = [
            Reading(PORT, {BYTES: 2**64 - 1 - number}, now, "boot"),
            Reading(priority(LEAF, 3), {}, now),
        ]
        schema = pack_schema(readings)
        batch = pack_batch(readings, schema, "sysfs", "boot-1")
        batch.agent, batch.epoch, batch.seq = "gpu-rack7-01", "e", number + 2
        writer.append(pb.Item(schema=schema))
        writer.append(pb.Item(batch=batch))
        made.append(tuple(readings))
    writer.close()
    assert writer.items == passes + 1
    return made


def replay(folder):
    schemas = {}
    for item in read_recording(folder):
        if item.WhichOneof("body") == "schema":
            check_schema(item.schema)
            schemas[item.schema.id] = item.schema
        elif item.WhichOneof("body") == "batch":
            yield item.batch, unpack_batch(item.batch, schemas[item.batch.schema])


def test_what_was_recorded_comes_back(tmp_path):
    made = record(tmp_path / "r")
    assert [readings for _, readings in replay(tmp_path / "r")] == made
    facts = [i for i in read_recording(tmp_path / "r") if i.WhichOneof("body") == "facts"]
    assert [parse_facts(item.facts.json) for item in facts] == [FACTS]


def test_each_segment_stands_on_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("collectors.wire.recording._SEGMENT_BYTES", 600)
    made = record(tmp_path / "r", passes=12)
    parts = sorted((tmp_path / "r").iterdir())
    assert len(parts) > 2
    parts[0].unlink()
    left = [readings for _, readings in replay(tmp_path / "r")]
    assert left == made[-len(left) :]


def test_nothing_of_the_site_is_left(tmp_path):
    made = record(tmp_path / "r", Pseudonyms())
    for item in read_recording(tmp_path / "r"):
        assert not SECRET.search(str(item)), item
    replayed = list(replay(tmp_path / "r"))
    assert [b.seq for b, _ in replayed] == [2, 3, 4]
    for (batch, readings), original in zip(replayed, made, strict=True):
        assert readings[0].values == original[0].values
        assert readings[0].when == original[0].when
        assert batch.agent == readings[0].entity.device.host
    # The same entity under the same pseudonym in batches and in facts.
    items = [i for i in read_recording(tmp_path / "r") if i.WhichOneof("body") == "facts"]
    facts = parse_facts(items[0].facts.json)
    port = replayed[0][1][0].entity
    assert facts.gids[0].port == port
    assert facts.gaps[0].subject == str(port)
    assert facts.gaps[1].detail == "at 12:34:56"
    attributes = {a.name: a.value for a in facts.attributes}
    assert attributes["driver"] == "mlx5"
    assert attributes["firmware"] == "28.39.1002"
    assert attributes["node_guid"].replace(":", "") == port.device.key
    assert attributes["netdev"] == facts.gids[0].netdev == facts.neighbours[0].local.name
    assert facts.neighbours[0].remote.name == "Ethernet1/7"
    assert attributes["mac"] == facts.neighbours[0].remote.switch.key
    four, _, local = attributes["address"]
    assert facts.gids[0].gid == f"::ffff:{four}"
    assert facts.queue_pairs[0].local_address == four
    assert ipaddress.ip_address(local).is_link_local


def test_salt_decides():
    one, other = Pseudonyms(), Pseudonyms()
    assert one.entity(PORT) != other.entity(PORT)
    assert Pseudonyms(b"x").entity(PORT) == Pseudonyms(b"x").entity(PORT)


@given(st.lists(strategies.entities, max_size=20, unique=True))
def test_different_entities_stay_different(entities):
    names = Pseudonyms(b"salt")
    mapped = [names.entity(entity) for entity in entities]
    assert len(set(mapped)) == len(entities)
    assert [type(e) for e in mapped] == [type(e) for e in entities]
    assert [parse_entity(str(e)) for e in mapped] == mapped


@pytest.mark.parametrize(
    "entity",
    [
        Host("a1"), PORT, NETDEV, LEAF, QueuePair(PORT.device, 5), link(NETDEV, LEAF),
        Slot(LEAF.switch, "pool", 1), priority(PORT, 3), Device("h", "0000:3b:00.0", "mlx5_0"),
    ],
)  # fmt: skip
def test_every_kind_of_entity(entity):
    mapped = Pseudonyms(b"s").entity(entity)
    assert type(mapped) is type(entity)
    assert str(mapped) != str(entity)


@given(st.ip_addresses(), st.ip_addresses())
def test_addresses_one_to_one_by_kind(one, other):
    names = Pseudonyms(b"salt")
    left, right = (ipaddress.ip_address(names.text(str(a))) for a in (one, other))
    assert (left == right) == (one == other)
    assert left.version == one.version
    assert left.is_link_local == one.is_link_local
    assert left.is_multicast == one.is_multicast


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_addresses_keep_common_prefixes(one, other):
    names = Pseudonyms(b"salt")
    images = [
        int(ipaddress.ip_address(names.text(str(ipaddress.IPv4Address(a))))) for a in (one, other)
    ]
    assert (one ^ other).bit_length() == (images[0] ^ images[1]).bit_length()


@given(strategies.facts)
def test_any_facts_survive(facts):
    mapped = Pseudonyms(b"salt").facts(facts)
    assert parse_facts(pack_facts(mapped)) == mapped
    assert len(mapped.settings) == len(facts.settings)
    assert [g.count for g in mapped.gaps] == [g.count for g in facts.gaps]


def test_folder_must_be_empty(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(ConfigInvalid, match="the folder is not empty"):
        RecordingWriter(tmp_path)


def test_batch_without_schema_is_refused(tmp_path):
    writer = RecordingWriter(tmp_path / "r")
    with pytest.raises(Unavailable, match="its schema never came"):
        writer.append(pb.Item(batch=pb.Batch(agent="a", seq=1, schema=b"x")))


def test_no_recording(tmp_path):
    with pytest.raises(ConfigInvalid, match="no recording here"):
        list(read_recording(tmp_path))


def test_recording_without_items_is_valid(tmp_path):
    RecordingWriter(tmp_path / "r").close()
    assert list(read_recording(tmp_path / "r")) == []
