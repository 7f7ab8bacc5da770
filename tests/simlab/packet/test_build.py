"""What the model's settings come to in the engine's words, against the meaning of the settings."""

from dataclasses import replace

import numpy as np
import pytest

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecmp_hash import HashAlgorithm, HashField, HashSpec
from collectors.model.ecn import EcnThresholds
from collectors.model.errors import ConfigInvalid
from simlab.packet import layout as at
from simlab.packet import profile_layout as profile
from simlab.packet.build_ports import headroom, thresholds_at
from simlab.packet.parameters import (
    Balancing,
    CongestionControl,
    EcnAt,
    Form,
    Model,
    NicModel,
    SwitchModel,
)
from simlab.packet.picoseconds import ps
from simlab.packet.results import group_words, message_rows, port_rows, queue_words
from simlab.packet.routing import build_routes, hashed_paths, host_address
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, Topology, leaf_spine, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import Flow, incast, permutation, traffic_of_flows
from tests.simlab.packet.bare import MODEL, SIZE, WIRE, alone

M1, M2 = 2147483563, 2147483399  # the moduli of L'Ecuyer's two generators


def test_time_is_in_picoseconds_over_the_whole_of_a_run():
    assert [ps(seconds) for seconds in (1.0, 16.0, 1e-12, 0.4e-12)] == [
        10**12,
        16 * 10**12,
        1,
        0,
    ]


def test_a_seed_starts_both_generators_within_their_range_and_is_1_if_not_said():
    # of this seed a second generator that is taken modulo M2 would get stuck at 0
    stuck = (M2 - 1 - 987654321) * pow(40503, -1, M2) % M2
    for seed in (0, 1, stuck, -5):
        sim = Simulation(star(2), MODEL, alone(), seed=seed)
        assert 1 <= sim.word(at.RANDOM_A) < M1
        assert 1 <= sim.word(at.RANDOM_B) < M2
    plain, one = (Simulation(star(2), MODEL, alone(), **more) for more in ({}, {"seed": 1}))
    assert (plain.s == one.s).all()


@pytest.mark.parametrize("seed", [7, -1])
def test_every_region_starts_from_numpy_s_sequence_of_seed_and_region(seed):
    sim = Simulation(star(2), MODEL, alone(), seed=seed)
    row = sim.s[sim.word(at.REGIONS) :]
    words = np.random.SeedSequence([seed % 2**64, 0]).generate_state(2).tolist()
    assert row[at.REGION_RANDOM_A] == words[0] % (M1 - 1) + 1
    assert row[at.REGION_RANDOM_B] == words[1] % (M2 - 1) + 1


@pytest.mark.parametrize("window", [0, 31, 32, 63, 100])
def test_the_bitmaps_of_selective_repeat_hold_a_window_of_4096_packets_if_none_is_given(window):
    wire = replace(WIRE, selective_repeat=True, window_packets=window)
    sim = Simulation(star(2), replace(MODEL, transport=wire), alone())
    assert sim.word(at.WINDOW_PACKETS) == (window or 4096)
    assert 32 * sim.word(at.SR_WORDS) > (window or 4096)
    plain = Simulation(star(2), MODEL, alone())
    assert (plain.word(at.WINDOW_PACKETS), plain.word(at.SR_WORDS)) == (0, 0)


def profile_word(control: CongestionControl, word: int) -> int:
    sim = Simulation(star(2), replace(MODEL, congestion=control), alone())
    (row,) = sim.state.profiles.values()
    return sim.word(row + word)


def test_periods_and_rates_of_nothing_are_the_least_that_the_clock_has():
    dcqcn = DcqcnParameters(
        alpha_period_s=0.0, cut_window_s=0.0, increase_timer_s=0.0, min_rate_bps=0.0
    )
    control = CongestionControl(dcqcn=dcqcn)
    for word in (profile.RP_ALPHA_PERIOD, profile.RP_WINDOW, profile.RP_TIMER, profile.RP_MIN):
        assert profile_word(control, word) == 1


def test_a_table_of_delays_ends_at_its_last_entry():
    for table, limit in (((), 0), ((0.0,), 0), ((0.0, 1.0, 2.5), 2)):
        control = CongestionControl(form=Form.INFINIBAND, cct=table)
        assert profile_word(control, profile.RP_CCT_LIMIT) == limit


def test_where_nothing_starts_nothing_happens():
    pair = (Connection(src=0, dst=1), Connection(src=1, dst=0))
    waiting = tuple(
        Message(connection=i, size_bytes=1000, free=0, after=(1 - i,)) for i in range(2)
    )
    sim = Simulation(star(2), MODEL, Traffic(pair, waiting))
    assert not sim.run(1e-3)
    assert sim.events == 0


@pytest.mark.parametrize("gated", [False, True])
def test_delayed_messages_have_room_in_the_heap_beside_the_watched_queues(gated):
    """64 messages wait for one, each a microsecond longer than the one before."""
    connections = tuple(Connection(src=0, dst=1, src_qp=i, dst_qp=i) for i in range(65))

    def waiting(number: int) -> Message:
        if gated:
            more = {"gates": (0,), "gate_delay_s": number * 1e-6}
        else:
            more = {"free": 0, "after": (0,), "delay_s": number * 1e-6}
        return Message(connection=number, size_bytes=1000, **more)

    messages = (Message(connection=0, size_bytes=1000), *(waiting(i) for i in range(1, 65)))
    sim = Simulation(star(2), MODEL, Traffic(connections, messages))
    sim.watch([(3, 3)], 1e-6, 90e-6)
    sim.run(90e-6)
    rows = message_rows(sim)
    begun = rows[1:, at.MSG_START] - rows[0, at.MSG_RECEIVED_TIME]
    assert begun.tolist() == [i * 10**6 for i in range(1, 65)]
    assert (rows[:, at.MSG_ACKED_TIME] > 0).all()
    assert len(sim.samples()) == 91


def test_a_rate_has_its_own_thresholds_and_a_single_entry_scales():
    slow, fast = (
        EcnAt(rate_bps=rate, thresholds=EcnThresholds(kmin, 2 * kmin, 0.5))
        for rate, kmin in ((40e9, 1000), (100e9, 5000))
    )
    assert thresholds_at((slow, fast), 40e9) == slow.thresholds
    assert thresholds_at((slow, fast), 100e9) == fast.thresholds
    assert thresholds_at((slow, fast), 200e9) is None
    assert thresholds_at((slow,), 200e9) == EcnThresholds(5000, 10_000, 0.5)
    assert thresholds_at((), 40e9) is None
    fabric = star(2, rate_bps=80e9)
    switch = SwitchModel(ecn=(slow,), ecn_skip_bytes=7)
    sim = Simulation(fabric, replace(MODEL, switch=switch), alone())
    limits = [queue_words(sim, word)[1, 3] for word in (at.QUEUE_KMIN, at.QUEUE_KMAX)]
    assert limits == [2007, 4007]


def test_headroom_is_what_is_in_flight_and_whole_packets():
    assert headroom(SwitchModel(), 100e9, 1e-6, 1048) == 3 * 12_500
    more = SwitchModel(headroom_delays=2.0, headroom_packets=2.0)
    assert headroom(more, 100e9, 1e-6, 1048) == 2 * 12_500 + 2 * 1048
    assert headroom(SwitchModel(headroom_bytes=5), 100e9, 1e-6, 1048) == 5


def test_alpha_doubles_with_every_doubling_over_the_rate_of_the_hosts():
    """As in HPCC: 1/8 at 100 Gbit/s, where the hosts are, 1/4 from 200 on and 1/2 from 400."""
    cables = (
        Cable(2, 3, 400e9, 1e-6), Cable(2, 3, 50e9, 1e-6), Cable(0, 2, 100e9, 1e-6),
        Cable(1, 3, 100e9, 1e-6), Cable(2, 3, 300e9, 1e-6), Cable(2, 3, 100e9, 1e-6),
    )  # fmt: skip
    fabric = Topology(4, (2, 3), cables, (0, 0, 1, 1))
    switch = SwitchModel(alpha_doubles_with_rate=True)
    for model, wanted in (
        (replace(MODEL, switch=switch), [1 / 2, 1 / 8, 1 / 4, 1 / 8, 1 / 8]),
        (MODEL, [1 / 8] * 5),
    ):
        sim = Simulation(fabric, model, alone())
        alphas = group_words(sim, at.GROUP_ALPHA)[[0, 5, 8, 10, 2], 3] / at.RATIO_ONE
        assert alphas.tolist() == wanted


def test_reserves_and_headroom_come_out_of_the_buffer_and_leave_no_less_than_nothing():
    switch = SwitchModel(buffer_bytes=100_000, reserved_bytes=1000, headroom_bytes=9000)
    for lossless, pool in (((3,), 80_000), ((3, 4), 62_000)):
        model = replace(MODEL, switch=replace(switch, lossless=lossless))
        sim = Simulation(star(2), model, alone())
        assert sim.word(sim.state.switches + at.SWITCH_POOL) == pool
        room = group_words(sim, at.GROUP_HEADROOM)[1]
        assert room.tolist() == [9000 if priority in lossless else 0 for priority in range(8)]
    small = replace(MODEL, switch=replace(switch, buffer_bytes=10_000))
    sim = Simulation(star(2), small, alone())
    assert sim.word(sim.state.switches + at.SWITCH_POOL) == 0


def longest_queue(model: Model, frame: int = SIZE) -> int:
    wire = replace(WIRE, payload_bytes=frame - 48)
    sim = Simulation(star(3), replace(model, transport=wire), incast([0, 1], 2, 2_000_000))
    sim.run(300e-6)
    return int(queue_words(sim, at.QUEUE_WATERMARK)[5, 3])


def test_an_egress_alpha_of_one_lets_a_lossless_queue_have_half_of_the_pool():
    """What conweave does even with PFC on: q <= alpha (pool - q)."""
    switch = SwitchModel(
        buffer_bytes=1_000_000, headroom_bytes=100_000, reserved_bytes=0, xoff_bytes=900_000,
        egress_alpha=1.0,
    )  # fmt: skip
    pool = 1_000_000 - 3 * 100_000
    assert pool / 2 - SIZE < longest_queue(replace(MODEL, switch=switch)) <= pool / 2 + SIZE


def test_a_lossy_class_may_fill_64_of_65_parts_of_the_pool_from_one_port():
    switch = SwitchModel(
        buffer_bytes=1_000_000, lossless=(), reserved_bytes=0, lossy_alpha=1e4,
    )  # fmt: skip
    model = replace(MODEL, switch=switch)
    wire = replace(WIRE, payload_bytes=52)
    cables = (Cable(0, 2, 400e9, 1e-6), Cable(1, 2, 10e9, 1e-6))
    fabric = Topology(3, (2,), cables, (0, 0, 1))
    sim = Simulation(fabric, replace(model, transport=wire), incast([0], 1, 1_000_000))
    sim.run(50e-6)
    assert queue_words(sim, at.QUEUE_DROPPED).sum() + group_words(sim, at.GROUP_DROPPED).sum() > 0
    assert queue_words(sim, at.QUEUE_WATERMARK)[3, 3] == pytest.approx(1e6 * 64 / 65, abs=101)


def test_packets_that_cannot_be_marked_keep_their_priority():
    flow = Flow(src=0, dst=1, size_bytes=5000, priority=2)
    for capable in (True, False):
        model = replace(MODEL, nics={0: NicModel(ecn_capable=capable)})
        sim = Simulation(star(2), model, traffic_of_flows([flow], reuse=False))
        assert sim.run(1e-3, stop_when_done=True)
        assert queue_words(sim, at.QUEUE_TX_PACKETS)[3].nonzero()[0].tolist() == [2]


def chain(switches: int) -> Topology:
    """Two hosts at the ends of a row of switches."""
    ends = [(0, 2), *((2 + i, 3 + i) for i in range(switches - 1)), (1, 1 + switches)]
    cables = tuple(Cable(a, b, 100e9, 1e-6) for a, b in ends)
    return Topology(2 + switches, tuple(range(2, 2 + switches)), cables)


def test_a_path_crosses_16_switches_at_most():
    sim = Simulation(chain(16), MODEL, alone())
    assert len(sim.state.paths[0][0]) == 16
    with pytest.raises(ConfigInvalid, match="no path from host 0 to 1"):
        Simulation(chain(17), MODEL, alone())


def test_hosts_have_the_addresses_of_the_hpcc_files():
    for node, address in (
        (0, "11.0.0.1"),
        (255, "11.0.255.1"),
        (256, "11.1.0.1"),
        (813, "11.3.45.1"),
    ):
        assert ".".join(str(byte) for byte in host_address(node).to_bytes(4, "big")) == address


def test_a_switch_without_a_tier_is_of_the_first():
    fabric = replace(leaf_spine(2, 4, 8), tier=())
    traffic = permutation(range(16), 1000, shift=8)
    one_way = HashSpec(HashAlgorithm.CRC_CCITT, (HashField.DST_PORT,))
    for tiers, used in (({1: one_way}, 1), ({2: one_way}, 4)):
        balancing = Balancing(tiers=tiers)
        routes = build_routes(fabric, balancing)
        paths = hashed_paths(fabric, balancing, routes, traffic.connections)
        assert len({path[0] for path in paths if fabric.end(path[0]) == 16}) == used


def test_a_run_is_of_17_seconds_at_most_and_begins_at_nothing():
    sim = Simulation(star(2), MODEL, alone())
    assert (sim.now_s, sim.wall_s, sim.cpu_s, sim.sample_s, sim.events) == (0, 0, 0, 0, 0)
    assert sim.samples().shape == (0, 1)
    assert sim.run(17.0)
    assert sim.reseeded(1).wall_s == sim.reseeded(1).cpu_s == 0.0
    for wrong in (17.01, -1e-12):
        with pytest.raises(ConfigInvalid, match="duration"):
            sim.run(wrong)


@pytest.mark.parametrize(
    ("queues", "period", "until", "wrong"),
    [
        (1, 17.0, 1.0, False), (1, 17.5, 1.0, True),
        (1, 1e-12, (2**27 - 2) * 1e-12, False), (1, 1e-12, (2**27 - 1) * 1e-12, True),
        (2, 1e-12, (2**26 - 2) * 1e-12, False), (2, 1e-12, (2**26 - 1) * 1e-12, True),
    ],
)  # fmt: skip
def test_samples_are_17_s_apart_at_most_and_fill_a_gibibyte_at_most(queues, period, until, wrong):
    """2**27 words: a sample of a queue a picosecond, the first and the last one as well."""
    sim = Simulation(star(2), MODEL, alone())
    watched = [(port, 3) for port in range(queues)]
    if wrong:
        with pytest.raises(ConfigInvalid, match="period"):
            sim.watch(watched, period, until)
    else:
        sim.watch(watched, period, until)
        assert sim.sample_s == period


def test_only_queues_of_the_fabric_are_watched_and_as_many_as_it_has_ports():
    sim = Simulation(star(2), MODEL, alone())
    for place in ((0, 0), (3, 7)):
        sim.watch([place], 1e-12, 3e-12)
    for place in ((4, 3), (-1, 3), (0, 8), (0, -1)):
        with pytest.raises(ConfigInvalid, match=r"directed ports 0\.\.3 and priorities 0\.\.7"):
            sim.watch([place], 1e-6, 1e-6)
    for period in (0.0, 0.4e-12):
        with pytest.raises(ConfigInvalid, match="period"):
            sim.watch([(0, 3)], period, 1e-6)
    sim.watch([(0, 3)] * 4, 1e-6, 1e-6)
    with pytest.raises(ConfigInvalid, match="more queues"):
        sim.watch([(0, 3)] * 5, 1e-6, 1e-6)
    sim.watch([(0, 3)], 1e-12, 3e-12)
    sim.run(10e-12)
    assert sim.samples().shape == (5, 1)
    assert port_rows(sim)[0, at.PORT_NUMBER] == 0
