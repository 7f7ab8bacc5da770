"""Loss recovery, receiver not ready, coalesced ACKs, reaction points: against arithmetic."""

from dataclasses import replace

import numpy as np
import pytest

from collectors.model.dcqcn import PAPER, DcqcnParameters
from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.interventions import Intervention, What, run_with_events
from simlab.packet.parameters import (
    Balancing,
    CnpMode,
    CongestionControl,
    EcnAt,
    Form,
    HostModel,
    Model,
    Spread,
    SwitchModel,
)
from simlab.packet.results import flow_table, port_table, qp_rows, qp_table, qp_total, summary
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, Topology, leaf_spine, star
from simlab.packet.traffic import Traffic
from simlab.packet.workloads import Flow, incast, permutation, traffic_of_flows
from tests.simlab.packet import bare
from tests.simlab.packet.bare import OFF

WIRE = replace(bare.WIRE, rto_s=100e-6, nak_interval_s=20e-6)
MODEL = replace(bare.MODEL, transport=WIRE)
BIG = SwitchModel(buffer_bytes=64 << 20)


def lossy(rate: float) -> Topology:
    cables = star(2).cables
    return replace(star(2), cables=(replace(cables[0], error_rate=rate), cables[1]))


def alone(size: int) -> Traffic:
    return traffic_of_flows([Flow(src=0, dst=1, size_bytes=size)], reuse=False)


def one_flow(model: Model, topology: Topology, size: int = 200_000) -> Simulation:
    sim = Simulation(topology, model, alone(size))
    assert sim.run(1.0, stop_when_done=True)
    return sim


def test_go_back_n_resends_from_the_loss_on_and_selective_repeat_only_the_loss():
    window = replace(WIRE, selective_repeat=True, window_packets=128)
    again = {}
    for name, wire in (("go back", WIRE), ("selective", window)):
        sim = one_flow(replace(MODEL, transport=wire), lossy(0.02))
        row = {key: int(column[0]) for key, column in qp_table(sim).items()}
        lost = int(port_table(sim)["lost"].sum())
        assert lost > 0
        assert row["received_packets"] == 200
        assert row["tx_packets"] == 200 + row["retransmitted"] or name == "go back"
        assert row["naks"] > 0
        again[name] = row["tx_packets"] - 200
    assert again["selective"] < 12
    assert again["go back"] > 3 * again["selective"]


def test_selective_repeat_without_a_window_keeps_track_of_every_packet():
    sim = one_flow(replace(MODEL, transport=replace(WIRE, selective_repeat=True)), lossy(0.02))
    table = qp_table(sim)
    assert table["received_packets"][0] == 200
    assert table["retransmitted"][0] < 12
    assert table["timeouts"][0] == 0


def test_a_lost_last_packet_costs_one_timeout():
    topology = star(2)
    sim = Simulation(topology, MODEL, alone(1000))
    down = Intervention(at_s=0.0, what=What.LINK_DOWN, cable=0, value=-1)
    up = Intervention(at_s=50e-6, what=What.LINK_UP, cable=0)
    assert run_with_events(sim, 1.0, [down, up], stop_when_done=True)
    assert qp_table(sim)["timeouts"].tolist() == [1]
    base = 2 * 83.84e-9 + 2 * 4.8e-9 + 4e-6
    assert flow_table(sim)["fct_s"][0] == pytest.approx(100e-6 + base, abs=1e-9)


def test_retries_run_out_and_the_qp_stops():
    model = replace(MODEL, transport=replace(WIRE, retry_limit=3))
    sim = Simulation(star(2), model, alone(9000))
    down = Intervention(at_s=0.0, what=What.LINK_DOWN, cable=1, value=-1)
    assert not run_with_events(sim, 0.01, [down], stop_when_done=True)
    assert qp_rows(sim)[0, at.QP_ERROR] == 1
    assert qp_table(sim)["timeouts"].tolist() == [4]
    assert qp_table(sim)["tx_packets"].tolist() == [9 * 4]


def test_a_receiver_without_requests_answers_rnr_until_one_is_posted():
    host = HostModel(receive_requests=1, receive_interval_s=50e-6)
    model = replace(MODEL, host=host, transport=replace(WIRE, rnr_delay_s=10e-6))
    traffic = alone(1000)
    two = replace(traffic, messages=(*traffic.messages, *traffic.messages))
    sim = Simulation(star(2), model, two)
    assert sim.run(1.0, stop_when_done=True)
    rnr = int(qp_table(sim)["rnr_naks"][0])
    assert rnr == 4  # about every 10 µs + RTT until the second request exists at 50 µs
    assert flow_table(sim)["fct_s"].max() == pytest.approx(58e-6, abs=5e-6)


def test_coalesced_acks_are_one_in_n_and_one_at_the_end():
    sim = one_flow(replace(MODEL, transport=replace(WIRE, ack_every=8)), star(2), size=20_500)
    acks = port_table(sim)["tx_packets"][2]
    assert acks == 3  # after 8, 16 and the last one, 21
    assert summary(sim).messages_done == 1


def test_a_window_keeps_that_many_packets_in_flight():
    sim = one_flow(replace(MODEL, transport=replace(WIRE, window_packets=4)), star(2), size=40_000)
    rtt = 2 * 83.84e-9 + 4e-6 + 2 * 4.8e-9
    expected = 9 * rtt + 3 * 83.84e-9 + rtt
    assert flow_table(sim)["fct_s"][0] == pytest.approx(expected, rel=0.03)


def ecn(kmin: float, kmax: float, pmax: float = 1.0) -> tuple[EcnAt, ...]:
    return (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(kmin, kmax, pmax)),)


def congested(control: CongestionControl, *, until: float = 300e-6, senders: int = 2) -> Simulation:
    """Some senders into one port that marks everything beyond three packets."""
    model = Model(transport=WIRE, congestion=control, switch=replace(BIG, ecn=ecn(3000, 3000)))
    sim = Simulation(star(senders + 1), model, incast(range(senders), senders, 10_000_000))
    sim.run(until)
    return sim


QUIET = DcqcnParameters(
    g=1 / 16, alpha_period_s=1.0, cut_window_s=1.0, increase_timer_s=1.0, byte_counter_bytes=None,
    recovery_stages=1, ai_bps=1e9, hai_bps=10e9, initial_alpha=0.5, cnp_interval_s=1.0,
)  # fmt: skip


def test_one_cnp_per_interval_and_qp_or_port():
    per_qp = CongestionControl(form=Form.OFF, dcqcn=replace(QUIET, cnp_interval_s=50e-6))
    counts = {}
    for mode in (CnpMode.PER_QP, CnpMode.PER_PORT):
        sim = congested(replace(per_qp, cnp_mode=mode), until=299e-6)
        counts[mode] = qp_total(sim, "cnp_sent")
        assert qp_total(sim, "cnp_handled") in (counts[mode], counts[mode] - 1, counts[mode] - 2)
        assert sim.word(at.CNP_SENT_TOTAL) == counts[mode]
    assert counts[CnpMode.PER_QP] == 12
    assert counts[CnpMode.PER_PORT] == 6


def test_the_first_cnp_cuts_by_half_of_alpha_in_the_paper_form():
    sim = congested(CongestionControl(form=Form.PAPER, dcqcn=QUIET))
    rows = qp_rows(sim)
    assert rows[:, at.QP_CUTS].tolist() == [1, 1]
    assert rows[:, at.QP_RATE].tolist() == [75_000_000_000] * 2
    assert rows[:, at.QP_TARGET].tolist() == [100_000_000_000] * 2
    alpha = sim.f[rows[:, at.QP_FLOAT]]
    assert alpha == pytest.approx(0.5 * 15 / 16 + 1 / 16)


def test_the_firmware_form_cuts_once_per_window_with_floors():
    windowed = replace(
        QUIET, cut_window_s=40e-6, alpha_period_s=10e-6, cnp_interval_s=0.0, initial_alpha=1.0,
        min_decrease_ratio=0.6, min_rate_bps=30e9, g=0.0,
    )  # fmt: skip
    sim = congested(CongestionControl(form=Form.FIRMWARE, dcqcn=windowed), until=60e-6)
    rows = qp_rows(sim)
    assert rows[:, at.QP_CUTS].tolist() == [1, 1]
    assert rows[:, at.QP_RATE].tolist() == [60_000_000_000] * 2
    later = congested(CongestionControl(form=Form.FIRMWARE, dcqcn=windowed), until=100e-6)
    assert qp_rows(later)[:, at.QP_RATE].tolist() == [36_000_000_000] * 2
    last = congested(CongestionControl(form=Form.FIRMWARE, dcqcn=windowed), until=140e-6)
    assert qp_rows(last)[:, at.QP_RATE].min() == 30_000_000_000


def test_an_increase_that_falls_on_a_cut_comes_before_it():
    dcqcn = replace(
        QUIET, cut_window_s=40e-6, increase_timer_s=40e-6, cnp_interval_s=0.0, initial_alpha=1.0,
        g=0.0, clamp_target=False,
    )  # fmt: skip
    rows = qp_rows(congested(CongestionControl(form=Form.FIRMWARE, dcqcn=dcqcn), until=100e-6))
    # 100 -> 50 Gb/s; 40 µs later the timer, planned first, gives 75, and the next cut half of it
    assert rows[:, at.QP_RATE].tolist() == [37_500_000_000] * 2
    assert rows[:, at.QP_TARGET].tolist() == [75_000_000_000] * 2
    assert rows[:, at.QP_INCREASES].tolist() == [1, 1]


def test_alpha_decays_once_per_period_without_marks():
    decaying = replace(QUIET, alpha_period_s=20e-6, cut_window_s=200e-6, initial_alpha=1.0)
    sim = congested(CongestionControl(form=Form.FIRMWARE, dcqcn=decaying), until=280e-6)
    rows = qp_rows(sim)
    # One CNP in all: at the cut, 200 µs later, alpha has decayed in ten periods.
    expected = 100e9 * (1 - (15 / 16) ** 10 / 2)
    assert rows[0, at.QP_RATE] == pytest.approx(expected, rel=1e-9)


def test_recovery_goes_halfway_then_adds_then_hurries():
    growing = replace(QUIET, increase_timer_s=50e-6, initial_alpha=1.0)
    control = CongestionControl(form=Form.PAPER, dcqcn=growing)
    first = congested(control, until=3e-6)
    assert qp_rows(first)[:, at.QP_CUTS].max() == 0
    seen = []
    for until in (40e-6, 80e-6, 130e-6, 180e-6, 230e-6):
        rows = qp_rows(congested(control, until=until))
        seen.append((int(rows[0, at.QP_RATE]), int(rows[0, at.QP_TARGET])))
    # after the cut to 50G: fast recovery to 75, then AI (target capped at the line rate)
    assert [rate / 1e9 for rate, _ in seen] == [50, 75, 87.5, 93.75, 96.875]
    assert {target / 1e9 for _, target in seen} == {100}


def test_the_byte_counter_alone_drives_recovery():
    counting = replace(QUIET, byte_counter_bytes=50 * 1048, initial_alpha=1.0, recovery_stages=2)
    sim = congested(CongestionControl(form=Form.PAPER, dcqcn=counting), until=30e-6)
    row = qp_rows(sim)[0]
    assert row[at.QP_STAGE_B] == row[at.QP_INCREASES] > 1
    assert row[at.QP_STAGE_T] == 0


def test_a_rate_for_the_first_cnp_and_a_clamped_target():
    first = replace(QUIET, first_cnp_rate_bps=20e9, initial_alpha=0.0, clamp_target=False)
    rows = qp_rows(congested(CongestionControl(form=Form.PAPER, dcqcn=first)))
    assert rows[:, at.QP_RATE].tolist() == [20_000_000_000] * 2
    assert rows[:, at.QP_TARGET].tolist() == [20_000_000_000] * 2
    twice = replace(QUIET, cnp_interval_s=100e-6, clamp_target=False, initial_alpha=1.0, g=0.0)
    loose = qp_rows(congested(CongestionControl(form=Form.PAPER, dcqcn=twice), until=250e-6))
    assert loose[0, at.QP_TARGET] == 100_000_000_000
    clamped = replace(twice, clamp_target=True)
    tight = qp_rows(congested(CongestionControl(form=Form.PAPER, dcqcn=clamped), until=250e-6))
    assert tight[0, at.QP_TARGET] < 100_000_000_000
    assert loose[0, at.QP_RATE] == tight[0, at.QP_RATE] < 50_000_000_000 + 1


def test_dcqcn_holds_the_queue_that_no_control_lets_grow():
    paper = CongestionControl(form=Form.PAPER, dcqcn=PAPER)
    kept = congested(paper, until=3e-3, senders=4)
    free = congested(OFF, until=3e-3, senders=4)
    late_kept = int(port_table(kept)["tx_bytes"][9])
    assert late_kept < int(port_table(free)["tx_bytes"][9])
    queue = at.PORT_QUEUES + 3 * at.QUEUE_WORDS + at.QUEUE_BYTES
    assert kept.word(kept.port_row(9) + queue) < free.word(free.port_row(9) + queue) / 10


@pytest.mark.parametrize("spread", [Spread.SPRAY, Spread.LEAST_QUEUE, Spread.FLOWLET])
def test_packets_of_one_flow_spread_over_the_spines(spread):
    fabric = leaf_spine(2, 4, 1, rate_bps=100e9, fabric_bps=50e9)
    wire = replace(WIRE, selective_repeat=True, window_packets=256, reorder_tolerant=True)
    gap = 1e-9 if spread is Spread.FLOWLET else 1.0
    model = Model(
        transport=wire, congestion=OFF, balancing=Balancing(spread=spread, flowlet_gap_s=gap)
    )
    sim = one_flow(model, fabric, size=400_000)
    ports = port_table(sim)
    up = [p for p in sim.topology.ports_of()[2] if sim.topology.peer(p) > 3]
    assert all(ports["tx_packets"][p] > 40 for p in up)
    assert qp_total(sim, "retransmitted") == 0
    lasting = replace(model, balancing=Balancing(spread=Spread.FLOWLET, flowlet_gap_s=1.0))
    kept = port_table(one_flow(lasting, fabric, size=400_000))
    assert sorted(kept["tx_packets"][p] > 40 for p in up) == [False, False, False, True]


def test_reordering_is_a_storm_of_naks_for_a_nic_that_expects_order():
    fabric = leaf_spine(2, 4, 2, fabric_bps=50e9)
    model = replace(MODEL, balancing=Balancing(spread=Spread.SPRAY))
    sim = Simulation(fabric, model, permutation(range(4), 200_000, shift=2))
    sim.run(1e-3, stop_when_done=True)
    assert qp_total(sim, "out_of_sequence") > 20
    assert summary(sim).drops == 0


def test_routing_leaves_a_dead_link_after_its_delay():
    fabric = leaf_spine(2, 2, 1)
    sim = Simulation(fabric, MODEL, alone(400_000))
    used = sim.state.paths[0][0][0] // 2
    down = Intervention(at_s=5e-6, what=What.LINK_DOWN, cable=used, value=30e-6)
    assert run_with_events(sim, 0.01, [down], stop_when_done=True)
    assert sim.state.paths[0][0][0] // 2 != used
    assert port_table(sim)["lost"].sum() > 100
    assert flow_table(sim)["fct_s"][0] > 35e-6 + 300 * 83e-9


def test_a_slower_cable_and_a_lossy_one():
    sim = Simulation(star(2), MODEL, alone(100_000))
    slow = Intervention(at_s=0.0, what=What.RATE, cable=0, value=30e9)
    assert run_with_events(sim, 0.01, [slow], stop_when_done=True)
    # The first packet was on its way before the change.
    exact = 99 * 1048 * 8 / 30e9 + 2 * 83.84e-9 + 4e-6 + 60 * 8 / 30e9 + 4.8e-9
    assert flow_table(sim)["fct_s"][0] == pytest.approx(exact, abs=1e-11)
    other = Simulation(star(2), MODEL, alone(100_000))
    bad = Intervention(at_s=0.0, what=What.ERROR_RATE, cable=0, value=0.05)
    assert run_with_events(other, 0.1, [bad], stop_when_done=True)
    assert port_table(other)["lost"].sum() > 0
    assert np.isfinite(flow_table(other)["fct_s"]).all()


def test_cables_of_different_length_only_shift_the_flow():
    cables = (Cable(0, 2, 100e9, 1e-6), Cable(1, 2, 100e9, 5e-6))
    sim = one_flow(MODEL, Topology(3, (2,), cables), size=1000)
    assert flow_table(sim)["fct_s"][0] == pytest.approx(12e-6 + 2 * (83.84e-9 + 4.8e-9), abs=1e-12)


def test_flows_one_after_the_other_use_one_slot_and_lose_no_count():
    flows = [Flow(src=0, dst=1, size_bytes=2500, start_s=i * 20e-6) for i in range(6)]
    sim = Simulation(star(2), MODEL, traffic_of_flows(flows))
    assert sim.run(1.0, stop_when_done=True)
    rows = qp_rows(sim)
    assert (rows[:, at.QP_PORT] > 0).sum() == 1
    assert rows[:, at.QP_ACTIVE].sum() == 0
    assert qp_total(sim, "tx_packets") == 6 * 3
    assert qp_total(sim, "rx_bytes") == 6 * (2500 + 3 * 48)
    overlapping = [replace(flow, start_s=0.0) for flow in flows]
    many = Simulation(star(2), MODEL, traffic_of_flows(overlapping))
    assert many.run(1.0, stop_when_done=True)
    assert (qp_rows(many)[:, at.QP_PORT] > 0).sum() == 6


def test_after_cnps_and_losses_nothing_is_left_in_the_fabric():
    control = CongestionControl(form=Form.PAPER, dcqcn=replace(QUIET, cnp_interval_s=5e-6))
    model = Model(transport=WIRE, congestion=control, switch=replace(BIG, ecn=ecn(3000, 3000)))
    sim = Simulation(star(4), model, incast(range(3), 3, 60_000))
    bad = Intervention(at_s=1e-6, what=What.ERROR_RATE, cable=1, value=0.03)
    assert run_with_events(sim, 0.1, [bad], stop_when_done=True)
    sim.run(sim.now_s + 1e-3)
    assert qp_total(sim, "cnp_sent") > 3
    assert port_table(sim)["lost"].sum() > 0
    assert (qp_rows(sim)[:, at.QP_ALIVE] == 0).all()
    assert sim.word(at.PACKETS_ALIVE) == 0


@pytest.mark.parametrize("clamp", [False, True])
def test_the_target_is_clamped_after_a_timer_increase_only_where_set(clamp):
    dcqcn = replace(
        QUIET, cnp_interval_s=80e-6, clamp_target=False, clamp_target_after_timer=clamp,
        increase_timer_s=50e-6, initial_alpha=1.0, g=0.0, ai_bps=1.0,
    )  # fmt: skip
    control = CongestionControl(form=Form.PAPER, dcqcn=dcqcn)
    first = qp_rows(congested(control, until=40e-6))[0]
    assert (first[at.QP_CUTS], first[at.QP_TARGET]) == (1, 100_000_000_000)
    rows = qp_rows(congested(control, until=99e-6))[0]
    assert rows[at.QP_CUTS] == 2
    # 50 -> 75 Gb/s by the timer, and half of that at the second CNP
    assert rows[at.QP_RATE] == 37_500_000_000
    assert rows[at.QP_TARGET] == (75_000_000_000 if clamp else 100_000_000_000)


def test_hyper_increase_needs_both_counters_or_the_timer_alone():
    base = replace(QUIET, increase_timer_s=20e-6, first_cnp_rate_bps=10e9, initial_alpha=0.0)
    control = CongestionControl(form=Form.PAPER, dcqcn=base)
    seen = [
        int(qp_rows(congested(control, until=until))[0, at.QP_TARGET])
        for until in (20e-6, 35e-6, 55e-6, 75e-6)
    ]
    # fast recovery, then AI 1 Gb/s, then HAI 10 Gb/s from the second timer after it
    assert [target / 1e9 for target in seen] == [10, 10, 11, 21]
    both = replace(base, byte_counter_bytes=1e9)
    never = CongestionControl(form=Form.PAPER, dcqcn=both)
    assert qp_rows(congested(never, until=75e-6))[0, at.QP_TARGET] == 12_000_000_000
    for scaled, gbps in ((False, 31), (True, 41)):
        steps = replace(control, hyper_scaled=scaled)
        rows = qp_rows(congested(steps, until=95e-6))
        assert rows[0, at.QP_TARGET] == gbps * 1_000_000_000


def test_alpha_grows_in_every_period_that_has_a_cnp():
    growing = replace(
        QUIET, g=0.5, alpha_period_s=10e-6, cut_window_s=40e-6, cnp_interval_s=0.0,
        initial_alpha=0.5,
    )  # fmt: skip
    sim = congested(CongestionControl(form=Form.FIRMWARE, dcqcn=growing), until=60e-6)
    # 1/2, 3/4, 7/8, 15/16, 31/32 after four periods, and half of that is cut
    assert qp_rows(sim)[0, at.QP_RATE] == pytest.approx(100e9 * (1 - 31 / 64), rel=1e-9)


def test_a_requester_holds_still_while_the_receiver_is_not_ready():
    host = HostModel(receive_requests=1, receive_interval_s=60e-6)
    model = replace(MODEL, host=host, transport=replace(WIRE, rnr_delay_s=10e-6))
    traffic = alone(200_000)
    first = replace(traffic.messages[0], size_bytes=1000)
    sim = Simulation(star(2), model, replace(traffic, messages=(first, *traffic.messages)))
    assert sim.run(1.0, stop_when_done=True)
    # Some 50 packets are on their way before each answer; without holding it would be 900.
    assert 250 < qp_table(sim)["tx_packets"][0] < 550
