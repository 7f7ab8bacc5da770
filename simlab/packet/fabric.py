"""A simulated fabric in operation: runs a plan and reports at every interval."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from simlab.packet.config import Plan
from simlab.packet.interventions import Schedule
from simlab.packet.simulation import Progress, Simulation
from simlab.packet.telemetry import Telemetry
from simlab.packet.telemetry_facts import fact_passes
from simlab.packet.uplink import Packer, RecordingSink, Sink, TunerSink


def run_fabric(
    plan: Plan,
    *,
    stream: str | None = None,
    record: Path | None = None,
    pace: float = 0.0,
    start_ns: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> dict[str, float]:
    """Run the plan and send what agents would read to a tuner or into a folder.

    The clock of the telemetry begins so that it ends now, or at `start_ns`. Returns what was
    sent; Ctrl-C ends it early. Raises Unavailable where tuner or folder refuse, ConfigInvalid for
    a full folder.
    """
    wanted = plan.config
    sim = Simulation(plan.topology, plan.model, plan.traffic, seed=wanted.seed)
    if start_ns is None:
        start_ns = time.time_ns() - (0 if pace else round(wanted.duration_s * 1e9))
    telemetry = Telemetry(
        sim, start_ns=start_ns, switch_refresh_s=wanted.telemetry.switch_refresh_s
    )
    sink: Sink = TunerSink(stream) if stream else RecordingSink(record or Path(wanted.name))
    packer = Packer(sink, telemetry.boot_id)
    schedule = Schedule(plan.events)
    step = wanted.telemetry.interval_s
    values = passes = interrupted = 0
    agents: set[str] = set()
    try:
        packer.send(fact_passes(telemetry))
        for number in range(math.ceil(wanted.duration_s / step - 1e-9) + 1):
            until = min(number * step, wanted.duration_s)
            began = time.monotonic()
            schedule.run(sim, until)
            seen = list(telemetry.passes())
            agents |= {one.agent for one in seen}
            values += packer.send(seen)
            passes += 1
            if progress is not None:
                progress(Progress(sim.now_s, wanted.duration_s, sim.events, sim.wall_s))
            if pace:
                time.sleep(max(0.0, step * pace - (time.monotonic() - began)))
    except KeyboardInterrupt:  # what was reported so far is whole
        interrupted = 1
    finally:
        sink.close()
    return {
        "values": values, "agents": len(agents), "passes": passes, "simulated_s": sim.now_s,
        "messages_done": int(sim.done), "interrupted": interrupted,
    }  # fmt: skip
