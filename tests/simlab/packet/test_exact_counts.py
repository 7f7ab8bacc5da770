"""Whole runs whose counts are known exactly: limits met to the byte, one packet, one event."""

from dataclasses import replace

import numpy as np
import pytest

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.interventions import Intervention, What, run_with_events
from simlab.packet.parameters import (
    Balancing,
    CongestionControl,
    EcnAt,
    Form,
    HostModel,
    InfinibandLink,
    Model,
    NicModel,
    Spread,
    SwitchModel,
)
from simlab.packet.results import (
    flow_table,
    group_words,
    message_rows,
    port_rows,
    port_table,
    qp_rows,
    qp_table,
    queue_words,
    summary,
)
from simlab.packet.simulation import Simulation
from simlab.packet.topology import leaf_spine, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import Flow, incast, traffic_of_flows
from tests.simlab.packet.bare import MODEL, SIZE, WIRE, alone

SLOWEST = 1.0  # bit/s: in a short run such a host takes in nothing


def buffered(packets: int, **host) -> Simulation:
    model = replace(MODEL, host=HostModel(slow={1: SLOWEST}, **host))
    sim = Simulation(star(2), model, alone(packets))
    sim.run(50e-6)
    return sim


def test_a_receive_buffer_takes_packets_until_it_is_exactly_full():
    sim = buffered(5, rx_buffer_bytes=3 * SIZE)
    assert port_rows(sim)[2, at.PORT_RX_DISCARDS] == 2
    assert qp_table(sim)["received_packets"].tolist() == [3]
    assert qp_rows(sim)[:, at.QP_ALIVE].tolist() == [0]


@pytest.mark.parametrize(("packets", "pauses"), [(2, 0), (3, 1)])
def test_a_receiver_pauses_beyond_its_threshold_and_not_at_it(packets, pauses):
    sim = buffered(packets, rx_xoff_bytes=2 * SIZE, rx_xon_bytes=0)
    assert port_table(sim)["tx_pause"][2] == pauses


def test_a_receiver_of_eight_terabits_still_has_a_buffer():
    sim = Simulation(star(2), replace(MODEL, host=HostModel(slow={1: 8e12})), alone())
    sim.run(50e-6)
    assert group_words(sim, at.GROUP_MAX)[2, 3] == SIZE


def test_a_packet_of_exactly_the_mtu_passes_and_one_byte_less_loses_it():
    for mtu, lost in ((SIZE - 38, 0), (SIZE - 39, 1)):
        sim = Simulation(star(2), replace(MODEL, nics={1: NicModel(mtu_bytes=mtu)}), alone())
        assert sim.run(50e-6) == (not lost)
        assert port_table(sim)["lost"].sum() == lost


def test_a_static_queue_limit_holds_packets_until_it_is_exactly_full():
    for limit, longest in ((4 * SIZE, 4 * SIZE), (4 * SIZE - 1, 3 * SIZE), (1, 0)):
        switch = SwitchModel(queue_limit_bytes=limit)
        sim = Simulation(star(3), replace(MODEL, switch=switch), incast([0, 1], 2, 20_000))
        sim.run(50e-6)
        assert queue_words(sim, at.QUEUE_WATERMARK)[5, 3] == longest
        drops = queue_words(sim, at.QUEUE_DROPPED)[5, 3]
        assert sim.word(sim.state.switches + at.SWITCH_DROPPED) == drops > 0


def test_a_dynamic_queue_limit_is_alpha_of_what_is_free():
    # alpha 1: the fourth packet makes 4 of 7 - 3 free ones, a fifth would make 5 of 3
    for alpha, longest in ((1.0, 4 * SIZE), (2**-16, 0)):
        switch = SwitchModel(
            buffer_bytes=7 * SIZE, lossless=(), reserved_bytes=0, lossy_alpha=alpha
        )
        sim = Simulation(star(3), replace(MODEL, switch=switch), incast([0, 1], 2, 20_000))
        sim.run(50e-6)
        assert queue_words(sim, at.QUEUE_WATERMARK)[5, 3] == longest


def test_every_drop_for_want_of_headroom_is_counted_once():
    switch = SwitchModel(xoff_bytes=5000, headroom_bytes=3 * SIZE, reserved_bytes=0)
    sim = Simulation(star(3), replace(MODEL, switch=switch), incast([0, 1], 2, 200_000))
    sim.run(50e-6)
    dropped = group_words(sim, at.GROUP_DROPPED).sum()
    assert sim.word(sim.state.switches + at.SWITCH_DROPPED) == dropped > 0
    assert group_words(sim, at.GROUP_HEADROOM_MAX)[[1, 3], 3].tolist() == [3 * SIZE] * 2


def marked(limit: float, *, enqueue: bool = False, capable: bool = True) -> int:
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(limit, limit, 1.0)),)
    switch = SwitchModel(ecn=ecn, ecn_at_enqueue=enqueue)
    nics = {host: NicModel(ecn_capable=capable) for host in (0, 1)}
    sim = Simulation(star(3), replace(MODEL, switch=switch, nics=nics), incast([0, 1], 2, 50_000))
    assert sim.run(0.01, stop_when_done=True)
    return summary(sim).ecn_marked


def test_a_queue_marks_one_byte_beyond_kmin_and_only_what_is_ecn_capable():
    assert marked(3 * SIZE - 1) > marked(3 * SIZE) == marked(4 * SIZE - 1) > 0
    assert marked(3 * SIZE, enqueue=True) > 0
    assert marked(3 * SIZE, enqueue=True, capable=False) == 0
    assert marked(3 * SIZE, capable=False) == 0


def test_one_packet_and_its_acknowledgement_are_six_events():
    sim = Simulation(star(2), MODEL, alone())
    assert sim.run(1.0, stop_when_done=True)
    # its start, its turn, and two hops each way
    assert sim.events == 6


@pytest.mark.parametrize("priority", [0, 3])
def test_a_priority_alone_at_its_host_leaves_the_turn_where_it_was(priority):
    sim = Simulation(star(2), MODEL, alone(5, priority))
    assert sim.run(1.0, stop_when_done=True)
    assert port_rows(sim)[0, at.PORT_ROUND] == 0


def test_without_a_timeout_the_timers_of_dcqcn_resend_nothing():
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(3000, 3000, 1.0)),)
    quick = DcqcnParameters(increase_timer_s=5e-6, cnp_interval_s=5e-6)
    control = CongestionControl(form=Form.PAPER, dcqcn=quick)
    model = Model(transport=WIRE, congestion=control, switch=SwitchModel(ecn=ecn))
    sim = Simulation(star(3), model, incast([0, 1], 2, 200_000))
    assert sim.run(0.1, stop_when_done=True)
    assert qp_table(sim)["increases"].sum() > 10
    assert qp_table(sim)["timeouts"].sum() == 0
    assert qp_table(sim)["tx_packets"].tolist() == [200, 200]


@pytest.mark.parametrize("limit", [1, 2])
def test_a_qp_gives_up_after_as_many_retries_as_it_may(limit):
    wire = replace(WIRE, rto_s=100e-6, retry_limit=limit)
    sim = Simulation(star(2), replace(MODEL, transport=wire), alone(3))
    down = Intervention(at_s=0.0, what=What.LINK_DOWN, cable=1, value=-1)
    assert not run_with_events(sim, 0.01, [down])
    assert qp_table(sim)["tx_packets"].tolist() == [3 * (1 + limit)]
    assert qp_rows(sim)[0, at.QP_ERROR] == 1


def test_what_gets_through_ends_the_count_of_retries():
    wire = replace(WIRE, rto_s=100e-6, retry_limit=2)
    messages = tuple(
        Message(connection=0, size_bytes=1000, start_s=start) for start in (0.0, 400e-6)
    )
    traffic = Traffic((Connection(src=0, dst=1),), messages)
    sim = Simulation(star(2), replace(MODEL, transport=wire), traffic)
    events = [
        Intervention(at_s=start + after, what=what, cable=0, value=-1)
        for start in (0.0, 400e-6)
        for after, what in ((0.0, What.LINK_DOWN), (150e-6, What.LINK_UP))
    ]
    assert run_with_events(sim, 0.01, events, stop_when_done=True)
    assert qp_table(sim)["timeouts"].tolist() == [4]


def test_what_is_acknowledged_while_it_waits_for_its_turn_is_not_sent_again():
    # The ACK arrives 4177 ns after the packet left; at 4150 ns it is to be sent again, but the
    # wire carries the fiftieth packet of the other QP until 4192 ns.
    wire = replace(WIRE, rto_s=4150e-9)
    flows = [Flow(src=0, dst=1, size_bytes=1000), Flow(src=0, dst=2, size_bytes=100_000)]
    sim = Simulation(star(3), replace(MODEL, transport=wire), traffic_of_flows(flows, reuse=False))
    assert sim.run(1e-3, stop_when_done=True)
    table = qp_table(sim)
    assert (table["timeouts"][0], table["tx_packets"][0]) == (1, 1)
    assert table["received_packets"].tolist() == [1, 100]
    assert port_table(sim)["tx_packets"][0] == table["tx_packets"].sum()  # and nothing else
    assert (qp_rows(sim)[:, at.QP_STATE] == at.IDLE).all()


def test_slots_of_one_packet_flows_are_reused_and_each_end_keeps_its_counters():
    flows = [Flow(src=0, dst=1, size_bytes=1000, start_s=i * 20e-6) for i in range(4)]
    sim = Simulation(star(2), MODEL, traffic_of_flows(flows))
    assert sim.run(1.0, stop_when_done=True)
    assert (qp_rows(sim)[:, at.QP_PORT] > 0).sum() == 1
    place = at.PORT_SUMS + at.QP_STATS.index(at.QP_RX_BYTES)
    assert port_rows(sim)[[0, 2], place].tolist() == [0, 4 * SIZE]


def test_a_gate_opens_as_many_repeats_as_need_no_predecessor():
    connections = (Connection(src=0, dst=1), Connection(src=0, dst=2))
    messages = (
        Message(connection=0, size_bytes=1000),
        Message(connection=1, size_bytes=1000, repeat=3, free=1, gates=(0,)),
    )
    sim = Simulation(star(3), MODEL, Traffic(connections, messages))
    sim.run(100e-6)
    assert message_rows(sim)[:, at.MSG_RECEIVED].tolist() == [1, 1]


def test_a_message_starts_when_the_last_of_its_predecessors_has_arrived():
    connections = (Connection(src=0, dst=2), Connection(src=1, dst=2), Connection(src=2, dst=0))
    messages = (
        Message(connection=0, size_bytes=1000),
        Message(connection=1, size_bytes=50_000),
        Message(connection=2, size_bytes=1000, free=0, after=(0, 1)),
    )
    sim = Simulation(star(3), MODEL, Traffic(connections, messages))
    assert sim.run(1.0, stop_when_done=True)
    table = flow_table(sim)
    assert table["start_s"][2] == table["received_s"][1] > table["received_s"][0]


def test_a_gap_as_long_as_the_flowlet_gap_begins_another_flowlet():
    wire = replace(WIRE, selective_repeat=True, reorder_tolerant=True)
    used = []
    for gap in (83_840e-12, 83_841e-12):
        balancing = Balancing(spread=Spread.FLOWLET, flowlet_gap_s=gap)
        sim = Simulation(
            leaf_spine(2, 4, 1), replace(MODEL, transport=wire, balancing=balancing), alone(200)
        )
        sim.run(30e-6)
        up = [p for p in sim.topology.ports_of()[2] if sim.topology.peer(p) > 3]
        used.append(int((port_table(sim)["tx_packets"][up] > 20).sum()))
    assert used == [4, 1]


def test_credit_of_packets_lost_on_a_link_comes_back():
    # One packet in twenty is lost, and none of the credit, or the flow would come to a stop.
    topology = star(2)
    bad = replace(topology.cables[0], error_rate=0.05)
    topology = topology.with_cables({0: bad})
    wire = replace(WIRE, rto_s=50e-6, nak_interval_s=10e-6, retry_limit=0)
    link = InfinibandLink(credits_bytes=8 * SIZE)
    sim = Simulation(topology, replace(MODEL, transport=wire, infiniband=link), alone(300))
    assert sim.run(0.1, stop_when_done=True)
    sim.run(sim.now_s + 100e-6)
    assert port_table(sim)["lost"].sum() > 10
    credit = port_rows(sim)[:, at.PORT_CREDIT : at.PORT_CREDIT + 8]
    assert (credit == 8 * SIZE).all()


def test_a_table_index_falls_within_the_shortest_timer():
    control = CongestionControl(
        form=Form.INFINIBAND, cct=(0.0, 9.0), ccti_timer_s=1e-12,
        dcqcn=DcqcnParameters(cnp_interval_s=0.0),
    )  # fmt: skip
    link = InfinibandLink(credits_bytes=1 << 20, threshold_bytes=1)
    model = replace(MODEL, congestion=control, infiniband=link)
    sim = Simulation(star(3), model, incast([0, 1], 2, 400_000))
    assert sim.run(0.01, stop_when_done=True)
    assert qp_table(sim)["cnp_handled"].sum() > 10
    assert sim.now_s < 100e-6  # 800 packets need 67 µs; nobody was slowed down to a tenth


def test_sampling_ends_when_its_time_is_over_and_takes_the_last_sample():
    sim = Simulation(star(2), MODEL, alone())
    sim.watch([(1, 3)], 1e-6, 10e-6)
    sim.run(20e-6)
    assert len(sim.samples()) == 12


def test_alpha_decays_once_per_period_between_the_cuts_of_the_paper_form():
    dcqcn = DcqcnParameters(
        g=1 / 16, alpha_period_s=20e-6, increase_timer_s=1.0, byte_counter_bytes=None,
        cnp_interval_s=210e-6,
    )  # fmt: skip
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(3000, 3000, 1.0)),)
    control = CongestionControl(form=Form.PAPER, dcqcn=dcqcn)
    model = Model(transport=WIRE, congestion=control, switch=SwitchModel(ecn=ecn))
    sim = Simulation(star(5), model, incast(range(4), 4, 10_000_000))
    sim.run(300e-6)
    assert qp_table(sim)["cuts"].tolist() == [2] * 4
    assert qp_table(sim)["rate_bps"] == pytest.approx(50e9 * (1 - (15 / 16) ** 10 / 2), rel=1e-9)


def test_a_watchdog_drops_data_and_never_a_pause_frame():
    switch = SwitchModel(
        watchdog_s=20e-6, watchdog_restore_s=1e-3, xoff_bytes=20_000, headroom_bytes=60_000
    )
    model = replace(MODEL, switch=switch, host=HostModel(pause_s=10e-6))
    flows = [Flow(src=2, dst=1, size_bytes=400_000)]
    flows += [Flow(src=host, dst=0, size_bytes=900_000) for host in (1, 2)]
    sim = Simulation(star(3), model, traffic_of_flows(flows, reuse=False))
    storm = Intervention(at_s=2e-6, what=What.PAUSE_STORM, host=1, value=1)
    run_with_events(sim, 120e-6, [storm])
    ports = port_table(sim)
    assert port_rows(sim)[3, at.PORT_WATCH_EVENTS] == 1
    assert queue_words(sim, at.QUEUE_DROPPED)[3, 3] > 0
    assert queue_words(sim, at.QUEUE_DROPPED)[3, at.CONTROL] == 0
    assert 0 <= ports["tx_pause"][3] - ports["rx_pause"][2] <= 1
    assert ports["rx_pause"][2] > 2


def test_a_pause_frame_lost_on_a_link_is_no_packet_of_a_qp():
    switch = SwitchModel(pause_s=4e-6, xoff_bytes=20_000, headroom_bytes=100_000)
    wire = replace(WIRE, rto_s=100e-6, retry_limit=0)
    model = replace(MODEL, transport=wire, switch=switch)
    sim = Simulation(star(3), model, incast([0, 1], 2, 400_000))
    bad = Intervention(at_s=1e-6, what=What.ERROR_RATE, cable=0, value=0.2)
    assert run_with_events(sim, 0.1, [bad], stop_when_done=True)
    sim.run(sim.now_s + 1e-3)
    ports = port_table(sim)
    assert ports["tx_pause"][1] > ports["rx_pause"][0] > 0
    assert qp_rows(sim)[:, at.QP_ALIVE].tolist() == [0, 0]


FLAGS = (at.QP_CONGESTED, at.QP_ALPHA_CNP, at.QP_CNP_SEEN, at.QP_CAREFUL, at.QP_ACTIVE, at.QP_ERROR)


def assert_flags(sim: Simulation) -> set[str]:
    """Every flag of the state is 0 or 1; return which were seen set."""
    rows = port_rows(sim)
    tables = {str(word): qp_rows(sim)[:, word] for word in FLAGS}
    tables["scheduled"] = rows[:, at.PORT_TX_SCHEDULED]
    tables["paused"] = group_words(sim, at.GROUP_XOFF_SENT)
    tables["credit queued"] = group_words(sim, at.GROUP_FREED_QUEUED)
    tables["posted"] = message_rows(sim)[:, at.MSG_FIRST_POST_DONE]
    for name, table in tables.items():
        assert set(np.unique(table)) <= {0, 1}, name
    return {name for name, table in tables.items() if table.any()}


def test_flags_are_0_or_1_and_a_fresh_slot_has_no_history():
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(3000, 3000, 1.0)),)
    control = CongestionControl(dcqcn=DcqcnParameters(cnp_interval_s=4e-6))
    switch = SwitchModel(ecn=ecn, xoff_bytes=9000, headroom_bytes=60_000)
    roce = Model(transport=WIRE, congestion=control, switch=switch)
    slow = InfinibandLink(credits_bytes=8 * SIZE)
    seen: set[str] = set()
    for model in (roce, replace(MODEL, infiniband=slow)):
        sim = Simulation(star(4), model, incast(range(3), 3, 200_000))
        fresh = qp_rows(sim)
        assert (fresh[:, [at.QP_NAK_FOR, at.QP_RETRY_PSN]] == -1).all()
        assert (fresh[:, [at.QP_GAP_CARRY, at.QP_HELD_UNTIL]] == 0).all()
        for step in range(1, 60):
            sim.run(step * 0.5e-6)
            seen |= assert_flags(sim)
        assert (qp_rows(sim)[:, at.QP_NAK_FOR] == -1).all()
    wire = replace(WIRE, rto_s=10e-6, retry_limit=1)
    dead = Simulation(star(2), replace(MODEL, transport=wire), alone())
    down = Intervention(at_s=0.0, what=What.LINK_DOWN, cable=1, value=-1)
    run_with_events(dead, 1e-3, [down])
    seen |= assert_flags(dead)
    assert len(seen) == len(FLAGS) + 4  # each of them was set at some time


def on_the_wire(sim: Simulation, port: int) -> int:
    """Return the first packet on a port's link."""
    return sim.word(sim.port_row(port) + at.PORT_LINK_HEAD)


def test_a_resume_is_a_pause_of_no_time():
    switch = SwitchModel(pause_s=4e-6, xoff_bytes=20_000, headroom_bytes=60_000)
    sim = Simulation(star(3), replace(MODEL, switch=switch), incast([0, 1], 2, 200_000))
    told = {}
    for step in range(1, 400):
        sim.run(step * 0.1e-6)
        packet = on_the_wire(sim, 1)
        info = sim.word(packet + at.PKT_INFO)
        if packet and info & at.KIND_MASK == at.PFC:
            told[bool(info & at.XOFF)] = sim.word(packet + at.PKT_AUX)
    assert told == {True: 4_000_000, False: 0}


def test_a_data_packet_and_a_cnp_carry_nothing_that_is_not_theirs():
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(3000, 3000, 1.0)),)
    model = replace(MODEL, switch=SwitchModel(ecn=ecn))
    sim = Simulation(star(3), model, incast([0, 1], 2, 200_000))
    seen = set()
    for step in range(1, 200):
        sim.run(step * 0.1e-6)
        for port, kind, word in ((0, at.DATA, at.PKT_AUX), (4, at.CNP, at.PKT_PSN)):
            packet = on_the_wire(sim, port)
            while packet:
                if sim.word(packet + at.PKT_INFO) & at.KIND_MASK == kind:
                    seen.add((kind, sim.word(packet + word)))
                packet = sim.word(packet + at.PKT_NEXT)
    assert seen == {(at.DATA, 0), (at.CNP, 0)}
