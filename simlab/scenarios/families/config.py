"""Faults of configuration."""

from __future__ import annotations

from random import Random

from collectors.model.entities import queue
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.family import Family, incast, one_switch, places_of, planted


def _ecn_off(rng: Random) -> Draw:
    ground = one_switch(rng)
    job = incast(ground, rng, rng.randint(3, 7))
    sound = ground.draw(job)
    places = places_of(sound)
    egress = places.names.interface(places.nic_port[job.ranks[-1]] ^ 1)
    place = queue(egress, DATA_PRIORITY)
    off, on = Change(place, "ecn_enabled", False), Change(place, "ecn_enabled", True)
    return planted(sound, (off,), (on,), ("pfc-before-ecn",), (egress, place))


FAMILIES = (Family("config-ecn-off-at-egress", "config", "senders, message size, speed", _ecn_off),)
