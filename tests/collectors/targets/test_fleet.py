"""Many targets in one collector: none is late because of another."""

import asyncio
import time

import pytest

from collectors.model.entities import Interface, Switch
from collectors.model.errors import Unavailable
from collectors.model.metric import Column
from collectors.model.reading import Pass, Reading
from collectors.targets.fleet import AGE, UP, Claims, Fleet, Member
from tests.collectors.passes import clock

BYTES = Column("fabric_interface_rx_bytes_total", "counter", "snmp")
OTHER = Column("fabric_interface_rx_bytes_total", "counter", "gnmi")


class Scripted:
    def __init__(self, name, *steps):
        self.subject = Switch(name)
        self.steps = list(steps)
        self.polls = 0

    async def poll(self, clock):
        self.polls += 1
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        await asyncio.sleep(step)
        end = Interface(self.subject, "Ethernet1")
        return Pass((Reading(end, {BYTES: self.polls}, clock()),))


@pytest.fixture
def fleet():
    made = []

    def make(*pollers, wait_s=0.3):
        made.append(Fleet("switches", [Member(poller) for poller in pollers], wait_s))
        return made[-1]

    yield make
    for each in made:
        each.close()


def up(result):
    return {
        reading.entity.key: reading.values[UP]
        for reading in result.readings
        if isinstance(reading.entity, Switch)
    }


def read_keys(result):
    return {
        reading.entity.switch.key
        for reading in result.readings
        if isinstance(reading.entity, Interface)
    }


def test_g2_every_target_says_whether_it_is_up_and_how_old_its_values_are(fleet):
    down = Scripted("down", Unavailable("down", "snmp", "no answer"))
    result = fleet(Scripted("fine", 0.0), down).read(clock)
    assert up(result) == {"fine": 1, "down": 0}
    ages = {reading.entity: reading.values.get(AGE) for reading in result.readings}
    assert ages[Switch("fine")] < 0.3
    (gap,) = result.gaps
    assert (gap.subject, gap.reason) == ("switch/down", "Unavailable")


def test_one_slow_target_makes_no_other_late(fleet):
    slow = Scripted("slow", 0.8)
    made = fleet(Scripted("fine", 0.0), slow)
    took = []
    seen = []
    for _ in range(4):
        began = time.monotonic()
        seen.append(made.read(clock))
        took.append(time.monotonic() - began)
    assert max(took) < 0.8
    assert all("fine" in read_keys(result) for result in seen)
    assert slow.polls <= 2  # a second poll does not begin before the first has ended
    assert any("slow" in read_keys(result) for result in seen)
    assert any(gap.reason == "deadline" for result in seen for gap in result.gaps)


def test_a_poller_that_breaks_costs_itself_only(fleet):
    broken = Scripted("broken", ValueError("secret text"), 0.0)
    made = fleet(Scripted("fine", 0.0), broken)
    first, second = made.read(clock), made.read(clock)
    assert up(first) == {"fine": 1, "broken": 0}
    assert up(second) == {"fine": 1, "broken": 1}
    assert "secret text" not in str(first.gaps)


def test_a_series_comes_over_one_transport_at_a_time():
    claims = Claims(hold_s=30)
    end = Interface(Switch("leaf1"), "Ethernet1")
    over_gnmi = [Reading(end, {OTHER: 1}, clock())]
    over_snmp = [Reading(end, {BYTES: 1}, clock())]
    assert claims.filter(over_snmp, 2, 0)
    assert claims.filter(over_gnmi, 0, 1)
    assert not claims.filter(over_snmp, 2, 2)
    assert claims.filter(over_snmp, 2, 40 * 10**9)  # gNMI has not given it for long


def test_all_targets_are_asked_at_once(fleet):
    began = time.monotonic()
    result = fleet(*(Scripted(f"leaf{n}", 0.1) for n in range(50)), wait_s=2.0).read(clock)
    assert len(read_keys(result)) == 50
    assert time.monotonic() - began < 2.0
