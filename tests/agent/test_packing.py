"""Packing: schemas are reused, facts travel when they change, one bad value costs one entity."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.packing import Packer
from collectors.model.entities import Device, Netdev, Port
from collectors.model.facts import Attribute, Facts, Gap
from collectors.model.metric import Column
from collectors.model.reading import Instant, Pass, Reading
from collectors.wire.facts import parse_facts
from collectors.wire.pack import unpack_batch
from tests.collectors import strategies

A = Column("fabric_interface_rx_bytes_total", "counter", "netdev")
B = Column("fabric_interface_tx_bytes_total", "counter", "netdev")
GAP = Gap("netdev/h/x", "c", "carrier", "EINVAL")


def reading(name, at=1, incarnation="", **values):
    columns = {"a": A, "b": B}
    return Reading(
        Netdev("h", name), {columns[k]: v for k, v in values.items()}, Instant(at, at), incarnation
    )


def batches(packer, *readings, **options):
    packed = packer.pack("c", Pass(readings, **options), 5, 5)
    return [p for p in packed if p.item.HasField("batch")]


def sent_facts(packer, seen, mono_ns=5):
    packed = packer.pack("c", seen, 5, mono_ns)
    return [parse_facts(p.item.facts.json) for p in packed if p.item.HasField("facts")]


def test_schema_is_the_same_object_while_the_shape_is():
    packer = Packer("b")
    first = batches(packer, reading("x", 1, a=1, b=2))[0]
    again = batches(packer, reading("x", 2, a=3))[0]  # a value that is absent for once
    assert again.schema is first.schema
    assert unpack_batch(again.item.batch, again.schema) == (reading("x", 2, a=3),)
    assert first.item.batch.boot_id == "b"


def test_new_column_widens_the_schema_for_good():
    packer = Packer("b")
    first = batches(packer, reading("x", 1, a=1))[0]
    wider = batches(packer, reading("x", 2, b=1))[0]
    assert wider.schema.id != first.schema.id
    assert len(wider.schema.columns) == 2
    assert batches(packer, reading("x", 3, a=1))[0].schema is wider.schema


def test_new_entity_or_incarnation_is_another_schema():
    packer = Packer("b")
    ids = [
        batches(packer, reading("x", a=1))[0].schema.id,
        batches(packer, reading("x", a=1), reading("y", a=1))[0].schema.id,
        batches(packer, reading("x", incarnation="2", a=1))[0].schema.id,
        batches(packer, reading("x", a=1))[0].schema.id,
    ]
    assert len(set(ids)) == 3
    assert ids[3] == ids[0]


def test_renamed_device_is_another_schema():
    packer = Packer("b")
    ids = set()
    for name in ("mlx5_0", "rocep1s0f0"):
        port = Port(Device("h", "0c42a1030016054c", name), 1)
        ids.add(batches(packer, Reading(port, {A: 1}, Instant(1, 1)))[0].schema.id)
    assert len(ids) == 2


@given(st.lists(strategies.passes, min_size=1, max_size=4))
@settings(max_examples=40)
def test_whatever_is_packed_comes_back(passes):
    packer = Packer("b")
    for number, readings in enumerate(passes):
        for packed in packer.pack("c", Pass(tuple(readings)), number, number):
            if packed.schema:
                back = unpack_batch(packed.item.batch, packed.schema)
                assert back == tuple(readings)


def test_many_entities_travel_in_several_batches(monkeypatch):
    monkeypatch.setattr("agent.packing._ROWS", 10)
    packer = Packer("b")
    readings = tuple(reading(f"n{n}", a=n) for n in range(25))
    packed = batches(packer, *readings)
    assert [len(p.schema.entities) for p in packed] == [10, 10, 5]
    assert [p.schema for p in batches(packer, *readings)] == [p.schema for p in packed]


def test_value_out_of_range_costs_one_entity_and_is_a_gap():
    packer = Packer("b")
    good, bad = reading("x", a=1), reading("y", a=-1)
    packed = list(packer.pack("c", Pass((good, bad)), 5, 5))
    assert unpack_batch(packed[0].item.batch, packed[0].schema) == (good,)
    gap = parse_facts(packed[1].item.facts.json).gaps[0]
    assert (gap.subject, gap.reason) == ("netdev/h/y", "out of range")


def test_facts_travel_when_they_change():
    packer = Packer("b")
    facts = Facts(attributes=(Attribute(Netdev("h", "x"), "mac", "aa"),))
    assert sent_facts(packer, Pass()) == []
    assert sent_facts(packer, Pass(facts=facts)) == [facts]
    assert sent_facts(packer, Pass(facts=facts)) == []
    assert sent_facts(packer, Pass()) == []  # a pass that did not look at them changes nothing
    with_gap = sent_facts(packer, Pass(gaps=(GAP,)))
    assert with_gap == [Facts(attributes=facts.attributes, gaps=(GAP,))]
    assert sent_facts(packer, Pass(gaps=(GAP,))) == []
    assert sent_facts(packer, Pass()) == [facts]  # the gap is over
    assert sent_facts(packer, Pass(facts=Facts())) == [Facts()]


def test_facts_travel_again_after_a_while_and_on_demand():
    packer = Packer("b")
    facts = Facts(versions=(("kernel", "6.1"),))
    assert sent_facts(packer, Pass(facts=facts), 0)
    assert not sent_facts(packer, Pass(), 599 * 10**9)
    assert sent_facts(packer, Pass(), 600 * 10**9) == [facts]
    packer.forget_facts()
    assert sent_facts(packer, Pass(), 601 * 10**9) == [facts]
