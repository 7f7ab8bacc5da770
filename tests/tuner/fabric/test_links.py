"""Cables of a fabric, each once, and owners of what a window knows."""

from collectors.model.entities import Port, Slot, link
from tests.tuner.fake import lab


def test_every_cable_is_one_link_whichever_end_told_of_it():
    made = lab(4)
    made.telemetry.cables += [
        type(claim)(claim.remote, claim.local, "lldp") for claim in made.telemetry.cables[:2]
    ]
    assert made.fabric.links() == [
        link(*ends) for ends in zip(made.netdevs, made.interfaces, strict=True)
    ]


def test_a_port_that_only_a_priority_tells_of_is_in_the_fabric():
    made = lab(2)
    lone = Port(made.ports[0].device, 2)
    made.telemetry.known[Slot(lone, "priority", 3)] = {}
    assert lone in made.fabric.ports()
    assert lone in made.fabric.wires
