"""Questions that a window answers on arrays say the same as looking at every entity does."""

from fractions import Fraction

import pytest

from collectors.model.entities import Device, Port
from collectors.model.metric import Column
from collectors.model.reading import Reading
from tests.tuner.builders import Uplink, at, store_of

WHOLE = Column("t_seconds_total", "counter", "hw_counters", scale=Fraction(1, 10**6))
BROKEN = Column("t_seconds_total", "counter", "gnmi", number="float")
PEGGED = Column("t_seconds_total", "counter", "sysfs_counters", 8, "saturates")
STATE = Column("s_id", "state", "sysfs_port")
TENTH = Column("g_ratio", "gauge", "sysfs_port", scale=Fraction(1, 10))
PORTS = [Port(Device(f"node{number}", "k"), 1) for number in range(9)]


@pytest.fixture(scope="module")
def window():
    """Growth of nothing, of 0.1 to 0.3 s, of 2**62 us, of the largest word, one counter pegged."""
    grown = [0, 100_000, 200_000, 300_000, 2**62, 2**64 - 1, 0.1, 0.30000000000000004, 255]
    columns = [WHOLE] * 6 + [BROKEN, BROKEN, PEGGED]
    store = store_of([])
    for port, total, column in zip(PORTS, grown, columns, strict=True):
        up = Uplink(port.device.host)
        begin = 255 if column is PEGGED else 0
        for second, value in enumerate((begin, begin, total)):
            cells = {column: value, STATE: 4 + (port in PORTS[:2]), TENTH: 3 + (port in PORTS[5:])}
            for item in up.batch([Reading(port, cells, at(second))]):
                store.add(item)
    return store.window()


@pytest.mark.parametrize(
    "least", [None, 0, 0.1, 0.2, 0.3, 0.30000000000000004, 2**62 / 10**6, 1e14]
)
@pytest.mark.parametrize("or_saturated", [False, True])
def test_growing_is_what_a_look_at_every_growth_finds(window, least, or_saturated):
    want = {
        entity: growth
        for entity, growth in window.growth_all("t_seconds_total").items()
        if (growth.total > 0 if least is None else growth.total >= least)
        or (or_saturated and growth.saturated)
    }
    got = window.growing("t_seconds_total", least, or_saturated=or_saturated)
    assert got == want
    assert list(got) == list(want)
    assert (PORTS[8] in got) is (or_saturated or least == 0)


def test_growing_leaves_out_what_is_under_the_limit_by_the_last_digit(window):
    assert PORTS[3] not in window.growing("t_seconds_total", 0.30000000000000004)
    assert PORTS[7] in window.growing("t_seconds_total", 0.30000000000000004)


def test_a_table_holds_the_very_totals_of_the_growths(window):
    table = window.growth_table("t_seconds_total")
    grown = window.growth_all("t_seconds_total")
    entities = [window.everything()[number] for number in table.number]
    assert entities == list(grown)
    assert table.total.tolist() == [float(growth.total) for growth in grown.values()]
    assert table.rate.tolist() == [growth.rate for growth in grown.values()]


@pytest.mark.parametrize(("metric", "value"), [("s_id", 4), ("s_id", 5), ("g_ratio", 0.3)])
def test_unlike_is_what_a_look_at_every_value_finds(window, metric, value):
    latest = window.latest_all(metric)
    want = {entity: seen for entity, seen in latest.items() if seen.value != value}
    assert 0 < len(want) < len(latest)
    assert window.unlike(metric, value) == want


def test_what_nobody_reads_is_not_counted_and_not_unlike(window):
    assert window.counted("t_seconds_total")
    assert not window.counted("s_id")
    assert not window.counted("nobody_total")
    assert window.growing("nobody_total") == window.unlike("nobody_id", 4) == {}


def test_a_growth_looked_up_is_the_one_of_all_however_many_were_before(window):
    grown = window.growth_all("t_seconds_total")
    for _ in range(20):  # from some look-up on a table of all answers
        assert [window.growth("t_seconds_total", port) for port in PORTS] == list(grown.values())
        assert window.growth("t_seconds_total", Port(Device("nobody", "k"), 1)) is None
    assert window.growth("t_seconds_total", PORTS[5]).total == (2**64 - 1) / 10**6


def test_the_highest_value_of_each_is_found_at_its_time(window):
    highest = window.highest_all("t_seconds_total")
    assert list(highest) == PORTS
    assert highest[PORTS[5]].value == (2**64 - 1) / 10**6
    assert highest[PORTS[6]].value == 0.1
    assert {seen.at_ns for seen in highest.values()} == {at(2).at_ns, at(0).at_ns}
    assert highest[PORTS[0]].at_ns == highest[PORTS[8]].at_ns == at(0).at_ns


def test_totals_of_many_are_those_of_each_and_of_strangers_unknown(window):
    stranger = Port(Device("node99", "k"), 1)
    asked = [PORTS[4], stranger, *PORTS, PORTS[0]]
    grown = [window.growth("t_seconds_total", entity) for entity in asked]
    want = [None if growth is None else float(growth.total) for growth in grown]
    assert want[1] is None
    assert window.totals("t_seconds_total", asked) == want
    assert window.totals("nobody_total", asked[:2]) == [None, None]
