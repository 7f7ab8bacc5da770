"""What a plan does when it runs: job time, goodput, completion, queues, marks and pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simlab.packet import layout as at
from simlab.packet.config import Plan
from simlab.packet.interventions import run_with_events
from simlab.packet.results import flow_table, message_rows, port_table, summary
from simlab.packet.simulation import Simulation

SAMPLES: Final = 500
TAIL: Final = 99.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One run. Times in seconds of the plan; a job that did not end is extrapolated.

    `tail_s`: 99th percentile of completion. `queue_*_bytes`: the fullest of the watched egress
    queues. `paused_ratio`: share of the job's time for which the ports that carried data were
    paused. `marked_ratio`: marked packets by all that switches sent.
    """

    job_s: float
    finished: bool
    goodput_bps: float
    tail_s: float
    ideal_s: float
    queue_mean_bytes: float
    queue_p99_bytes: float
    queue_max_bytes: float
    marked: int
    marked_ratio: float
    pause_frames: int
    paused_ratio: float
    drops: int
    retransmitted: int
    events: int


def replay(plan: Plan, *, seed: int = 1, watch: tuple[int, ...] = ()) -> Replay:
    """Run a plan to its end or its duration. `watch`: directed ports whose queues are sampled."""
    sim = Simulation(plan.topology, plan.model, plan.traffic, seed=seed)
    limit = plan.config.duration_s
    priorities = {one.priority for one in plan.traffic.connections}
    watched = [(port, priority) for port in watch for priority in sorted(priorities)]
    if watched:
        sim.watch(watched, limit / SAMPLES, limit)
    run_with_events(sim, limit, list(plan.events), stop_when_done=True)
    rows = message_rows(sim)
    acked = rows[:, at.MSG_ACKED_TIME] > 0
    sizes = np.array([m.size_bytes * m.repeat for m in plan.traffic.messages], dtype=float)
    flows = flow_table(sim)
    fct = np.where(acked, flows["fct_s"], np.inf)
    moved = _moved(sim, sizes, acked)
    job = float((flows["start_s"] + fct).max())
    if not sim.done:
        # What is left goes on at the pace so far; a stuck fabric never ends.
        job = sim.now_s * float((sizes / np.maximum(moved, 1.0)).max())
        fct = np.where(acked, fct, sim.now_s * sizes / np.maximum(moved, 1.0))
    totals = summary(sim)
    ports = port_table(sim)
    carried = ports["tx_bytes"] > 0.01 * ports["tx_bytes"].max(initial=0)
    switches = ~np.isin(ports["node"], plan.topology.hosts)
    sent = int(ports["tx_packets"][switches].sum())
    samples = sim.samples() if watched else np.zeros((0, 1))
    fullest = samples.max(axis=1) if len(samples) else np.zeros(1)
    elapsed = max(sim.now_s, 1e-12)
    return Replay(
        job_s=job,
        finished=sim.done,
        goodput_bps=float(moved.sum()) * 8 / elapsed,
        tail_s=float(np.percentile(fct, TAIL)),
        ideal_s=float(np.percentile(flows["ideal_s"].astype(float), TAIL)),
        queue_mean_bytes=float(fullest.mean()),
        queue_p99_bytes=float(np.percentile(fullest, TAIL)),
        queue_max_bytes=float(totals.queue_max_bytes),
        marked=totals.ecn_marked,
        marked_ratio=totals.ecn_marked / max(sent, 1),
        pause_frames=totals.pause_frames,
        paused_ratio=float((ports["paused_s"][carried] / elapsed).mean()) if carried.any() else 0.0,
        drops=totals.drops + totals.lost_on_links,
        retransmitted=totals.retransmitted,
        events=totals.events,
    )


def _moved(sim: Simulation, sizes: np.ndarray, acked: np.ndarray) -> np.ndarray:
    """Return payload bytes of each message that arrived so far."""
    rows = sim.s[sim.state.qps : sim.state.qps + sim.state.qp_slots * at.QP_WORDS]
    qps = rows.reshape(sim.state.qp_slots, at.QP_WORDS)
    of = np.array([message.connection for message in sim.traffic.messages])
    if sim.traffic.flows:  # slots are shared: only whole messages are known
        return np.where(acked, sizes, 0.0)
    got = qps[of, at.QP_EXPECTED] * float(sim.model.transport.payload_bytes)
    return np.where(acked, sizes, np.minimum(got, sizes))
