"""Faults that show as pauses: slow receivers, storms, circles, too much into one egress."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from collectors.model.entities import Entity, Interface, queue
from simlab.packet.interventions import Intervention, What
from simlab.packet.parameters import Form, NicModel
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.family import Family, places_of, planted
from simlab.scenarios.ground import clos
from simlab.scenarios.job import Job, Pattern
from simlab.scenarios.sound import contended_draw, gather_of, misset, plain, receiver_egress

SLOW = ("slow-receiver", "pause-root")


def slow_host(draw: Draw, node: int, drain_bps: float, causes: tuple[str, ...] = SLOW) -> Draw:
    """Have a host take in less than its line for a reason that no setting shows."""
    places = places_of(draw)
    slow = draw.plan.model.host.slow | {node: drain_bps}
    model = replace(draw.plan.model, host=replace(draw.plan.model.host, slow=slow))
    right = places.around_host(node)
    cure = (Change(places.names.port(node), "host_repair", True),)
    truth = Truth(causes, right, cure)
    return replace(draw, plan=replace(draw.plan, model=model), truths=(*draw.truths, truth))


def _slow_receiver(rng: Random) -> Draw:
    sound = plain(rng)
    node = rng.choice(sound.jobs[0].ranks)
    rate = sound.plan.topology.cables[0].rate_bps
    return slow_host(sound, node, rate * rng.uniform(0.3, 0.7))


def _slow_with_victims(rng: Random) -> Draw:
    """The receiver of an incast drains slowly, and a training job suffers for it."""
    sound = contended_draw(rng)
    rate = sound.plan.topology.cables[0].rate_bps
    return slow_host(sound, gather_of(sound).ranks[-1], rate * rng.uniform(0.1, 0.35))


def _storm(rng: Random) -> Draw:
    sound = contended_draw(rng)
    node = gather_of(sound).ranks[-1]
    places = places_of(sound)
    event = Intervention(at_s=0.0, what=What.PAUSE_STORM, host=node, value=1.0)
    plan = replace(sound.plan, events=(event,))
    nic_pause = replace(plan.model.host, pause_s=plan.model.switch.pause_s)
    plan = replace(plan, model=replace(plan.model, host=nic_pause))
    right = places.around_host(node)
    cure = (Change(places.names.port(node), "host_repair", True),)
    return replace(sound, plan=plan, truths=(Truth(("pause-storm", *SLOW), right, cure),))


def _deadlock(rng: Random) -> Draw:
    """Two bounced paths that hold each other's buffers: up, down, up again, down."""
    ground = clos(rng, leaves=(2, 2), spines=(2, 2), hosts=(4, 4), taper=0.5, buffer_mib=1.0)
    control = replace(ground.model.congestion, form=Form.OFF)
    switch = replace(ground.model.switch, ecn=ground.model.switch.ecn, pause_s=0.0)
    ground = replace(ground, model=replace(ground.model, congestion=control, switch=switch))
    one, two = ground.leaves()
    topology = ground.topology
    leaf_a, leaf_b, spine_a, spine_b = topology.switches
    paths = []
    for src, dst in ((one[0], one[2]), (one[1], one[3]), (two[0], two[2]), (two[1], two[3])):
        near, far = (leaf_a, leaf_b) if src in one else (leaf_b, leaf_a)
        first, second = (spine_a, spine_b) if src in one else (spine_b, spine_a)
        nodes = [near, first, far, second, near, dst]
        hops = tuple(topology.port_to(a, b) for a, b in pairwise(nodes))
        paths.append((src, dst, hops))
    ranks = tuple(node for src, dst, _ in paths for node in (src, dst))
    job = Job(
        name="train", pattern=Pattern.PAIRS, ranks=ranks, size_bytes=2_000_000,
        paths=tuple(paths),
    )  # fmt: skip
    sound = ground.draw(job)
    places = places_of(sound)
    circle = [
        places.names.interface(topology.port_to(a, b))
        for a, b in (
            (leaf_a, spine_a), (spine_a, leaf_b), (leaf_b, spine_b), (spine_b, leaf_a),
        )
    ]  # fmt: skip
    right: list[Entity] = [*circle, *(places.names.switch(node) for node in topology.switches)]
    cure = (Change(places.names.switch(leaf_a), "route_repair", True),)
    truth = Truth(("pfc-deadlock",), tuple(right), cure)
    return replace(sound, truths=(truth,))


def _slow_reaction(rng: Random) -> Draw:
    """A sustained incast that DCQCN is set too slow for: marks, CNPs, and pauses all the same."""
    sound = contended_draw(rng, buffer_mib=4.0)
    slow = misset(
        sound, dcqcn_g=1 / 4096, dcqcn_cut_window_s=rng.uniform(0.5e-3, 1e-3),
        dcqcn_initial_alpha=0.05,
    )  # fmt: skip
    egress = receiver_egress(sound)
    causes = ("incast", "pause-root", "path-marks", "incast-beyond-cnp")
    return planted(sound, causes, _towards(sound, egress), **slow)


def _towards(draw: Draw, egress: Interface) -> tuple[Entity, ...]:
    places = places_of(draw)
    cable = places.interface(egress) // 2
    return (egress, queue(egress, DATA_PRIORITY), *places.around_cable(cable))


def _ib_slow(rng: Random) -> Draw:
    """An adapter that returns credits late: it never grants more than a packet or two."""
    sound = plain(rng, infiniband=True, qps=8)
    node = rng.choice(sound.jobs[0].ranks)
    places = places_of(sound)
    few = NicModel(credits_bytes=rng.randint(4300, 6000))
    model = replace(sound.plan.model, nics={node: few})
    right = places.around_host(node)
    cure = (Change(places.names.port(node), "host_repair", True),)
    plan = replace(sound.plan, model=model)
    return replace(sound, plan=plan, truths=(Truth(("ib-slow-receiver",), right, cure),))


FAMILIES = (
    Family("flow-slow-receiver", "flow_control", "host, drain 30 to 70 %", _slow_receiver),
    Family("flow-slow-incast", "flow_control", "drain 10 to 35 %, burst", _slow_with_victims),
    Family("flow-pause-storm", "flow_control", "burst, speed", _storm),
    Family("flow-deadlock", "flow_control", "speed, delay", _deadlock),
    Family("flow-slow-reaction", "flow_control", "cut window, burst", _slow_reaction),
    Family("flow-ib-slow-receiver", "flow_control", "host, drain", _ib_slow),
)
