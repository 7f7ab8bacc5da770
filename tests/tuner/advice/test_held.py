"""Settings of places and of their parts, found in one look at all of them."""

import pytest

from collectors.model.entities import Device, Host, Link, Port, Slot, link, priority, queue
from tests.tuner.diagnosis.audit_fabric import Clos
from tuner.advice.norm import held
from tuner.advice.twin.change import Assignment

MADE = Clos()
CABLE = MADE.fabric.links()[0]
PORT = MADE.fabric.ports()[0]
NAME = "pfc_priorities"
SPOTS = [
    *MADE.fabric.wires,
    *(priority(wire, 3) for wire in MADE.fabric.wires),
    *(Host(port.device.host) for port in MADE.fabric.ports()),
    *(port.device for port in MADE.fabric.ports()),
]
LEAF = next(wire for wire in MADE.fabric.wires if hasattr(wire, "switch")).switch
POOL = Slot(LEAF, "pool", 1)


@pytest.fixture(scope="module")
def telemetry():
    for number, spot in enumerate([*SPOTS, POOL, LEAF]):
        MADE.telemetry.put(spot, NAME, number)
    return MADE.telemetry


@pytest.mark.parametrize(
    "places",
    [
        [],
        [CABLE],
        [link(CABLE.b, CABLE.a), POOL],
        [PORT],
        [PORT.device],
        [Host(PORT.device.host)],
        [LEAF],
        [priority(CABLE.a, 3)],
        [queue(CABLE.a, 3), Port(Device("nobody", "k"), 1)],
        [PORT, LEAF, Host("h3")],
    ],
    ids=str,
)
def test_held_is_what_holds_for_the_places(telemetry, places):
    want = {
        entity: setting
        for entity, setting in telemetry.setting_all(NAME).items()
        if any(Assignment(NAME, 0, place).holds_for(entity) for place in places)
    }
    got = held(telemetry, NAME, places)
    assert got == want
    assert list(got) == list(want)
    assert bool(got) is any(isinstance(p, Link) or p in (*SPOTS, POOL, LEAF) for p in places)
