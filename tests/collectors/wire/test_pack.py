"""Any reading survives the wire unchanged; damage is told, not swallowed."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.entities import Netdev, label_of
from collectors.model.errors import Malformed
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import map_facts, pack_facts, parse_facts
from collectors.wire.pack import (
    Key,
    check_schema,
    check_shape,
    key_of,
    pack_batch,
    pack_schema,
    parse_item,
    set_key,
    unpack_batch,
)
from tests.collectors.strategies import facts, passes

ROOT = Path(__file__).parents[3]
COUNT = Column("m_total", "counter", "hw_counters")
LEVEL = Column("m_celsius", "gauge", "ethtool", number="float")


def through(readings):
    schema = pack_schema(readings)
    batch = pack_batch(readings, schema, "test", "boot")
    item = parse_item(pb.Item(batch=batch).SerializeToString())
    return unpack_batch(item.batch, pb.Schema.FromString(schema.SerializeToString()))


@given(passes)
def test_readings_survive(readings):
    again = through(readings)
    assert list(again) == readings
    assert [label_of(r.entity) for r in again] == [label_of(r.entity) for r in readings]
    for before, after in zip(readings, again, strict=True):
        assert [(c, type(v)) for c, v in sorted(before.values.items(), key=str)] == [
            (c, type(v)) for c, v in sorted(after.values.items(), key=str)
        ]


def test_largest_integer_is_exact_and_absent_stays_absent():
    when = Instant(10**18, 5)
    full = Reading(Netdev("h", "a"), {COUNT: 2**64 - 1, LEVEL: 36.6}, when)
    zero = Reading(Netdev("h", "b"), {COUNT: 0}, when)
    none = Reading(Netdev("h", "c"), {}, when)
    assert through([full, zero, none]) == (full, zero, none)


@pytest.mark.parametrize(
    ("column", "value"),
    [(COUNT, -1), (COUNT, 2**64), (COUNT, 1.0), (LEVEL, float("nan")), (LEVEL, float("inf"))],
)
def test_what_no_column_can_hold_is_refused(column, value):
    reading = Reading(Netdev("h", "a"), {column: value}, Instant(1, 1))
    with pytest.raises(Malformed, match="netdev/h/a"):
        through([reading])


def test_same_rows_and_columns_make_the_same_schema():
    one = [Reading(Netdev("h", "a"), {COUNT: 1}, Instant(1, 1), "boot-1")]
    two = [Reading(Netdev("h", "a"), {COUNT: 9}, Instant(2, 2), "boot-1")]
    new = [Reading(Netdev("h", "a"), {COUNT: 9}, Instant(2, 2), "boot-2")]
    assert pack_schema(one).id == pack_schema(two).id
    assert pack_schema(new).id != pack_schema(one).id


@given(passes, st.data())
def test_damage_is_malformed_or_still_a_batch(readings, data):
    schema = pack_schema(readings)
    batch = pack_batch(readings, schema, "test", "boot")
    raw = bytearray(pb.Item(batch=batch).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Malformed):
        item = parse_item(bytes(raw))
        if item.WhichOneof("body") == "batch":
            unpack_batch(item.batch, schema)


def test_a_bitmap_that_disagrees_with_the_numbers_is_told():
    readings = [Reading(Netdev("h", "a"), {COUNT: 1, LEVEL: 2.0}, Instant(1, 1))]
    schema = pack_schema(readings)
    batch = pack_batch(readings, schema, "test", "boot")
    batch.ints.append(7)
    with pytest.raises(Malformed, match="disagree"):
        check_shape(batch, schema)


def test_a_schema_is_named_by_its_content():
    schema = pack_schema([Reading(Netdev("h", "a"), {COUNT: 1}, Instant(1, 1))])
    check_schema(schema)
    schema.columns[0].width = 32
    with pytest.raises(Malformed, match="hash"):
        check_schema(schema)


@given(facts)
def test_facts_survive(some):
    again = parse_facts(pack_facts(some))
    assert again == some
    assert pack_facts(again) == pack_facts(some)
    assert map_facts(some, lambda entity: entity, lambda text: text) == some


@given(st.binary(max_size=200))
def test_any_bytes_are_facts_or_malformed(data):
    with contextlib.suppress(Malformed):
        parse_facts(data)


def test_generated_code_is_what_the_proto_says(tmp_path):
    subprocess.run(
        [
            sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}", f"--grpc_python_out={tmp_path}",
            "collectors/wire/telemetry.proto",
        ],
        check=True,
        cwd=ROOT,
    )  # fmt: skip
    for made in (tmp_path / "collectors/wire").iterdir():
        assert made.read_text() == (ROOT / "collectors/wire" / made.name).read_text(), made.name


@pytest.mark.parametrize("item", [pb.Item(batch=pb.Batch()), pb.Item(facts=pb.Facts())])
def test_an_item_is_known_by_the_key_that_it_was_given(item):
    set_key(item, Key("gpu01", "e", 2**40))
    assert key_of(item) == Key("gpu01", "e", 2**40)
    assert key_of(pb.Item(schema=pb.Schema())) is None
