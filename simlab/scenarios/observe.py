"""The telemetry of a scenario: what agents and pollers would have read of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from collectors.model.facts import Facts, Setting
from collectors.model.reading import Pass, Reading
from simlab.packet.interventions import Schedule
from simlab.packet.simulation import Simulation
from simlab.packet.telemetry import POLLER, AgentPass, Telemetry
from simlab.packet.telemetry_facts import fact_passes
from simlab.packet.telemetry_snapshot import Values, put
from simlab.packet.telemetry_switch_facts import WHERE
from simlab.packet.uplink import Packer, RecordingSink, Sink, TunerSink
from simlab.scenarios.draw import Change, Draw

START_NS = 1_700_000_000 * 10**9
"""Telemetry of a recording begins here unless something else is asked for."""


def passes(draw: Draw, *, start_ns: int = START_NS) -> Iterator[AgentPass]:
    """Simulate a draw and yield what is read of it, poll by poll; facts come first."""
    plan = draw.plan
    wanted = plan.config
    sim = Simulation(plan.topology, plan.model, plan.traffic, seed=wanted.seed)
    refresh = wanted.telemetry.switch_refresh_s
    telemetry = Telemetry(sim, start_ns=start_ns, switch_refresh_s=refresh)
    yield from _facts(draw, telemetry)
    counts = _Ticks(draw)
    schedule = Schedule(plan.events)
    step = wanted.telemetry.interval_s
    for number in range(round(wanted.duration_s / step) + 1):
        until = number * step
        schedule.run(sim, until)
        yield from telemetry.passes()
        yield from counts.passes(telemetry, step if number else 0.0)


def _facts(draw: Draw, telemetry: Telemetry) -> Iterator[AgentPass]:
    """Yield facts in which the shown settings replace those of the plan or stand beside them."""
    shown = {(change.entity, change.setting): change for change in draw.shown}
    placed = set()
    for one in fact_passes(telemetry):
        facts = one.seen.facts or Facts()
        told = tuple(
            _setting(shown[key]) if (key := (s.entity, s.name)) in shown else s
            for s in facts.settings
        )
        placed |= {(s.entity, s.name) for s in told}
        yield replace(one, seen=Pass(facts=replace(facts, settings=told)))
    rest = tuple(_setting(change) for key, change in shown.items() if key not in placed)
    if rest:
        now = telemetry.when().at_ns
        yield AgentPass(POLLER, "config", Pass(facts=Facts(settings=rest)), now)


def _setting(change: Change) -> Setting:
    return Setting(change.entity, change.setting, change.value, WHERE)


class _Ticks:
    """Counts of the ticking counters of a draw so far."""

    def __init__(self, draw: Draw) -> None:
        self._ticking = draw.ticking
        self._rng = np.random.default_rng(draw.seed)
        self._counts = [0] * len(draw.ticking)

    def passes(self, telemetry: Telemetry, seconds: float) -> Iterator[AgentPass]:
        for index, one in enumerate(self._ticking):
            self._counts[index] += int(self._rng.poisson(one.per_second * seconds))
            held: Values = {}
            put(held, one.via, one.driver, {one.key: self._counts[index]})  # type: ignore[arg-type]
            who = getattr(one.entity, "host", "") or getattr(
                getattr(one.entity, "device", None), "host", POLLER
            )
            reading = Reading(one.entity, held, telemetry.when(), f"{telemetry.boot_id}:{who}")
            yield AgentPass(str(who), one.collector, Pass((reading,)))


def send(rounds: Sequence[AgentPass] | Iterator[AgentPass], sink: Sink) -> int:
    """Pack passes and give them to a sink; return the number of values. Closes the sink."""
    packer: Packer | None = None
    values = 0
    try:
        for one in rounds:
            if packer is None:
                packer = Packer(sink, f"simulated-{one.at_ns:x}")
            values += packer.send([one])
    finally:
        sink.close()
    return values


def stream(draw: Draw, target: str, *, start_ns: int = START_NS) -> int:
    """Send a draw's telemetry to a tuner; Unavailable where it refuses. Returns the values."""
    return send(passes(draw, start_ns=start_ns), TunerSink(target))


def record(draw: Draw, folder: Path, *, start_ns: int = START_NS) -> int:
    """Write a draw's telemetry as a recording; ConfigInvalid for a full folder."""
    return send(passes(draw, start_ns=start_ns), RecordingSink(folder))
