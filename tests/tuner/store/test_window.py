"""What went in comes out; growth is the sum of one-by-one deltas, however batches were shaped."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.counters import delta
from collectors.model.entities import Device, Host, Interface, Port, Switch
from collectors.model.metric import Column
from collectors.model.reading import Reading
from tests.collectors import strategies as some
from tests.tuner.builders import SECOND, START_NS, Uplink, at, store_of

DEVICE = Device("node1", "0002c90300a1b2c3", "mlx5_0")
PORT = Port(DEVICE, 1)
COUNTER = Column("c_total", "counter", "hw_counters")
WORDS = Column("w_bytes_total", "counter", "sysfs_counters", 64, "saturates", Fraction(4))
SMALL = Column("s_total", "counter", "hw_counters", 8)
GAUGE = Column("g_ratio", "gauge", "sysfs_port", number="float")


def store_of_readings(readings, **how):
    up = Uplink()
    return store_of(item for one in readings for item in up.batch([one], **how))


@settings(max_examples=60)
@given(passes=st.lists(some.passes, min_size=1, max_size=4))
def test_any_reading_survives_unchanged_and_absent_stays_absent(passes):
    up = Uplink()
    window = store_of(item for one in passes for item in up.batch(one)).window()
    want: dict = {}
    for number, one in enumerate(passes):
        for reading in one:
            for column, value in reading.values.items():
                key = (reading.entity, column.metric)
                want.setdefault(key, {}).setdefault(column, []).append(
                    (reading.when.mono_ns, number, reading.when.at_ns, value)
                )
    for (entity, metric), by_column in want.items():
        series = window.series(metric, entity)
        assert series is not None
        kept = sorted(by_column[series.column], key=lambda r: r[:2])
        columns = (series.mono_ns, series.at_ns, series.values)
        got = zip(*(array.tolist() for array in columns), strict=True)
        assert sorted(got) == sorted((m, a, v) for m, _, a, v in kept)
        assert series.mono_ns.tolist() == [row[0] for row in kept]
        assert series.values.dtype == (np.uint64 if series.column.number == "int" else np.float64)
    for metric in ("m_a_total", "m_b_total", "m_c"):
        assert set(window.entities(metric)) == {e for e, m in want if m == metric}


def test_the_largest_word_is_exact_in_series_latest_and_unit():
    top = 2**64 - 1
    window = store_of_readings(
        [Reading(PORT, {WORDS: top - 1}, at(0)), Reading(PORT, {WORDS: top}, at(1))]
    ).window()
    series = window.series("w_bytes_total", PORT)
    assert series is not None
    assert series.values.tolist() == [top - 1, top]
    latest = window.latest("w_bytes_total", PORT)
    assert latest is not None
    assert latest.value == 4 * top
    growth = window.growth("w_bytes_total", PORT)
    assert growth is not None
    assert (growth.total, growth.saturated) == (4, True)


steps = st.tuples(
    st.dictionaries(
        st.sampled_from([COUNTER, SMALL, WORDS, GAUGE]),
        st.integers(0, 2**64 - 1) | st.integers(0, 255),
        max_size=4,
    ),
    st.sampled_from(["", "i2"]),  # incarnation
    st.booleans(),  # the other entity is there, too
    st.integers(0, 5 * SECOND),  # time that passes
)


@settings(max_examples=200)
@given(st.lists(steps, min_size=1, max_size=10), st.integers(0, 10))
def test_growth_is_the_sum_of_deltas_over_changing_schemas(rows, reboot_at):
    """Columns and entities come and go, incarnations change, the host reboots once."""
    up, items, want = Uplink(), [], {}
    mono = 0
    for number, (values, incarnation, other, passed) in enumerate(rows):
        boot = "boot-1" if number < reboot_at else "boot-2"
        mono = passed if number == reboot_at else mono + passed
        when = at(number * 10, mono / SECOND)
        cells = {c: float(v) if c.number == "float" else v for c, v in values.items()}
        readings = [Reading(PORT, cells, when, incarnation)]
        if other:
            readings.insert(0, Reading(Host("node1"), {COUNTER: number}, when))
        items += up.batch(readings, boot_id=boot)
        for column, value in cells.items():
            want.setdefault(column, []).append((value, (boot, incarnation), when))
    window = store_of(items).window()
    for column, seen in want.items():
        growth = window.growth(column.metric, PORT)
        total, seconds, events = 0, 0.0, []
        for (old, was, then), (new, now, when) in pairwise(seen):
            step = delta(column, old, new, same_incarnation=was == now)
            total += step.value
            events.append(step.event)
            same_boot = was[0] == now[0]
            seconds += (
                when.mono_ns - then.mono_ns if same_boot else when.at_ns - then.at_ns
            ) / SECOND
        if column.kind != "counter" or len(seen) < 2 or seconds <= 0:
            assert growth is None
            continue
        assert growth is not None
        exact = column.to_unit(total)
        assert growth.total == (exact if total < 2**53 else pytest.approx(exact))
        assert growth.seconds == pytest.approx(seconds)
        assert growth.rate == pytest.approx(total * float(column.scale) / seconds)
        assert growth.samples == len(seen)
        assert (growth.resets, growth.wraps) == (events.count("reset"), events.count("wrap"))
        assert growth.saturated == ("saturated" in events)
        assert (growth.first_at_ns, growth.last_at_ns) == (seen[0][2].at_ns, seen[-1][2].at_ns)


def test_one_reading_is_no_growth_and_no_time_is_no_growth():
    once = store_of_readings([Reading(PORT, {COUNTER: 5}, at(0))]).window()
    assert once.growth("c_total", PORT) is None
    assert dict(once.growth_all("c_total")) == {}
    assert once.latest("c_total", PORT) is not None
    twice = store_of_readings([Reading(PORT, {COUNTER: 5}, at(0))] * 2).window()
    assert twice.growth("c_total", PORT) is None
    assert once.growth("nonesuch", PORT) is None
    assert once.growth("c_total", Host("nobody")) is None


def test_two_collectors_are_never_added_up():
    up = Uplink()
    items = []
    for second in range(4):
        items += up.batch([Reading(PORT, {COUNTER: second * 10}, at(second))], "sysfs")
        items += up.batch([Reading(PORT, {COUNTER: second * 10 + 1}, at(second))], "netlink")
    window = store_of(items).window()
    growth = window.growth("c_total", PORT)
    assert growth is not None
    assert (growth.total, growth.samples) == (30, 4)
    assert list(window.growth_all("c_total")) == [PORT]
    latest = window.latest("c_total", PORT)
    assert latest is not None
    assert latest.value == 31  # netlink comes first


def test_the_second_collector_helps_out():
    up = Uplink()
    items = up.batch([Reading(PORT, {COUNTER: 0}, at(0))], "netlink")
    for second in range(3):
        items += up.batch([Reading(PORT, {COUNTER: second}, at(second))], "sysfs")
    growth = store_of(items).window().growth("c_total", PORT)
    assert growth is not None
    assert growth.total == 2


def test_wall_clock_backwards_changes_no_order_and_no_seconds():
    readings = [
        Reading(PORT, {COUNTER: 10}, at(100, 0)),
        Reading(PORT, {COUNTER: 20}, at(40, 10)),
        Reading(PORT, {COUNTER: 30}, at(50, 20)),
    ]
    window = store_of_readings(readings).window()
    growth = window.growth("c_total", PORT)
    assert growth is not None
    assert (growth.total, growth.seconds, growth.rate) == (20, 20, 1)
    latest = window.latest("c_total", PORT)
    assert latest is not None
    assert latest.value == 30


def test_late_arrivals_are_put_in_order():
    """An older batch after a newer one: ordered by monotonic time, no false reset."""
    readings = [Reading(PORT, {COUNTER: n * 10}, at(n)) for n in (0, 2, 1, 3)]
    growth = store_of_readings(readings).window().growth("c_total", PORT)
    assert growth is not None
    assert (growth.total, growth.resets) == (30, 0)


def test_a_reboot_is_a_reset_although_monotonic_time_starts_anew():
    up = Uplink()
    items = up.batch([Reading(PORT, {COUNTER: 100}, at(0, 1000))], boot_id="a")
    items += up.batch([Reading(PORT, {COUNTER: 130}, at(10, 1010))], boot_id="a")
    items += up.batch([Reading(PORT, {COUNTER: 200}, at(60, 5))], boot_id="b")
    window = store_of(items).window()
    growth = window.growth("c_total", PORT)
    assert growth is not None
    assert (growth.total, growth.resets, growth.seconds) == (230, 1, 60)
    series = window.series("c_total", PORT)
    assert series is not None
    assert series.values.tolist() == [100, 130, 200]
    assert len(set(series.incarnation.tolist())) == 2


def test_a_switch_does_not_boot_with_the_agent_that_polls_it():
    interface = Interface(Switch("leaf1"), "Ethernet1")
    up = Uplink("poller")
    items = up.batch([Reading(interface, {COUNTER: 10**12}, at(0), "up-1")], boot_id="a")
    items += up.batch([Reading(interface, {COUNTER: 10**12 + 7}, at(9), "up-1")], boot_id="b")
    growth = store_of(items).window().growth("c_total", interface)
    assert growth is not None
    assert (growth.total, growth.resets) == (7, 0)


def test_a_window_is_of_its_span_and_stays_as_it_was():
    up = Uplink()
    store = store_of(
        item for n in range(20) for item in up.batch([Reading(PORT, {COUNTER: n * n}, at(n))])
    )
    window = store.window(at(5).at_ns, at(10).at_ns)
    for n in range(20, 60):
        for item in up.batch([Reading(PORT, {COUNTER: 0}, at(n))]):
            store.add(item)
        store.evict(at(n - 3).at_ns)
    growth = window.growth("c_total", PORT)
    assert growth is not None
    assert (growth.total, growth.samples) == (75, 6)
    series = store.window().series("c_total", PORT)
    assert series is not None
    assert len(series.values) == 4


def test_the_schema_of_the_first_batch_outlives_eviction():
    items = list(Uplink().batch([Reading(PORT, {COUNTER: 1}, at(0))]))
    (schema,) = (item.schema for item in items if item.WhichOneof("body") == "schema")
    unused, store = store_of([]), store_of(items)
    unused.add_schema(schema)
    for memory in (unused, store):
        memory.evict(at(-900).at_ns)
        assert memory.schema(schema.id) is not None
    store.evict(at(100_000).at_ns)
    assert store.schema(schema.id) is None


def test_eviction_by_bytes_drops_the_oldest():
    up = Uplink()
    store = store_of(
        item for n in range(500) for item in up.batch([Reading(PORT, {COUNTER: n}, at(n))])
    )
    store.max_bytes = store.nbytes // 3
    store.evict(0)
    assert store.nbytes <= store.max_bytes
    series = store.window().series("c_total", PORT)
    assert series is not None
    assert 20 < len(series.values) < 250
    assert series.values[-1] == 499


def test_rates_are_between_readings():
    readings = [Reading(PORT, {WORDS: v}, at(t)) for v, t in ((0, 0), (10, 1), (10, 3), (50, 5))]
    times, rates = store_of_readings(readings).window().rates("w_bytes_total", PORT)
    assert times.tolist() == [START_NS + t * SECOND for t in (1, 3, 5)]
    assert rates.tolist() == [40, 0, 80]


def test_two_rows_of_one_entity_in_a_pass():
    up = Uplink()
    items = []
    for n in range(3):
        items += up.batch(
            [Reading(PORT, {COUNTER: n}, at(n)), Reading(PORT, {WORDS: n}, at(n, n + 0.1))]
            + ([Reading(Host("node1"), {COUNTER: 1}, at(n))] if n == 1 else [])
        )
    window = store_of(items).window()
    for metric in ("c_total", "w_bytes_total"):
        growth = window.growth(metric, PORT)
        assert growth is not None
        assert growth.samples == 3


def test_ages_and_agents():
    store = store_of_readings([Reading(PORT, {COUNTER: 5}, at(0))])
    window = store.window()
    assert window.agents == ("node1",)
    assert window.age_seconds("node1", at(7).at_ns) == 7
    assert window.agent_of(PORT) == "node1"
    assert window.metrics == ("c_total",)


def test_an_empty_window_knows_nothing():
    window = store_of([]).window()
    assert window.agents == window.metrics == window.entities("c_total") == ()
    assert window.known_entities() == ()
    assert window.growth("c_total", PORT) is None
    assert window.latest("c_total", PORT) is None
    assert window.rates("c_total", PORT) is None
    assert dict(window.growth_all("c_total")) == dict(window.latest_all("c_total")) == {}
    assert window.growth_table("c_total").number.tolist() == []


def test_many_agents_integers_and_floats_of_one_metric():
    """Growth as mapping, as table and one by one agree; gauges have none."""
    seconds = Column("t_seconds_total", "counter", "gnmi", number="float")
    ticks = Column("t_seconds_total", "counter", "snmp", 32, scale=Fraction(1, 100))
    store = store_of([])
    want = {}
    for number in range(12):
        port = Port(Device(f"node{number}", "k"), 1)
        column = seconds if number % 3 else ticks
        up = Uplink(f"node{number}")
        for n in range(4):
            value = n * number * (1.5 if number % 3 else 150)
            cells = {column: value if number % 3 else int(value), GAUGE: 1.0 * n}
            for item in up.batch([Reading(port, cells, at(n))]):
                store.add(item)
        want[port] = 3 * number * 1.5
    window = store.window()
    grown = window.growth_all("t_seconds_total")
    assert {entity: growth.total for entity, growth in grown.items()} == want
    assert [growth.entity for growth in grown.values()] == list(grown)
    assert all(window.growth("t_seconds_total", entity) == grown[entity] for entity in want)
    table = window.growth_table("t_seconds_total")
    entities = [window.everything()[number] for number in table.number]
    assert dict(zip(entities, table.total.tolist(), strict=True)) == want
    assert dict(zip(entities, table.rate.tolist(), strict=True)) == {
        entity: total / 3 for entity, total in want.items()
    }
    assert len(window.latest_all("g_ratio")) == 12
    assert dict(window.growth_all("g_ratio")) == {}
    assert Port(Device("node99", "k"), 1) not in grown


def test_the_highest_value_of_a_gauge_and_when_it_was_read():
    readings = [Reading(PORT, {GAUGE: float(v)}, at(t)) for v, t in ((3, 0), (90, 1), (7, 2))]
    window = store_of_readings(readings).window()
    [sample] = window.highest_all("g_ratio").values()
    assert (sample.value, sample.at_ns) == (90, START_NS + SECOND)
    assert window.latest("g_ratio", PORT).value == 7
