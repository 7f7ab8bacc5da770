"""Functions of the model called at the edge of their thresholds: one byte decides."""

from dataclasses import replace

import pytest

from simlab.packet import layout as at
from simlab.packet.bitmap import clear_range, next_missing, set_bit
from simlab.packet.egress import choose_weighted
from simlab.packet.events import new_packet
from simlab.packet.jit import Ints, entry, ints
from simlab.packet.parameters import CongestionControl, Form, Model, SwitchModel, Transport
from simlab.packet.pause import admit, append, block, drained, pause_timer, release, unblock
from simlab.packet.posting import heap_pop, heap_push
from simlab.packet.reaction import bytes_sent, hurry
from simlab.packet.simulation import Simulation
from simlab.packet.topology import star
from simlab.packet.workloads import incast

WIRE = Transport(payload_bytes=1000, header_bytes=48, rto_s=0.0)
NOW = 1_000_000
PRIORITY = 3


@entry
def take(state: Ints, switch: int, group: int, size: int, now: int) -> bool:
    s = ints(state)
    return admit(s, switch, group, new_packet(s), size, now)


@entry
def give(state: Ints, switch: int, group: int, size: int, now: int) -> None:
    release(ints(state), switch, group, size, now)


@entry
def stop(state: Ints, port: int, priority: int, until: int, now: int) -> None:
    block(ints(state), port, priority, until, now)


@entry
def go(state: Ints, port: int, priority: int, now: int) -> None:
    unblock(ints(state), port, priority, now)


@entry
def tick(state: Ints, port: int, now: int) -> None:
    pause_timer(ints(state), port, now)


@entry
def drain(state: Ints, port: int, group: int, now: int) -> None:
    drained(ints(state), port, group, now)


@entry
def choose(state: Ints, port: int, queue: int, size: int) -> int:
    s = ints(state)
    packet = new_packet(s)
    s[packet + at.PKT_INFO] = size
    append(s, port, queue, packet, size)
    return choose_weighted(s, port, 1 << queue)


@entry
def first_gap(state: Ints, field: int, seen: int, end: int) -> int:
    s = ints(state)
    for psn in range(seen):
        set_bit(s, field, psn)
    return next_missing(s, field, 0, end)


@entry
def forget(state: Ints, field: int, start: int, end: int) -> None:
    clear_range(ints(state), field, start, end)


@entry
def later(state: Ints, time: int, message: int) -> None:
    heap_push(ints(state), time, message)


@entry
def earliest(state: Ints) -> int:
    return heap_pop(ints(state))


@entry
def sent(state: Ints, qp: int, size: int, now: int) -> None:
    bytes_sent(ints(state), qp, size, now)


@entry
def hastened(state: Ints, qp: int, before: int, now: int) -> None:
    hurry(ints(state), qp, before, now)


def built(wire: Transport = WIRE, **switch) -> Simulation:
    model = Model(
        transport=wire, congestion=CongestionControl(form=Form.PAPER), switch=SwitchModel(**switch)
    )
    return Simulation(star(3), model, incast([0, 1], 2, 100_000))


def group_at(sim: Simulation) -> tuple[int, int, int]:
    """The switch, its port from host 0 and that port's group of the lossless priority."""
    port = sim.port_row(1)
    return sim.state.switches, port, port + at.PORT_GROUPS + PRIORITY * at.GROUP_WORDS


def filled(alpha: float, reserved: int, xoff: int | None = None, **more) -> tuple:
    sim = built(alpha=alpha, reserved_bytes=reserved, headroom_bytes=5000, xoff_bytes=xoff, **more)
    return sim, *group_at(sim)


def test_at_its_reserve_a_group_pauses_nobody_and_one_byte_beyond_it_does():
    for more, pauses in ((0, 0), (1, 1)):
        sim, switch, _, group = filled(1.0, 3000, xoff=0)
        assert sim.call(take, switch, group, 3000 + more, NOW)
        assert sim.word(group + at.GROUP_PAUSE_TX) == pauses


def test_one_byte_of_headroom_in_use_pauses():
    sim, switch, _, group = filled(1.0, 3000, xoff=1000)
    assert sim.call(take, switch, group, 3000, NOW)
    sim.poke(group + at.GROUP_HEADROOM_USED, 1)
    assert sim.call(take, switch, group, 0, NOW)
    assert sim.word(group + at.GROUP_PAUSE_TX) == 1


def test_an_alpha_of_zero_leaves_the_reserve_and_the_headroom_whatever_the_static_threshold():
    sim, switch, _, group = filled(0.0, 3000)
    sim.poke(group + at.GROUP_XOFF, 50_000)
    assert sim.call(take, switch, group, 3000, NOW)
    assert sim.call(take, switch, group, 5000, NOW)
    assert sim.word(group + at.GROUP_HEADROOM_USED) == 5000
    assert not sim.call(take, switch, group, 1, NOW)


def test_a_group_has_its_reserve_when_static_thresholds_gave_away_more_than_the_pool():
    for more, headroom in ((0, 0), (1, 3001)):
        sim, switch, _, group = filled(1.0, 3000)
        sim.poke(switch + at.SWITCH_USED, sim.word(switch + at.SWITCH_POOL) + 1000)
        assert sim.call(take, switch, group, 3000 + more, NOW)
        assert sim.word(group + at.GROUP_HEADROOM_USED) == headroom


def test_a_group_back_at_its_reserve_resumes_whatever_its_offset():
    for left, resumed in ((1, 0), (0, 1)):
        sim, switch, _, group = filled(1.0, 3000, xoff=1000, xon_offset_bytes=9000)
        assert sim.call(take, switch, group, 4000, NOW)
        assert sim.word(group + at.GROUP_XOFF_SENT) == 1
        sim.call(give, switch, group, 1000 - left, NOW)
        assert sim.word(group + at.GROUP_RESUME_TX) == resumed
        assert sim.word(switch + at.SWITCH_USED) == left


def test_a_resume_ends_the_watch_unless_the_queue_is_being_dropped():
    sim, _, port, _ = filled(1.0, 3000, watchdog_s=1e-6, watchdog_restore_s=1e-6)
    end = port + at.PORT_WATCH_END + PRIORITY
    sim.call(stop, port, PRIORITY, at.NEVER, NOW)
    assert sim.word(end) == 2 * NOW
    sim.call(go, port, PRIORITY, NOW + 1)
    assert sim.word(end) == at.NEVER
    sim.call(stop, port, PRIORITY, at.NEVER, NOW)
    sim.call(tick, port, 2 * NOW)
    assert sim.word(port + at.PORT_WATCH_EVENTS) == 1
    assert sim.word(end) == 3 * NOW
    sim.call(go, port, PRIORITY, 2 * NOW + 1)
    assert sim.word(end) == 3 * NOW


def test_a_port_is_stormed_until_the_last_of_its_queues_is_restored():
    sim, _, port, _ = filled(1.0, 3000, watchdog_s=1e-6, watchdog_restore_s=1e-6, lossless=(
        tuple(range(8))))  # fmt: skip
    for priority, began in ((3, NOW), (4, NOW + 500_000)):
        sim.call(stop, port, priority, at.NEVER, began)
    steps = ((2 * NOW, 1), (2 * NOW + 500_000, 1), (3 * NOW, 1), (3 * NOW + 500_000, 0))
    for now, stormed in steps:
        sim.call(tick, port, now)
        assert sim.word(port + at.PORT_TROUBLE) == at.STORMED * stormed
    assert sim.word(port + at.PORT_WATCH_EVENTS) == 2
    assert sim.word(port + at.PORT_WATCH_UNTIL) == 0


def test_a_watchdog_of_one_picosecond_is_a_watchdog():
    sim, _, port, _ = filled(1.0, 3000, watchdog_s=1e-12)
    sim.call(stop, port, PRIORITY, at.NEVER, NOW)
    assert sim.word(port + at.PORT_WATCH_END + PRIORITY) == NOW + 1


def test_a_slow_receiver_resumes_at_xon_and_not_a_byte_before():
    for over, resumed in ((0, 1), (1, 0)):
        sim = built()
        port = sim.port_row(0)
        group = port + at.PORT_GROUPS + PRIORITY * at.GROUP_WORDS
        sim.poke(port + at.PORT_DRAIN_NUM, 100)
        sim.poke(port + at.PORT_RX_XON, 2000)
        sim.poke(group + at.GROUP_BYTES, 3000 + over)
        sim.poke(group + at.GROUP_TIME, NOW - 100_000)  # 1000 bytes have gone since
        sim.poke(group + at.GROUP_XOFF_SENT, 1)
        sim.call(drain, port, group, NOW)
        assert sim.word(group + at.GROUP_RESUME_TX) == resumed
        assert sim.word(group + at.GROUP_PAUSE_TX) == 1 - resumed
        if not resumed:
            assert sim.word(group + at.GROUP_REFRESH) == NOW + 100


def test_an_empty_queue_keeps_no_deficit_and_a_waiting_one_does():
    sim = built(lossless=(3, 4, 5))
    port = sim.port_row(5)
    deficit = [port + at.PORT_QUEUES + bit * at.QUEUE_WORDS + at.QUEUE_DEFICIT for bit in range(8)]
    sim.poke(port + at.PORT_ROUND, 2)
    assert sim.call(choose, port, 5, 1048) == 5
    sim.poke(deficit[5], 700)  # waits, say paused
    sim.poke(deficit[3], 700)  # is empty
    sim.poke(port + at.PORT_ROUND, 2)
    assert sim.call(choose, port, 6, 1048) == 6
    assert sim.word(deficit[3]) == 0
    assert sim.word(deficit[5]) == 700


def test_the_first_missing_packet_is_never_beyond_the_end():
    sim = built(replace(WIRE, selective_repeat=True, window_packets=64))
    field = sim.state.qps + at.QP_SACK_MAP
    assert sim.call(first_gap, field, 8, 5) == 5
    assert sim.call(first_gap, field, 8, 20) == 8
    sim.call(forget, field, 0, 6)
    assert sim.word(sim.word(field)) == 0b1100_0000


def test_posts_planned_for_one_time_come_out_in_an_order_that_never_changes():
    sim = built()
    sim.poke(at.HEAP, sim.word(at.PACKET_BRK))  # room enough, nothing runs here
    for time, message in ((5, 1), (5, 2), (7, 3), (7, 4), (7, 5)):
        sim.call(later, time, message)
    assert [sim.call(earliest) for _ in range(5)] == [1, 2, 4, 3, 5]
    for time, message in ((1, 1), (2, 2), (2, 3), (3, 4)):
        sim.call(later, time, message)
    assert [sim.call(earliest) for _ in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(("count", "increases"), [(1049, 0), (1048, 1)])
def test_the_byte_counter_fires_when_its_last_byte_is_sent(count, increases):
    sim = built()
    qp = sim.state.qps
    sim.poke(qp + at.QP_BYTE_COUNT, count)
    sim.call(sent, qp, 1048, NOW)
    assert sim.word(qp + at.QP_INCREASES) == sim.word(qp + at.QP_STAGE_B) == increases


def test_a_gap_shrinks_as_the_rate_has_grown_to_its_last_picosecond():
    sim = built()
    qp = sim.state.qps
    for left, shorter in ((1000, 250), (1, 0)):
        sim.poke(qp + at.QP_NEXT_TIME, NOW + left)
        sim.call(hastened, qp, 25_000_000_000, NOW)
        assert sim.word(qp + at.QP_NEXT_TIME) == NOW + shorter
