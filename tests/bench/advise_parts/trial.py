"""One draw through the product: telemetry in, advice out, advice put into the simulator."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any

from collectors.model.entities import Entity, Slot
from collectors.model.errors import FabricError
from collectors.model.facts import Value
from collectors.model.roce import ack_timeout_s
from simlab.packet.build_ports import headroom, thresholds_at
from simlab.packet.interventions import What
from simlab.packet.parameters import Form, Model
from simlab.scenarios.change import applied, varied
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.observe import record
from simlab.scenarios.outcome import outcome
from tuner.advice.recommendation import Recommendation
from tuner.advice.search.presets import Preset
from tuner.cli.suggest import advise
from tuner.store.sources import open_window

SPREAD = 0.3
CURABLE = 0.05  # of the cured job time: a smaller gap is noise
HORIZON = 4.0
SUBNET: dict[str, tuple[str, Value | None]] = {
    "opensm_congestion_control": ("ib_cc_threshold", 15),  # OpenSM's own threshold
    "opensm_cc_marking_rate": ("ib_cc_marking_rate", None),
}
"""OpenSM options that the simulator's switches follow: setting, and value where it is implied."""


@dataclass(frozen=True)
class Trial:
    """Job times of a draw: faulty, cured by the truth, advised; and by preset where asked for.

    `unfit`: recommendations that the simulator cannot follow. `unheld`: those that lack a field or
    whose undo does not bring the former settings back.
    """

    family: str
    seed: int
    faulty: float
    cured: float
    advised: float
    presets: dict[str, float]
    findings: tuple[str, ...]
    advice: tuple[str, ...]
    unfit: tuple[str, ...]
    unheld: tuple[str, ...]
    recommended: int
    has_truth: bool

    @property
    def curable(self) -> bool:
        """Whether the truth's cure makes the job faster by more than chance."""
        return self.has_truth and self.faulty > self.cured * (1 + CURABLE)

    def recovered(self, job: float) -> float:
        """Return the share of the gap between faulty and cured that a job time makes up for."""
        return (self.faulty - job) / (self.faulty - self.cured)

    @property
    def harm(self) -> float:
        """Job time with the advice over that without."""
        return self.advised / self.faulty


def changes_of(draw: Draw, recommendation: Recommendation) -> Iterator[Change]:
    """Yield a recommendation as changes of a draw, in the simulator's names."""
    if recommendation.knob in SUBNET:  # one file for all switches
        setting, value = SUBNET[recommendation.knob]
        wanted = recommendation.proposed if value is None else value
        for node in draw.plan.topology.switches:
            yield Change(draw.names.switch(node), setting, wanted)
        return
    for step in recommendation.each():
        yield change_at(step.scope, step.knob, step.proposed)


def change_at(place: Entity, knob: str, value: Value) -> Change:
    """Return a knob's value at a place in the simulator's names."""
    if knob == "buffer_alpha_exponent" and isinstance(value, (int, float)):
        return Change(place, "buffer_alpha", 2.0**value)
    if knob == "qp_timeout_code" and isinstance(value, int):
        return Change(place, "ack_timeout_s", ack_timeout_s(value))
    if knob == "ib_host_receive_path":
        return Change(place, "host_repair", value)
    if knob == "job_tclass":
        return Change(place, "rdma_cm_tclass", value)
    return Change(place, knob, value)


def followed(draw: Draw, advice: Iterable[Recommendation]) -> tuple[Draw, list[str]]:
    """Return the draw with the advice followed, and what of it the simulator cannot follow."""
    advice = list(advice)
    with suppress(FabricError):  # together first: Kmin alone may be above a Kmax to come
        return applied(draw, [c for rec in advice for c in changes_of(draw, rec)]), []
    unfit = []
    for rec in advice:
        try:
            draw = applied(draw, changes_of(draw, rec))
        except FabricError as error:
            unfit.append(f"{rec.knob}: {error}")
    return draw, unfit


def run(draw: Draw, rng: Random, presets: Iterable[Preset], budget_s: float) -> Trial:
    """Ask the product about a draw and try its advice with N, RTT and burst drawn anew."""
    with tempfile.TemporaryDirectory() as folder:
        record(draw, Path(folder) / "r")
        window, _ = open_window(f"dir={folder}/r", "", "")
        advice = advise(window, "bench", None, budget_s, clock=None)
    factors = {name: rng.uniform(1 - SPREAD, 1 + SPREAD) for name in ("flows", "rtt", "burst")}
    other = varied(draw, **factors)
    cure = [change for truth in draw.truths for change in truth.cure]
    horizon = HORIZON * draw.plan.config.duration_s
    better, unfit = followed(other, advice.recommendations)

    def job(one: Draw) -> float:
        return outcome(one, horizon_s=horizon).job_time_s

    faulty = job(other)
    cured = job(applied(other, cure)) if cure else faulty
    curable = faulty > cured * (1 + CURABLE)
    return Trial(
        draw.family,
        draw.seed,
        faulty,
        cured,
        job(better) if advice.recommendations else faulty,
        {p.name: job(with_preset(other, p)) for p in presets if curable},
        tuple(f.rule for f in advice.diagnosis.findings if not f.explained_by),
        tuple(
            f"{rec.knob} of {rec.scope} +{len(rec.also)}: {rec.current} -> {rec.proposed}"
            for rec in advice.recommendations
        ),
        tuple(unfit),
        tuple(faults(draw, advice.recommendations)),
        len(advice.recommendations),
        bool(draw.truths),
    )


def with_preset(draw: Draw, preset: Preset) -> Draw:
    """Return the draw with a published configuration on every NIC and queue."""
    topology = draw.plan.topology
    if draw.plan.model.infiniband is not None:
        return draw
    names = draw.names
    changes = []
    for node in topology.hosts:
        port = names.port(node)
        rate = next(c.rate_bps for c in topology.cables if node in (c.a, c.b))
        parameters = preset.parameters(rate)
        changes.append(Change(port, "dcqcn_rp_enabled", (parameters is not None,) * 8))
        for field in fields(parameters) if parameters is not None else ():
            value: Any = getattr(parameters, field.name)
            changes.append(Change(port, f"dcqcn_{field.name}", 0 if value is None else value))
    switches = set(topology.switches)
    for port_number in range(2 * len(topology.cables)):
        if topology.end(port_number) not in switches:
            continue
        ecn = preset.ecn(topology.cables[port_number // 2].rate_bps)
        place = Slot(names.interface(port_number), "queue", 3)
        changes.append(Change(place, "ecn_enabled", True))
        changes += [Change(place, field.name, getattr(ecn, field.name)) for field in fields(ecn)]
    return applied(draw, changes)


def faults(draw: Draw, advice: Sequence[Recommendation]) -> Iterator[str]:
    """Yield what recommendations lack: fields, or undos that together restore."""
    for rec in advice:
        yield from missing_fields(rec)
    # What was not visible, or is mended by hand, has no value to come back.
    by_hand = ("link_repair", "host_repair", "speed_bps")
    known = [
        rec
        for rec in advice
        if rec.knob not in by_hand and all(part.current is not None for part in rec.parts)
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
        rate = topology.cables[port // 2].rate_bps
        cable = topology.cables[port // 2]
        packet = model.transport.payload_bytes + model.transport.header_bytes
        room = headroom(switch, rate, cable.delay_s, packet)
        bare = replace(switch, ecn=(), headroom_bytes=room)
        entry = thresholds_at(switch.ecn, rate)
        if entry is None:
            return bare
        limits, scale = entry.thresholds, rate / entry.rate_bps
        marking = (limits.kmin_bytes * scale, limits.kmax_bytes * scale, limits.pmax_ratio)
        return marking, bare

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
        model.host.slow,
        balancing.spread,
        {port: weight for port, weight in balancing.weights.items() if weight != 1},
        [balancing.spec_at(node, tier[node]) for node in topology.switches],
        [replace(c, rate_bps=rates.get(i, c.rate_bps)) for i, c in enumerate(topology.cables)],
        [(job.name, job.qps, job.ranks) for job in draw.jobs],
    )
