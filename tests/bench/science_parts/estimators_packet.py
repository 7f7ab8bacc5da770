"""The estimators on telemetry of the packet simulator: counters of ports and QPs per window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from collectors.model.dcqcn import PAPER
from collectors.model.ecn import EcnThresholds
from simlab.packet import layout
from simlab.packet.parameters import (
    CongestionControl,
    EcnAt,
    Form,
    Model,
    SwitchModel,
    Transport,
)
from simlab.packet.results import paused_ps, port_table, qp_rows
from simlab.packet.simulation import Simulation
from simlab.packet.topology import star
from simlab.packet.workloads import Flow, incast, traffic_of_flows
from tests.bench.science_parts.check import Check, between, near
from tuner.models.dcqcn_renewal import marking_for_flows
from tuner.models.estimators import (
    Estimate,
    burst_size,
    flows_at_bottleneck,
    incast_degree,
    marking_ratio,
    offered_load,
    round_trip,
)

Floats = NDArray[np.float64]
LINK, DELAY_S = 40e9, 1e-6
ECN = EcnThresholds(5e3, 2000e3, 0.1)
FLOWS = (2, 3, 4, 5, 6, 8, 10, 12)
DRAWS_EACH, WINDOWS, WINDOW_S, WARM_S = 25, 16, 5e-3, 0.1
INCAST_SEED = 71  # other draws than those that the estimator's share error was fitted to
WIRE = Transport(payload_bytes=1000, header_bytes=0)


@dataclass(frozen=True, slots=True)
class Windows:
    """Deltas of the bottleneck per window, one flow's bytes in flight and rate, mean queue."""

    packets: Floats
    marked: Floats
    in_flight: Floats
    rate_bps: Floats
    queue_bytes: float

    def part(self, draw: int) -> slice:
        """Return the windows of one draw."""
        return slice(draw * WINDOWS, (draw + 1) * WINDOWS)


def dcqcn_windows(flows: int) -> Windows:
    """Run N long flows into one port and read its counters every window, after a warm-up."""
    ecn = (EcnAt(rate_bps=LINK, thresholds=ECN),)
    model = Model(
        congestion=CongestionControl(form=Form.PAPER, dcqcn=PAPER),
        transport=WIRE,
        switch=SwitchModel(buffer_bytes=64 << 20, alpha=8.0, ecn=ecn),
    )
    topology = star(flows + 1, rate_bps=LINK, delay_s=DELAY_S)
    sim = Simulation(topology, model, incast(range(flows), flows, 4 * 10**10), seed=5)
    port = 2 * flows + 1
    sim.run(WARM_S)
    count = DRAWS_EACH * WINDOWS
    sim.watch([(port, 3)], 20e-6, count * WINDOW_S + 1e-3)
    rows = []
    for window in range(count + 1):
        sim.run(WARM_S + window * WINDOW_S)
        ports, qp = port_table(sim), qp_rows(sim)[0]
        in_flight = qp[layout.QP_NEXT_PSN] - qp[layout.QP_UNACKED]
        sent = qp[layout.QP_TX_PACKETS]
        rows.append((ports["tx_packets"][port], ports["marked"][port], sent, in_flight))
    table = np.array(rows, dtype=np.float64)
    deltas = np.diff(table, axis=0)
    return Windows(
        packets=deltas[:, 0],
        marked=deltas[:, 1],
        in_flight=table[1:, 3] * 1e3,
        rate_bps=deltas[:, 2] * 8e3 / WINDOW_S,
        queue_bytes=float(sim.samples().mean()),
    )


def _holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def checks() -> Iterator[Check]:
    """Yield coverage on 200 draws per estimator and the marking predicted cut by cut."""
    inside = {"marking probability": 0, "number of flows": 0, "round-trip time": 0}
    serial_s = (2 * 1000 + 2 * WIRE.ack_bytes) * 8 / LINK
    for flows in FLOWS:
        seen = dcqcn_windows(flows)
        marking = float(seen.marked.sum() / seen.packets.sum())
        predicted = marking_for_flows(PAPER, LINK, flows)
        yield near(f"marking cut by cut against packets, N={flows}", predicted, marking, 0.05)
        rtt = 4 * DELAY_S + serial_s + seen.queue_bytes * 8 / LINK
        for number in range(DRAWS_EACH):
            part = seen.part(number)
            estimate = marking_ratio(seen.marked[part], seen.packets[part])
            inside["marking probability"] += _holds(estimate, marking)
            inside["number of flows"] += _holds(flows_at_bottleneck(estimate, PAPER, LINK), flows)
            estimate = round_trip(seen.in_flight[part], seen.rate_bps[part])
            inside["round-trip time"] += _holds(estimate, rtt)
    draw = np.random.default_rng(INCAST_SEED)
    inside["incast degree, PFC"] = sum(
        incast_holds(k, draw) for k in FLOWS for _ in range(DRAWS_EACH)
    )
    bursts, loads = zip(*(burst_draws(k) for k in FLOWS), strict=True)
    inside["burst size"], inside["offered load"] = sum(bursts), sum(loads)
    draws = DRAWS_EACH * len(FLOWS)
    for name, hits in inside.items():
        yield between(f"90 % interval covers, {name} (packets)", hits / draws, 0.85, 0.95, 0.90)


def incast_holds(senders: int, draw: np.random.Generator, windows: int = 20) -> bool:
    """Without DCQCN, k senders into one port: each is paused 1 − 1/k of the time.

    Cables of 0 to 50 m beside the common delay, starts, the buffer's alpha and the length of the
    windows are drawn: they decide in which rhythm the senders take turns.
    """
    alpha, window_s = float(draw.choice([1 / 32, 1 / 16, 1 / 8, 1 / 4])), draw.uniform(1e-4, 4e-4)
    topology = star(senders + 1, rate_bps=LINK, delay_s=DELAY_S)
    longer = {
        at: replace(cable, delay_s=cable.delay_s + draw.uniform(0, 250e-9))
        for at, cable in enumerate(topology.cables)
    }
    flows = [
        Flow(src=k, dst=senders, size_bytes=10**9, start_s=draw.uniform(0, 1e-4))
        for k in range(senders)
    ]
    model = Model(
        congestion=CongestionControl(form=Form.OFF),
        transport=WIRE,
        switch=SwitchModel(buffer_bytes=4 << 20, alpha=alpha),
    )
    sim = Simulation(topology.with_cables(longer), model, traffic_of_flows(flows), seed=2)
    rows = []
    for window in range(windows + 1):
        sim.run(2e-3 + window * window_s)
        sent = int(port_table(sim)["tx_bytes"][0])
        rows.append((paused_ps(sim)[0].sum() * 1e-12, sent * 8 / LINK))
    stalled, sending = np.diff(np.array(rows), axis=0).T / window_s
    return _holds(incast_degree(stalled, sending), senders)


def burst_draws(senders: int, windows: int = 40, spacing_s: float = 500e-6) -> tuple[int, int]:
    """Bursts of random size from k senders at once; the queue's peak and the bytes per window."""
    draw = np.random.default_rng(senders)
    count = DRAWS_EACH * windows
    mean = 400e3
    sizes = np.minimum(draw.exponential(mean, count), 5 * mean)
    truth = mean * (1 - np.exp(-5))  # of the exponential cut at five means
    flows = [
        Flow(src=k, dst=senders, size_bytes=max(1, round(size / senders)), start_s=i * spacing_s)
        for i, size in enumerate(sizes)
        for k in range(senders)
    ]
    model = Model(
        congestion=CongestionControl(form=Form.OFF),
        transport=WIRE,
        switch=SwitchModel(buffer_bytes=64 << 20, alpha=8.0),
    )
    topology = star(senders + 1, rate_bps=LINK, delay_s=DELAY_S)
    sim = Simulation(topology, model, traffic_of_flows(flows), seed=1)
    port = 2 * senders + 1
    sim.watch([(port, 3)], 1e-6, count * spacing_s + 1e-3)
    sent = []
    for window in range(count + 1):
        sim.run(max(1e-9, window * spacing_s))
        sent.append(port_table(sim)["tx_bytes"][port])
    queue = sim.samples()[: round(count * spacing_s / 1e-6), 0].reshape(count, -1)
    peaks = queue.max(axis=1).astype(np.float64)
    rates = np.diff(np.array(sent, dtype=np.float64)) * 8 / spacing_s
    hits = loads = 0
    for at in range(0, count, windows):
        hits += _holds(burst_size(peaks[at : at + windows], senders), truth)
        load = offered_load(rates[at : at + windows], LINK)
        loads += _holds(load, truth * 8 / spacing_s / LINK)
    return hits, loads
