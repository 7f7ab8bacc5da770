"""Collectives: who waits for whom, how much is sent, and how long an undisturbed one takes."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from collectors.model.errors import ConfigInvalid
from collectors.model.roce import source_port
from simlab.packet import collectives
from simlab.packet import layout as at
from simlab.packet.collectives import Collective, Kind, QpMode, collective
from simlab.packet.results import iteration_times, message_rows, port_table, qp_table, summary
from simlab.packet.simulation import Simulation
from simlab.packet.topology import rail_optimised, star
from tests.simlab.packet.bare import MODEL


def run(what: Collective, hosts: int = 4) -> Simulation:
    sim = Simulation(star(hosts), MODEL, collective(what))
    assert sim.run(1.0, stop_when_done=True)
    return sim


def sent_payload(sim: Simulation) -> np.ndarray:
    """Payload that each host sent, from the data packets on its wire."""
    packets = qp_table(sim)["tx_packets"]
    src = np.array([c.src for c in sim.traffic.connections])
    return np.bincount(src, weights=packets) * 1000


@pytest.mark.parametrize("mode", list(QpMode))
@pytest.mark.parametrize(("kind", "steps"), [(Kind.ALL_REDUCE, 6), (Kind.ALL_GATHER, 3)])
def test_a_ring_sends_its_share_in_every_step(kind, steps, mode):
    what = Collective(kind=kind, ranks=(0, 1, 2, 3), size_bytes=32_000, qps=2, mode=mode)
    sim = run(what)
    assert sent_payload(sim).tolist() == [steps * 8000] * 4
    rows = message_rows(sim)
    assert (rows[:, at.MSG_RECEIVED] == rows[:, at.MSG_REPEAT]).all()
    # Each step is 8 packets over two wires, with ACKs of the other direction in between.
    step = 9 * 83.84 + 2000
    assert steps * step < iteration_times(sim)[0] * 1e9 < steps * (step + 9 * 4.8 + 90)


def test_a_step_waits_for_the_step_before_of_the_neighbour():
    what = Collective(kind=Kind.REDUCE_SCATTER, ranks=(0, 1, 2, 3), size_bytes=4000, start_s=1e-6)
    quick = iteration_times(run(what))[0]
    slow = Collective(
        kind=Kind.REDUCE_SCATTER, ranks=(0, 1, 2, 3), size_bytes=4000, start_s=1e-6, reduce_s=5e-6
    )
    assert iteration_times(run(slow))[0] == pytest.approx(quick + 2 * 5e-6, abs=50e-9)


def test_compute_time_separates_iterations():
    what = Collective(
        kind=Kind.ALL_REDUCE, ranks=(2, 0, 3, 1), size_bytes=40_000, iterations=3, compute_s=70e-6
    )
    sim = run(what)
    times = iteration_times(sim)
    assert len(times) == 3
    assert times[1] == pytest.approx(times[0], rel=0.02)
    assert sim.now_s == pytest.approx(sum(times) + 2 * 70e-6, rel=0.02)


def test_a_tree_reduces_up_and_broadcasts_down():
    what = Collective(kind=Kind.TREE_ALL_REDUCE, ranks=tuple(range(7)), size_bytes=80_000, chunks=4)
    sim = run(what, hosts=7)
    assert sent_payload(sim).sum() == 2 * 6 * 80_000
    rows = message_rows(sim)
    last_leaf_up = max(
        int(rows[i, at.MSG_RECEIVED_TIME])
        for i, m in enumerate(sim.traffic.messages)
        if sim.traffic.connections[m.connection].dst == 0
    )
    first_down = min(
        int(rows[i, at.MSG_START])
        for i, m in enumerate(sim.traffic.messages)
        if sim.traffic.connections[m.connection].src == 0
    )
    assert first_down < last_leaf_up  # pipelined by chunks
    one_chunk = Collective(
        kind=Kind.TREE_ALL_REDUCE, ranks=tuple(range(7)), size_bytes=80_000, chunks=1
    )
    assert iteration_times(run(one_chunk, hosts=7))[0] > 1.3 * iteration_times(sim)[0]


def test_a_tree_and_an_all_to_all_share_their_bytes_among_channels_and_queue_pairs():
    for kind, ends, total in (
        (Kind.TREE_ALL_REDUCE, 2 * 2, 2 * 2 * 12_000),
        (Kind.ALL_TO_ALL, 3 * 2, 3 * 2 * 4_000),
    ):
        what = Collective(kind=kind, ranks=(0, 1, 2), size_bytes=12_000, channels=2, qps=3)
        sim = run(what, hosts=3)
        assert set(Counter((c.src, c.dst) for c in sim.traffic.connections).values()) == {6}
        assert len(sim.traffic.connections) == 6 * ends
        assert sim.done
        assert sum(m.size_bytes * m.repeat for m in sim.traffic.messages) == total


def test_all_to_all_reaches_every_pair_once():
    what = Collective(kind=Kind.ALL_TO_ALL, ranks=(0, 1, 2, 3), size_bytes=16_000, window=2)
    sim = run(what)
    assert {(c.src, c.dst) for c in sim.traffic.connections} == {
        (a, b) for a in range(4) for b in range(4) if a != b
    }
    assert sent_payload(sim).tolist() == [12_000] * 4
    assert port_table(sim)["tx_bytes"][1::2].min() >= 12 * 1048


def test_all_to_all_splits_its_messages_over_the_queue_pairs():
    what = Collective(kind=Kind.ALL_TO_ALL, ranks=(0, 1, 2, 3), size_bytes=16_000, window=2, qps=2)
    sim = run(what)
    ends = Counter((c.src, c.dst) for c in sim.traffic.connections)
    assert len(ends) == 12
    assert set(ends.values()) == {2}
    assert {message.size_bytes for message in sim.traffic.messages} == {2_000}
    assert sent_payload(sim).tolist() == [12_000] * 4
    waiting = [len(m.after) for m in sim.traffic.messages if m.after]
    assert waiting == [2] * 8  # both parts of the step before the window, of one step and 4 ranks


def test_the_hierarchical_form_stays_on_its_rails_and_adds_the_time_inside():
    what = Collective(
        kind=Kind.HIERARCHICAL_ALL_REDUCE, ranks=tuple(range(8)), size_bytes=32_000, rails=2,
        nvlink_bps=1.6e12,
    )  # fmt: skip
    sim = Simulation(rail_optimised(4, 2, 1), MODEL, collective(what))
    assert sim.run(1.0, stop_when_done=True)
    assert all(c.src % 2 == c.dst % 2 for c in sim.traffic.connections)
    assert sent_payload(sim).tolist() == [6 * 4000] * 8
    inside = 0.5 * 32_000 * 8 / 1.6e12
    assert message_rows(sim)[:, at.MSG_START].min() == round(inside * 1e12)


def test_more_qps_change_no_bytes():
    for qps in (1, 3):
        what = Collective(
            kind=Kind.ALL_REDUCE, ranks=(0, 1, 2), size_bytes=30_000, qps=qps, channels=2
        )
        sim = run(what, hosts=3)
        assert summary(sim).messages == 3 * qps * 2
        assert sum(m.size_bytes * m.repeat for m in sim.traffic.messages) == 3 * 4 * 10_000


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigInvalid, match="two different"):
        collective(Collective(kind=Kind.ALL_REDUCE, ranks=(1, 1), size_bytes=10))
    with pytest.raises(ConfigInvalid, match="whole hosts"):
        collective(
            Collective(kind=Kind.HIERARCHICAL_ALL_REDUCE, ranks=(0, 1, 2), size_bytes=10, rails=2)
        )


def messages_of(**what) -> list[tuple]:
    """Return every message as (from, to, bytes, repeats, free, messages waited for)."""
    made = collective(Collective(**{"ranks": (4, 5, 6), **what}))
    ends = [made.connections[m.connection] for m in made.messages]
    return [
        (end.src, end.dst, m.size_bytes, m.repeat, m.free, m.after)
        for end, m in zip(ends, made.messages, strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "steps"), [(Kind.ALL_REDUCE, 4), (Kind.ALL_GATHER, 2), (Kind.REDUCE_SCATTER, 2)]
)
def test_every_rank_of_a_ring_waits_for_all_parts_from_the_one_before(kind, steps):
    """3 ranks: shares of a third, rounded up, cut over 2 QPs; 2(n-1) steps or n-1."""
    assert messages_of(kind=kind, size_bytes=3001, qps=2) == [
        (4, 5, 500, steps, 1, (4, 5)), (4, 5, 501, steps, 1, (4, 5)),
        (5, 6, 500, steps, 1, (0, 1)), (5, 6, 501, steps, 1, (0, 1)),
        (6, 4, 500, steps, 1, (2, 3)), (6, 4, 501, steps, 1, (2, 3)),
    ]  # fmt: skip


def test_whole_steps_go_over_the_queue_pairs_in_turn():
    """4 steps, step s over QP s mod 3: the first QP has two of them, and starts."""
    what = {"kind": Kind.ALL_REDUCE, "size_bytes": 3000, "qps": 3, "mode": QpMode.ROUND_ROBIN}
    assert messages_of(**what)[:6] == [
        (4, 5, 1000, 2, 1, (8,)), (4, 5, 1000, 1, 0, (6,)), (4, 5, 1000, 1, 0, (7,)),
        (5, 6, 1000, 2, 1, (2,)), (5, 6, 1000, 1, 0, (0,)), (5, 6, 1000, 1, 0, (1,)),
    ]  # fmt: skip
    more = messages_of(**{**what, "kind": Kind.ALL_GATHER})
    assert [one[3:] for one in more[:2]] == [(1, 1, (5,)), (1, 0, (4,))]  # no QP without a step
    assert len(more) == 6


def test_channels_share_the_steps_and_stay_apart():
    made = messages_of(kind=Kind.REDUCE_SCATTER, size_bytes=3003, channels=2)
    assert [one[2] for one in made] == [500] * 3 + [501] * 3
    assert [one[5] for one in made] == [(2,), (0,), (1,), (5,), (3,), (4,)]
    tiny = messages_of(kind=Kind.REDUCE_SCATTER, size_bytes=3, channels=2)
    assert [one[2] for one in tiny] == [1] * 6  # at least a byte


def test_a_tree_waits_for_its_children_and_then_for_its_parents():
    """Five ranks: 0 has children 1 and 2, 1 has 3 and 4; two chunks of half the buffer."""
    made = messages_of(
        kind=Kind.TREE_ALL_REDUCE, ranks=(10, 11, 12, 13, 14), size_bytes=5000, chunks=2
    )
    up = [(14, 11, ()), (13, 11, ()), (12, 10, ()), (11, 10, (1, 0))]
    down = [(10, 11, (3, 2)), (10, 12, (3, 2)), (11, 13, (4,)), (11, 14, (4,))]
    wanted = [(src, dst, 2500, 2, 0 if after else 2, after) for src, dst, after in up + down]
    assert made == wanted
    assert messages_of(kind=Kind.TREE_ALL_REDUCE, size_bytes=3, chunks=8)[0][2:4] == (1, 8)


def test_an_all_to_all_serves_as_many_peers_at_once_as_its_window():
    made = messages_of(kind=Kind.ALL_TO_ALL, ranks=(0, 1, 2, 3), size_bytes=4003, window=2)
    steps = [[(rank, (rank + step) % 4) for rank in range(4)] for step in (1, 2, 3)]
    assert [one[:2] for one in made] == steps[0] + steps[1] + steps[2]
    assert {one[2] for one in made} == {1000}
    assert [one[4:] for one in made[:8]] == [(1, ())] * 8
    # step 3 of a rank waits for what came to it in step 1, from the rank before
    assert [one[4:] for one in made[8:]] == [(0, (3,)), (0, (0,)), (0, (1,)), (0, (2,))]
    narrow = messages_of(kind=Kind.ALL_TO_ALL, ranks=(0, 1, 2), size_bytes=2)
    assert [one[2:] for one in narrow[3:]] == [(1, 1, 0, (2,)), (1, 1, 0, (0,)), (1, 1, 0, (1,))]


def test_an_iteration_waits_for_all_that_its_rank_received_in_the_one_before():
    what = Collective(
        kind=Kind.REDUCE_SCATTER, ranks=(4, 5, 6), size_bytes=3000, iterations=3, compute_s=7e-6,
        reduce_s=2e-6, start_s=5e-6, priority=4,
    )  # fmt: skip
    made = collective(what)
    assert [m.gates for m in made.messages] == [(), (), (), (2,), (0,), (1,), (5,), (3,), (4,)]
    assert [m.gate_delay_s for m in made.messages] == [0.0] * 3 + [7e-6] * 6
    assert [m.label for m in made.messages] == [f"iteration {i // 3}" for i in range(9)]
    assert {(m.start_s, m.delay_s) for m in made.messages} == {(5e-6, 2e-6)}
    assert {one.priority for one in made.connections} == {4}
    assert made.name == "reduce_scatter"


def test_queue_pairs_of_a_collective_are_numbered_by_host_with_the_kernel_s_ports():
    made = collective(Collective(kind=Kind.REDUCE_SCATTER, ranks=(4, 5, 6), size_bytes=3))
    pairs = [(one.src_qp, one.dst_qp) for one in made.connections]
    assert pairs == [(0x100, 0x100), (0x101, 0x100), (0x101, 0x101)]
    assert [one.sport for one in made.connections] == [source_port(a, b) for a, b in pairs]


def test_the_time_inside_a_host_is_before_and_between_the_iterations():
    """2 rails, 2 hosts: half of 4 MB at 100 Gbit/s goes to the other NIC, before and after."""
    what = Collective(
        kind=Kind.HIERARCHICAL_ALL_REDUCE, ranks=(0, 1, 2, 3), size_bytes=4_000_001, rails=2,
        nvlink_bps=1e11, start_s=1e-6, compute_s=3e-6, iterations=2,
    )  # fmt: skip
    made = collective(what)
    inside = 4_000_001 / 2 * 8 / 1e11
    assert [m.start_s for m in made.messages] == pytest.approx([1e-6 + inside] * 8)
    assert made.messages[-1].gate_delay_s == pytest.approx(3e-6 + 2 * inside)
    assert {(one.src, one.dst) for one in made.connections} == {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert {(m.size_bytes, m.repeat) for m in made.messages} == {(1_000_001, 2)}
    plain = collective(replace(what, nvlink_bps=0.0))
    assert {m.start_s for m in plain.messages} == {1e-6}
    fast = collective(replace(what, nvlink_bps=0.5))
    assert fast.messages[0].start_s == pytest.approx(4_000_001 / 2 * 8 / 0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ranks": (1,)}, {"ranks": ()}, {"channels": 0}, {"qps": 0}, {"iterations": 0},
        {"chunks": 0}, {"window": 0}, {"rails": 0}, {"size_bytes": 0}, {"compute_s": -1.0},
        {"compute_s": math.inf}, {"reduce_s": math.nan}, {"nvlink_bps": -1.0},
        {"qps": 10**9}, {"channels": 10**9}, {"iterations": 10**9},
        {"kind": Kind.HIERARCHICAL_ALL_REDUCE, "ranks": (0, 1), "rails": 2},
    ],
)  # fmt: skip
def test_a_collective_of_nothing_is_refused(wrong):
    with pytest.raises(ConfigInvalid):
        messages_of(**{"kind": Kind.ALL_REDUCE, "size_bytes": 10, **wrong})


def test_times_end_at_17_s_and_nvlink_at_a_petabit():
    for name, most, above in (
        ("compute_s", 17.0, 17.5), ("reduce_s", 17.0, 17.5), ("nvlink_bps", 1e15, 1e15 + 0.5),
    ):  # fmt: skip
        what = {"kind": Kind.ALL_REDUCE, "size_bytes": 10}
        assert messages_of(**what, **{name: most})
        with pytest.raises(ConfigInvalid, match=name):
            messages_of(**what, **{name: above})


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [(Kind.ALL_REDUCE, 12), (Kind.ALL_TO_ALL, 24), (Kind.TREE_ALL_REDUCE, 24)],
)
def test_queue_pairs_are_counted_before_they_are_made(kind, pairs, monkeypatch):
    """Of 3 ranks with 2 channels of 2 QPs: one neighbour each, two, or up and down."""
    seen = []
    monkeypatch.setattr(collectives, "check_counts", lambda name, **counts: seen.append(counts))
    messages_of(kind=kind, size_bytes=900, channels=2, qps=2, iterations=3)
    assert seen == [{"pairs": pairs, "messages": 3 * pairs}]


def test_the_least_collectives_are_made():
    assert len(messages_of(kind=Kind.ALL_REDUCE, ranks=(0, 1), size_bytes=10)) == 2
    what = {"kind": Kind.HIERARCHICAL_ALL_REDUCE, "ranks": (0, 1), "rails": 1, "size_bytes": 10}
    assert len(messages_of(**what)) == 2
