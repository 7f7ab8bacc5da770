"""Faults inside hosts: PCIe, receive requests, receive buffers, timers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from collectors.model.entities import Entity
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.families.config import LOSSLESS, LOSSY
from simlab.scenarios.families.flow_control import slow_host
from simlab.scenarios.family import Family, places_of, planted, turned
from simlab.scenarios.ground import incast, one_switch
from simlab.scenarios.sound import hot_draw, plain

PCIE = ("pcie-link",)


def _pcie(rng: Random, setting: str, wrong: float, right: float) -> Draw:
    sound = plain(rng, rates=(100, 200))
    places = places_of(sound)
    node = rng.choice(sound.jobs[0].ranks)
    device = places.names.device(node)
    where = places.around_host(node)
    return planted(sound, PCIE, where, **turned([device], setting, wrong, right))


def _width(rng: Random) -> Draw:
    return _pcie(rng, "pcie_width_lanes", rng.choice((1, 2)), 16)


def _generation(rng: Random) -> Draw:
    return _pcie(rng, "pcie_speed_gtps", 2.5, 32.0)


def _not_ready(rng: Random) -> Draw:
    """An application that posts receive requests too late."""
    ground = one_switch(rng, hosts=(5, 8))
    hosts = ground.topology.hosts
    node = hosts[-1]
    job = replace(incast(tuple(hosts), rng, qps=2), size_bytes=rng.randint(200, 400) * 1000)
    sound = ground.draw(job)
    places = places_of(sound)
    port = places.names.port(node)
    pace = sound.plan.config.duration_s / sound.jobs[0].iterations * rng.uniform(2, 3)
    fault = (
        Change(port, "receive_queue_depth", 1),
        Change(port, "receive_interval_s", pace),
    )
    cure = (Change(port, "receive_queue_depth", 1), Change(port, "receive_interval_s", 0.0))
    right = places.around_host(node)
    return planted(sound, ("receiver-not-ready",), right, fault, cure)


def _overflow(rng: Random) -> Draw:
    """A slow host without PFC: its NIC drops what it cannot drain."""
    sound = plain(rng)
    node = rng.choice(sound.jobs[0].ranks)
    rate = sound.plan.topology.cables[0].rate_bps
    slow = slow_host(sound, node, rate * rng.uniform(0.4, 0.7), ("nic-buffer-overflow",))
    netdev = sound.names.netdev(node)
    fix = turned([netdev], "pfc_priorities", LOSSY, LOSSLESS)
    causes = ("nic-buffer-overflow", "pfc-mismatch", "class-not-lossless", "slow-receiver")
    places = places_of(sound)
    right = places.around_host(node)
    cure = [*fix["cure"], Change(sound.names.port(node), "host_repair", True)]
    return planted(replace(slow, truths=()), causes, right, fix["fault"], cure)


def _short_timeout(rng: Random) -> Draw:
    """ACK timers that run out while packets still wait in a queue."""
    sound = hot_draw(rng)
    ports = [sound.names.port(node) for node in sound.plan.topology.hosts]
    right: list[Entity] = [
        entity for node in sound.plan.topology.hosts for entity in places_of(sound).around_nic(node)
    ]
    short = rng.uniform(8e-6, 15e-6)
    fix = turned(ports[:1], "ack_timeout_s", short, 1e-3)
    return planted(sound, ("ack-timeouts",), right, **fix)


FAMILIES = (
    Family("host-pcie-width", "host", "host, lanes", _width),
    Family("host-pcie-generation", "host", "host, speed", _generation),
    Family("host-not-ready", "host", "pace of receive requests, burst", _not_ready),
    Family("host-nic-overflow", "host", "host, drain", _overflow),
    Family("host-short-timeout", "host", "timer, burst", _short_timeout),
)
