"""Each rule: found, quiet, cannot tell."""

from dataclasses import replace

import pytest

from collectors.model.catalogue import interface, ip, rdma, rdma_errors
from collectors.model.entities import link
from tests.tuner.fake import lab
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES
from tuner.diagnosis.rule import HostRule

BY_ID = {rule.id: rule for rule in RULES}


def judge(rule_id, made):
    rule = BY_ID[rule_id]
    telemetry = replace(made.telemetry)  # a window of its own: answers are kept by window
    if isinstance(rule, HostRule):
        return rule.judge(rule, telemetry)
    return rule.judge(rule, telemetry, made.fabric)


def traffic(made, packets=100_000):
    for port in made.ports:
        made.telemetry.grow(rdma.RX_PACKETS, port, packets)
        made.telemetry.grow(rdma.TX_PACKETS, port, packets)
        for metric in (rdma.OUT_OF_SEQUENCE_RX, rdma.SEQUENCE_NAK_RX, rdma.DUPLICATE_RX):
            made.telemetry.grow(metric, port, 0)
    return made


def ecn(made, port_index, ce=0, ect=1000, not_ect=0):
    netdev = made.netdevs[port_index]
    made.telemetry.grow(ip.IP_CE_RX, netdev, ce)
    made.telemetry.grow(ip.IP_ECT0_RX, netdev, ect)
    made.telemetry.grow(ip.IP_ECT1_RX, netdev, 0)
    made.telemetry.grow(ip.IP_NOT_ECT_RX, netdev, not_ect)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_contract_of_a_rule_is_written_and_it_cannot_tell_from_nothing(rule):
    for text in (rule.title, rule.finds, rule.quiet_when, rule.cannot_tell_when, rule.refutes):
        assert text
    bare = lab()
    bare.telemetry.set_to.clear()
    for port in bare.ports:
        del bare.telemetry.known[port.device]
    shown = judge(rule.id, bare)
    assert shown.outcome == "cannot_tell"
    assert shown.missing


def test_loss_towards_one_host_is_its_cable():
    made = traffic(lab(4))
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 800)
    for sender in (0, 2):
        made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[sender], 400)
    [finding] = judge("loss-on-path", made).findings
    assert finding.subject == link(made.netdevs[1], made.interfaces[1])
    assert finding.severity == "warning"
    assert set(finding.affected) == {made.ports[0], made.ports[1], made.ports[2]}
    assert judge("loss-on-path", traffic(lab())).outcome == "quiet"


def test_loss_from_one_host_to_several_is_the_senders_cable():
    made = traffic(lab(4))
    made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[0], 5000)
    for receiver in (1, 2):
        made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[receiver], 2500)
    [finding] = judge("loss-on-path", made).findings
    assert finding.subject == link(made.netdevs[0], made.interfaces[0])
    assert finding.severity == "critical"


def test_loss_of_one_pair_is_where_packets_vanish():
    made = traffic(lab(3))
    made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[0], 500)
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 500)
    [finding] = judge("loss-on-path", made).findings
    assert finding.subject == link(made.netdevs[1], made.interfaces[1])
    made.telemetry.grow(interface.TX_PACKETS, made.netdevs[0], 100_000)
    made.telemetry.grow(interface.RX_PACKETS, made.interfaces[0], 99_000)
    [finding] = judge("loss-on-path", made).findings
    assert finding.subject == link(made.netdevs[0], made.interfaces[0])


def test_marks_name_the_egress_towards_the_receiver():
    made = traffic(lab())
    ecn(made, 1, ce=300, ect=700)
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[1], 300)
    [finding] = judge("path-marks", made).findings
    assert finding.subject == made.interfaces[1]
    assert finding.affected == (made.ports[1],)
    assert any(item.entity == made.queues[1] for item in finding.evidence)
    ecn(made, 1, ce=10, ect=990)
    assert judge("path-marks", made).outcome == "quiet"


def test_a_nic_that_counts_marks_is_believed_before_the_kernel():
    made = traffic(lab())
    made.telemetry.grow(rdma.CE_MARKED_RX, made.ports[2], 60_000)
    [finding] = judge("path-marks", made).findings
    assert finding.subject == made.interfaces[2]
    assert finding.severity == "critical"


def test_marks_that_the_last_egress_did_not_give_are_no_fault_of_it():
    made = traffic(lab())
    made.telemetry.grow(rdma.CE_MARKED_RX, made.ports[2], 60_000)
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[2], 100)
    [finding] = judge("path-marks", made).findings
    assert finding.severity == "info"


def not_ect_lab():
    made = traffic(lab())
    ecn(made, 0, ect=0, not_ect=5000)
    ecn(made, 1, ect=4000, not_ect=6000)
    ecn(made, 2, ect=5000)
    made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[0], 700)
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 700)
    made.telemetry.grow(rdma.TX_PACKETS, made.ports[1], 50_000)
    made.telemetry.grow(rdma.RX_PACKETS, made.ports[0], 50_000)
    made.telemetry.grow(interface.QUEUE_DROPS, made.queues[1], 700)
    made.telemetry.grow(interface.QUEUE_TX_PACKETS, made.queues[1], 100_000)
    return made


def test_traffic_without_ect_names_its_sender():
    made = not_ect_lab()
    [finding] = judge("not-ect", made).findings
    assert finding.subject == made.ports[0]
    assert finding.severity == "critical"
    assert judge("not-ect", traffic(lab())).outcome == "cannot_tell"
    for index in range(3):
        ecn(made, index)
    assert judge("not-ect", made).outcome == "quiet"


def test_without_the_switchs_settings_missing_ect_cannot_be_judged():
    made = not_ect_lab()
    for slot in made.queues:
        del made.telemetry.set_to[slot]
    shown = judge("not-ect", made)
    assert shown.outcome == "cannot_tell"
    assert "ECN settings of the switch queues" in shown.missing


def test_a_cause_demotes_its_symptoms():
    made = not_ect_lab()
    shown = diagnose(made.telemetry, made.fabric, RULES)
    assert shown.findings[0].rule == "not-ect"
    others = {finding.rule: finding for finding in shown.findings[1:]}
    assert set(others) == {"loss-on-path", "queue-drops"}
    for finding in others.values():
        assert finding.severity == "info"
        assert finding.explained_by == shown.findings[0].id
    assert shown.finding(shown.findings[0].id[:6]) == shown.findings[0]


def test_queue_drops_name_the_interface():
    made = traffic(lab())
    made.telemetry.grow(interface.QUEUE_DROPS, made.queues[1], 2000)
    made.telemetry.grow(interface.QUEUE_TX_PACKETS, made.queues[1], 98_000)
    [finding] = judge("queue-drops", made).findings
    assert finding.subject == made.interfaces[1]
    assert finding.severity == "critical"
    made.telemetry.grow(interface.QUEUE_DROPS, made.queues[1], 3)
    assert judge("queue-drops", made).outcome == "quiet"


def test_receiver_not_ready_is_the_receivers_port():
    made = traffic(lab())
    for port in made.ports:
        made.telemetry.grow(rdma_errors.RNR_NAK_TX, port, 0)
        made.telemetry.grow(rdma_errors.RNR_NAK_RX, port, 0)
    assert judge("receiver-not-ready", made).outcome == "quiet"
    made.telemetry.grow(rdma_errors.RNR_NAK_TX, made.ports[2], 300)
    made.telemetry.grow(rdma_errors.RNR_NAK_RX, made.ports[0], 300)
    [finding] = judge("receiver-not-ready", made).findings
    assert finding.subject == made.ports[2]
    assert finding.affected == (made.ports[0],)


def test_only_senders_know_of_not_ready_answers():
    made = traffic(lab())
    made.telemetry.grow(rdma_errors.RNR_NAK_RX, made.ports[0], 300)
    [finding] = judge("receiver-not-ready", made).findings
    assert finding.confidence <= 0.6


def test_two_mtus_on_one_cable():
    made = lab()
    assert judge("mtu-mismatch", made).outcome == "quiet"
    made.telemetry.put(made.netdevs[1], "mtu_bytes", 1024)
    [finding] = judge("mtu-mismatch", made).findings
    assert finding.subject == link(made.netdevs[1], made.interfaces[1])
    assert finding.affected == (made.ports[1],)


def test_an_rdma_mtu_unlike_the_others():
    made = lab(4)
    for port in made.ports:
        made.telemetry.put(port, "rdma_mtu_bytes", 4096)
    made.telemetry.put(made.ports[3], "rdma_mtu_bytes", 1024)
    # Its interface has the MTU of the others: the RDMA MTU was read before a change.
    assert judge("mtu-mismatch", made).outcome == "quiet"
    for end in (made.netdevs[3], made.interfaces[3]):
        made.telemetry.put(end, "mtu_bytes", 1100)
    [finding] = judge("mtu-mismatch", made).findings
    assert finding.subject == made.ports[3]


def test_a_port_slower_than_its_like():
    made = lab(4)
    assert judge("slow-link", made).outcome == "quiet"
    made.telemetry.put(made.queues[2], "queue_rate_bps", 5_000_000)
    [finding] = judge("slow-link", made).findings
    assert finding.subject == made.interfaces[2]
    made.telemetry.grow(rdma.CE_MARKED_RX, made.ports[2], 90_000)
    made.telemetry.grow(rdma.RX_PACKETS, made.ports[2], 100_000)
    first, second = diagnose(made.telemetry, made.fabric, RULES).findings
    assert (first.rule, second.rule) == ("slow-link", "path-marks")
    assert second.explained_by == first.id


def test_two_speeds_on_one_cable():
    made = lab()
    made.telemetry.see(interface.SPEED, made.netdevs[0], 100e9)
    made.telemetry.see(interface.SPEED, made.interfaces[0], 400e9)
    [finding] = judge("slow-link", made).findings
    assert finding.subject == link(made.netdevs[0], made.interfaces[0])
    assert "100 Gbit/s" in finding.summary


def test_ports_down_and_flapping():
    made = lab()
    for port in made.ports:
        made.telemetry.see(rdma.STATE, port, 4)
        made.telemetry.grow(rdma.LINK_DOWNED, port, 0)
    assert judge("link-down", made).outcome == "quiet"
    made.telemetry.see(rdma.STATE, made.ports[0], 1)
    made.telemetry.grow(rdma.LINK_DOWNED, made.ports[1], 4)
    subjects = {finding.subject for finding in judge("link-down", made).findings}
    assert subjects == {made.ports[0], made.ports[1]}
    made.telemetry.see(rdma.PHYSICAL_STATE, made.ports[0], 3)
    subjects = {finding.subject for finding in judge("link-down", made).findings}
    assert subjects == {made.ports[1]}


def test_a_rule_that_breaks_costs_only_its_own_verdict():
    def broken(rule, telemetry, fabric):
        raise ZeroDivisionError("strange data")

    made = not_ect_lab()
    rules = [replace(BY_ID["path-marks"], judge=broken), BY_ID["not-ect"]]
    shown = diagnose(made.telemetry, made.fabric, rules)
    assert [v.outcome for v in shown.verdicts] == ["cannot_tell", "found"]
    assert "strange data" in shown.verdicts[0].missing[0]


def test_a_sender_that_loses_nearly_everything_hears_too_little_but_is_named():
    made = not_ect_lab()
    ecn(made, 0, ect=0, not_ect=4)
    [finding] = judge("not-ect", made).findings
    assert finding.subject == made.ports[0]
    ecn(made, 0, ect=3, not_ect=0)
    made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[0], 0)
    [finding] = judge("not-ect", made).findings
    assert finding.subject == made.ports[1]
    assert finding.confidence <= 0.7
