"""Healthy fabrics, most of them busy: nothing is wrong, and nothing may be found."""

from __future__ import annotations

from random import Random

from simlab.scenarios.draw import Draw
from simlab.scenarios.family import Family, all_reduce, small_clos


def _ring(rng: Random) -> Draw:
    ground = small_clos(rng)
    return ground.draw(all_reduce(ground, rng))


FAMILIES = (Family("healthy-ring", "healthy", "fabric, speed, buffer size, queue pairs", _ring),)
