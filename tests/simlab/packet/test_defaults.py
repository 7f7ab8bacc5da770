"""What holds where nothing is said, against what standards, manuals and public simulators say."""

from dataclasses import fields

import pytest

from collectors.model.dcqcn import PAPER
from collectors.model.ecmp_hash import NS3_FIELDS, HashAlgorithm, HashSpec
from collectors.model.ecn import EcnThresholds
from simlab.packet.collectives import Collective, Kind, QpMode
from simlab.packet.compat import conweave_model, hpcc_model, thresholds
from simlab.packet.interventions import Intervention, What
from simlab.packet.parameters import (
    Balancing,
    CnpMode,
    CongestionControl,
    EcnAt,
    Form,
    HostModel,
    InfinibandLink,
    Model,
    NicModel,
    Spread,
    SwitchModel,
    Transport,
)
from simlab.packet.topology import fat_tree, leaf_spine, rail_optimised, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import Flow

KIB, MIB = 2**10, 2**20


def differing(record: object, like: object) -> dict[str, object]:
    """Return the fields in which a record differs from another one of its kind."""
    pairs = {one.name: getattr(record, one.name) for one in fields(record)}
    return {name: value for name, value in pairs.items() if value != getattr(like, name)}


def off(record: object) -> set[str]:
    """Return the fields that are zero, false, empty or None: what they would do is not done."""
    return {one.name for one in fields(record) if not getattr(record, one.name)}


def test_sizes_on_the_wire_are_those_of_rocev2():
    wire = Transport()
    ethernet, ip, udp, bth, icrc, fcs, preamble_and_gap = 14, 20, 8, 12, 4, 4, 20
    headers = ethernet + ip + udp + bth + icrc + fcs + preamble_and_gap
    assert wire.header_bytes == headers
    assert wire.ack_bytes == headers + 4  # AETH
    assert wire.cnp_bytes == headers + 16  # reserved (IBTA annex A17.9.3)
    assert wire.control_bytes == 64 + preamble_and_gap  # IEEE 802.3 31B: a minimum frame
    assert wire.payload_bytes == 4096  # the largest path MTU of RC


def test_transport_is_that_of_an_rc_queue_pair_with_its_usual_attributes():
    wire = Transport()
    assert (wire.ack_every, wire.retry_limit, wire.cnp_priority) == (1, 7, 6)
    assert (wire.rto_s, wire.nak_interval_s) == (4e-3, 500e-6)
    assert wire.rnr_delay_s == pytest.approx(640e-6)
    assert off(wire) == {
        "ack_priority", "ack_jumps_host_queue", "ack_ecn_capable", "selective_repeat",
        "reorder_tolerant", "window_packets", "nak_cuts",
    }  # fmt: skip


def test_congestion_control_is_the_firmware_form_with_the_numbers_of_the_paper():
    control = CongestionControl()
    assert (control.form, control.dcqcn, control.cnp_mode) == (Form.FIRMWARE, PAPER, CnpMode.PER_QP)
    assert control.ccti_increase == 1
    assert control.increase_hurries
    assert off(control) == {
        "monitor_offset_s", "hyper_scaled", "cct", "ccti_min", "ccti_timer_s",
    }  # fmt: skip


def test_the_numbers_of_the_paper_are_those_of_the_paper():
    assert (PAPER.g, PAPER.recovery_stages, PAPER.byte_counter_bytes) == (1 / 256, 5, 10e6)
    assert (PAPER.alpha_period_s, PAPER.increase_timer_s) == pytest.approx((55e-6, 55e-6))
    assert (PAPER.cut_window_s, PAPER.cnp_interval_s) == pytest.approx((50e-6, 50e-6))
    assert (PAPER.ai_bps, PAPER.hai_bps) == (40e6, 200e6)
    assert (PAPER.initial_alpha, PAPER.cut_gain) == (1.0, 0.5)


def test_a_switch_has_the_buffer_of_the_hpcc_simulator():
    switch = SwitchModel()
    assert (switch.buffer_bytes, switch.alpha, switch.lossless) == (32 * MIB, 1 / 8, (3,))
    assert (switch.xon_offset_bytes, switch.reserved_bytes) == (3 * KIB, 4 * KIB)
    assert (switch.headroom_delays, switch.headroom_packets) == (3.0, 0.0)
    assert switch.lossy_alpha == 1.0
    assert switch.pfc
    assert switch.strict == (6, 7)
    assert off(switch) == {
        "alpha_doubles_with_rate", "xoff_bytes", "headroom_bytes", "headroom_packets", "pause_s",
        "pause_each_packet", "watchdog_s", "watchdog_restore_s", "ecn", "ecn_at_enqueue",
        "ecn_skip_bytes", "egress_alpha", "queue_limit_bytes", "unmanaged", "weights", "classes",
        "mtu_bytes",
    }  # fmt: skip


def test_a_host_takes_in_all_that_comes_unless_it_is_said_otherwise():
    host = HostModel()
    assert (host.rx_buffer_bytes, host.rx_xoff_bytes) == (2 * MIB, MIB)
    assert host.rx_xon_bytes == 512 * KIB
    assert off(host) == {
        "drain_bps", "slow", "pause_s", "receive_requests", "receive_interval_s",
    }  # fmt: skip
    assert NicModel() == NicModel(
        congestion=None, pfc=True, sends_cnps=True, ecn_capable=True, receive_requests=None,
        receive_interval_s=None, mtu_bytes=0, credits_bytes=None,
    )  # fmt: skip


def test_infiniband_has_64_kib_of_credit_and_marks_nothing():
    link = InfinibandLink()
    assert link.credits_bytes == 64 * KIB
    assert off(link) == {"threshold_bytes", "marking_rate"}


def test_ecmp_is_that_of_the_reference_simulators_seeded_by_node():
    balancing = Balancing()
    assert balancing.spread is Spread.ECMP
    assert balancing.hash == HashSpec(algorithm=HashAlgorithm.MURMUR3, fields=NS3_FIELDS)
    assert balancing.flowlet_gap_s == pytest.approx(50e-6)
    assert balancing.seed_by_node
    assert not balancing.descending
    assert [balancing.spec_at(node, 1).seed for node in (7, 8)] == [7, 8]


def test_a_model_is_made_of_the_defaults_of_its_parts():
    model = Model()
    parts = (CongestionControl(), Transport(), SwitchModel(), HostModel(), Balancing())
    assert (
        model.congestion, model.transport, model.switch, model.host, model.balancing
    ) == parts  # fmt: skip
    assert off(model) == {"infiniband", "truncate_ns", "switches", "ports", "nics"}
    assert model.nic_at(0) == NicModel()
    assert model.congestion_at(0) == CongestionControl()


def test_what_is_sent_is_one_message_at_once_from_the_first_dynamic_port():
    one = Connection(src=0, dst=1)
    assert (one.sport, one.dport, one.priority) == (0xC000, 4791, 3)
    assert (one.src_qp, one.dst_qp) == (0, 0)
    message = Message(connection=0, size_bytes=1)
    assert (message.repeat, message.free) == (1, 1)
    assert (message.start_s, message.delay_s, message.gate_delay_s) == (0.0, 0.0, 0.0)
    assert not Traffic((one,), (message,)).flows
    flow = Flow(src=0, dst=1, size_bytes=1)
    assert (flow.start_s, flow.priority, flow.dport) == (0.0, 3, 4791)


def test_a_collective_is_one_ring_at_once_without_work():
    what = Collective(kind=Kind.ALL_REDUCE, ranks=(0, 1), size_bytes=1)
    assert (what.channels, what.qps, what.iterations, what.rails, what.window) == (1, 1, 1, 1, 1)
    assert (what.chunks, what.priority, what.mode) == (8, 3, QpMode.SPLIT)
    assert (what.compute_s, what.reduce_s, what.start_s, what.nvlink_bps) == (0, 0, 0, 0)


def test_an_event_is_at_priority_3_and_without_a_value():
    event = Intervention(at_s=0.0, what=What.LINK_UP, cable=0)
    assert (event.value, event.priority) == (0.0, 3)


@pytest.mark.parametrize(
    "made",
    [
        lambda: star(2), lambda: leaf_spine(2, 2, 1), lambda: fat_tree(2),
        lambda: rail_optimised(2, 2, 1),
    ],
    ids=["star", "leaf-spine", "fat tree", "rails"],
)  # fmt: skip
def test_cables_are_of_100_gbits_and_a_microsecond(made):
    assert {(cable.rate_bps, cable.delay_s, cable.error_rate) for cable in made().cables} == {
        (100e9, 1e-6, 0.0)
    }


ECN = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(400e3, 1600e3, 0.2)),)


def test_the_hpcc_variant_is_as_its_source_says():
    """refsim.md section 2, points 1 to 5, 7 and 9."""
    model = hpcc_model(PAPER, ECN, buffer_mib=32)
    assert model.truncate_ns
    assert not hpcc_model(PAPER, ECN, buffer_mib=32, truncate_ns=False).truncate_ns
    assert differing(model.transport, Transport()) == {
        "payload_bytes": 1000, "header_bytes": 48, "ack_bytes": 60, "control_bytes": 43,
        "ack_jumps_host_queue": True, "ack_ecn_capable": True, "rto_s": 0.0, "retry_limit": 0,
    }  # fmt: skip
    assert model.congestion == CongestionControl(
        form=Form.FIRMWARE, dcqcn=PAPER, cnp_mode=CnpMode.ON_ACK, monitor_offset_s=1e-9,
        increase_hurries=False,
    )  # fmt: skip
    assert (model.switch.buffer_bytes, model.switch.alpha) == (32 * MIB, 1 / 8)
    assert differing(model.switch, SwitchModel()) == {
        "alpha_doubles_with_rate": True, "ecn": ECN, "strict": (),
    }  # fmt: skip
    assert model.balancing == Balancing(descending=True)


def test_the_conweave_variant_is_as_its_source_says():
    """refsim.md section 2, points 1, 2, 4, 6 and 7."""
    model = conweave_model(PAPER, ECN, buffer_mib=9)
    assert model.truncate_ns
    assert not conweave_model(PAPER, ECN, buffer_mib=9, truncate_ns=False).truncate_ns
    assert differing(model.transport, Transport()) == {
        "payload_bytes": 1000, "header_bytes": 48, "ack_bytes": 60, "control_bytes": 43,
        "ack_priority": 0, "ack_jumps_host_queue": True, "retry_limit": 0, "nak_cuts": True,
    }  # fmt: skip
    assert model.transport.rto_s == 4e-3
    assert model.congestion == hpcc_model(PAPER, ECN, buffer_mib=9).congestion
    assert differing(model.switch, SwitchModel()) == {
        "buffer_bytes": 9 * MIB, "alpha": 1 / 16, "ecn": ECN, "pause_s": 5e-6,
        "pause_each_packet": True, "egress_alpha": 1.0, "ecn_skip_bytes": 1048,
        "headroom_delays": 2.0, "headroom_packets": 2.0, "unmanaged": (0,), "strict": (0,),
    }  # fmt: skip
    assert model.balancing == Balancing()


def test_the_kilobytes_of_the_reference_simulators_are_of_1000_bytes():
    assert thresholds(400, 1600, 0.2) == EcnThresholds(400_000, 1_600_000, 0.2)
