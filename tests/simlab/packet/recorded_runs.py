"""Small runs that between them reach every branch of the model, and what is recorded of each.

Sizes, rates and thresholds are round on purpose, so that "at the threshold" happens often and
differs from "above" it. `python -m tests.simlab.packet.recorded_runs` records them again: only
when the model is meant to change, and with a look at what did.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from collectors.model.dcqcn import NVIDIA_FIRMWARE, PAPER
from collectors.model.ecn import EcnThresholds
from simlab.packet.collectives import Collective, Kind, QpMode, collective
from simlab.packet.interventions import Intervention, What, run_with_events
from simlab.packet.parameters import (
    Balancing,
    CnpMode,
    CongestionControl,
    EcnAt,
    Form,
    HostModel,
    InfinibandLink,
    Model,
    NicModel,
    Spread,
    SwitchModel,
    Transport,
)
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, Topology, leaf_spine, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import Flow, incast, traffic_of_flows
from tests.simlab.packet.recorded_words import told

EXPECTED = Path(__file__).resolve().parents[2] / "fixtures/packet/recorded_runs/expected.json"
WIRE = Transport(payload_bytes=900, header_bytes=100, ack_bytes=100, cnp_bytes=100, rto_s=100e-6)
OFF = CongestionControl(form=Form.OFF)
ECN = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(10e3, 40e3, 0.2)),)
QUICK = replace(NVIDIA_FIRMWARE, cnp_interval_s=4e-6, byte_counter_bytes=50e3, recovery_stages=2)
FIRMWARE = CongestionControl(form=Form.FIRMWARE, dcqcn=QUICK)
MARKING = SwitchModel(buffer_bytes=1_000_000, ecn=ECN)
TIGHT = SwitchModel(
    buffer_bytes=200_000, alpha=1 / 4, xon_offset_bytes=3000, reserved_bytes=4000,
    headroom_bytes=30_000,
)  # fmt: skip


def simulated(
    topology: Topology,
    model: Model,
    traffic: Traffic,
    until: float,
    events: Sequence[Intervention] = (),
) -> Simulation:
    """Run to `until`, watching the first switch queue of priority 3."""
    sim = Simulation(topology, model, traffic, seed=7)
    sim.watch([(1, 3)], until / 50, until)
    run_with_events(sim, until, list(events))
    return sim


def dcqcn(control: CongestionControl, until: float = 400e-6, **transport: object) -> Simulation:
    """Four senders that ECN marks."""
    wire = replace(WIRE, **transport)  # type: ignore[arg-type]
    model = Model(congestion=control, transport=wire, switch=MARKING)
    return simulated(star(5), model, incast(range(4), 4, 2_000_000), until)


def pauses(switch: SwitchModel, until: float = 200e-6, **more: object) -> Simulation:
    """Four senders without congestion control into one port."""
    model = Model(congestion=OFF, transport=WIRE, switch=switch)
    model = replace(model, **more)  # type: ignore[arg-type]
    return simulated(star(5), model, incast(range(4), 4, 900_000), until)


def classes() -> Simulation:
    """Three priorities weighted, one strict, into one port; two at one host."""
    flows = [
        Flow(src=host, dst=5, size_bytes=450_000, priority=priority)
        for host, priority in enumerate((1, 2, 3, 6, 1))
    ] + [Flow(src=0, dst=5, size_bytes=300_000, priority=2)]
    switch = replace(
        TIGHT, lossless=(1, 2, 3, 6), buffer_bytes=2_000_000, weights={1: 3, 2: 2}, strict=(6,),
    )  # fmt: skip
    model = Model(congestion=OFF, transport=WIRE, switch=switch)
    return simulated(star(6), model, traffic_of_flows(flows), 250e-6)


def lossy(*, selective: bool, **more: object) -> Simulation:
    """A cable that loses one packet in a hundred, both ways."""
    topology = star(4)
    bad = {i: replace(topology.cables[i], error_rate=0.01) for i in (0, 3)}
    wire = replace(WIRE, selective_repeat=selective, nak_interval_s=10e-6, **more)  # type: ignore[arg-type]
    model = Model(congestion=OFF, transport=wire)
    flows = [Flow(src=k, dst=3, size_bytes=270_000 + 500 * k) for k in range(3)]
    return simulated(topology.with_cables(bad), model, traffic_of_flows(flows), 2e-3)


def lossy_messages(*, selective: bool) -> Simulation:
    """Losses within queues of repeated messages: going back crosses their borders."""
    topology = star(3)
    bad = {2: replace(topology.cables[2], error_rate=0.02)}
    wire = replace(WIRE, selective_repeat=selective, nak_interval_s=5e-6, ack_every=2)
    connections = tuple(Connection(src=k, dst=2, sport=50_000 + k) for k in range(2))
    messages = tuple(
        Message(connection=k % 2, size_bytes=700 + 900 * (k % 5), repeat=1 + k % 3, free=1 + k % 3)
        for k in range(60)
    )
    model = Model(congestion=OFF, transport=wire)
    return simulated(topology.with_cables(bad), model, Traffic(connections, messages), 2e-3)


def spread(how: Spread, **more: object) -> Simulation:
    """Two leaves, three spines, one of them far: packets of one QP overtake one another."""
    topology = leaf_spine(2, 3, 3)
    far = {7: replace(topology.cables[7], delay_s=3e-6)}
    wire = replace(WIRE, selective_repeat=True, **more)  # type: ignore[arg-type]
    model = Model(
        congestion=OFF, transport=wire, balancing=Balancing(spread=how, flowlet_gap_s=1e-6)
    )
    flows = [Flow(src=k, dst=3 + k, size_bytes=180_000, start_s=k * 1e-6) for k in range(3)]
    events = [Intervention(at_s=10e-6, what=What.LINK_DOWN, cable=6, value=-1.0)]
    events = events if how is Spread.SPRAY else []
    return simulated(topology.with_cables(far), model, traffic_of_flows(flows), 1e-3, events)


def chained() -> Simulation:
    """Messages that wait for others, with different delays, several on one QP, two at once."""
    pairs = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    connections = [Connection(src=a, dst=b, sport=50_000 + a) for a, b in pairs]
    messages = [
        Message(connection=0, size_bytes=2000, repeat=6, free=3, after=(3,)),
        Message(connection=1, size_bytes=1800, repeat=6, free=0, after=(0,), delay_s=9e-6),
        Message(connection=2, size_bytes=900, repeat=6, free=0, after=(0, 1), delay_s=2e-6),
        Message(connection=3, size_bytes=2700, repeat=6, free=1, after=(2,), delay_s=5e-6),
        Message(connection=4, size_bytes=1000, repeat=6, free=0, after=(0,)),
        Message(connection=4, size_bytes=900, gates=(3,), gate_delay_s=4e-6),
        Message(connection=1, size_bytes=9000, repeat=2, free=2, start_s=3e-6),
        Message(connection=1, size_bytes=500, repeat=3, free=1, after=(3,), delay_s=7e-6,
                gates=(0,), gate_delay_s=1e-6),
        Message(connection=0, size_bytes=4500, start_s=1e-6),
    ]  # fmt: skip
    model = Model(congestion=OFF, transport=WIRE)
    return simulated(star(4), model, Traffic(tuple(connections), tuple(messages)), 300e-6)


def delays() -> Simulation:
    """Twelve repeats that one arrival releases with delays out of order: the heap sorts them."""
    connections = [Connection(src=k % 3, dst=3, sport=50_000 + k) for k in range(12)]
    messages = [Message(connection=0, size_bytes=900)]
    messages += [
        Message(connection=k, size_bytes=900, free=0, after=(0,), repeat=1,
                delay_s=(k * 7 % 12 + 1) * 1e-6)
        for k in range(1, 12)
    ]  # fmt: skip
    model = Model(congestion=OFF, transport=WIRE)
    return simulated(star(4), model, Traffic(tuple(connections), tuple(messages)), 60e-6)


def slow(**host: object) -> Simulation:
    """A host that takes in a fifth of what the wire brings."""
    model = Model(
        congestion=OFF, transport=replace(WIRE, rnr_delay_s=20e-6),
        host=HostModel(
            slow={2: 20e9}, rx_buffer_bytes=60_000, rx_xoff_bytes=20_000, rx_xon_bytes=10_000,
            **host,  # type: ignore[arg-type]
        ),
    )  # fmt: skip
    connections = tuple(Connection(src=k, dst=2, sport=50_000 + k) for k in range(2))
    messages = tuple(Message(connection=k % 2, size_bytes=9000) for k in range(30))
    return simulated(star(3), model, Traffic(connections, messages), 600e-6)


def storm() -> Simulation:
    """A host that pauses for ever for a while, a watchdog, a rate that falls, a cable that dies."""
    switch = replace(TIGHT, pause_s=10e-6, watchdog_s=40e-6, watchdog_restore_s=60e-6)
    model = Model(congestion=OFF, transport=WIRE, switch=switch)
    events = [
        Intervention(at_s=20e-6, what=What.PAUSE_STORM, host=4, value=1),
        Intervention(at_s=150e-6, what=What.RATE, cable=1, value=33e9),
        Intervention(at_s=200e-6, what=What.PAUSE_STORM, host=4, value=0),
        Intervention(at_s=300e-6, what=What.LINK_DOWN, cable=2, value=-1.0),
        Intervention(at_s=340e-6, what=What.LINK_UP, cable=2),
        Intervention(at_s=380e-6, what=What.ERROR_RATE, cable=0, value=0.02),
    ]
    return simulated(star(5), model, incast(range(4), 4, 900_000), 700e-6, events)


def infiniband(control: CongestionControl = OFF, **link: int) -> Simulation:
    """Credits instead of pauses, two lanes."""
    model = Model(
        congestion=control, transport=WIRE, infiniband=InfinibandLink(credits_bytes=8000, **link)
    )
    flows = [Flow(src=k, dst=4, size_bytes=180_000, priority=2 + k % 2) for k in range(4)]
    return simulated(star(5), model, traffic_of_flows(flows), 200e-6)


def reused() -> Simulation:
    """More flows than are in progress at once, over a lossy priority that fills up."""
    flows = [
        Flow(src=k % 5, dst=5, size_bytes=900 * (1 + k * 7 % 40) - k % 3, start_s=k // 5 * 2e-6)
        for k in range(100)
    ]
    switch = SwitchModel(buffer_bytes=60_000, pfc=False, queue_limit_bytes=40_000)
    model = Model(congestion=OFF, transport=replace(WIRE, retry_limit=3), switch=switch)
    traffic = traffic_of_flows([replace(flow, priority=0) for flow in flows])
    return simulated(star(6, delay_s=0.5e-6), model, traffic, 3e-3)


def ring(kind: Kind, **more: object) -> Simulation:
    """A collective with compute and reduction times over two leaves."""
    what = Collective(
        kind=kind, ranks=tuple(range(6)), size_bytes=60_000, iterations=2, compute_s=5e-6,
        reduce_s=1e-6, **{"qps": 2, **more},  # type: ignore[arg-type]
    )  # fmt: skip
    return simulated(leaf_spine(2, 2, 3), Model(transport=WIRE), collective(what), 1e-3)


def particular() -> Simulation:
    """NICs and ports that differ: no CNPs, no ECT, no PFC, a short MTU, few receive requests."""
    nics = {
        0: NicModel(ecn_capable=False),
        1: NicModel(congestion=OFF),
        2: NicModel(pfc=False),
        4: NicModel(sends_cnps=False),
        5: NicModel(mtu_bytes=1000, receive_requests=2, receive_interval_s=30e-6),
    }
    model = Model(
        congestion=replace(FIRMWARE, cnp_mode=CnpMode.PER_PORT), transport=WIRE, switch=MARKING,
        nics=nics,
    )  # fmt: skip
    flows = [Flow(src=k, dst=4 + k % 2, size_bytes=450_000) for k in range(4)]
    flows += [Flow(src=k, dst=5, size_bytes=1800, start_s=2e-5 * k) for k in range(4)]
    flows += [Flow(src=4, dst=0, size_bytes=90_000)]
    return simulated(star(6), model, traffic_of_flows(flows), 500e-6)


def uneven() -> Simulation:
    """Wire times that are no whole picoseconds, speeds that differ, a 1 ns clock beside."""
    cables = (
        Cable(0, 3, 30e9, 1e-6), Cable(1, 3, 70e9, 0.3e-6), Cable(2, 3, 70e9, 2e-6),
    )  # fmt: skip
    topology = Topology(4, (3,), cables, (0, 0, 0, 1))
    model = Model(congestion=FIRMWARE, transport=WIRE, switch=MARKING)
    return simulated(topology, model, incast([1, 2], 0, 450_000), 600e-6)


PAPER_QUICK = replace(PAPER, cnp_interval_s=5e-6, increase_timer_s=8e-6, byte_counter_bytes=30e3)
IB_CONTROL = CongestionControl(
    form=Form.INFINIBAND, cct=(0.0, 0.5, 1.25, 3.0), ccti_increase=2, ccti_min=1, ccti_timer_s=20e-6
)
RUNS: dict[str, Callable[[], Simulation]] = {
    "firmware": lambda: dcqcn(FIRMWARE),
    "firmware, 1 ns monitor offset": lambda: dcqcn(
        replace(FIRMWARE, monitor_offset_s=1e-9, increase_hurries=False)
    ),
    "firmware, hyper scaled, no byte counter": lambda: dcqcn(
        replace(FIRMWARE, dcqcn=replace(QUICK, byte_counter_bytes=None), hyper_scaled=True), 2e-3
    ),
    "firmware, CNP on the ACK": lambda: dcqcn(
        replace(FIRMWARE, cnp_mode=CnpMode.ON_ACK),
        ack_every=4,
        ack_priority=6,
        ack_jumps_host_queue=True,
    ),
    "firmware, first CNP rate": lambda: dcqcn(
        replace(FIRMWARE, dcqcn=replace(QUICK, first_cnp_rate_bps=20e9, clamp_target=True))
    ),
    "paper": lambda: dcqcn(CongestionControl(form=Form.PAPER, dcqcn=PAPER_QUICK)),
    "paper, ACKs marked": lambda: dcqcn(
        CongestionControl(form=Form.PAPER, dcqcn=PAPER_QUICK), ack_ecn_capable=True
    ),
    "paper, ACKs in priority 0, rates at the least": lambda: dcqcn(
        CongestionControl(form=Form.PAPER, dcqcn=replace(PAPER_QUICK, min_rate_bps=10e9)),
        ack_priority=0,
    ),
    "firmware, target falls with the timer": lambda: dcqcn(
        replace(FIRMWARE, dcqcn=replace(QUICK, clamp_target=False, clamp_target_after_timer=True)),
        1e-3,
    ),
    "dynamic threshold": lambda: pauses(TIGHT),
    "static threshold": lambda: pauses(replace(TIGHT, xoff_bytes=20_000)),
    "no reserve": lambda: pauses(replace(TIGHT, xoff_bytes=9000, reserved_bytes=0)),
    "pause quanta": lambda: pauses(replace(TIGHT, pause_s=4e-6)),
    "pause for every packet": lambda: pauses(replace(TIGHT, pause_each_packet=True)),
    "too little headroom": lambda: pauses(replace(TIGHT, headroom_bytes=5000), 500e-6),
    "one nanosecond": lambda: pauses(TIGHT, truncate_ns=True),
    "marks at enqueue, dynamic egress": lambda: pauses(
        replace(MARKING, pfc=False, ecn_at_enqueue=True, egress_alpha=0.5, buffer_bytes=100_000),
        congestion=FIRMWARE,
    ),
    "unmanaged": lambda: pauses(replace(TIGHT, unmanaged=(3,))),
    "classes": classes,
    "go back N": lambda: lossy(selective=False),
    "go back N, NAKs cut, window": lambda: lossy(
        selective=False, nak_cuts=True, window_packets=20, ack_every=3
    ),
    "retries for ever, one packet at a time": lambda: lossy(
        selective=False, retry_limit=0, window_packets=1
    ),
    "selective repeat": lambda: lossy(selective=True),
    "selective repeat, window": lambda: lossy(selective=True, window_packets=40),
    "go back N, many messages": lambda: lossy_messages(selective=False),
    "selective repeat, many messages": lambda: lossy_messages(selective=True),
    "spray": lambda: spread(Spread.SPRAY),
    "spray, tolerant": lambda: spread(Spread.SPRAY, reorder_tolerant=True),
    "flowlets": lambda: spread(Spread.FLOWLET),
    "least queue": lambda: spread(Spread.LEAST_QUEUE),
    "chained": chained,
    "delays": delays,
    "slow host": slow,
    "slow host, quanta": lambda: slow(pause_s=8e-6),
    "slow host, few receive requests": lambda: slow(receive_requests=1, receive_interval_s=15e-6),
    "storm": storm,
    "InfiniBand": infiniband,
    "InfiniBand, FECN": lambda: infiniband(IB_CONTROL, threshold_bytes=3000, marking_rate=2),
    "InfiniBand, every other packet marked": lambda: infiniband(
        IB_CONTROL, threshold_bytes=2000, marking_rate=1
    ),
    "InfiniBand, each packet marked": lambda: infiniband(
        replace(IB_CONTROL, ccti_timer_s=0.0, ccti_increase=1), threshold_bytes=4000
    ),
    "reused slots": reused,
    "ring": lambda: ring(Kind.ALL_REDUCE),
    "ring, round robin": lambda: ring(Kind.ALL_REDUCE, mode=QpMode.ROUND_ROBIN),
    "tree": lambda: ring(Kind.TREE_ALL_REDUCE, qps=1, chunks=3),
    "all to all": lambda: ring(Kind.ALL_TO_ALL, window=2),
    "particular NICs": particular,
    "uneven speeds": uneven,
}


def main() -> int:
    """Record all runs again."""
    lines = [f"{json.dumps(name)}: {json.dumps(told(run()))}" for name, run in RUNS.items()]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
