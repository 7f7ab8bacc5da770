"""What must hold in every run: determinism, conservation, losslessness, time scaling."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.model.dcqcn import profile
from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.compat import hpcc_model
from simlab.packet.parameters import CongestionControl, EcnAt, Form, Model, SwitchModel, Transport
from simlab.packet.results import (
    flow_table,
    group_words,
    message_rows,
    port_table,
    qp_rows,
    qp_total,
    queue_words,
    summary,
)
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, leaf_spine, star
from simlab.packet.workloads import Flow, incast, permutation, traffic_of_flows

ECN = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(20e3, 80e3, 0.2)),)
MODEL = hpcc_model(profile("hpcc", 100e9), ECN, buffer_mib=2, truncate_ns=False)
SMALL = Transport(payload_bytes=1000, header_bytes=48, ack_bytes=60, control_bytes=64)


def outcome(sim: Simulation) -> tuple:
    flows = flow_table(sim)["fct_s"].tolist()
    total = summary(sim)
    return flows, total.events, total.link_packets, total.ecn_marked, total.cuts


def test_same_seed_same_result_other_seed_other_result():
    runs = []
    for seed in (1, 1, 2):
        sim = Simulation(star(5), MODEL, incast(range(4), 4, 400_000), seed=seed)
        sim.run(1.0, stop_when_done=True)
        runs.append(outcome(sim))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert runs[0][3] > 100


def test_stopping_in_between_changes_nothing():
    whole = Simulation(star(5), MODEL, incast(range(4), 4, 400_000))
    whole.run(200e-6)
    parts = Simulation(star(5), MODEL, incast(range(4), 4, 400_000))
    for step in range(1, 201):
        parts.run(step * 1e-6)
    assert (whole.s == parts.s).all()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 6), st.integers(1, 60_000), st.integers(0, 20)),
        min_size=1,
        max_size=12,
    ),
    buffer=st.sampled_from([300 << 10, 600 << 10, 4 << 20]),
)
def test_every_byte_arrives_once_and_every_queue_empties(pairs, buffer):
    topology = leaf_spine(2, 2, 4)
    flows = [
        Flow(src=src, dst=dst if dst < src else dst + 1, size_bytes=size, start_s=start * 1e-6)
        for src, dst, size, start in pairs
    ]
    model = replace(MODEL, switch=replace(MODEL.switch, buffer_bytes=buffer, headroom_bytes=40_000))
    sim = Simulation(topology, model, traffic_of_flows(flows))
    assert sim.run(1.0, stop_when_done=True)
    sim.run(sim.now_s + 100e-6)
    ports = port_table(sim)
    assert (ports["rx_bytes"].reshape(-1, 2)[:, ::-1].ravel() == ports["tx_bytes"]).all()
    packets = sum(-(-flow.size_bytes // 1000) for flow in flows)
    wire = sum(flow.size_bytes for flow in flows) + 48 * packets
    assert qp_total(sim, "rx_bytes") == wire
    assert qp_total(sim, "tx_packets") == packets
    assert summary(sim).drops == 0
    assert (queue_words(sim, at.QUEUE_BYTES) == 0).all()
    assert (group_words(sim, at.GROUP_BYTES) == 0).all()
    assert (group_words(sim, at.GROUP_HEADROOM_USED) == 0).all()
    assert sim.word(at.PACKETS_ALIVE) == 0
    assert (qp_rows(sim)[:, at.QP_ALIVE] == 0).all()
    for index in range(len(topology.switches)):
        row = sim.state.switches + index * at.SWITCH_WORDS
        assert sim.word(row + at.SWITCH_USED) == 0
        assert sim.word(row + at.SWITCH_EGRESS_USED) == 0


def lossless_incast(headroom: int, *, form: Form = Form.OFF) -> Simulation:
    model = Model(
        transport=SMALL,
        congestion=CongestionControl(form=form),
        switch=SwitchModel(buffer_bytes=400_000, headroom_bytes=headroom, reserved_bytes=0),
    )
    sim = Simulation(star(9), model, incast(range(8), 8, 300_000))
    sim.run(0.01, stop_when_done=True)
    return sim


def test_enough_headroom_never_drops_and_too_little_does():
    # In flight when the pause is sent: 2 µs of wire each way and a packet at either end.
    enough = lossless_incast(2 * 12_500 + 3 * 1048)
    assert enough.done
    assert summary(enough).drops == 0
    assert summary(enough).pause_frames > 8
    assert group_words(enough, at.GROUP_HEADROOM_MAX).max() > 20_000
    short = lossless_incast(10_000)
    assert summary(short).drops > 0
    assert qp_total(short, "out_of_sequence") > 0
    assert short.done  # go-back-N brings everything through all the same


def test_a_pause_is_obeyed_within_one_packet_and_one_wire():
    sim = lossless_incast(40_000)
    most = group_words(sim, at.GROUP_HEADROOM_MAX).max()
    assert most <= 2 * 12_500 + 3 * 1048


@pytest.mark.parametrize("factor", [2, 5])
def test_slower_links_and_longer_cables_scale_every_time_alike(factor):
    def run(slower: int) -> np.ndarray:
        topology = star(5)
        cables = tuple(
            Cable(c.a, c.b, c.rate_bps / slower, c.delay_s * slower) for c in topology.cables
        )
        dcqcn = profile("hpcc", 100e9)
        scaled = replace(
            dcqcn,
            alpha_period_s=dcqcn.alpha_period_s * slower,
            cut_window_s=dcqcn.cut_window_s * slower,
            increase_timer_s=dcqcn.increase_timer_s * slower,
            ai_bps=dcqcn.ai_bps / slower,
            hai_bps=dcqcn.hai_bps / slower,
            min_rate_bps=dcqcn.min_rate_bps / slower,
        )
        ecn = (EcnAt(rate_bps=100e9 / slower, thresholds=ECN[0].thresholds),)
        model = hpcc_model(scaled, ecn, buffer_mib=2, truncate_ns=False)
        model = replace(model, congestion=replace(model.congestion, monitor_offset_s=1e-9 * slower))
        sim = Simulation(replace(topology, cables=cables), model, incast(range(4), 4, 300_000))
        assert sim.run(1.0, stop_when_done=True)
        assert summary(sim).cuts > 20
        return message_rows(sim)[:, at.MSG_ACKED_TIME]

    slow, fast = run(factor), run(1)
    # Rates are whole bit/s, so gaps may round differently by parts in 10^9.
    assert slow == pytest.approx(fast * factor, rel=1e-6)


def test_a_permutation_without_conflicts_loses_only_the_room_of_the_acks():
    sim = Simulation(star(8), Model(transport=SMALL), permutation(range(8), 200_000, shift=3))
    assert sim.run(1.0, stop_when_done=True)
    slowdown = flow_table(sim)["slowdown"]
    # Each wire carries 60 B of ACK per 1048 B of data, except in the first and last round trip.
    assert slowdown.max() < 1 + 60 / 1048
    assert slowdown.min() > 1.03
    assert summary(sim).ecn_marked == summary(sim).pause_frames == 0
