"""Sound draws that several families break, the places in them, and faults of many places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from collectors.model.entities import Entity, Interface, Slot, Switch, queue
from simlab.packet.build_ports import thresholds_at
from simlab.packet.parameters import Form
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.family import FaultAndCure, places_of
from simlab.scenarios.ground import (
    RATES_GBPS,
    TIGHT_MIB,
    across,
    all_reduce,
    clos,
    contended,
    contended_clos,
    subnet,
)
from simlab.scenarios.job import Job, Pattern


def contended_draw(rng: Random, *, buffer_mib: float = TIGHT_MIB) -> Draw:
    """Draw a training job and an incast past it, with nothing wrong."""
    ground = contended_clos(rng, buffer_mib=buffer_mib)
    return ground.draw(*contended(ground, rng))


def plain(
    rng: Random,
    *,
    taper: float = 2.0,
    rates: Sequence[float] = RATES_GBPS,
    qps: int | None = None,
    infiniband: bool = False,
) -> Draw:
    """Draw a training job across leaves, with nothing wrong; arguments as `clos` takes them."""
    ground = clos(rng, taper=taper, rates=rates)
    if infiniband:
        ground = subnet(ground)
    return ground.draw(all_reduce(ground, rng, ranks=across(ground), qps=qps))


def hot_draw(rng: Random) -> Draw:
    """Draw an incast past a training job where, on purpose, PFC alone holds senders back."""
    ground = contended_clos(rng, buffer_mib=2.0)
    model = replace(
        ground.model,
        congestion=replace(ground.model.congestion, form=Form.OFF),
        switch=replace(ground.model.switch, ecn=()),
    )
    ground = replace(ground, model=model)
    train, gather = contended(ground, rng)
    return ground.draw(gather, train)


def gather_of(draw: Draw) -> Job:
    """Return the incast among the jobs of a draw."""
    return next(job for job in draw.jobs if job.pattern is Pattern.INCAST)


def receiver_egress(draw: Draw) -> Interface:
    """Return the switch interface towards the receiver of the incast."""
    places = places_of(draw)
    return places.names.interface(places.nic_port[gather_of(draw).ranks[-1]] ^ 1)


def interfaces_of(draw: Draw, switch: Switch) -> list[Interface]:
    """Return all interfaces of a switch."""
    places = places_of(draw)
    ports = draw.plan.topology.ports_of()[places.switch(switch)]
    return [places.names.interface(port) for port in ports]


def leaf_of_receiver(draw: Draw) -> Switch:
    """Return the switch of the incast's receiver."""
    return receiver_egress(draw).switch


def queues(interfaces: Iterable[Interface]) -> list[Slot]:
    """Return the data queue of each interface."""
    return [queue(interface, DATA_PRIORITY) for interface in interfaces]


def mismarked(draw: Draw, where: Iterable[Slot], **factors: float) -> FaultAndCure:
    """Return fault and cure of thresholds of queues: so many times what they usually are."""
    places = places_of(draw)
    fault, cure = [], []
    for slot in where:
        rate = draw.plan.topology.cables[places.interface(slot) // 2].rate_bps
        limits = thresholds_at(draw.plan.model.switch.ecn, rate)
        for name, factor in factors.items():
            usual = getattr(limits, name)
            fault.append(Change(slot, name, usual * factor))
            cure.append(Change(slot, name, usual))
    return {"fault": tuple(fault), "cure": tuple(cure)}


def misset(draw: Draw, **wrong: float) -> FaultAndCure:
    """Return fault and cure of DCQCN parameters (`dcqcn_...`) of all NICs."""
    dcqcn = draw.plan.model.congestion.dcqcn
    usual = {name: getattr(dcqcn, name.removeprefix("dcqcn_")) for name in wrong}
    ports = [draw.names.port(node) for node in draw.plan.topology.hosts]
    return {
        "fault": tuple(Change(port, name, wrong[name]) for port in ports for name in wrong),
        "cure": tuple(Change(port, name, usual[name]) for port in ports for name in wrong),
    }


def cables_at(draw: Draw, interfaces: Iterable[Interface]) -> list[Entity]:
    """Return everything that stands for the cables of some interfaces."""
    places = places_of(draw)
    cables = dict.fromkeys(places.interface(interface) // 2 for interface in interfaces)
    return [entity for cable in cables for entity in places.around_cable(cable)]
