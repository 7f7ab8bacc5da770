"""Faults of placement: ranks that are spread over what is narrow."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from collectors.model.entities import Entity
from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.families.config import interfaces_of
from simlab.scenarios.family import Family
from simlab.scenarios.ground import across, all_reduce, clos

NARROW = ("oversubscription",)


def _spread(rng: Random, qps: int) -> Draw:
    """A ring whose every hop leaves the rack, over uplinks of a fraction of the hosts' rate."""
    ground = clos(
        rng, leaves=(2, 4), spines=(2, 4), hosts=(4, 4), taper=rng.choice((0.25, 0.33, 0.4))
    )
    sound = ground.draw(replace(all_reduce(ground, rng, ranks=across(ground), qps=qps)))
    names = sound.names
    leaves = [
        names.switch(node)
        for node in sound.plan.topology.switches
        if sound.plan.topology.tier[node] == 1
    ]
    right: list[Entity] = [names.switch(node) for node in sound.plan.topology.switches]
    right += [i for leaf in leaves for i in interfaces_of(sound, leaf)]
    compact = tuple(names.host(host) for row in ground.leaves() for host in row)
    cure = (Change(names.port(sound.jobs[0].ranks[0]), "rank_order", compact),)
    return replace(sound, truths=(Truth(NARROW, tuple(right), cure),))


FAMILIES = (
    Family("placement-spread", "placement", "taper, fabric", lambda rng: _spread(rng, 8)),
    Family("placement-spread-many-qps", "placement", "taper, fabric", lambda rng: _spread(rng, 16)),
)
