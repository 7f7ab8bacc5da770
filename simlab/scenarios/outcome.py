"""What a scenario costs its jobs: run in the packet simulator to the end, or to a horizon."""

from __future__ import annotations

from dataclasses import dataclass

from simlab.packet import layout as at
from simlab.packet.build import PS
from simlab.packet.interventions import run_with_events
from simlab.packet.results import message_rows, port_table, qp_total
from simlab.packet.simulation import Simulation
from simlab.scenarios.draw import Draw

HORIZON = 4.0  # times the duration in which a job without fault is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """job_time_s: until the last message arrived; the horizon where `finished` is false.

    arrived_bytes: payload that came in by then. paused_s: of all ports and priorities together.
    """

    job_time_s: float
    finished: bool
    arrived_bytes: int
    paused_s: float
    dropped: int
    retransmitted: int


def outcome(draw: Draw, *, horizon_s: float | None = None, seed: int | None = None) -> Outcome:
    """Simulate a draw until its jobs are done, at most `horizon_s`."""
    plan = draw.plan
    longest = plan.config.duration_s * HORIZON if horizon_s is None else horizon_s
    wanted = plan.config.seed if seed is None else seed
    sim = Simulation(plan.topology, plan.model, plan.traffic, seed=wanted)
    run_with_events(sim, longest, list(plan.events), stop_when_done=True)
    rows = message_rows(sim)
    sizes = rows[:, at.MSG_BYTES] * rows[:, at.MSG_RECEIVED]
    ports = port_table(sim)
    return Outcome(
        job_time_s=float(rows[:, at.MSG_RECEIVED_TIME].max()) / PS if sim.done else longest,
        finished=sim.done,
        arrived_bytes=int(sizes.sum()),
        paused_s=float(ports["paused_s"].sum()),
        dropped=int(ports["dropped"].sum()) + int(ports["lost"].sum()),
        retransmitted=qp_total(sim, "retransmitted"),
    )
