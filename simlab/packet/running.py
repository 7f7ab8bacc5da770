"""Running a planned configuration step by step: events, notes for plots, progress, interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simlab.packet import layout as at
from simlab.packet.config import Plan
from simlab.packet.interventions import Schedule
from simlab.packet.plots import RATE_POINTS, Rates
from simlab.packet.results import watermarks
from simlab.packet.simulation import Progress, Simulation

BUSIEST = 4


@dataclass
class Run:
    """A simulation, what was noted on the way, and whether somebody stopped it."""

    sim: Simulation
    rates: Rates
    interrupted: bool = False


def start(plan: Plan, *, seed: int | None = None) -> Run:
    """Build the simulation of a plan and watch its queues."""
    wanted = plan.config
    sim = Simulation(
        plan.topology, plan.model, plan.traffic, seed=wanted.seed if seed is None else seed
    )
    if wanted.watch is not None:
        queues = wanted.watch.queues or busiest_queues(sim, wanted.duration_s)
        sim.watch(queues, wanted.watch.period_s, wanted.duration_s)
    return Run(sim, Rates(sim))


def busiest_queues(sim: Simulation, duration_s: float) -> list[tuple[int, int]]:
    """Return the queues that fill most in the first tenth of the same run."""
    trial = sim.reseeded(1)
    trial.run(duration_s / 10)
    longest = watermarks(trial)[:, :8]
    order = np.argsort(longest, axis=None)[::-1][:BUSIEST]
    return [(int(i) // 8, int(i) % 8) for i in order if longest.ravel()[i] > 0] or [(0, 3)]


def finish(plan: Plan, run: Run, progress: Callable[[Progress], None] | None = None) -> None:
    """Run to the end of the plan. Ctrl-C ends it early with all results up to then."""
    sim = run.sim
    wanted = plan.config
    schedule = Schedule(plan.events)
    steps = RATE_POINTS

    def tell(now: Progress) -> None:
        if progress is not None:
            progress(replace(now, goal_s=wanted.duration_s))

    try:
        for step in range(1, steps + 1):
            until = wanted.duration_s * step / steps
            done = schedule.run(sim, until, stop_when_done=wanted.stop_when_done, progress=tell)
            run.rates.note()
            tell(Progress(sim.now_s, wanted.duration_s, sim.events, sim.wall_s))
            if done and wanted.stop_when_done:
                break
    except KeyboardInterrupt:
        run.interrupted = True


def packets_per_cpu_s(sim: Simulation) -> float:
    """Return link packets per CPU-second so far."""
    return sim.word(at.LINK_PACKETS) / max(sim.cpu_s, 1e-9)
