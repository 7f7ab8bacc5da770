"""Running a planned configuration step by step: events, notes for plots, progress, interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simlab.packet import layout as at
from simlab.packet.config import Plan, Watch
from simlab.packet.interventions import Schedule
from simlab.packet.plots import Rates
from simlab.packet.results import watermarks
from simlab.packet.simulation import Progress, Simulation
from simlab.packet.topology import Topology
from simlab.packet.traffic import Traffic

BUSIEST = 4
STEPS = 400  # of a run: events, notes for plots and a look at the keyboard between them
PLOTTED_SAMPLES = 4000
MOST_SAMPLES = 2_000_000  # of a run that goes on to its longest time


@dataclass
class Run:
    """A simulation, what was noted on the way, and whether somebody stopped it."""

    sim: Simulation
    rates: Rates
    interrupted: bool = False


def start(plan: Plan, *, plot: bool = False) -> Run:
    """Build the simulation of a plan and watch its queues, for a plot also unasked."""
    wanted = plan.config
    sim = Simulation(plan.topology, plan.model, plan.traffic, seed=wanted.seed)
    watch = wanted.watch
    if watch is None and plot:
        likely = wanted.duration_s
        if wanted.stop_when_done:
            likely = min(likely, likely_s(sim.topology, sim.traffic))
        longest = wanted.duration_s / MOST_SAMPLES
        watch = Watch(period_s=max(likely / PLOTTED_SAMPLES, longest, 1e-9))
    if watch is not None:
        queues = watch.queues or busiest_queues(sim, wanted.duration_s)
        sim.watch(queues, watch.period_s, wanted.duration_s)
    return Run(sim, Rates(sim))


def likely_s(topology: Topology, traffic: Traffic) -> float:
    """Return twice the time that the busiest host link needs, with starts and compute time."""
    rate = {
        topology.end(port): topology.cables[port // 2].rate_bps
        for port in range(2 * len(topology.cables))
    }
    busy: dict[int, float] = {}
    waits: dict[int, float] = {}
    for message in traffic.messages:
        one = traffic.connections[message.connection]
        for place in (2 * one.src, 2 * one.dst + 1):
            seconds = message.size_bytes * message.repeat * 8 / rate[place // 2]
            busy[place] = busy.get(place, 0.0) + seconds
        delay = message.gate_delay_s + message.delay_s * message.repeat
        waits[message.connection] = waits.get(message.connection, 0.0) + delay
    begun = max(message.start_s for message in traffic.messages)
    return begun + max(waits.values()) + 2 * max(busy.values())


def busiest_queues(sim: Simulation, duration_s: float) -> list[tuple[int, int]]:
    """Return the queues that fill most in the first tenth of the same run."""
    trial = sim.reseeded(1)
    trial.run(min(duration_s, likely_s(sim.topology, sim.traffic)) / 10)
    longest = watermarks(trial)[:, :8]
    order = np.argsort(longest, axis=None)[::-1][:BUSIEST]
    return [(int(i) // 8, int(i) % 8) for i in order if longest.ravel()[i] > 0] or [(0, 3)]


def finish(plan: Plan, run: Run, progress: Callable[[Progress], None] | None = None) -> None:
    """Run to the end of the plan. Ctrl-C ends it early with all results up to then."""
    sim = run.sim
    wanted = plan.config
    schedule = Schedule(plan.events)
    likely = likely_s(sim.topology, sim.traffic)
    ends = [share for share in (likely, wanted.duration_s) if share <= wanted.duration_s]

    def tell(now: Progress) -> None:
        if progress is not None:
            progress(replace(now, goal_s=wanted.duration_s))

    try:
        for until in _steps(ends):
            done = schedule.run(sim, until, stop_when_done=wanted.stop_when_done, progress=tell)
            run.rates.note()
            tell(Progress(sim.now_s, wanted.duration_s, sim.events, sim.wall_s))
            if done and wanted.stop_when_done:
                break
    except KeyboardInterrupt:
        run.interrupted = True


def _steps(ends: Sequence[float]) -> Iterator[float]:
    """Cut each stretch, up to one of the ends, into equal steps."""
    begin = 0.0
    for end in ends:
        yield from (begin + (end - begin) * step / STEPS for step in range(1, STEPS))
        yield end
        begin = end


def packets_per_cpu_s(sim: Simulation) -> float:
    """Return link packets per CPU-second so far."""
    return sim.word(at.LINK_PACKETS) / max(sim.cpu_s, 1e-9)
