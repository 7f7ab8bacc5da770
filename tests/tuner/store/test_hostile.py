"""What no honest agent sends costs nobody but its sender."""

from fractions import Fraction

import pytest

from collectors.model.entities import Device, Host, Port, parse_entity
from collectors.model.errors import Malformed
from collectors.model.facts import Facts, Setting
from collectors.model.metric import Column
from collectors.model.reading import Reading
from tests.tuner.builders import START_NS, Uplink, at, store_of
from tuner.store.memory import MemoryStore
from tuner.store.schemas import MOST_COLUMNS


def wide(first, count):
    columns = (
        Column(f"fabric_m{number}", "gauge", "x", 64, "wraps", Fraction(1), "int")
        for number in range(first, first + count)
    )
    return [Reading(Host("a"), {c: number for number, c in enumerate(columns)}, at(0), "")]


def test_a_schema_too_wide_is_refused():
    schema, _ = Uplink().batch(wide(0, MOST_COLUMNS + 1))
    with pytest.raises(Malformed, match="65536 at most"):
        MemoryStore().add(schema)


def test_schemas_that_are_too_wide_together_are_refused():
    uplink, store = Uplink(), MemoryStore()
    for item in uplink.batch(wide(0, 40_000)):
        store.add(item)
    schema, batch = uplink.batch(wide(40_000, 40_000))
    store.add(schema)
    with pytest.raises(Malformed, match="more than 65536"):
        store.add(batch)
    newest = store.window().latest("fabric_m39999", Host("a"))
    assert newest is not None
    assert newest.value == 39_999


def test_facts_of_a_time_that_no_clock_shows_are_refused():
    store = MemoryStore()
    with pytest.raises(Malformed, match="time is out of range"):
        store.add(Uplink().facts(Facts(), 2**64 - 1))
    assert store.newest_ns == 0


@pytest.mark.parametrize(
    "text", ["queue/1/" * 3000 + "switch/a", "link/" + "link%2F" * 3000 + "a/b", "queue/1/host/a"]
)
def test_entities_do_not_nest_without_end(text):
    with pytest.raises(Malformed):
        parse_entity(text)


def test_settings_of_the_wrong_type_are_unknown():
    port = Port(Device("h", "1"), 1)
    values = {
        "mtu_bytes": "big", "rdma_mtu_bytes": True, "queue_rate_bps": 10**30, "kmin_bytes": (1, 2),
        "ib_vl_arbitration_high": ("a", 1), "kmax_bytes": 1500, "trust": "dscp",
        "ecn_enabled": True, "ib_vl_arbitration_low": (1, 2),
    }  # fmt: skip
    facts = Facts(settings=tuple(Setting(port, name, value) for name, value in values.items()))
    known = store_of([Uplink().facts(facts, START_NS)]).window().settings(port)
    assert set(known) == {"kmax_bytes", "trust", "ecn_enabled", "ib_vl_arbitration_low"}
