"""Faults of placement: ranks that are spread over what is narrow."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from collectors.model.entities import Entity
from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.family import Family
from simlab.scenarios.ground import clos
from simlab.scenarios.job import Job, Pattern
from simlab.scenarios.sound import interfaces_of

NARROW = ("oversubscription",)


def _spread(rng: Random, qps: int) -> Draw:
    """Partners in other racks, over uplinks of a fraction of the hosts' rate."""
    ground = clos(
        rng, leaves=(2, 4), spines=(2, 4), hosts=(4, 4), taper=rng.choice((0.25, 0.33, 0.4))
    )
    rows = ground.leaves()
    ranks = [node for pair in zip(*rows, strict=True) for node in pair]
    even = tuple(ranks[: len(ranks) // 2 * 2])
    job = Job(
        name="pipeline", pattern=Pattern.PAIRS, ranks=even, qps=qps,
        size_bytes=rng.randint(2, 4) * 1_000_000,
    )  # fmt: skip
    sound = ground.draw(job)
    names = sound.names
    topology = sound.plan.topology
    leaves = [names.switch(node) for node in topology.switches if topology.tier[node] == 1]
    right: list[Entity] = [names.switch(node) for node in topology.switches]
    right += [i for leaf in leaves for i in interfaces_of(sound, leaf)]
    compact = tuple(names.host(host) for row in rows for host in row if host in even)
    cure = (Change(names.port(even[0]), "rank_order", compact),)
    return replace(sound, truths=(Truth(NARROW, tuple(right), cure),))


FAMILIES = (
    Family("placement-spread", "placement", "taper, fabric", lambda rng: _spread(rng, 8)),
    Family("placement-spread-many-qps", "placement", "taper, fabric", lambda rng: _spread(rng, 16)),
)
