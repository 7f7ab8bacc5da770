"""Scale, InfiniBand against closed forms, and recovery of firmware DCQCN at 400G."""

from __future__ import annotations

import resource
from dataclasses import replace

import numpy as np
from packet_parts.reference import HERE
from packet_parts.report import Report

from collectors.model.dcqcn import NVIDIA_FIRMWARE, DcqcnParameters
from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.collectives import Collective, Kind, collective
from simlab.packet.parameters import (
    CongestionControl,
    EcnAt,
    Form,
    InfinibandLink,
    Model,
    SwitchModel,
    Transport,
)
from simlab.packet.plots import plot_curves
from simlab.packet.results import iteration_times, port_rows, qp_table
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Topology, fat_tree, leaf_spine, star
from simlab.packet.workloads import Flow, incast, traffic_of_flows

PLOT = HERE.parents[2] / ".cache/bench/packet_recovery_400g.svg"
SMALL_WIRE = Transport(
    payload_bytes=1000, header_bytes=48, ack_bytes=60, control_bytes=64, rto_s=0.0
)
OFF = CongestionControl(form=Form.OFF)


def _ring(fabric: Topology, size: int, iterations: int) -> Simulation:
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(400e3, 1600e3, 0.2)),)
    model = Model(congestion=CongestionControl(dcqcn=NVIDIA_FIRMWARE), switch=SwitchModel(ecn=ecn))
    what = Collective(
        kind=Kind.ALL_REDUCE, ranks=fabric.hosts, size_bytes=size, qps=4, iterations=iterations
    )
    return Simulation(fabric, model, collective(what))


class _Cost:
    """CPU time and packets of one fabric, summed over rounds."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.link = self.data = 0
        self.rounds: list[float] = []  # ns per link packet

    def add(self, cpu_s: float, link: int, data: int) -> None:
        self.cpu_s += cpu_s
        self.link += link
        self.data += data
        self.rounds.append(cpu_s * 1e9 / link)

    @property
    def per_link_packet(self) -> float:
        """CPU ns per packet transmission."""
        return self.cpu_s * 1e9 / self.link

    @property
    def per_data_packet(self) -> float:
        """CPU ns per data packet sent by a host."""
        return self.cpu_s * 1e9 / self.data

    @property
    def spread(self) -> str:
        return f"{min(self.rounds):.0f} .. {max(self.rounds):.0f}"


def _run(sim: Simulation, until_s: float, cost: _Cost) -> None:
    cpu_s, link, data = sim.cpu_s, sim.link_packets, _data_packets(sim)
    sim.run(until_s, stop_when_done=True)
    cost.add(sim.cpu_s - cpu_s, sim.link_packets - link, _data_packets(sim) - data)


def _data_packets(sim: Simulation) -> int:
    return int(qp_table(sim)["tx_packets"].sum())


def scale(report: Report) -> None:
    """64 MB ring AllReduce over 1,024 hosts, and the cost per packet beside 16 hosts.

    In the large fabric 7 of 8 ring steps stay at one leaf, in a 16-host fat tree 1 of 2: the cost
    per link packet is compared with 16 hosts of which as many stay, two leaves of eight. After each
    simulated millisecond of the large fabric the small ones run once, so that all have the same
    neighbours on the machine; the cost is CPU time over packets of all rounds.
    """
    report.title("scale: ring AllReduce, 4 QPs, messages of 15.6 KB")
    tiers, alike, many = _Cost(), _Cost(), _Cost()
    small = [
        (_ring(fabric, 1_000_000, 20), cost)  # same message size as 64 MB over 1,024 ranks
        for fabric, cost in ((fat_tree(4), tiers), (leaf_spine(2, 8, 8), alike))
    ]
    large = _ring(fat_tree(16), 64_000_000, 1)
    _run(small[0][0].reseeded(1), 1e-3, _Cost())  # compiles
    for millisecond in range(1, 1001):
        report.progress(f"1,024 hosts, {millisecond} ms")
        _run(large, millisecond * 1e-3, many)
        for fresh, cost in small:
            _run(fresh.reseeded(millisecond), 1.0, cost)
        if large.done:
            break
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report.line(
        f"  1,024 hosts: {large.link_packets / 1e6:.1f} M link packets, {large.cpu_s:.1f} CPU s, "
        f"{large.wall_s:.1f} s wall, {memory:.0f} MB, step {iteration_times(large)[0] * 1e3:.3f} ms"
    )
    for name, cost in (
        ("16 hosts, three tiers", tiers),
        ("16 hosts, two leaves of eight", alike),
        ("1,024 hosts, three tiers", many),
    ):
        report.line(
            f"  {name:30} {cost.per_link_packet:6.1f} ns per link packet ({cost.spread}), "
            f"{cost.per_data_packet:6.1f} ns per data packet "
            f"({cost.link / cost.data:.2f} link packets each)"
        )
    report.check("1,024 hosts finish", int(large.done), 1, ">=", "")
    report.check(
        "CPU per link packet, 1,024 hosts over 16 with the same share of local traffic",
        many.per_link_packet / alike.per_link_packet, 2.0, "<=", "x", ours=many.per_link_packet,
        reference=alike.per_link_packet, spread=many.spread,
    )  # fmt: skip
    report.check(
        "CPU per data packet delivered, 1,024 hosts over 16 in three tiers",
        many.per_data_packet / tiers.per_data_packet, 2.0, "<=", "x", ours=many.per_data_packet,
        reference=tiers.per_data_packet,
    )  # fmt: skip


def infiniband(report: Report) -> None:
    """Credits, stalls and CCT against closed forms."""
    report.title("InfiniBand mode against closed forms")
    credit = 8 * 1048
    tight = Model(
        transport=SMALL_WIRE, congestion=OFF, infiniband=InfinibandLink(credits_bytes=credit)
    )
    sim = Simulation(star(2), tight, traffic_of_flows([Flow(src=0, dst=1, size_bytes=2_000_000)]))
    sim.run(0.01, stop_when_done=True)
    # One packet time, two propagations, one credit update: the switch frees on dequeue.
    rtt = 2e-6 + 83.84e-9 + 64 * 0.08e-9
    ours, exact = 2000 * 1048 * 8 / sim.now_s / 1e9, credit * 8 / rtt / 1e9
    report.check(
        "credit-bound throughput", abs(ours / exact - 1), 0.02, "<=", "relative", ours=ours,
        reference=exact,
    )  # fmt: skip
    deep = replace(tight, infiniband=InfinibandLink(credits_bytes=64 * 1024))
    for k in (2, 4, 8):
        sim = Simulation(star(k + 1), deep, incast(range(k), k, 50_000_000))
        sim.run(100e-6)
        before = port_rows(sim)[: 2 * k : 2, at.PORT_WAIT].copy()
        sim.run(1100e-6)
        share = float((port_rows(sim)[: 2 * k : 2, at.PORT_WAIT] - before).mean() / 1e9)
        report.check(
            f"stall share at {k}-to-1", abs(share - (1 - 1 / k)), 0.05, "<=", "", ours=share,
            reference=1 - 1 / k,
        )  # fmt: skip
    table = tuple(0.5 * i for i in range(8))
    for entry in (1, 4, 7):
        control = CongestionControl(
            form=Form.INFINIBAND, cct=table[: entry + 1], ccti_increase=entry, ccti_min=entry
        )
        marking = InfinibandLink(credits_bytes=1 << 20, threshold_bytes=1)
        model = replace(deep, congestion=control, infiniband=marking)
        sim = Simulation(star(3), model, incast([0, 1], 2, 50_000_000))
        sim.run(100e-6)
        start = qp_table(sim)["tx_packets"].copy()
        sim.run(300e-6)
        sent = float((qp_table(sim)["tx_packets"] - start).mean())
        delay = 200e-6 / sent / 83.84e-9 - 1
        report.check(
            f"CCT entry {entry}, delay in packet times", abs(delay - table[entry]), 0.05, "<=",
            "", ours=delay, reference=table[entry],
        )  # fmt: skip


def _regain(dcqcn: DcqcnParameters, seconds: float) -> tuple[list[float], list[float], list[float]]:
    """Pull one 400G sender's target far down by a burst of others, then watch it come back."""
    ecn = (EcnAt(rate_bps=400e9, thresholds=EcnThresholds(1600e3, 6400e3, 0.2)),)
    model = Model(
        congestion=CongestionControl(form=Form.FIRMWARE, dcqcn=dcqcn),
        switch=SwitchModel(buffer_bytes=128 << 20, ecn=ecn),
    )
    flows = [Flow(src=0, dst=2, size_bytes=4_000_000_000)]
    flows += [Flow(src=1, dst=2, size_bytes=60_000_000, start_s=i * 2e-3) for i in range(3)]
    sim = Simulation(star(3, rate_bps=400e9), model, traffic_of_flows(flows, reuse=False))
    times, rates, targets = [], [], []
    for step in range(1, 401):
        sim.run(seconds * step / 400)
        table = qp_table(sim)
        times.append(sim.now_s)
        rates.append(float(table["rate_bps"][0]))
        targets.append(float(table["target_bps"][0]))
    return times, rates, targets


def recovery(report: Report) -> None:
    """Default AI and HAI at 400G against the slow recovery of science.md 1.1; then scaled."""
    report.title("firmware DCQCN at 400G: how fast the target rate comes back")
    seconds = 0.04
    plain = replace(NVIDIA_FIRMWARE, byte_counter_bytes=None, cnp_interval_s=4e-6)
    scaled = plain.scaled_rates(80)  # AI 400 Mb/s, HAI 4 Gb/s
    curves = []
    slopes = {}
    for name, dcqcn in (("AI 5 / HAI 50 Mb/s", plain), ("AI 400 / HAI 4000 Mb/s", scaled)):
        times, rates, targets = _regain(dcqcn, seconds)
        curves.append((name, np.array(times) * 1e3, np.array(rates) / 1e9))
        late = len(targets) // 2
        low = min(targets)
        slope = max(0.0, (targets[-1] - targets[late]) / (times[-1] - times[late]))
        slopes[name] = slope
        report.line(
            f"  {name}: target least {low / 1e9:.1f} Gb/s, at {seconds * 1e3:.0f} ms "
            f"{targets[-1] / 1e9:.1f}, rate {rates[-1] / 1e9:.1f} Gb/s; "
            f"second half {slope / 1e9:.2f} Gb/s per s"
        )
    hyper = plain.hai_bps / plain.increase_timer_s
    slow = slopes["AI 5 / HAI 50 Mb/s"]
    report.check(
        "regain with default HAI, Gb/s per second", abs(slow / hyper - 1), 0.1, "<=", "relative",
        ours=slow / 1e9, reference=hyper / 1e9,
    )  # fmt: skip
    report.line(
        f"  200 Gb/s at this pace: {200e9 / max(slow, 1):.2f} s (science.md 2.2: about 1.2 s with "
        f"HAI, {200e9 / (plain.ai_bps / plain.increase_timer_s):.0f} s with AI alone)"
    )
    full = float(curves[1][2][-1])
    report.check("rate after 40 ms with AI and HAI x 80", full, 380, ">=", "Gb/s")
    path = plot_curves(curves, PLOT, xlabel="time (ms)", ylabel="rate of the long flow (Gb/s)")
    report.note(f"plot: {path.relative_to(HERE.parents[2])}")
