"""Collectives: who waits for whom, how much is sent, and how long an undisturbed one takes."""

from collections import Counter

import numpy as np
import pytest

from collectors.model.errors import ConfigInvalid
from simlab.packet import layout as at
from simlab.packet.collectives import Collective, Kind, QpMode, collective
from simlab.packet.parameters import CongestionControl, Form, Model, Transport
from simlab.packet.results import iteration_times, message_rows, port_table, qp_table, summary
from simlab.packet.simulation import Simulation
from simlab.packet.topology import rail_optimised, star

WIRE = Transport(payload_bytes=1000, header_bytes=48, ack_bytes=60, control_bytes=64)
MODEL = Model(transport=WIRE, congestion=CongestionControl(form=Form.OFF))


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
