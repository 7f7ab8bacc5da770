"""One draw through the product: telemetry in, advice out, advice put into the simulator."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

from collectors.model.entities import Slot
from simlab.scenarios.change import applied, varied
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.observe import record
from simlab.scenarios.outcome import outcome
from simlab.scenarios.registry import draw
from tests.bench.advise_parts.follow import followed
from tests.bench.advise_parts.parse_back import read_back
from tests.bench.advise_parts.undo import faults
from tuner.advice.search.presets import PRESETS, Preset
from tuner.cli.suggest import advise
from tuner.store.sources import open_window

SEEDS = 900_000  # of draws: far from those of tests
SPREAD = 0.3
CURABLE = 0.05  # of the cured job time: a smaller gap is noise
HORIZON = 4.0  # times the duration of a draw: what takes longer counts as this long


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Job times of a draw: faulty, cured by the truth, advised; and by preset where curable.

    `unfit`: recommendations that the simulator cannot follow. `unheld`: those that lack a field or
    whose undo does not bring the former settings back. `rendered`: steps of switches in all
    languages that can express them; `misread`: those that C's readers read otherwise.
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
    rendered: int
    misread: tuple[str, ...]
    recommended: int
    has_truth: bool
    cpu_s: float

    @property
    def curable(self) -> bool:
        """Whether the truth's cure makes the job faster by more than chance."""
        return self.has_truth and is_curable(self.faulty, self.cured)

    def recovered(self, job: float) -> float:
        """Return the share of the gap between faulty and cured that a job time makes up for."""
        return (self.faulty - job) / (self.faulty - self.cured)

    @property
    def harm(self) -> float:
        """Job time with the advice over that without."""
        return self.advised / self.faulty


def is_curable(faulty: float, cured: float) -> bool:
    """Tell whether a cure gains more than chance does."""
    return faulty > cured * (1 + CURABLE)


def run(family: str, seed: int, budget_s: float) -> Trial:
    """Ask the product about a draw and try its advice with N, RTT and burst drawn anew."""
    began = time.process_time()
    seen = draw(family, seed)
    rng = Random(f"{family} {seed}")
    with tempfile.TemporaryDirectory() as folder:
        record(seen, Path(folder) / "r")
        window, _ = open_window(f"dir={folder}/r", "", "")
        advice = advise(window, "bench", None, budget_s, clock=None)
        back = read_back(advice.plan())
    factors = {name: rng.uniform(1 - SPREAD, 1 + SPREAD) for name in ("flows", "rtt", "burst")}
    other = varied(seen, **factors)
    cure = [change for truth in seen.truths for change in truth.cure]
    horizon = HORIZON * seen.plan.config.duration_s
    better, unfit = followed(other, advice.recommendations)

    def job(one: Draw) -> float:
        return outcome(one, horizon_s=horizon).job_time_s

    faulty = job(other)
    cured = job(applied(other, cure)) if cure else faulty
    presets = PRESETS if is_curable(faulty, cured) else ()
    return Trial(
        family=family,
        seed=seed,
        faulty=faulty,
        cured=cured,
        advised=job(better) if advice.recommendations else faulty,
        presets={p.name: job(with_preset(other, p)) for p in presets},
        findings=tuple(f.rule for f in advice.diagnosis.findings if not f.explained_by),
        advice=tuple(
            f"{part.knob} of {part.places[0]} +{len(part.places) - 1}: {part.current} -> "
            f"{part.proposed}"
            for rec in advice.recommendations
            for part in rec.parts
        ),
        unfit=tuple(unfit),
        unheld=tuple(faults(seen, advice.recommendations)),
        rendered=back.steps,
        misread=back.wrong,
        recommended=len(advice.recommendations),
        has_truth=bool(seen.truths),
        cpu_s=time.process_time() - began,
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
