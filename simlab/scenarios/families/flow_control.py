"""Faults that show as pauses: slow receivers, storms, circles, too much into one egress."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.family import Family, all_reduce, places_of, small_clos


def _slow_receiver(rng: Random) -> Draw:
    ground = small_clos(rng)
    draw = ground.draw(all_reduce(ground, rng))
    places = places_of(draw)
    node = rng.choice(ground.topology.hosts)
    drain = ground.rate_bps * rng.uniform(0.3, 0.7)
    host = replace(draw.plan.model.host, slow={node: drain})
    plan = replace(draw.plan, model=replace(draw.plan.model, host=host))
    where = places.around_nic(node)
    cure = (Change(where[0], "host_repair", True),)
    places_right = (*where, *places.around_cable(places.nic_port[node] // 2))
    truth = Truth(("slow-receiver", "pause-root"), places_right, cure)
    return replace(draw, plan=plan, truths=(truth,))


FAMILIES = (
    Family("flow-slow-receiver", "flow_control", "host, drain 30..70 % of line", _slow_receiver),
)
