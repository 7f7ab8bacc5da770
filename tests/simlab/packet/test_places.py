"""Settings of single switches, ports and NICs: each acts where it is set, and nowhere else."""

from dataclasses import replace
from pathlib import Path

import pytest

from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.config import plan_of
from simlab.packet.parameters import CongestionControl, EcnAt, Form, Model, NicModel, SwitchModel
from simlab.packet.results import group_words, port_rows, qp_table, queue_words
from simlab.packet.simulation import Simulation
from simlab.packet.topology import leaf_spine, star
from simlab.packet.workloads import incast

ECN = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(20e3, 80e3, 1.0)),)
MODEL = Model(switch=SwitchModel(ecn=ECN))
SWITCH = 4  # of a star of four hosts
TO_HOST_0, TO_HOST_3 = 2 * 0 + 1, 2 * 3 + 1


def run(model: Model, until_s: float = 3e-4, size: int = 10_000_000) -> Simulation:
    sim = Simulation(star(4), model, incast([0, 1], 3, size))
    sim.run(until_s)
    return sim


def test_ecn_off_at_one_port_leaves_it_on_elsewhere():
    off = replace(MODEL.switch, ecn=())
    assert queue_words(run(MODEL), at.QUEUE_MARKED)[TO_HOST_3, 3] > 0
    there = run(replace(MODEL, ports={TO_HOST_3: off}))
    assert queue_words(there, at.QUEUE_MARKED).sum() == 0
    elsewhere = run(replace(MODEL, ports={TO_HOST_0: off}))
    assert queue_words(elsewhere, at.QUEUE_MARKED)[TO_HOST_3, 3] > 0


def test_one_reaction_point_off_ignores_its_cnps():
    off = NicModel(congestion=CongestionControl(form=Form.OFF))
    table = qp_table(run(replace(MODEL, nics={1: off})))
    assert table["cuts"][0] > 0
    assert table["cuts"][1] == 0
    assert table["cnp_handled"][1] > 0


def test_a_silent_notification_point_sends_no_cnp():
    table = qp_table(run(replace(MODEL, nics={3: NicModel(sends_cnps=False)})))
    assert table["ce_received"].sum() > 0
    assert table["cnp_sent"].sum() == 0


def test_packets_without_ect_are_not_marked():
    table = qp_table(run(replace(MODEL, nics={0: NicModel(ecn_capable=False)})))
    assert table["ce_received"][0] == 0
    assert table["ce_received"][1] > 0


def test_a_small_mtu_loses_full_frames_and_no_others():
    small = replace(MODEL.switch, mtu_bytes=1500)
    sim = run(replace(MODEL, ports={2 * 0: MODEL.switch, TO_HOST_0: small}))
    assert port_rows(sim)[0, at.PORT_LOST] > 0
    assert qp_table(sim)["rx_bytes"][0] == 0
    assert qp_table(sim)["rx_bytes"][1] > 0
    short = run(replace(MODEL, ports={TO_HOST_0: small}), size=1000)
    assert port_rows(short)[0, at.PORT_LOST] == 0


def test_a_nic_without_pfc_sends_on_and_overflows_the_headroom():
    tight = Model(
        congestion=CongestionControl(form=Form.OFF),
        switch=SwitchModel(buffer_bytes=600_000, headroom_bytes=40_000),
    )
    assert group_words(run(tight), at.GROUP_DROPPED).sum() == 0
    deaf = run(replace(tight, nics={0: NicModel(pfc=False)}))
    assert group_words(deaf, at.GROUP_DROPPED)[TO_HOST_0, 3] > 0
    assert group_words(deaf, at.GROUP_DROPPED)[2 * 1 + 1, 3] == 0


def test_a_priority_goes_to_the_queue_of_its_class():
    odd = replace(MODEL.switch, classes={3: 0})
    top = leaf_spine(2, 1, 2)
    leaf = top.switches[0]
    sim = Simulation(top, replace(MODEL, switches={leaf: odd}), incast([0, 1], 3, 1_000_000))
    sim.run(2e-4)
    sent = queue_words(sim, at.QUEUE_TX_PACKETS)
    ports = top.ports_of()
    up = next(p for p in ports[leaf] if top.peer(p) in top.switches)
    assert sent[up, 0] > 0
    assert sent[up, 3] == 0
    assert sent[2 * 3 + 1, 3] > 0  # the next switch maps it as usual


def test_one_receiver_runs_out_of_requests():
    sim = Simulation(
        star(4),
        replace(MODEL, nics={2: NicModel(receive_requests=1, receive_interval_s=1e-3)}),
        incast([0, 1], 2, 200_000, qps=2),
    )
    sim.run(1e-3)
    assert qp_table(sim)["rnr_naks"].sum() == 0  # each QP has one message and one request
    starved = replace(MODEL, nics={2: NicModel(receive_requests=0, receive_interval_s=1e-3)})
    sim = Simulation(star(4), starved, incast([0, 1], 2, 200_000))
    sim.run(5e-4)
    assert qp_table(sim)["rnr_naks"].sum() > 0
    other = Simulation(star(4), starved, incast([0, 1], 3, 200_000))
    other.run(5e-4)
    assert qp_table(other)["rnr_naks"].sum() == 0


@pytest.mark.parametrize("place", [None, SWITCH])
def test_a_whole_switch_may_differ(place):
    off = replace(MODEL.switch, ecn=())
    model = replace(MODEL, switch=off) if place is None else replace(MODEL, switches={place: off})
    assert queue_words(run(model), at.QUEUE_MARKED).sum() == 0


def test_a_rate_that_is_no_whole_number_is_kept_to():
    """A third of 100 Gbit/s as a float has a fraction too long for the clock's 64 bits."""
    sim = Simulation(star(3, rate_bps=100e9 / 3), Model(), incast([0, 1], 2, 10_000_000))
    sim.run(1e-3)
    sent = port_rows(sim)[2 * 2 + 1, at.PORT_TX_BYTES] * 8 / 1e-3
    assert sent == pytest.approx(100e9 / 3, rel=0.02)


def test_a_seed_that_a_file_gives_is_the_seed_of_every_switch():
    def seeds(balancing):
        data = {
            "duration_s": 1e-3, "topology": {"kind": "leaf_spine", "leaves": 2, "spines": 1,
            "hosts_per_leaf": 1}, "workload": {"kind": "permutation", "size_bytes": 9},
            "model": {"balancing": balancing},
        }  # fmt: skip
        plan = plan_of(data, "here", Path())
        spec_at, tier = plan.model.balancing.spec_at, plan.topology.tier
        return [spec_at(node, tier[node]).seed for node in plan.topology.switches]

    assert seeds({}) == [2, 3, 4]
    assert seeds({"hash": {"algorithm": "crc_32lo"}}) == [2, 3, 4]
    assert seeds({"hash": {"seed": 10}}) == [10, 10, 10]
    assert seeds({"hash": {"seed": 10}, "tiers": {2: {"seed": 25}}}) == [10, 10, 25]
    assert seeds({"hash": {"seed": 10}, "seed_by_node": True}) == [2, 3, 4]
