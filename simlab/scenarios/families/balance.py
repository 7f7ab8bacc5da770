"""Faults of load balancing: collisions, polarisation, pinning, spraying, unequal capacity."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from collectors.model.ecmp_hash import FIVE_TUPLE, HashAlgorithm, HashSpec
from collectors.model.entities import Entity
from simlab.packet.build import connection_paths
from simlab.packet.config import FatTree
from simlab.packet.interventions import Intervention, What
from simlab.packet.routing import build_routes
from simlab.packet.topology import fat_tree
from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.family import Family, places_of, planted, turned
from simlab.scenarios.ground import GBPS, Ground, clos, duration_of, model_of, subnet
from simlab.scenarios.job import Job, Pattern
from simlab.scenarios.sound import interfaces_of

MIN_SHARING = 2  # flows on one uplink, as many as it has room for one
UNEVEN = ("ecmp-imbalance", "hash-collision")


def _copies(ground: Ground, qps: int, rng: Random) -> Job:
    """Draw a job in which every host of the first leaves sends to one of the others."""
    rows = ground.leaves()
    half = len(rows) // 2
    near = [host for row in rows[:half] for host in row]
    far = [host for row in rows[half : 2 * half] for host in row]
    ranks = tuple(node for pair in zip(near, far, strict=True) for node in pair)
    return Job(
        name="copy", pattern=Pattern.PAIRS, ranks=ranks, qps=qps,
        size_bytes=rng.randint(2, 4) * 1_000_000,
    )  # fmt: skip


def uplink_loads(draw: Draw) -> dict[int, dict[int, int]]:
    """Return by leaf how many connections take each of its uplinks (directed ports)."""
    plan = draw.plan
    topology = plan.topology
    routes = build_routes(topology, plan.model.balancing)
    paths = connection_paths(topology, plan.model, plan.traffic, routes)
    switches = set(topology.switches)
    loads: dict[int, dict[int, int]] = {}
    ports = topology.ports_of()
    for node in topology.switches:
        if topology.tier[node] == 1:
            loads[node] = {p: 0 for p in ports[node] if topology.peer(p) in switches}
    for forward, _ in paths:
        for port in forward[:-1]:
            if topology.end(port) in loads:
                loads[topology.end(port)][port] += 1
    return loads


def _collision(rng: Random) -> Draw:
    """One QP a pair: several flows share an uplink while another has none."""
    while True:
        ground = clos(rng, leaves=(2, 4), spines=(4, 4), hosts=(4, 4))
        sound = ground.draw(_copies(ground, 1, rng))
        loads = {leaf: list(by.values()) for leaf, by in uplink_loads(sound).items()}
        if any(max(counts) >= MIN_SHARING for counts in loads.values()):
            break
    names = sound.names
    port = names.port(sound.jobs[0].ranks[0])
    right: list[Entity] = []
    for leaf in sound.plan.topology.switches:
        right += [names.switch(leaf), *interfaces_of(sound, names.switch(leaf))]
    cure = (Change(port, "qps_per_connection", 16),)
    return replace(sound, truths=(Truth(UNEVEN, tuple(right), cure),))


def _destination_only(rng: Random) -> Draw:
    """A hash that sees the destination alone: all that goes to one host takes one uplink."""
    ground = clos(rng, leaves=(2, 3), spines=(4, 4), hosts=(4, 4))
    rows = ground.leaves()
    job = Job(
        name="shuffle", pattern=Pattern.ALL_TO_ALL, ranks=tuple(rows[0] + rows[1]),
        size_bytes=rng.randint(2, 4) * 1_000_000, qps=4,
    )  # fmt: skip
    sound = ground.draw(job, busy=0.6)
    leaves = [
        sound.names.switch(n)
        for n in sound.plan.topology.switches
        if sound.plan.topology.tier[n] == 1
    ]
    right: list[Entity] = [*leaves, *(i for leaf in leaves for i in interfaces_of(sound, leaf))]
    causes = ("pinned-paths", "hash-fields", *UNEVEN)
    fix = turned(leaves, "ecmp_hash_fields", "dst_ip", " ".join(f.value for f in FIVE_TUPLE))
    return planted(sound, causes, right, **fix)


def _polarised(rng: Random) -> Draw:
    """Three tiers with one hash: what the first tier chose, the second chooses again."""
    rate = rng.choice((50, 100)) * GBPS
    choice = FatTree(ports=4, rate_bps=rate, delay_s=rng.uniform(3e-7, 1e-6), hosts_per_leaf=2)
    topology = fat_tree(4, rate_bps=rate, delay_s=choice.delay_s, hosts_per_leaf=2)
    ground = Ground(
        topology=topology, choice=choice, rate_bps=rate, model=model_of(rate),
        duration_s=duration_of(rate),
    )  # fmt: skip
    hosts = ground.topology.hosts
    half = len(hosts) // 2
    ranks = tuple(node for a, b in zip(hosts[:half], hosts[half:], strict=True) for node in (a, b))
    job = Job(name="copy", pattern=Pattern.PAIRS, ranks=ranks, size_bytes=3_000_000, qps=8)
    sound = ground.draw(job)
    seed = rng.randint(1, 1000)
    switches = [sound.names.switch(node) for node in topology.switches]
    upper = [sound.names.switch(node) for node in topology.switches if topology.tier[node] <= 2]
    one = HashSpec(algorithm=HashAlgorithm.MURMUR3, fields=FIVE_TUPLE)
    model = replace(sound.plan.model, balancing=replace(sound.plan.model.balancing, hash=one))
    sound = replace(sound, plan=replace(sound.plan, model=model))
    fault = [Change(switch, "ecmp_hash_seed", seed) for switch in switches]
    cure = [
        Change(switch, "ecmp_hash_seed", seed + 17 * (number + 1))
        for number, switch in enumerate(switches)
    ]
    right: list[Entity] = [*upper, *(i for one in upper for i in interfaces_of(sound, one))]
    return planted(sound, ("hash-polarisation",), right, fault, cure)


def _sprayed(rng: Random) -> Draw:
    """Packets of one flow on several paths, for NICs that take that for loss."""
    ground = clos(rng, leaves=(2, 4), spines=(3, 4), taper=1.0)
    job = replace(_copies(ground, 2, rng))
    sound = ground.draw(job)
    places = places_of(sound)
    switches = [sound.names.switch(node) for node in sound.plan.topology.switches]
    right: list[Entity] = [*switches]
    for node in sound.jobs[0].ranks:
        right += places.around_nic(node)
    fix = turned(switches, "load_balancing", "per_packet", "static")
    return planted(sound, ("reordering",), right, **fix)


def _unequal(rng: Random) -> Draw:
    """One of two parallel cables to a spine is gone; the spine still gets its full share."""
    ground = clos(rng, leaves=(2, 4), spines=(2, 3), hosts=(4, 4), parallel=2, taper=1.5)
    sound = ground.draw(_copies(ground, 16, rng))
    topology = sound.plan.topology
    receiver = sound.jobs[0].ranks[1]
    places = places_of(sound)
    leaf = topology.peer(places.nic_port[receiver])
    switches = set(topology.switches)
    cable = rng.choice(
        [i for i, c in enumerate(topology.cables) if c.a == leaf and c.b in switches]
    )
    event = Intervention(at_s=0.0, what=What.LINK_DOWN, cable=cable, value=0.0)
    plan = replace(sound.plan, events=(event,))
    spine = topology.cables[cable].b
    others = [sound.names.switch(node) for node in topology.switches]
    right: list[Entity] = [
        *places.around_cable(cable), *others, *interfaces_of(sound, sound.names.switch(spine)),
    ]  # fmt: skip
    cure = (Change(places.link(cable), "link_repair", True),)
    truth = Truth(("unequal-capacity", "link-down"), tuple(right), cure)
    return replace(sound, plan=plan, truths=(truth,))


def _ib_hot_link(rng: Random) -> Draw:
    """Static routes that send all pairs between two leaves through one spine."""
    ground = subnet(clos(rng, leaves=(2, 2), spines=(3, 4), hosts=(4, 4)))
    job = _copies(ground, 8, rng)
    topology = ground.topology
    hop = topology.port_to
    near, far, spine = topology.switches[0], topology.switches[1], topology.switches[2]
    pairs = list(zip(job.ranks[::2], job.ranks[1::2], strict=True))
    paths = tuple(
        (src, dst, (hop(near, spine), hop(spine, far), hop(far, dst))) for src, dst in pairs
    )
    sound = ground.draw(replace(job, paths=paths))
    places = places_of(sound)
    up = hop(near, spine)
    right: list[Entity] = [
        places.names.interface(up), places.names.interface(up ^ 1), places.link(up // 2),
        places.names.switch(near), places.names.switch(spine),
    ]  # fmt: skip
    cure = (Change(places.names.switch(near), "route_repair", True),)
    causes = ("ib-oversubscribed-link", "ib-routing-hot-spot")
    return replace(sound, truths=(Truth(causes, tuple(right), cure),))


FAMILIES = (
    Family("balance-collision", "balance", "fabric, speed, pairs", _collision),
    Family("balance-destination-hash", "balance", "fabric, speed", _destination_only),
    Family("balance-polarised", "balance", "speed, seed", _polarised),
    Family("balance-sprayed", "balance", "fabric, speed", _sprayed),
    Family("balance-unequal", "balance", "which cable, fabric", _unequal),
    Family("balance-ib-hot-link", "balance", "fabric, speed", _ib_hot_link),
)
