"""The soak's short form: faults for some rounds, and what must hold in each of them."""

import asyncio
import threading

import pytest

from collectors.model.entities import Interface, Slot, Switch
from collectors.snmp.poller import Options, SnmpPoller
from collectors.snmp.session import Community, Endpoint
from collectors.targets.fleet import Fleet, Member
from collectors.targets.secret import Secret
from simlab.switches.lab import Lab
from tests.collectors.passes import clock


@pytest.fixture
def lab():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = Lab(10, "eos", 2, with_gnmi=False, faults={1: "silent", 2: "reordered", 3: "huge"})
    asyncio.run_coroutine_threadsafe(made.up(), loop).result(60)
    yield made
    asyncio.run_coroutine_threadsafe(made.down(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def fresh(result):
    ends = [
        reading.entity.parent if isinstance(reading.entity, Slot) else reading.entity
        for reading in result.readings
    ]
    return {end.switch.key for end in ends if isinstance(end, Interface)}


def test_every_round_has_every_target_that_answers(lab):
    members = []
    for number, switch in enumerate(lab.switches, 1):
        timeout_s = 0.3 if number == 1 else 10.0  # nobody else may fail for want of CPU
        community = Community(Secret("public"))
        endpoint = Endpoint("127.0.0.1", community, switch.snmp_port, timeout_s, 0)
        poller = SnmpPoller(Switch(f"switch{number}"), "eos", endpoint, Options(deadline_s=60))
        members.append(Member(poller))
    fleet = Fleet("snmp", members, wait_s=60.0)
    everyone = {f"switch{number}" for number in range(1, 11)}
    try:
        for _ in range(3):
            result = fleet.read(clock)
            assert fresh(result) == everyone - {"switch1"}
            (gap,) = [gap for gap in result.gaps if gap.subject == "switch/switch1"]
            assert gap.reason == "Unavailable"
        lab.set_fault(lab.switches[4], "restart")
        assert fresh(fleet.read(clock)) == everyone - {"switch1"}
    finally:
        fleet.close()
