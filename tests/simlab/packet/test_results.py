"""What is told of a run, against what can be counted by hand in small ones."""

import math
from dataclasses import replace

import numpy as np
import pytest

from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.interventions import Intervention, What, apply, run_with_events
from simlab.packet.parameters import (
    EcnAt,
    HostModel,
    InfinibandLink,
    SwitchModel,
)
from simlab.packet.results import (
    arrivals,
    flow_table,
    ideal_s,
    iteration_times,
    jain,
    paused_ps,
    port_rows,
    port_table,
    qp_table,
    qp_total,
    summary,
    watermarks,
)
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, Topology, leaf_spine, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import Flow, incast, traffic_of_flows
from tests.simlab.packet.bare import MODEL, SIZE


def late_flow(packets: int) -> Simulation:
    flow = Flow(src=0, dst=1, size_bytes=1000 * packets, start_s=1e-6)
    return Simulation(star(2), MODEL, traffic_of_flows([flow], reuse=False))


def test_jain_is_one_for_equals_and_a_share_for_one_of_many():
    assert jain(np.array([5, 5, 5, 5])) == pytest.approx(1.0)
    assert jain(np.array([7, 0, 0, 0])) == pytest.approx(1 / 4)
    assert jain(np.array([1, 2, 3])) == pytest.approx(36 / (3 * 14))


def test_the_ideal_is_two_ways_of_delay_a_payload_a_hop_and_the_wire_of_the_slowest():
    """The standalone_fct of the HPCC simulator (refsim.md)."""
    fabric = leaf_spine(2, 1, 1, rate_bps=100e9, fabric_bps=50e9, delay_s=2e-6)
    message = Message(connection=0, size_bytes=2500, repeat=2)
    sim = Simulation(fabric, MODEL, Traffic((Connection(src=0, dst=1),), (message,)))
    rtt = 4 * 2 * 2e-6 + 8000 * (2 / 100e9 + 2 / 50e9)
    bits = 8 * 2 * (2500 + 3 * 48)
    assert ideal_s(sim, 0) == pytest.approx(rtt + bits / 50e9, rel=1e-12)
    exact = Simulation(
        fabric, MODEL, replace(sim.traffic, messages=(replace(message, size_bytes=1000),))
    )
    assert ideal_s(exact, 0) == pytest.approx(rtt + 8 * 2 * 1048 / 50e9, rel=1e-12)


def test_a_flow_alone_takes_the_time_of_its_packets_two_wires_and_the_way_back():
    sim = late_flow(100)
    assert sim.run(1.0, stop_when_done=True)
    flow = {name: column[0] for name, column in flow_table(sim).items()}
    there = 100 * 83.84e-9 + 83.84e-9 + 2e-6
    assert flow["start_s"] == 1e-6
    assert flow["fct_s"] == pytest.approx(there + 2e-6 + 2 * 4.8e-9, rel=1e-9)
    assert flow["received_s"] == pytest.approx(1e-6 + there, rel=1e-9)
    assert flow["ideal_s"] == pytest.approx(4e-6 + 2 * 80e-9 + 100 * 83.84e-9, rel=1e-9)
    assert flow["slowdown"] == 1.0  # floored, as the reference does
    assert (flow["src"], flow["dst"], flow["priority"], flow["size_bytes"]) == (0, 1, 3, 100_000)
    assert flow["dport"] == 4791


def test_the_slowdown_is_the_time_over_the_ideal_and_none_before_the_end():
    sim = Simulation(star(3), MODEL, incast([0, 1], 2, 100_000))
    sim.run(5e-6)
    table = flow_table(sim)
    assert all(np.isnan(table[name]).all() for name in ("fct_s", "received_s", "slowdown"))
    assert not np.isnan(table["ideal_s"]).any()
    assert sim.run(1.0, stop_when_done=True)
    table = flow_table(sim)
    assert table["slowdown"].tolist() == (table["fct_s"] / table["ideal_s"]).tolist()
    assert 1.5 < table["slowdown"].min() < table["slowdown"].max() < 2


def test_a_port_tells_what_it_sent_what_arrived_and_how_busy_it_was():
    sim = late_flow(100)
    sim.run(20e-6)
    ports = port_table(sim)
    assert ports["port"].tolist() == [0, 1, 2, 3]
    assert ports["node"].tolist() == [0, 2, 1, 2]
    assert ports["interface"].tolist() == [1, 1, 1, 2]
    assert ports["tx_packets"].tolist() == [100] * 4
    assert ports["tx_bytes"].tolist() == [100 * SIZE, 6000, 6000, 100 * SIZE]
    assert ports["rx_bytes"].tolist() == [6000, 100 * SIZE, 100 * SIZE, 6000]
    share = 100 * SIZE * 8 / (100e9 * 20e-6)
    wanted = [share, share * 60 / SIZE, share * 60 / SIZE, share]
    assert ports["utilisation"] == pytest.approx(wanted)
    assert (ports["lost"] == 0).all()


def test_every_port_is_busy_by_the_speed_of_its_own_cable():
    cables = tuple(Cable(host, 3, rate, 1e-6) for host, rate in enumerate((100e9, 50e9, 400e9)))
    fabric = Topology(4, (3,), cables, (0, 0, 0, 1))
    sim = Simulation(fabric, MODEL, incast([0, 1], 2, 100_000))
    sim.run(30e-6)
    sent = port_rows(sim)[:, at.PORT_TX_BYTES]
    rates = np.array([100e9, 100e9, 50e9, 50e9, 400e9, 400e9])
    assert port_table(sim)["utilisation"] == pytest.approx(sent * 8 / rates / 30e-6)


def test_utilisation_at_the_very_beginning_is_none():
    assert (port_table(late_flow(1))["utilisation"] == 0).all()


def test_what_is_on_the_wire_has_not_arrived():
    sim = late_flow(100)
    sim.run(1e-6 + 83.84e-9 + 1e-6 + 2.5 * 83.84e-9)
    sent = port_rows(sim)[0, at.PORT_TX_PACKETS]
    # of the wire's microsecond: 11.9 packets, and the one that is being sent
    assert (int(sent), arrivals(sim)[1].tolist()) == (16, [3, 3 * SIZE])


def test_lost_packets_have_not_arrived_either():
    sim = late_flow(100)
    down = Intervention(at_s=5e-6, what=What.LINK_DOWN, cable=0, value=-1)
    run_with_events(sim, 20e-6, [down])
    ports = port_table(sim)
    assert ports["lost"][0] == 100 - ports["rx_packets"][1] > 0
    assert ports["rx_bytes"][1] == ports["rx_packets"][1] * SIZE
    assert summary(sim).lost_on_links == ports["lost"].sum()


@pytest.mark.parametrize("priority", [0, 5])
def test_a_pause_counts_while_it_lasts_and_by_priority(priority):
    model = replace(MODEL, switch=SwitchModel(lossless=(priority,)))
    sim = Simulation(star(2), model, incast([0], 1, 1000))
    apply(sim, Intervention(at_s=0.0, what=What.PAUSE_STORM, host=1, value=1, priority=priority))
    sim.run(10e-6)
    begun = (64 * 8 / 100e9 + 1e-6) * 1e12
    wanted = np.zeros((4, 8), dtype=np.int64)
    wanted[3, priority] = 10e6 - begun
    assert paused_ps(sim).tolist() == wanted.tolist()
    ports = port_table(sim)
    assert ports["paused_s"] == pytest.approx([0, 0, 0, wanted[3, priority] / 1e12])
    assert (ports["tx_pause"].tolist(), ports["rx_pause"].tolist()) == ([0, 0, 1, 0], [0, 0, 0, 1])
    apply(sim, Intervention(at_s=10e-6, what=What.PAUSE_STORM, host=1, value=0, priority=priority))
    sim.run(20e-6)
    wanted[3, priority] = 10e6
    assert paused_ps(sim).tolist() == wanted.tolist()
    assert summary(sim).paused_s == pytest.approx(10e-6)
    assert summary(sim).pause_frames == 1
    assert port_table(sim)["rx_pause"].tolist() == [0, 0, 0, 1]


def test_lanes_without_credit_are_not_paused():
    link = InfinibandLink(credits_bytes=2 * SIZE)
    sim = Simulation(star(2), replace(MODEL, infiniband=link), incast([0], 1, 100_000))
    sim.run(3e-6)
    assert port_rows(sim)[0, at.PORT_PAUSED] != 0
    assert paused_ps(sim).sum() == 0
    assert port_table(sim)["wait_s"][0] > 0


def test_a_summary_adds_up_drops_of_every_kind():
    switch = SwitchModel(queue_limit_bytes=4 * SIZE)
    sim = Simulation(star(3), replace(MODEL, switch=switch), incast([0, 1], 2, 20_000))
    sim.run(50e-6)
    at_queues = summary(sim).drops
    assert at_queues == port_table(sim)["dropped"].sum() > 0
    host = HostModel(slow={1: 1.0}, rx_buffer_bytes=3 * SIZE)
    sim = Simulation(star(2), replace(MODEL, host=host), incast([0], 1, 5000))
    sim.run(50e-6)
    assert summary(sim).drops == 2
    switch = SwitchModel(xoff_bytes=5000, headroom_bytes=3 * SIZE, reserved_bytes=0)
    sim = Simulation(star(3), replace(MODEL, switch=switch), incast([0, 1], 2, 200_000))
    sim.run(50e-6)
    assert summary(sim).drops == port_table(sim)["dropped"].sum() > 0


def test_a_summary_has_the_counters_of_all_queue_pairs_reused_or_not():
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(0, 0, 1.0)),)
    model = replace(MODEL, switch=SwitchModel(ecn=ecn, ecn_at_enqueue=True))
    flows = [Flow(src=0, dst=1, size_bytes=5000, start_s=i * 20e-6) for i in range(3)]
    for reuse in (True, False):
        sim = Simulation(star(2), model, traffic_of_flows(flows, reuse=reuse))
        assert sim.run(1e-3, stop_when_done=True)
        told = summary(sim).items()
        assert (told["messages"], told["messages_done"], told["ecn_marked"]) == (3, 3, 15)
        assert told["cnp_handled"] == qp_total(sim, "cnp_sent") == 3  # one in 50 µs
        assert qp_total(sim, "tx_packets") == 15
        assert qp_total(sim, "rx_bytes") == 15 * SIZE
        assert told["link_packets"] == 2 * (15 + 15 + 3)
        assert told["events"] == sim.events
        assert ("src" in qp_table(sim)) is not reuse
        assert (told["drops"], told["timeouts"], told["retransmitted"]) == (0, 0, 0)


def test_the_longest_queue_is_of_the_priorities_and_remembers_what_telemetry_took():
    sim = Simulation(star(3), MODEL, incast([0, 1], 2, 20_000))
    sim.run(50e-6)
    longest = watermarks(sim)[5, 3]
    assert port_table(sim)["queue_max_bytes"].tolist() == [0, 60, 0, 60, 60, longest]
    assert longest > 15 * SIZE
    queue = sim.port_row(5) + at.PORT_QUEUES + 3 * at.QUEUE_WORDS
    for word, value in ((at.QUEUE_WATERMARK, 0), (at.QUEUE_MAX, 7_000_000)):
        sim.poke(queue + word, value)
    assert summary(sim).queue_max_bytes == 7_000_000
    control = sim.port_row(5) + at.PORT_QUEUES + at.CONTROL * at.QUEUE_WORDS
    sim.poke(control + at.QUEUE_MAX, 8_000_000)
    assert watermarks(sim)[5, at.CONTROL] == 8_000_000
    assert summary(sim).queue_max_bytes == 7_000_000


def test_an_iteration_lasts_from_its_first_post_to_its_last_arrival():
    connections = (Connection(src=0, dst=1), Connection(src=1, dst=0))
    messages = (
        Message(connection=0, size_bytes=1000, label="one", start_s=1e-6),
        Message(connection=1, size_bytes=1000, label="one", start_s=3e-6),
        Message(connection=1, size_bytes=1000),
        Message(connection=0, size_bytes=1000, label="two", start_s=4e-6),
        Message(connection=0, size_bytes=1000, label="two", start_s=30e-6),
        Message(connection=1, size_bytes=1000, label="three", start_s=60e-6),
    )
    sim = Simulation(star(2), MODEL, Traffic(connections, messages))
    sim.run(20e-6)
    way = 2e-6 + 2 * 83.84e-9
    assert iteration_times(sim) == pytest.approx([2e-6 + way], rel=1e-3)
    sim.run(50e-6)
    assert iteration_times(sim) == pytest.approx([2e-6 + way, 26e-6 + way], rel=1e-3)
    assert not math.isnan(sum(iteration_times(sim)))
