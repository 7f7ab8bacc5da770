"""Two faults at once, at places that have nothing to do with each other."""

from __future__ import annotations

from random import Random

from simlab.scenarios.draw import Draw
from simlab.scenarios.families.config import MTU
from simlab.scenarios.families.flow_control import slow_host
from simlab.scenarios.families.link import host_cable, lossy
from simlab.scenarios.family import Family, places_of, planted, turned
from simlab.scenarios.sound import contended_draw, gather_of, plain, queues, receiver_egress


def _loss_and_ecn(rng: Random) -> Draw:
    sound = contended_draw(rng)
    egress = receiver_egress(sound)
    where = queues([egress])
    fix = turned(where, "ecn_enabled", False, True)
    one = planted(sound, ("pfc-before-ecn",), (egress, *where), **fix)
    return lossy(one, host_cable(one, rng), 10 ** rng.uniform(-2.7, -2))


def _slow_and_mtu(rng: Random) -> Draw:
    """A slow receiver, and another host with a small RDMA MTU."""
    sound = plain(rng)
    slow, small = rng.sample(sound.jobs[0].ranks, 2)
    rate = sound.plan.topology.cables[0].rate_bps
    places = places_of(sound)
    usual = sound.plan.model.transport.payload_bytes
    fix = turned([places.names.port(small)], "rdma_mtu_bytes", 1024, usual)
    one = planted(sound, MTU, places.around_nic(small), **fix)
    return slow_host(one, slow, rate * rng.uniform(0.3, 0.6))


def _loss_and_slow(rng: Random) -> Draw:
    sound = plain(rng)
    slow, bad = rng.sample(sound.jobs[0].ranks, 2)
    rate = sound.plan.topology.cables[0].rate_bps
    cable = places_of(sound).nic_port[bad] // 2
    one = slow_host(sound, slow, rate * rng.uniform(0.3, 0.6))
    return lossy(one, cable, 10 ** rng.uniform(-2.7, -2))


def _silent_and_pcie(rng: Random) -> Draw:
    """A receiver without CNPs, and a host of the training job on too few lanes."""
    sound = contended_draw(rng)
    node = gather_of(sound).ranks[-1]
    places = places_of(sound)
    fix = turned([sound.names.port(node)], "dcqcn_np_enabled", (False,) * 8, (True,) * 8)
    one = planted(sound, ("reaction-off", "cnp-feedback"), places.around_nic(node), **fix)
    other = rng.choice(sound.jobs[0].ranks)
    lanes = turned([sound.names.device(other)], "pcie_width_lanes", 2, 16)
    right = places.around_host(other)
    return planted(one, ("pcie-link", "slow-receiver"), right, **lanes)


FAMILIES = (
    Family("double-loss-and-ecn", "link", "host, loss, burst", _loss_and_ecn),
    Family("double-slow-and-mtu", "config", "hosts, drain", _slow_and_mtu),
    Family("double-loss-and-slow", "link", "hosts, loss, drain", _loss_and_slow),
    Family("double-silent-and-pcie", "host", "host, burst", _silent_and_pcie),
)
