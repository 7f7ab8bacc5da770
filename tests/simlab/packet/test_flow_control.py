"""PFC, scheduling, watchdog, deadlock, slow receivers, InfiniBand credits: closed forms."""

from dataclasses import replace

import pytest

from collectors.model.dcqcn import PAPER
from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.interventions import Intervention, What, run_with_events
from simlab.packet.parameters import (
    CongestionControl,
    EcnAt,
    Form,
    HostModel,
    InfinibandLink,
    Model,
    SwitchModel,
)
from simlab.packet.results import (
    group_words,
    paused_ps,
    port_rows,
    port_table,
    qp_table,
    queue_words,
    summary,
)
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, Topology, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import Flow, incast, traffic_of_flows
from tests.simlab.packet.bare import OFF, WIRE


def model(**switch) -> Model:
    return Model(transport=WIRE, congestion=OFF, switch=SwitchModel(**switch))


def test_a_static_threshold_pauses_at_xoff_and_resumes_below_xon():
    sim = Simulation(
        star(3),
        model(xoff_bytes=50_000, xon_offset_bytes=10_000, reserved_bytes=0, headroom_bytes=40_000),
        incast([0, 1], 2, 1_000_000),
    )
    assert sim.run(0.01, stop_when_done=True)
    most = group_words(sim, at.GROUP_MAX)[[1, 3], 3]
    # XOFF reaches the sender within 1 µs and a frame; what is on the wire until then still comes.
    assert (most >= 50_000).all()
    assert (most <= 50_000 + 25_000 + 4 * 1048).all()
    assert summary(sim).drops == 0
    paused = paused_ps(sim)[[0, 2], 3]
    total = sim.word(at.NOW)
    assert paused == pytest.approx(total / 2, rel=0.15)  # each sender may send half of the time


def test_dynamic_thresholds_share_the_pool_by_alpha():
    for alpha, expected in ((1.0, 1 / 2), (0.25, 1 / 5)):
        sim = Simulation(
            star(3),
            model(buffer_bytes=1_200_000, alpha=alpha, reserved_bytes=0, headroom_bytes=40_000),
            incast([0, 1], 2, 4_000_000),
        )
        sim.run(100e-6)
        pool = sim.word(sim.state.switches + at.SWITCH_POOL)
        held = group_words(sim, at.GROUP_MAX)[[1, 3], 3].max()
        # one group alone may take alpha/(1+alpha) of the pool, two share it
        two = alpha / (1 + 2 * alpha)
        assert two * pool * 0.9 < held < expected * pool + 40_000


def test_an_expired_pause_lets_go_and_a_renewed_one_does_not():
    quick = model(xoff_bytes=30_000, headroom_bytes=60_000, pause_s=4e-6, reserved_bytes=0)
    sim = Simulation(star(3), quick, incast([0, 1], 2, 1_000_000))
    assert sim.run(0.01, stop_when_done=True)
    frames = port_table(sim)["rx_pause"][[0, 2]]
    episodes = port_rows(sim)[[0, 2], at.PORT_PAUSE_EPISODES + 3]
    assert summary(sim).drops == 0
    assert (frames >= episodes).all()
    assert (episodes > 3).all()
    each = model(
        xoff_bytes=30_000, headroom_bytes=60_000, pause_s=4e-6, reserved_bytes=0,
        pause_each_packet=True,
    )  # fmt: skip
    many = Simulation(star(3), each, incast([0, 1], 2, 1_000_000))
    assert many.run(0.01, stop_when_done=True)
    assert port_table(many)["rx_pause"].sum() > 2 * frames.sum()


def test_a_slow_receiver_pauses_its_switch_and_takes_what_it_can():
    host = HostModel(slow={1: 25e9}, rx_xoff_bytes=40_000, rx_xon_bytes=20_000)
    slow = replace(model(), host=host)
    sim = Simulation(star(2), slow, traffic_of_flows([Flow(src=0, dst=1, size_bytes=2_000_000)]))
    assert sim.run(0.01, stop_when_done=True)
    rate = 2000 * 1048 * 8 / sim.now_s
    assert rate == pytest.approx(25e9, rel=0.06)
    assert port_table(sim)["tx_pause"][2] > 5
    tiny = HostModel(slow={1: 25e9}, rx_xoff_bytes=40_000, rx_xon_bytes=20_000,
                     rx_buffer_bytes=45_000)  # fmt: skip
    small = Simulation(
        star(2),
        replace(slow, host=tiny),
        traffic_of_flows([Flow(src=0, dst=1, size_bytes=400_000)]),
    )
    small.run(0.001)
    assert port_rows(small)[2, at.PORT_RX_DISCARDS] > 0


def stormed(watchdog_s: float) -> Simulation:
    storm = replace(
        model(watchdog_s=watchdog_s, watchdog_restore_s=200e-6), host=HostModel(pause_s=10e-6)
    )
    sim = Simulation(star(3), storm, incast([0], 1, 300_000))
    event = Intervention(at_s=5e-6, what=What.PAUSE_STORM, host=1, value=1)
    stop = Intervention(at_s=500e-6, what=What.PAUSE_STORM, host=1, value=0)
    run_with_events(sim, 700e-6, [event, stop])
    return sim


def test_a_pause_storm_stops_a_port_until_the_watchdog_acts():
    held = stormed(0.0)
    port = 2 * 1 + 1
    assert paused_ps(held)[port, 3] == pytest.approx(495e6, rel=0.03)
    assert summary(held).drops == 0
    assert summary(held).messages_done == 1
    assert port_rows(held)[port, at.PORT_PAUSE_EPISODES + 3] == 1
    assert port_rows(held)[port, at.PORT_RESUME_RX] == 1
    freed = stormed(100e-6)
    assert port_rows(freed)[port, at.PORT_WATCH_EVENTS] >= 1
    assert paused_ps(freed)[port, 3] < 350e6
    assert queue_words(freed, at.QUEUE_DROPPED)[port, 3] > 0


def test_weights_share_a_port_and_strict_priority_takes_it_first():
    shared = model(
        weights={3: 3, 4: 1}, strict=(6,), lossless=(3, 4), xoff_bytes=50_000, buffer_bytes=64 << 20
    )
    parts = [
        traffic_of_flows([Flow(src=i, dst=3, size_bytes=4_000_000, priority=priority)])
        for i, priority in enumerate((3, 4))
    ]
    connections = tuple(one for part in parts for one in part.connections)
    messages = tuple(
        Message(connection=i, size_bytes=part.messages[0].size_bytes)
        for i, part in enumerate(parts)
    )
    sim = Simulation(star(4), shared, Traffic(connections, messages))
    sim.run(200e-6)
    sent = queue_words(sim, at.QUEUE_TX_BYTES)[2 * 3 + 1]
    assert sent[3] / sent[4] == pytest.approx(3, rel=0.05)
    urgent = replace(shared, switch=replace(shared.switch, strict=(4, 6)))
    first = Simulation(star(4), urgent, Traffic(connections, messages))
    first.run(200e-6)
    sent = queue_words(first, at.QUEUE_TX_BYTES)[2 * 3 + 1]
    assert sent[4] > 20 * sent[3]


def test_priorities_of_one_host_take_turns():
    both = model(lossless=(2, 3, 4), buffer_bytes=64 << 20)
    connections = tuple(Connection(src=0, dst=1, priority=p, src_qp=p) for p in (2, 3, 4))
    messages = tuple(Message(connection=i, size_bytes=500_000) for i in range(3))
    sim = Simulation(star(2), both, Traffic(connections, messages))
    sim.run(20e-6)
    sent = qp_table(sim)["tx_packets"]
    assert sent.max() - sent.min() <= 1
    assert sent.sum() == pytest.approx(20e-6 / 83.84e-9, abs=2)


def ring_of_switches(turns: int) -> Simulation:
    """Three switches in a ring, every flow goes `turns` hops around it before it leaves."""
    cables = tuple(Cable(i, 3 + i, 100e9, 1e-6) for i in range(3))
    cables += tuple(Cable(3 + i, 3 + (i + 1) % 3, 100e9, 1e-6) for i in range(3))
    fabric = Topology(6, (3, 4, 5), cables, (0, 0, 0, 1, 1, 1))
    around = [2 * (3 + i) for i in range(3)]
    down = [2 * i + 1 for i in range(3)]
    connections = []
    for i in range(3):
        dst = (i + turns) % 3
        path = (*(around[(i + hop) % 3] for hop in range(turns)), down[dst])
        back = (*(around[(dst - 1 - hop) % 3] + 1 for hop in range(turns)), down[i])
        connections.append(Connection(src=i, dst=dst, path=path, ack_path=back))
    messages = tuple(Message(connection=i, size_bytes=3_000_000) for i in range(3))
    tight = model(xoff_bytes=20_000, xon_offset_bytes=2000, headroom_bytes=40_000,
                  reserved_bytes=0, buffer_bytes=8 << 20)  # fmt: skip
    return Simulation(fabric, tight, Traffic(tuple(connections), messages))


def test_a_cycle_of_pauses_is_a_deadlock_and_a_tree_never_is():
    stuck = ring_of_switches(2)
    assert not stuck.run(2e-3, stop_when_done=True)
    before = summary(stuck).link_packets
    stuck.run(3e-3)
    assert summary(stuck).link_packets == before  # nothing moves any more
    assert summary(stuck).drops == 0
    free = ring_of_switches(1)
    assert free.run(2e-3, stop_when_done=True)


def test_ecn_marks_at_dequeue_or_enqueue_and_only_beyond_kmin():
    limits = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(20_000, 20_000, 1.0)),)
    marked = {}
    for enqueue in (False, True):
        sim = Simulation(
            star(3), model(ecn=limits, ecn_at_enqueue=enqueue), incast([0, 1], 2, 100_000)
        )
        assert sim.run(0.01, stop_when_done=True)
        marked[enqueue] = summary(sim).ecn_marked
    # Two packets come for each that leaves until 100 wait, then they drain: all but the
    # first and last 20 leave a queue longer than 20 KB behind.
    assert marked[False] == pytest.approx(200 - 2 * 20, abs=3)
    assert marked[True] == pytest.approx(marked[False], abs=25)


@pytest.mark.parametrize(("pmax", "share"), [(1.0, 1 / 4), (0.4, 1 / 10)])
def test_between_kmin_and_kmax_a_queue_marks_by_how_far_it_is(pmax, share):
    """The queue rises to half of Kmax and falls again: a quarter of Pmax on average."""
    half = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(0, 2 * 1_048_000, pmax)),)
    sim = Simulation(star(3), model(ecn=half, buffer_bytes=64 << 20), incast([0, 1], 2, 1_000_000))
    assert sim.run(0.01, stop_when_done=True)
    assert summary(sim).ecn_marked == pytest.approx(2000 * share, abs=5 * (2000 * share) ** 0.5)


def test_lossy_classes_drop_at_their_share_and_static_limits_hold():
    lossy = replace(model(lossless=(), buffer_bytes=300_000, lossy_alpha=0.5), transport=replace(
        WIRE, rto_s=200e-6))  # fmt: skip
    sim = Simulation(star(5), lossy, incast(range(4), 4, 200_000))
    sim.run(100e-6)
    pool = sim.word(sim.state.switches + at.SWITCH_POOL)
    longest = int(port_table(sim)["queue_max_bytes"].max())
    assert summary(sim).drops > 0
    assert longest == pytest.approx(pool / 3, rel=0.05)
    limited = Simulation(star(5), model(queue_limit_bytes=30_000), incast(range(4), 4, 200_000))
    limited.run(30e-6)
    assert 28_000 < int(port_table(limited)["queue_max_bytes"].max()) <= 30_000


INFINIBAND = Model(transport=WIRE, congestion=OFF, infiniband=InfinibandLink(credits_bytes=8384))


def test_credits_bound_the_throughput_to_credits_per_round_trip():
    sim = Simulation(
        star(2), INFINIBAND, traffic_of_flows([Flow(src=0, dst=1, size_bytes=500_000)])
    )
    assert sim.run(0.01, stop_when_done=True)
    # 8 packets of credit; they come back after a packet, both propagations and a credit update.
    round_trip = 2e-6 + 83.84e-9 + 64 * 0.08e-9
    assert 8384 / round_trip < 100e9 / 8
    measured = 500 * 1048 / sim.now_s
    assert measured == pytest.approx(8384 / round_trip, rel=0.03)
    assert summary(sim).drops == 0


@pytest.mark.parametrize("senders", [2, 4])
def test_stall_share_is_one_minus_one_over_k(senders):
    deep = replace(INFINIBAND, infiniband=InfinibandLink(credits_bytes=64 * 1024))
    sim = Simulation(star(senders + 1), deep, incast(range(senders), senders, 10_000_000))
    sim.run(50e-6)
    before = port_rows(sim)[: 2 * senders : 2, at.PORT_WAIT].copy()
    start = sim.now_s
    sim.run(450e-6)
    share = (port_rows(sim)[: 2 * senders : 2, at.PORT_WAIT] - before) / 1e12 / (sim.now_s - start)
    assert share == pytest.approx(1 - 1 / senders, abs=0.05)
    sent = port_table(sim)["tx_bytes"][: 2 * senders : 2]
    assert sent.max() / sent.min() < 1.1
    assert port_table(sim)["dropped"].sum() == 0


@pytest.mark.parametrize("entry", [1, 3])
def test_each_entry_of_the_table_is_a_delay_in_packet_times(entry):
    table = tuple(0.5 * i for i in range(8))
    control = CongestionControl(
        form=Form.INFINIBAND, cct=table[: entry + 1], ccti_increase=entry, ccti_min=entry
    )
    marking = InfinibandLink(credits_bytes=1 << 20, threshold_bytes=1, marking_rate=0)
    sim = Simulation(
        star(3), replace(INFINIBAND, congestion=control, infiniband=marking),
        incast([0, 1], 2, 10_000_000),
    )  # fmt: skip
    sim.run(60e-6)
    assert (qp_table(sim)["cnp_handled"] > 0).all()
    before = qp_table(sim)["tx_packets"].copy()
    sim.run(160e-6)
    packets = qp_table(sim)["tx_packets"] - before
    gap = 83.84e-9 * (1 + table[entry])
    assert packets == pytest.approx(100e-6 / gap, rel=0.02)


def test_the_table_index_falls_with_its_timer_and_marking_is_one_in_n():
    control = CongestionControl(
        form=Form.INFINIBAND,
        cct=tuple(0.1 * i for i in range(64)),
        ccti_timer_s=1e-6,
        dcqcn=replace(PAPER, cnp_interval_s=0.0),
    )
    counts = {}
    for rate in (0, 3):
        marking = InfinibandLink(credits_bytes=1 << 20, threshold_bytes=1, marking_rate=rate)
        off = replace(INFINIBAND, infiniband=marking, congestion=OFF)
        sim = Simulation(star(3), off, incast([0, 1], 2, 100_000))
        assert sim.run(0.01, stop_when_done=True)
        counts[rate] = summary(sim).ecn_marked
    assert counts[3] == pytest.approx(counts[0] / 4, abs=1)
    recovering = replace(
        INFINIBAND, congestion=control, infiniband=InfinibandLink(credits_bytes=1 << 20,
                                                                  threshold_bytes=20_000)
    )  # fmt: skip
    sim = Simulation(star(3), recovering, incast([0, 1], 2, 2_000_000))
    sim.run(100e-6)
    assert summary(sim).cuts == 0
    assert (qp_table(sim)["cnp_handled"] > 10).all()
    held = queue_words(sim, at.QUEUE_BYTES)[5, 3]
    free = Simulation(
        star(3), replace(INFINIBAND, infiniband=InfinibandLink(credits_bytes=1 << 20)),
        incast([0, 1], 2, 2_000_000),
    )  # fmt: skip
    free.run(100e-6)
    assert held < queue_words(free, at.QUEUE_BYTES)[5, 3] / 2
