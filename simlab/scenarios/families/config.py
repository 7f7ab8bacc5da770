"""Faults of configuration: each is one setting, or one setting in several places."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from collectors.model.entities import Entity, Interface
from simlab.packet.telemetry_switch_facts import DATA_DSCP, DSCP_TO_CLASS, SWITCH_MTU
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.family import Family, Make, places_of, planted, turned
from simlab.scenarios.sound import (
    cables_at,
    contended_draw,
    gather_of,
    hot_draw,
    interfaces_of,
    leaf_of_receiver,
    mismarked,
    plain,
    queues,
    receiver_egress,
)

LOSSLESS = tuple(p == DATA_PRIORITY for p in range(8))
LOSSY = (False,) * 8
LOST_CLASS = ("pfc-mismatch", "class-not-lossless")


def _ecn_off_egress(rng: Random) -> Draw:
    sound = contended_draw(rng)
    egress = receiver_egress(sound)
    where = queues([egress])
    right: list[Entity] = [egress, *where]
    return planted(sound, ("pfc-before-ecn",), right, **turned(where, "ecn_enabled", False, True))


def _ecn_off_switch(rng: Random) -> Draw:
    sound = contended_draw(rng)
    leaf = leaf_of_receiver(sound)
    where = queues(interfaces_of(sound, leaf))
    right: list[Entity] = [leaf, *interfaces_of(sound, leaf), *where]
    return planted(sound, ("pfc-before-ecn",), right, **turned(where, "ecn_enabled", False, True))


def _kmin_too_high(rng: Random) -> Draw:
    """Kmin beyond the point at which PFC stops the senders, on all queues of the leaf."""
    sound = contended_draw(rng)
    leaf = leaf_of_receiver(sound)
    where = queues(interfaces_of(sound, leaf))
    factor = rng.uniform(30, 60)
    right: list[Entity] = [leaf, *interfaces_of(sound, leaf), *where]
    high = mismarked(sound, where, kmin_bytes=factor, kmax_bytes=factor)
    return planted(sound, ("pfc-before-ecn",), right, **high)


def _without_ect(rng: Random) -> Draw:
    """Senders of the incast whose packets cannot be marked."""
    sound = contended_draw(rng)
    senders = gather_of(sound).ranks[:-1]
    odd = rng.sample(senders, rng.randint(len(senders) // 2, len(senders) - 1))
    names = sound.names
    ports = [names.port(node) for node in odd]
    receiver = names.port(gather_of(sound).ranks[-1])
    right: list[Entity] = [*ports, *(names.netdev(node) for node in odd), receiver]
    return planted(sound, ("not-ect",), right, **turned(ports, "roce_ecn_codepoint", 0, 2))


def _pfc_off(choose: Callable[[Draw, Random], list[Interface]]) -> Make:
    def make(rng: Random) -> Draw:
        sound = hot_draw(rng)
        where = choose(sound, rng)
        right = [*cables_at(sound, where), *where, *dict.fromkeys(w.switch for w in where)]
        return planted(sound, LOST_CLASS, right, **turned(where, "pfc_priorities", LOSSY, LOSSLESS))

    return make


def _one_uplink(draw: Draw, rng: Random) -> list[Interface]:
    """Return an interface of the receiver's leaf that faces a spine."""
    places = places_of(draw)
    leaf = leaf_of_receiver(draw)
    switches = set(draw.plan.topology.switches)
    facing = [
        one
        for one in interfaces_of(draw, leaf)
        if draw.plan.topology.peer(places.interface(one)) in switches
    ]
    return [rng.choice(facing)]


def _host_without_pfc(rng: Random) -> Draw:
    sound = hot_draw(rng)
    node = rng.choice(gather_of(sound).ranks[:-1])
    places = places_of(sound)
    netdev = places.names.netdev(node)
    right = places.around_host(node)
    return planted(sound, LOST_CLASS, right, **turned([netdev], "pfc_priorities", LOSSY, LOSSLESS))


def _traffic_class(rng: Random, *, everybody: bool) -> Draw:
    """Data that leaves with DSCP 0: it shares the lossy default class."""
    sound = hot_draw(rng)
    senders = gather_of(sound).ranks if everybody else [rng.choice(gather_of(sound).ranks[:-1])]
    names = sound.names
    ports = [names.port(node) for node in senders]
    right = [entity for node in senders for entity in places_of(sound).around_nic(node)]
    return planted(sound, ("traffic-class",), right, **turned(ports, "roce_dscp", 0, DATA_DSCP))


def _class_map(rng: Random) -> Draw:
    """A switch that puts the DSCP of the data into the default class."""
    sound = hot_draw(rng)
    leaf = leaf_of_receiver(sound)
    where = interfaces_of(sound, leaf)
    wrong = tuple(0 if dscp == DATA_DSCP else c for dscp, c in enumerate(DSCP_TO_CLASS))
    right: list[Entity] = [leaf, *where]
    return planted(
        sound, ("class-mismatch",), right,
        **turned([leaf], "dscp_to_traffic_class", wrong, DSCP_TO_CLASS),
    )  # fmt: skip


def _trust(rng: Random) -> Draw:
    """A switch that trusts the VLAN tag, which RoCE packets have none of."""
    sound = hot_draw(rng)
    leaf = leaf_of_receiver(sound)
    where = interfaces_of(sound, leaf)
    causes = ("class-mismatch", "trust-mismatch")
    return planted(sound, causes, (leaf, *where), **turned([leaf], "trust", "pcp", "dscp"))


def _switch_mtu(rng: Random) -> Draw:
    sound = plain(rng)
    places = places_of(sound)
    node = rng.choice(sound.jobs[0].ranks)
    interface = places.names.interface(places.nic_port[node] ^ 1)
    right = places.around_cable(places.nic_port[node] // 2)
    small = rng.choice((1500, 2048))
    return planted(sound, MTU, right, **turned([interface], "mtu_bytes", small, SWITCH_MTU))


MTU = ("mtu-mismatch", "roce-mtu")


def _host_mtu(rng: Random) -> Draw:
    sound = plain(rng)
    places = places_of(sound)
    node = rng.choice(sound.jobs[0].ranks)
    netdev = places.names.netdev(node)
    right = places.around_host(node)
    return planted(sound, MTU, right, **turned([netdev], "mtu_bytes", 1500, SWITCH_MTU))


def _rdma_mtu(rng: Random) -> Draw:
    sound = plain(rng)
    places = places_of(sound)
    node = rng.choice(sound.jobs[0].ranks)
    port = places.names.port(node)
    usual = sound.plan.model.transport.payload_bytes
    right = places.around_nic(node)
    return planted(sound, MTU, right, **turned([port], "rdma_mtu_bytes", 1024, usual))


def _global_pause(rng: Random) -> Draw:
    sound = plain(rng)
    places = places_of(sound)
    node = rng.choice(sound.jobs[0].ranks)
    netdev = places.names.netdev(node)
    right = places.around_host(node)
    causes = ("pause-with-roce", "global-pause")
    return planted(sound, causes, right, **turned([netdev], "pause_rx_enabled", True, False))


def _cnp_in_data_class(rng: Random) -> Draw:
    """CNPs with the priority of the data: they wait behind it."""
    sound = contended_draw(rng)
    nodes = sound.plan.topology.hosts
    ports = [sound.names.port(node) for node in nodes]
    right = [entity for node in nodes for entity in places_of(sound).around_nic(node)]
    fix = turned(ports, "cnp_dscp", DATA_DSCP, 48)
    return planted(sound, ("cnp-class",), right, **fix)


def _headroom(rng: Random) -> Draw:
    """Too little room for what is under way when the peer is told to stop."""
    sound = hot_draw(rng)
    leaf = leaf_of_receiver(sound)
    where = interfaces_of(sound, leaf)
    small = rng.randint(1, 3) * 1024
    faults: list[Change] = []
    cures: list[Change] = []
    places = places_of(sound)
    for interface in where:
        cable = sound.plan.topology.cables[places.interface(interface) // 2]
        enough = round(cable.rate_bps / 8 * cable.delay_s * 3 + 6 * 4178)
        one = turned([interface], "xoff_bytes", small, enough)
        faults += one["fault"]
        cures += one["cure"]
    return planted(sound, ("headroom-too-small",), (leaf, *where), faults, cures)


def _alpha(rng: Random) -> Draw:
    """A leaf whose share of the buffer is far smaller than that of its like."""
    sound = contended_draw(rng)
    leaf = leaf_of_receiver(sound)
    where = interfaces_of(sound, leaf)
    usual = sound.plan.model.switch.alpha
    wrong = usual / rng.choice((16, 32, 64))
    right: list[Entity] = [leaf, *where]
    return planted(sound, ("unequal-alpha",), right, **turned(where, "buffer_alpha", wrong, usual))


def _pool(rng: Random) -> Draw:
    """A switch whose shared pool is a small part of what its like have."""
    sound = contended_draw(rng)
    leaf = leaf_of_receiver(sound)
    usual = sound.plan.model.switch.buffer_bytes
    causes = ("pfc-before-ecn", "pool-exhausted", "unequal-alpha")
    right: list[Entity] = [leaf, *interfaces_of(sound, leaf)]
    return planted(
        sound, causes, right, **turned([leaf], "pool_size_bytes", round(usual / 8), usual)
    )


def _watchdog(rng: Random) -> Draw:
    """A watchdog that takes ordinary pauses for a storm and drops what waits."""
    sound = hot_draw(rng)
    where = [sound.names.switch(node) for node in sound.plan.topology.switches]
    short = rng.uniform(10e-6, 30e-6)
    right: list[Entity] = [*where, *(i for switch in where for i in interfaces_of(sound, switch))]
    name = "pfc_watchdog_detection_seconds"
    return planted(sound, ("watchdog-fired",), right, **turned(where, name, short, 0.2))


FAMILIES = (
    Family("config-ecn-off-egress", "config", "senders, burst, speed", _ecn_off_egress),
    Family("config-ecn-off-switch", "config", "senders, burst, speed", _ecn_off_switch),
    Family("config-kmin-too-high", "config", "factor 30 to 60, burst, speed", _kmin_too_high),
    Family("config-without-ect", "config", "which senders, burst", _without_ect),
    Family("config-pfc-off-interface", "config", "which uplink, burst", _pfc_off(_one_uplink)),
    Family(
        "config-pfc-off-switch", "config", "burst, speed",
        _pfc_off(lambda draw, _: interfaces_of(draw, leaf_of_receiver(draw))),
    ),
    Family("config-pfc-off-host", "config", "which sender, burst", _host_without_pfc),
    Family(
        "config-traffic-class-host", "config", "which sender, burst",
        lambda rng: _traffic_class(rng, everybody=False),
    ),
    Family(
        "config-traffic-class-job", "config", "burst, speed",
        lambda rng: _traffic_class(rng, everybody=True),
    ),
    Family("config-class-map", "config", "burst, speed", _class_map),
    Family("config-trust", "config", "burst, speed", _trust),
    Family("config-mtu-switch", "config", "which host, MTU", _switch_mtu),
    Family("config-mtu-host", "config", "which host", _host_mtu),
    Family("config-rdma-mtu", "config", "which host", _rdma_mtu),
    Family("config-global-pause", "config", "which host", _global_pause),
    Family("config-cnp-class", "config", "burst, speed", _cnp_in_data_class),
    Family("config-headroom", "config", "headroom, burst", _headroom),
    Family("config-alpha", "config", "alpha, burst", _alpha),
    Family("config-pool", "config", "burst, speed", _pool),
    Family("config-watchdog", "config", "detection time, burst", _watchdog),
)  # fmt: skip
