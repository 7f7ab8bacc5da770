"""Whether recommendations are whole: every field is there, and undo brings back what was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collectors.model.errors import FabricError
from simlab.packet.build_ports import headroom, thresholds_at
from simlab.packet.interventions import What
from simlab.packet.parameters import Form, Model
from simlab.scenarios.change import applied
from simlab.scenarios.draw import Draw
from tests.bench.advise_parts.follow import changes_of
from tuner.advice.recommendation import Recommendation

BY_HAND = ("link_repair", "host_repair", "route_repair", "ib_host_receive_path", "speed_bps")


def faults(draw: Draw, advice: Sequence[Recommendation]) -> Iterator[str]:
    """Yield what recommendations lack: fields, or undos that together restore.

    All are done, then taken back in reverse order; where that does not restore what was in force,
    each step that does not restore what was in force before it is named.
    """
    for rec in advice:
        yield from missing_fields(rec)
    # What was not visible, or is mended by hand, has no value to come back.
    known = [
        rec
        for rec in advice
        if rec.knob not in BY_HAND and all(part.current is not None for part in rec.parts)
    ]
    done: list[tuple[Draw, Recommendation]] = []
    there = draw
    for rec in known:
        try:
            after = applied(there, changes_of(there, rec))
        except FabricError:
            continue  # counted as unfit
        done.append((there, rec))
        there = after
    back = there
    for _, rec in reversed(done):
        back = applied(back, changes_of(back, undone(rec)))
    if in_force(back) == in_force(draw):
        return
    for before, rec in reversed(done):
        there = applied(there, changes_of(there, undone(rec)))
        if in_force(there) != in_force(before):
            yield f"{rec.knob} of {rec.scope}: undo to {rec.current} does not restore"
            there = before


def undone(rec: Recommendation) -> Recommendation:
    """Return the change that takes a recommendation back, the last part of it first."""
    parts = [
        replace(part, proposed=part.current)
        for part in reversed(rec.parts)
        if part.current is not None
    ]
    return rec.of(parts)


def missing_fields(rec: Recommendation) -> Iterator[str]:
    """Yield the fields that a recommendation lacks."""
    where = f"{rec.knob} of {rec.scope}"
    for name in ("knob", "summary", "because", "evidence", "effects", "how", "undo", "risk_reason"):
        if not getattr(rec, name):
            yield f"{where}: no {name}"
    if not 0 < rec.confidence <= 1 or rec.risk not in ("low", "medium", "high"):
        yield f"{where}: confidence {rec.confidence}, risk {rec.risk}"
    if rec.current is None and not rec.missing:
        yield f"{where}: current value unknown and not said so"
    for effect in rec.effects:
        if not effect.model or not effect.assumptions or effect.low > effect.high:
            yield f"{where}: effect {effect.metric} without model, assumptions or interval"


def in_force(draw: Draw) -> tuple[object, ...]:
    """Return what acts at every place of a draw, however it is written down."""
    model: Model = draw.plan.model
    topology = draw.plan.topology
    switches = set(topology.switches)
    tier = topology.tier or (1,) * topology.node_count
    balancing = model.balancing
    rates = {e.cable: e.value for e in draw.plan.events if e.what is What.RATE}

    reacts = any(model.congestion_at(node).form is not Form.OFF for node in topology.hosts)

    def at_port(port: int) -> object:
        switch = model.switch_at(topology.end(port), port)
        cable = topology.cables[port // 2]
        rate = cable.rate_bps
        packet = model.transport.payload_bytes + model.transport.header_bytes
        room = headroom(switch, rate, cable.delay_s, packet)
        bare = replace(switch, ecn=(), headroom_bytes=room)
        return thresholds_at(switch.ecn, rate), bare

    return (
        [at_port(p) for p in range(2 * len(topology.cables)) if topology.end(p) in switches],
        [
            (
                model.congestion_at(node),
                model.nic_at(node).pfc,
                model.nic_at(node).sends_cnps or not reacts,
                model.nic_at(node).ecn_capable,
                model.nic_at(node).mtu_bytes,
            )
            for node in topology.hosts
        ],
        model.transport,
        model.infiniband,
        model.host.slow,
        balancing.spread,
        {port: weight for port, weight in balancing.weights.items() if weight != 1},
        [balancing.spec_at(node, tier[node]) for node in topology.switches],
        [replace(c, rate_bps=rates.get(i, c.rate_bps)) for i, c in enumerate(topology.cables)],
        [(job.name, job.qps, job.ranks) for job in draw.jobs],
    )
