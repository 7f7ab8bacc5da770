"""The engine's functions called by themselves: draws, limits and steps that a run seldom meets."""

from dataclasses import replace

import numpy as np
import pytest

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.egress import marked
from simlab.packet.engine import lost, run
from simlab.packet.events import random
from simlab.packet.parameters import (
    Balancing,
    CongestionControl,
    EcnAt,
    Form,
    HostModel,
    Model,
    Spread,
    SwitchModel,
)
from simlab.packet.reaction import notified, pacing_gap
from simlab.packet.results import port_table, qp_rows, qp_table, qp_total
from simlab.packet.simulation import Simulation
from simlab.packet.switching import flowlet_entry
from simlab.packet.topology import leaf_spine, star
from simlab.packet.workloads import Flow, traffic_of_flows
from tests.simlab.packet.bare import MODEL, WIRE, alone

M1, M2 = 2147483563, 2147483399  # the moduli of L'Ecuyer's two generators


def words(**values: int):
    """Return an engine vector with these words of the header set, and room behind it."""
    vector = np.zeros(at.TREE + 65536, dtype=np.int64)
    for name, value in values.items():
        vector[getattr(at, name)] = value
    return vector


def states_before(drawn: int) -> dict[str, int]:
    """Return the states of both generators whose next number is `drawn`."""
    first, second = (drawn + 1, 1) if drawn < M1 - 1 else (1, 1)
    return {
        "RANDOM_A": first * pow(40014, -1, M1) % M1,
        "RANDOM_B": second * pow(40692, -1, M2) % M2,
    }


@pytest.mark.parametrize(
    ("first", "second", "number"),
    [(2, 1, 1), (1, 1, M1 - 1), (1, M2 - 1, M1 - M2 + 1), (M1 - 1, 1, M1 - 2)],
)
def test_a_draw_is_the_difference_brought_into_1_to_the_range(first, second, number):
    vector = words(
        RANDOM_A=first * pow(40014, -1, M1) % M1, RANDOM_B=second * pow(40692, -1, M2) % M2
    )
    assert random(vector) == number
    assert (vector[at.RANDOM_A], vector[at.RANDOM_B]) == (first, second)
    assert at.RANDOM_RANGE == M1 - 1


@pytest.mark.parametrize(("drawn", "mark"), [(500, True), (501, False)])
def test_a_draw_as_large_as_the_probability_still_marks(drawn, mark):
    vector = words(**states_before(drawn))
    queue = at.TREE
    vector[queue + at.QUEUE_KMAX] = 2
    vector[queue + at.QUEUE_PMAX] = 1000  # half of it at one byte of two
    assert marked(vector, queue, 1) == mark


@pytest.mark.parametrize(("drawn", "gone"), [(1, True), (2, False)])
def test_a_draw_as_large_as_the_error_rate_still_loses(drawn, gone):
    vector = words(**states_before(drawn))
    port = at.TREE
    vector[port + at.PORT_ERROR] = 1
    assert lost(vector, port, 1048) == gone


@pytest.mark.parametrize("spread", [Spread.SPRAY, Spread.LEAST_QUEUE])
@pytest.mark.parametrize(("drawn", "uplink"), [(1431655709, 2), (1431655708, 1), (1, 0)])
def test_a_draw_gives_every_uplink_its_whole_third(spread, drawn, uplink):
    fabric = leaf_spine(2, 3, 1)
    sim = Simulation(fabric, replace(MODEL, balancing=Balancing(spread=spread)), alone())
    for name, value in states_before(drawn).items():
        sim.poke(getattr(at, name), value)
    sim.run(2e-6)
    up = [port for port in fabric.ports_of()[2] if fabric.peer(port) > 3]
    sent = port_table(sim)["tx_packets"][up].tolist()
    assert sent == [int(place == uplink) for place in range(3)]


def test_flowlet_rows_fill_their_table():
    vector = words()
    table = at.TREE
    switches, qps = 3, 2
    vector[at.FLOWLETS] = table
    vector[table] = switches
    rows = []
    for number in range(qps):
        for index in range(switches):
            vector[table + 100 + at.QP_INDEX] = number
            vector[table + 300 + at.SWITCH_INDEX] = index
            rows.append(flowlet_entry(vector, table + 300, table + 100))
    assert rows == [table + 1 + 2 * place for place in range(qps * switches)]


def test_the_rest_of_a_pacing_gap_is_carried_until_it_is_a_picosecond():
    vector = words(MTU_WIRE=1048)
    qp = at.TREE
    for word, value in ((at.QP_GAP, 10), (at.QP_GAP_REST, 1), (at.QP_RATE, 3)):
        vector[qp + word] = value
    vector[qp + at.QP_PROFILE] = qp + at.QP_WORDS
    assert [pacing_gap(vector, qp, 1048, 0) for _ in range(6)] == [10, 10, 11, 10, 10, 11]


def test_a_first_cnp_sets_its_rate_and_the_cut_ends_the_shortest_window():
    dcqcn = DcqcnParameters(first_cnp_rate_bps=1.0, cut_window_s=1e-12)
    control = CongestionControl(form=Form.FIRMWARE, dcqcn=dcqcn)
    sim = Simulation(star(2), replace(MODEL, congestion=control), alone())
    qp = sim.state.qps
    notified(sim.s, sim.f, qp, 0)
    assert qp_table(sim)["rate_bps"].tolist() == [1]
    assert qp_rows(sim)[0, at.QP_CUT_AT] == 1


def test_a_call_of_the_engine_processes_as_many_events_as_it_may():
    sim = Simulation(star(2), MODEL, alone(10))
    for calls in (1, 2):
        assert run(sim.s, sim.f, sim.trace, 10**9, 3) == at.PAUSED_FOR_BUDGET
        assert sim.events == 3 * calls


def test_the_engine_asks_for_memory_when_a_packet_is_beyond_the_limit():
    sim = Simulation(star(2), MODEL, alone())
    full = sim.word(at.PACKET_BRK)
    sim.poke(at.PACKET_LIMIT, full)
    assert run(sim.s, sim.f, sim.trace, 10**9, 1) == at.PAUSED_FOR_BUDGET
    sim.poke(at.PACKET_LIMIT, full - 1)
    assert run(sim.s, sim.f, sim.trace, 10**9, 1) == at.GROW_PACKETS


def test_the_shortest_timeout_ends_a_qp_after_its_retries():
    wire = replace(WIRE, rto_s=1e-12, retry_limit=1)
    sim = Simulation(star(2), replace(MODEL, transport=wire), alone())
    sim.run(1e-3)
    assert qp_table(sim)["timeouts"].tolist() == [2]
    assert qp_rows(sim)[0, at.QP_ERROR] == 1


def test_a_qp_that_gave_up_sends_nothing_when_acknowledgements_come_after_all():
    """Twice five packets in flight, a timeout of a fourth of the way, one retry."""
    wire = replace(WIRE, rto_s=1e-6, retry_limit=1, window_packets=5)
    sim = Simulation(star(2), replace(MODEL, transport=wire), alone(100))
    sim.run(1e-3)
    assert qp_rows(sim)[0, at.QP_ERROR] == 1
    assert qp_table(sim)["acked_packets"].tolist() == [5]
    assert qp_table(sim)["tx_packets"].tolist() == [10]


def test_a_receiver_of_eight_terabits_resumes_what_it_paused():
    host = HostModel(slow={1: 8e12}, rx_xoff_bytes=500, rx_xon_bytes=0)
    sim = Simulation(star(2), replace(MODEL, host=host), alone(20))
    assert sim.run(1e-3, stop_when_done=True)
    assert port_table(sim)["tx_pause"][2] > 0


@pytest.mark.parametrize(
    ("changes", "careful"),
    [({}, 0), ({"window_packets": 5}, 1), ({"selective_repeat": True}, 1)],
)
def test_only_a_qp_with_a_window_or_selective_repeat_is_looked_at_closely(changes, careful):
    wire = replace(WIRE, **changes)
    sim = Simulation(star(2), replace(MODEL, transport=wire), alone())
    assert qp_rows(sim)[:, at.QP_CAREFUL].tolist() == [careful]


def test_on_a_clock_of_1_ns_a_gap_has_no_remainder():
    sim = Simulation(star(2), replace(MODEL, truncate_ns=True), alone())
    assert qp_rows(sim)[:, [at.QP_GAP, at.QP_GAP_REST]].tolist() == [[83_000, 0]]


def test_a_slot_is_free_when_a_cnp_behind_the_last_acknowledgement_has_arrived():
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(0, 0, 1.0)),)
    switch = SwitchModel(ecn=ecn, ecn_at_enqueue=True)
    wire = replace(WIRE, cnp_priority=0)  # below the ACK's
    control = CongestionControl(dcqcn=DcqcnParameters(cnp_interval_s=0.0))
    model = Model(transport=wire, congestion=control, switch=switch)
    flows = [Flow(src=0, dst=1, size_bytes=1000, start_s=i * 20e-6) for i in range(3)]
    sim = Simulation(star(2), model, traffic_of_flows(flows))
    assert sim.run(1e-3)
    assert qp_total(sim, "cnp_handled") == 3
    assert qp_rows(sim)[:, at.QP_ACTIVE].tolist() == [0, 0, 0]
    assert (qp_rows(sim)[:, at.QP_PORT] > 0).tolist() == [True, False, False]
