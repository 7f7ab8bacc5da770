"""Single packets and flows against arithmetic: nothing is queued, so every time is exact."""

import pytest

from collectors.model.dcqcn import profile
from collectors.model.ecn import EcnThresholds
from simlab.packet.compat import hpcc_model
from simlab.packet.parameters import EcnAt, Model, SwitchModel, Transport
from simlab.packet.results import flow_table, port_table, summary
from simlab.packet.simulation import Simulation
from simlab.packet.topology import fat_tree, leaf_spine, star
from simlab.packet.workloads import Flow, incast, traffic_of_flows

ECN = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(100e3, 400e3, 0.2)),)
SMALL = Transport(payload_bytes=1000, header_bytes=48, ack_bytes=60, control_bytes=64)


def fct_ns(model: Model, topology, src: int, dst: int, size: int) -> float:
    traffic = traffic_of_flows([Flow(src=src, dst=dst, size_bytes=size)])
    sim = Simulation(topology, model, traffic)
    assert sim.run(1.0, stop_when_done=True)
    return flow_table(sim)["fct_s"][0] * 1e9


def test_the_reference_clock_truncates_to_834091_ns():
    model = hpcc_model(profile("hpcc", 100e9), ECN, buffer_mib=32)
    # 10000 packets of 83 ns, one more store-and-forward, 4 hops of 1 µs, two ACK hops of 4 ns
    assert fct_ns(model, star(3), 0, 2, 10_000_000) == pytest.approx(834091, abs=1e-3)


def test_without_truncation_the_same_flow_takes_its_exact_time():
    model = hpcc_model(profile("hpcc", 100e9), ECN, buffer_mib=32, truncate_ns=False)
    exact = 10_000 * 83.84 + 83.84 + 4000 + 2 * 4.8
    assert fct_ns(model, star(3), 0, 2, 10_000_000) == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("rate", [10e9, 30e9, 70e9, 400e9, 640e9])
def test_rates_that_are_no_whole_picoseconds_do_not_drift(rate):
    packets = 997
    time = fct_ns(Model(transport=SMALL), star(2, rate_bps=rate), 0, 1, 1000 * packets)
    exact = (packets + 1) * 1048 * 8e9 / rate + 2 * 60 * 8e9 / rate + 4000
    assert time == pytest.approx(exact, abs=0.002)


def test_a_short_last_packet_takes_less():
    model = Model(transport=SMALL)
    assert fct_ns(model, star(2), 0, 1, 1) == pytest.approx(2 * 49 * 0.08 + 9.6 + 4000, abs=1e-3)
    both = fct_ns(model, star(2), 0, 1, 1001)
    # The last ACK waits for the first one: 49 B arrive faster than a 60 B ACK leaves.
    exact = (1048 + 1048 + 49) * 0.08 + 9.6 + 4000 + (60 - 49) * 0.08
    assert both == pytest.approx(exact, abs=1e-3)


def test_hops_add_their_delays_and_wire_times():
    model = Model(transport=SMALL)
    two_tier = leaf_spine(2, 1, 1, fabric_bps=200e9)
    exact = 2 * 83.84 + 2 * 41.92 + 2 * 4.8 + 2 * 2.4 + 8000
    assert fct_ns(model, two_tier, 0, 1, 1000) == pytest.approx(exact, abs=1e-3)
    far = fct_ns(model, fat_tree(4), 0, 15, 1000)
    assert far == pytest.approx(6 * (83.84 + 4.8) + 12_000, abs=1e-3)


def test_two_senders_share_one_wire_and_every_byte_arrives():
    model = Model(transport=SMALL, switch=SwitchModel(buffer_bytes=64 << 20))
    sim = Simulation(star(3), model, incast([0, 1], 2, 500_000))
    assert sim.run(1.0, stop_when_done=True)
    ports = port_table(sim)
    bottleneck = ports["tx_bytes"][2 * 2 + 1]
    assert bottleneck == 2 * 500 * 1048
    assert ports["rx_bytes"][2 * 2] == bottleneck
    assert flow_table(sim)["fct_s"].max() * 1e9 == pytest.approx(
        1001 * 83.84 + 4000 + 9.6, abs=2 * 83.84
    )
    total = summary(sim)
    assert total.link_packets == 4 * 1000
    assert total.messages_done == 2
    assert total.drops == total.retransmitted == 0
