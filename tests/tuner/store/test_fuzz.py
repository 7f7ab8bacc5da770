"""Whatever a peer sends as a batch is stored and readable, or refused as Malformed."""

import math
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.errors import Malformed
from collectors.wire import telemetry_pb2 as pb
from tests.collectors import strategies as some
from tests.tuner.builders import Uplink
from tuner.store.memory import MemoryStore

u64 = st.integers(0, 2**64 - 1)
s64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def spoiled(draw, readings):
    """A batch of a known schema with some of its fields replaced."""
    schema, item = Uplink().batch(readings)
    batch = item.batch
    rows = len(schema.schema.entities)
    for field in draw(st.sets(st.sampled_from(["present", "ints", "floats", "at", "mono", "off"]))):
        match field:
            case "present":
                batch.present = draw(st.binary(max_size=6))
            case "ints":
                del batch.ints[:]
                batch.ints.extend(draw(st.lists(u64, max_size=8)))
            case "floats":
                del batch.floats[:]
                batch.floats.extend(draw(st.lists(st.floats(), max_size=8)))
            case "at":
                batch.at_ns = draw(u64)
            case "mono":
                batch.mono_ns = draw(u64)
            case "off":
                del batch.at_offset_ns[:], batch.mono_offset_ns[:]
                batch.at_offset_ns.extend(draw(st.lists(s64, min_size=rows, max_size=rows + 1)))
                batch.mono_offset_ns.extend(draw(st.lists(s64, max_size=rows)))
    return schema, item


@settings(max_examples=80)
@given(some.passes.flatmap(lambda readings: st.lists(spoiled(readings), max_size=5)))
def test_a_batch_is_stored_and_readable_or_malformed(sent):
    store = MemoryStore()
    kept = 0
    for schema, item in sent:
        store.add(schema)
        with suppress(Malformed):
            store.add(item)
            kept += 1
    window = store.window()
    assert store.batches == kept
    for metric in window.metrics:
        for entity in window.entities(metric):
            assert window.series(metric, entity) is not None
            assert window.latest(metric, entity) is not None
        for entity, growth in window.growth_all(metric).items():
            assert growth == window.growth(metric, entity)
            assert math.isfinite(growth.total)
            assert growth.seconds > 0


@given(st.binary(max_size=60))
def test_random_bytes_are_no_schema(data):
    schema = pb.Schema()
    with suppress(Exception):
        schema.ParseFromString(data)
    with suppress(Malformed):
        MemoryStore().add_schema(schema)
