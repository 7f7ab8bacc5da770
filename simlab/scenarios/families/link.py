"""Faults of cables and optics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from collectors.model.entities import Entity, Netdev, Port
from simlab.packet.build import connection_paths
from simlab.packet.interventions import Intervention, What
from simlab.packet.routing import build_routes
from simlab.scenarios.draw import Change, Draw, Ticking, Truth
from simlab.scenarios.family import Family, Make, places_of
from simlab.scenarios.places import Places
from simlab.scenarios.sound import plain

DAMAGED = ("link-errors", "lossy-cable", "fec-errors")
IB_DAMAGED = ("ib-bad-cable", *DAMAGED)


def host_cable(draw: Draw, rng: Random) -> int:
    """Draw the cable of a host that takes part in the first job."""
    return places_of(draw).nic_port[rng.choice(draw.jobs[0].ranks)] // 2


def fabric_cable(draw: Draw, rng: Random) -> int:
    """Return the cable between switches that most connections take, one of these if several."""
    plan = draw.plan
    routes = build_routes(plan.topology, plan.model.balancing)
    paths = connection_paths(plan.topology, plan.model, plan.traffic, routes)
    taken = Counter(port // 2 for forward, _ in paths for port in forward[:-1])
    most = max(taken.values())
    return rng.choice(sorted(cable for cable, count in taken.items() if count == most))


def repair(draw: Draw, cable: int, causes: tuple[str, ...]) -> Truth:
    """Return the truth of a cable that is to be repaired."""
    places = places_of(draw)
    cure = (Change(places.link(cable), "link_repair", True),)
    return Truth(causes, places.around_cable(cable), cure)


def lossy(draw: Draw, cable: int, loss: float, causes: tuple[str, ...] = DAMAGED) -> Draw:
    """Have a cable lose packets both ways."""
    topology = draw.plan.topology
    bad = replace(topology.cables[cable], error_rate=loss)
    plan = replace(draw.plan, topology=topology.with_cables({cable: bad}))
    return replace(draw, plan=plan, truths=(*draw.truths, repair(draw, cable, causes)))


def _lossy(choose: Callable[[Draw, Random], int], low: float, high: float) -> Make:
    def make(rng: Random) -> Draw:
        sound = plain(rng)
        return lossy(sound, choose(sound, rng), 10 ** rng.uniform(low, high))

    return make


def _ends(places: Places, cable: int) -> list[Entity]:
    return [places.end(2 * cable), places.end(2 * cable + 1)]


def _fec(rng: Random) -> Draw:
    """An optic that error correction hardly saves: some blocks are lost."""
    sound = plain(rng)
    cable = host_cable(sound, rng)
    rate = 10 ** rng.uniform(6, 7)
    nic = next(end for end in _ends(places_of(sound), cable) if isinstance(end, Netdev))
    blocks = [
        Ticking(nic, "ethtool_nl", "ethtool_nl", "*", "fec corrected_blocks", rate),
        Ticking(nic, "ethtool_nl", "ethtool_nl", "*", "fec uncorrectable_blocks", rate / 1000),
    ]
    made = lossy(sound, cable, 10 ** rng.uniform(-2.8, -2.3))
    return replace(made, ticking=tuple(blocks))


def _symbols(rng: Random) -> Draw:
    """Symbol errors at a NIC that grow beside the loss."""
    sound = plain(rng)
    cable = host_cable(sound, rng)
    nic = next(end for end in _ends(places_of(sound), cable) if isinstance(end, Netdev))
    rate = 10 ** rng.uniform(4, 6)
    errors = Ticking(nic, "ethtool", "ethtool", "mlx5", "rx_symbol_err_phy", rate)
    made = lossy(sound, cable, 10 ** rng.uniform(-2.7, -1.8))
    return replace(made, ticking=(errors,))


def slowed(draw: Draw, cable: int, share: float, causes: tuple[str, ...] = ("slow-link",)) -> Draw:
    """Have a cable run at a share of its rate at both ends from the start."""
    rate = draw.plan.topology.cables[cable].rate_bps * share
    event = Intervention(at_s=0.0, what=What.RATE, cable=cable, value=rate)
    plan = replace(draw.plan, events=(*draw.plan.events, event))
    return replace(draw, plan=plan, truths=(*draw.truths, repair(draw, cable, causes)))


def _slow(choose: Callable[[Draw, Random], int], *, taper: float) -> Make:
    def make(rng: Random) -> Draw:
        sound = plain(rng, taper=taper)
        return slowed(sound, choose(sound, rng), rng.choice((0.25, 0.4, 0.5)))

    return make


def cut(
    draw: Draw, cable: int, at_s: float, *, detour: bool, causes: tuple[str, ...] = ("link-down",)
) -> Draw:
    """Have a cable fail for good; with a detour routing goes around it after 200 us."""
    event = Intervention(
        at_s=at_s, what=What.LINK_DOWN, cable=cable, value=200e-6 if detour else -1.0
    )
    plan = replace(draw.plan, events=(*draw.plan.events, event))
    return replace(draw, plan=plan, truths=(*draw.truths, repair(draw, cable, causes)))


def _down(choose: Callable[[Draw, Random], int], *, detour: bool) -> Make:
    def make(rng: Random) -> Draw:
        sound = plain(rng, taper=1.0)
        share = rng.uniform(0.2, 0.6)
        return cut(sound, choose(sound, rng), share * sound.plan.config.duration_s, detour=detour)

    return make


def _ib_lossy(rng: Random) -> Draw:
    sound = plain(rng, infiniband=True)
    cable = host_cable(sound, rng)
    return _as_ports(lossy(sound, cable, 10 ** rng.uniform(-2.5, -1.7), IB_DAMAGED))


def _ib_narrow(rng: Random) -> Draw:
    """A link that runs on one lane of four."""
    sound = plain(rng, infiniband=True)
    return _as_ports(slowed(sound, host_cable(sound, rng), 0.25, ("ib-bad-cable", "slow-link")))


def _as_ports(draw: Draw) -> Draw:
    """InfiniBand has no interfaces of hosts: name the port at once, too."""
    places = places_of(draw)
    extra = [
        places.names.port(places.nics(end)[0])
        for truth in draw.truths
        for end in truth.places
        if isinstance(end, Netdev | Port)
    ]
    truths = tuple(replace(t, places=(*t.places, *dict.fromkeys(extra))) for t in draw.truths)
    return replace(draw, truths=truths)


FAMILIES = (
    Family("link-lossy-host-cable", "link", "host, loss", _lossy(host_cable, -2.7, -1.7)),
    Family(
        "link-lossy-fabric-cable", "link", "cable, loss 1e-3 to 1e-2",
        _lossy(fabric_cable, -3, -2),
    ),
    Family("link-fec", "link", "host, corrected blocks, loss", _fec),
    Family("link-symbol-errors", "link", "host, symbol errors, loss", _symbols),
    Family("link-slow-host", "link", "host, share of the rate", _slow(host_cable, taper=2.0)),
    Family("link-slow-fabric", "link", "cable, share of the rate", _slow(fabric_cable, taper=1.0)),
    Family("link-down-host", "link", "host, moment", _down(host_cable, detour=False)),
    Family("link-down-fabric", "link", "cable, moment", _down(fabric_cable, detour=True)),
    Family("link-ib-lossy", "link", "host, loss", _ib_lossy),
    Family("link-ib-narrow", "link", "host", _ib_narrow),
)  # fmt: skip
