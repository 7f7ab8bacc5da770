"""Loss, reordering, duplicates and timeouts: told apart, and the right place named."""

import pytest

from collectors.model.catalogue import ethernet, interface, rdma
from collectors.model.entities import Interface, Switch, link, queue
from collectors.model.facts import Gid, Neighbour, QueuePairFact
from tests.tuner.diagnosis.test_pause_rules import PRIO, load, lossless
from tests.tuner.diagnosis.test_rules import judge
from tests.tuner.fake import Growth
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES

PACKETS = 1_000_000
UPLINK, DOWNLINK = Interface(Switch("sw", "sw"), "up"), Interface(Switch("spine", "spine"), "down")


def address(number):
    return f"10.0.0.{number + 1}"


def talking(pairs=((0, 1), (2, 1), (3, 1))):
    """Four hosts of which some send to others, without a fault; an uplink to a spine."""
    made = lossless()
    telemetry = made.telemetry
    telemetry.cables.append(Neighbour(UPLINK, DOWNLINK, "lldp"))
    gids = {
        port: [Gid(port, 0, f"::ffff:{address(number)}", "RoCE v2")]
        for number, port in enumerate(made.ports)
    }
    facts = [
        QueuePairFact(
            made.ports[src].device, 1, 10 + src, 10 + dst,
            local_address=address(src), remote_address=address(dst),
        )
        for a, b in pairs for src, dst in ((a, b), (b, a))
    ]  # fmt: skip
    telemetry.table = gids
    telemetry.pairs = facts
    for port in made.ports:
        for metric in (rdma.RX_PACKETS, rdma.TX_PACKETS):
            telemetry.grow(metric, port, PACKETS)
        for metric in (
            rdma.OUT_OF_SEQUENCE_RX, rdma.SEQUENCE_NAK_RX, rdma.IMPLIED_NAK_RX, rdma.DUPLICATE_RX,
            rdma.ACK_TIMEOUTS,
        ):  # fmt: skip
            telemetry.grow(metric, port, 0)
    for wire in (UPLINK, DOWNLINK):
        telemetry.grow(interface.TX_PACKETS, wire, PACKETS)
        telemetry.grow(interface.RX_PACKETS, wire, PACKETS)
    for wire in made.interfaces:
        telemetry.grow(interface.QUEUE_DROPS, queue(wire, PRIO), 0)
    for wire in made.netdevs:
        telemetry.grow(ethernet.FEC_UNCORRECTABLE, wire, 0)
    telemetry.put(Switch("sw"), "load_balancing", "static")
    return made


def grey_uplink(made):
    made.telemetry.grow(interface.RX_PACKETS, DOWNLINK, PACKETS * 0.995)
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 4000)
    made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[0], 3000)


def spraying(made):
    made.telemetry.put(Switch("sw"), "load_balancing", "per_packet")
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 4000)
    made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[0], 3000)


def lost_answers(made):
    made.telemetry.grow(rdma.DUPLICATE_RX, made.ports[1], 900)
    made.telemetry.grow(rdma.ACK_TIMEOUTS, made.ports[0], 100)


def tail_loss(made):
    made.telemetry.grow(rdma.ACK_TIMEOUTS, made.ports[0], 100)


def dead_peer(made):
    for sender in (0, 2, 3):
        made.telemetry.grow(rdma.ACK_TIMEOUTS, made.ports[sender], 100)
    load(made, made.netdevs[1], 0.0)


def bad_blocks(made):
    made.telemetry.grow(ethernet.FEC_UNCORRECTABLE, made.netdevs[2], 30)


def collapse(made):
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], PACKETS * 0.6)


def down(made):
    made.telemetry.see(interface.CARRIER, made.netdevs[3], 0)


CASES = [
    ("lossy-cable", grey_uplink, lambda _made: link(UPLINK, DOWNLINK)),
    ("reordering", spraying, lambda _made: Switch("sw")),
    ("ack-loss", lost_answers, lambda made: made.ports[1]),
    ("ack-timeouts", tail_loss, lambda made: made.ports[0]),
    ("ack-timeouts", dead_peer, lambda made: made.ports[1]),
    ("fec-errors", bad_blocks, lambda made: made.netdevs[2]),
    ("retransmission-collapse", collapse, lambda made: made.ports[1]),
]


@pytest.mark.parametrize(
    ("rule", "plant", "place"), CASES, ids=[f"{c[0]} {c[1].__name__}" for c in CASES]
)
def test_found_where_it_was_planted_and_quiet_before(rule, plant, place):
    made = talking()
    assert judge(rule, made).outcome == "quiet"
    plant(made)
    [finding] = judge(rule, made).findings
    assert finding.subject == place(made)
    top = diagnose(made.telemetry, made.fabric, RULES).findings[0]
    if rule != "retransmission-collapse":  # a symptom of loss
        assert (top.rule, top.subject) == (rule, place(made))


def test_counts_that_differ_by_the_moment_of_reading_are_no_loss():
    made = talking()
    late = Growth(PACKETS * 0.995)
    late.last_at_ns -= 1_000_000_000
    made.telemetry.grown[interface.RX_PACKETS.name][DOWNLINK] = late
    assert judge("lossy-cable", made).outcome == "quiet"


def test_counts_that_differ_while_no_port_misses_anything_are_no_loss():
    made = talking()
    made.telemetry.grow(interface.RX_PACKETS, DOWNLINK, PACKETS * 0.999)
    assert judge("lossy-cable", made).outcome == "quiet"
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 900)
    assert judge("lossy-cable", made).outcome == "found"


def test_counts_of_a_switch_with_rx_and_tx_exchanged_are_not_compared():
    made = talking()
    for wire in (UPLINK, DOWNLINK):
        made.telemetry.grow(interface.TX_PACKETS, wire, PACKETS)
        made.telemetry.grow(interface.RX_PACKETS, wire, PACKETS // 4)
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 900)
    assert judge("lossy-cable", made).outcome == "cannot_tell"


def test_a_cable_that_passes_nothing_is_dead():
    made = talking()
    made.telemetry.grow(interface.RX_PACKETS, DOWNLINK, 0)
    [finding] = judge("lossy-cable", made).findings
    assert "dead" in finding.summary


def test_checksum_errors_make_a_lossy_cable_surer():
    made = talking()
    grey_uplink(made)
    [before] = judge("lossy-cable", made).findings
    made.telemetry.grow(interface.RX_CRC_ERRORS, DOWNLINK, 5000)
    [after] = judge("lossy-cable", made).findings
    assert after.confidence > before.confidence


def test_drops_make_disorder_loss():
    made = talking()
    spraying(made)
    made.telemetry.grow(interface.QUEUE_DROPS, queue(made.interfaces[1], PRIO), 4000)
    assert judge("reordering", made).outcome == "quiet"


def test_gaps_make_duplicates_and_timeouts_loss_of_requests():
    made = talking()
    lost_answers(made)
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 800)
    made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[0], 800)
    assert judge("ack-loss", made).outcome == "quiet"
    assert judge("ack-timeouts", made).outcome == "quiet"


def test_much_correction_warns_before_anything_is_lost():
    made = talking()
    made.telemetry.grow(ethernet.RX_PHY_BYTES, made.netdevs[2], 10**11)
    made.telemetry.grow(ethernet.CORRECTED_BITS, made.netdevs[2], 10**6)
    assert judge("fec-errors", made).outcome == "quiet"
    made.telemetry.grow(ethernet.CORRECTED_BITS, made.netdevs[2], 10**8)
    [finding] = judge("fec-errors", made).findings
    assert (finding.subject, finding.severity) == (made.netdevs[2], "warning")


def test_an_interface_that_carried_traffic_and_is_down_is_one_fault_at_its_cable():
    made = talking()
    made.telemetry.see(interface.CARRIER, made.netdevs[2], 1)
    assert judge("link-down", made).outcome == "quiet"
    down(made)
    made.telemetry.see(interface.OPER_STATE, made.interfaces[3], 2)
    found = diagnose(made.telemetry, made.fabric, RULES).findings
    assert [finding.rule for finding in found if not finding.explained_by] == ["link-down"]
    made.telemetry.grow(interface.TX_BYTES, made.netdevs[3], 0)
    made.telemetry.grow(interface.TX_BYTES, made.interfaces[3], 0)
    assert judge("link-down", made).outcome == "quiet"  # never used
