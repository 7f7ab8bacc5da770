"""Faults of cables and optics."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.family import Family, all_reduce, places_of, small_clos

LOSS_CAUSES = ("link-errors", "lossy-cable", "fec-errors")


def _lossy_host_cable(rng: Random) -> Draw:
    ground = small_clos(rng)
    draw = ground.draw(all_reduce(ground, rng))
    places = places_of(draw)
    cable = places.nic_port[rng.choice(ground.topology.hosts)] // 2
    loss = 10 ** rng.uniform(-3.3, -2.0)
    bad = replace(ground.topology.cables[cable], error_rate=loss)
    plan = replace(draw.plan, topology=ground.topology.with_cables({cable: bad}))
    cure = (Change(places.link(cable), "link_repair", True),)
    truth = Truth(LOSS_CAUSES, places.around_cable(cable), cure)
    return replace(draw, plan=plan, truths=(truth,))


FAMILIES = (
    Family("link-lossy-host-cable", "link", "host, loss rate 5e-4..1e-2", _lossy_host_cable),
)
