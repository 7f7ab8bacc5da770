"""What a scenario costs its jobs: run in the packet simulator to the end, or to a horizon."""

from __future__ import annotations

from dataclasses import dataclass

from simlab.packet import layout as at
from simlab.packet.interventions import Schedule
from simlab.packet.picoseconds import PS_PER_S
from simlab.packet.results import message_rows, port_table, qp_total
from simlab.packet.simulation import Simulation
from simlab.scenarios.draw import Draw
from simlab.scenarios.job import MAIN_JOB

STEPS = 10  # of the duration, after which it is asked whether the job is done
HORIZON = 4.0  # times the duration in which a job without fault is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of the first job of a draw; further ones are what else goes on in the fabric.

    job_time_s: until its last message arrived; the horizon where `finished` is false.
    arrived_bytes: its payload that came in by then. Of the whole fabric: paused_s (all ports and
    priorities together), dropped (packets, on links too), retransmitted.
    """

    job_time_s: float
    finished: bool
    arrived_bytes: int
    paused_s: float
    dropped: int
    retransmitted: int


def outcome(draw: Draw, *, horizon_s: float | None = None, seed: int | None = None) -> Outcome:
    """Simulate a draw until its first job is done, at most `horizon_s`."""
    plan = draw.plan
    longest = plan.config.duration_s * HORIZON if horizon_s is None else horizon_s
    wanted = plan.config.seed if seed is None else seed
    sim = Simulation(plan.topology, plan.model, plan.traffic, seed=wanted)
    main = [i for i, m in enumerate(plan.traffic.messages) if m.label.startswith(MAIN_JOB)]
    schedule = Schedule(plan.events)
    step = plan.config.duration_s / STEPS
    until = 0.0
    while until < longest:
        until = min(longest, until + step)
        over = schedule.run(sim, until, stop_when_done=True)
        rows = message_rows(sim)[main]
        if over or (rows[:, at.MSG_RECEIVED] == rows[:, at.MSG_REPEAT]).all():
            break
    finished = bool((rows[:, at.MSG_RECEIVED] == rows[:, at.MSG_REPEAT]).all())
    ports = port_table(sim)
    return Outcome(
        job_time_s=float(rows[:, at.MSG_RECEIVED_TIME].max()) / PS_PER_S if finished else longest,
        finished=finished,
        arrived_bytes=int((rows[:, at.MSG_BYTES] * rows[:, at.MSG_RECEIVED]).sum()),
        paused_s=float(ports["paused_s"].sum()),
        dropped=int(ports["dropped"].sum()) + int(ports["lost"].sum()),
        retransmitted=qp_total(sim, "retransmitted"),
    )
