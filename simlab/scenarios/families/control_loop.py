"""Faults of the congestion control loop: it throttles too much, too little, or not at all."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from collectors.model.entities import Entity, Port
from simlab.packet.parameters import Form, InfinibandLink
from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.family import Family, FaultAndCure, places_of, planted, turned
from simlab.scenarios.ground import (
    contended,
    contended_clos,
    incast,
    one_switch,
    subnet,
)
from simlab.scenarios.sound import (
    contended_draw,
    gather_of,
    interfaces_of,
    mismarked,
    misset,
    plain,
    queues,
    receiver_egress,
)

OFF = (False,) * 8
ON = (True,) * 8


def _nics(draw: Draw) -> list[Port]:
    return [draw.names.port(node) for node in draw.plan.topology.hosts]


def _reaction_off(rng: Random) -> Draw:
    """Senders of an incast that do not slow down."""
    sound = contended_draw(rng)
    senders = gather_of(sound).ranks[:-1]
    odd = rng.sample(senders, max(1, len(senders) // 2))
    places = places_of(sound)
    right = [entity for node in odd for entity in places.around_nic(node)]
    ports = [sound.names.port(node) for node in odd]
    causes = ("reaction-off", "cnp-feedback")
    return planted(sound, causes, right, **turned(ports, "dcqcn_rp_enabled", OFF, ON))


def _notification_off(rng: Random) -> Draw:
    """A receiver that tells no sender of the marks that it gets."""
    sound = contended_draw(rng)
    node = gather_of(sound).ranks[-1]
    right = places_of(sound).around_nic(node)
    port = sound.names.port(node)
    causes = ("reaction-off", "cnp-feedback")
    return planted(sound, causes, right, **turned([port], "dcqcn_np_enabled", OFF, ON))


def _marking_places(draw: Draw) -> list[Entity]:
    """Return everything at which a setting of all queues can be named."""
    found: list[Entity] = []
    for node in draw.plan.topology.switches:
        switch = draw.names.switch(node)
        found += [switch, *interfaces_of(draw, switch), *queues(interfaces_of(draw, switch))]
    return found


def _marking(draw: Draw, **wrong: float) -> FaultAndCure:
    """Return fault and cure of the thresholds of all queues; wrong: factors by setting."""
    slots = [
        slot
        for node in draw.plan.topology.switches
        for slot in queues(interfaces_of(draw, draw.names.switch(node)))
    ]
    return mismarked(draw, slots, **wrong)


def _over_throttled(rng: Random) -> Draw:
    """Marking from the first packets on, and CNPs without pause: rates fall below need."""
    ground = one_switch(rng, hosts=(3, 4), rates=(100, 200))
    sound = ground.draw(incast(ground.topology.hosts, rng))
    low = _marking(sound, kmin_bytes=0.005, kmax_bytes=0.006, pmax_ratio=5.0)
    egress = receiver_egress(sound)
    right = [egress, *_marking_places(sound), *_nics(sound)]
    hasty = misset(sound, dcqcn_cut_window_s=1e-6, dcqcn_cnp_interval_s=0.0)
    fault, cure = [*low["fault"], *hasty["fault"]], [*low["cure"], *hasty["cure"]]
    return planted(sound, ("over-throttling",), right, fault, cure)


def _slow_recovery(rng: Random) -> Draw:
    """Increase steps that are far too small for the speed."""
    ground = contended_clos(rng, buffer_mib=24.0)
    train, gather = contended(ground, rng)
    sound = ground.draw(gather, train)
    usual = sound.plan.model.congestion.dcqcn
    timer_s = usual.increase_timer_s * rng.choice((4, 8))
    slow = misset(sound, dcqcn_ai_bps=1e6, dcqcn_hai_bps=2e6, dcqcn_increase_timer_s=timer_s)
    return planted(sound, ("slow-recovery",), _nics(sound), **slow)


def _saturated(rng: Random) -> Draw:
    """Pmax so small that the queue stays at Kmax."""
    ground = contended_clos(rng, buffer_mib=24.0)
    train, gather = contended(ground, rng)
    sound = ground.draw(train, replace(gather, qps=8), busy=0.95)
    weak = _marking(sound, kmax_bytes=1.5, pmax_ratio=0.02)
    egress = receiver_egress(sound)
    places = places_of(sound)
    right = [
        egress, *queues([egress]), *places.around_cable(places.interface(egress) // 2),
    ]  # fmt: skip
    causes = ("marking-saturated",)
    return planted(sound, causes, right, **weak)


def _ib_without_control(rng: Random) -> Draw:
    """An InfiniBand incast whose congestion spreads, with congestion control off."""
    ground = subnet(contended_clos(rng), credits_bytes=128 * 1024)
    sound = ground.draw(*contended(ground, rng))
    places = places_of(sound)
    egress = receiver_egress(sound)
    right = [
        egress, egress.switch, *interfaces_of(sound, egress.switch),
        *places.around_cable(places.interface(egress) // 2),
    ]  # fmt: skip
    cure = [
        Change(sound.names.switch(node), "ib_cc_threshold", 8)
        for node in sound.plan.topology.switches
    ]
    causes = ("ib-congestion-control", "ib-oversubscribed-link")
    return replace(sound, truths=(Truth(causes, tuple(right), tuple(cure)),))


def _ib_eager(rng: Random) -> Draw:
    """Congestion control of a subnet that throttles although no link is full."""
    sound = plain(rng, infiniband=True)
    eager = replace(
        sound.plan.model.congestion, form=Form.INFINIBAND, ccti_increase=8, ccti_timer_s=2e-3,
        cct=tuple(step / 2 for step in range(128)),
    )  # fmt: skip
    link = InfinibandLink(credits_bytes=64 * 1024, threshold_bytes=4096)  # code 15 of 15
    model = replace(sound.plan.model, congestion=eager, infiniband=link)
    sound = replace(sound, plan=replace(sound.plan, model=model))
    names = sound.names
    switches = [names.switch(node) for node in sound.plan.topology.switches]
    right: list[Entity] = [*switches]
    for node in sound.jobs[0].ranks:
        right += places_of(sound).around_nic(node)
    cure = tuple(Change(switch, "ib_cc_threshold", 0) for switch in switches)
    return replace(sound, truths=(Truth(("ib-congestion-control",), tuple(right), cure),))


FAMILIES = (
    Family("control-reaction-off", "control_loop", "which senders, burst", _reaction_off),
    Family("control-notification-off", "control_loop", "burst, speed", _notification_off),
    Family("control-over-throttled", "control_loop", "burst, speed", _over_throttled),
    Family("control-slow-recovery", "control_loop", "increase timer, burst", _slow_recovery),
    Family("control-saturated", "control_loop", "burst, speed", _saturated),
    Family("control-ib-without-control", "control_loop", "burst, speed", _ib_without_control),
    Family("control-ib-eager", "control_loop", "fabric, speed", _ib_eager),
)
