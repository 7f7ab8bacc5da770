"""Pause trees on a small lossless fabric: found, quiet, cannot tell, not applicable."""

import pytest

from collectors.model.catalogue import ethernet, interface
from collectors.model.entities import priority, queue
from collectors.model.facts import Attribute
from tests.tuner.diagnosis.test_rules import judge
from tests.tuner.fake import SECONDS, lab
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES

PRIO = 3
RULE_IDS = (
    "pause-root", "slow-receiver", "pause-storm", "incast", "pfc-deadlock", "pfc-before-ecn",
)  # fmt: skip


def lossless(hosts=4, *, counted=True):
    made = lab(hosts)
    for port in made.ports:
        made.telemetry.known[port.device] = {"driver": Attribute(port.device, "driver", "mlx5")}
    for wire in [*made.netdevs, *made.interfaces] if counted else []:
        made.telemetry.grow(interface.PFC_RX_PAUSE, priority(wire, PRIO), 0.0)
        made.telemetry.see(interface.SPEED, wire, 100e9)
        made.telemetry.grow(interface.TX_BYTES, wire, 0.1 * SECONDS * 100e9 / 8)
        made.telemetry.grow(interface.TX_PACKETS, wire, 1_000_000)
    return made


def pause(made, wire, share):
    made.telemetry.grow(interface.PFC_RX_PAUSE, priority(wire, PRIO), share * SECONDS)


def load(made, wire, share):
    made.telemetry.grow(interface.TX_BYTES, wire, share * SECONDS * 100e9 / 8)


@pytest.mark.parametrize("rule", RULE_IDS)
def test_quiet_cannot_tell_and_not_applicable(rule):
    assert judge(rule, lossless()).outcome == "quiet"
    blind = judge(rule, lossless(counted=False))
    assert blind.outcome == "cannot_tell"
    assert blind.missing
    assert judge(rule, lab()).outcome == "not_applicable"


def test_a_host_that_pauses_its_switch_is_a_slow_receiver():
    made = lossless()
    pause(made, made.interfaces[1], 0.4)  # the switch may not send to h2
    for sender in (0, 2):
        pause(made, made.netdevs[sender], 0.2)
    shown = diagnose(made.telemetry, made.fabric, RULES)
    assert [finding.rule for finding in shown.findings] == ["slow-receiver", "pause-root"]
    finding = shown.findings[0]
    assert finding.subject == made.netdevs[1]
    assert finding.severity == "critical"
    assert made.ports[0] in finding.affected
    assert "its link carries 10%" in finding.summary
    assert judge("pause-storm", made).outcome == "quiet"
    assert judge("incast", made).outcome == "quiet"
    assert judge("pfc-before-ecn", made).outcome == "quiet"


def test_a_host_that_receives_all_that_its_link_carries_is_not_slow():
    made = lossless()
    pause(made, made.interfaces[1], 0.04)
    load(made, made.interfaces[1], 0.96)
    [finding] = judge("slow-receiver", made).findings
    assert finding.severity == "info"


def test_what_the_host_says_of_its_pcie_makes_a_slow_receiver_surer():
    made = lossless()
    pause(made, made.interfaces[1], 0.4)
    [before] = judge("slow-receiver", made).findings
    made.telemetry.see(ethernet.PCI_STALLED_WRITE, made.netdevs[1], 0.6)
    [after] = judge("slow-receiver", made).findings
    assert after.confidence > before.confidence
    assert ethernet.PCI_STALLED_WRITE.name in {item.name for item in after.evidence}


def storm(made):
    pause(made, made.interfaces[1], 0.99)
    pause(made, made.netdevs[0], 0.95)
    load(made, made.interfaces[1], 0.0)
    return made


def test_a_nic_that_pauses_without_end_and_receives_nothing_is_a_storm():
    made = storm(lossless())
    [first, *rest] = diagnose(made.telemetry, made.fabric, RULES).findings
    assert (first.rule, first.subject) == ("pause-storm", made.netdevs[1])
    assert {finding.severity for finding in rest} == {"info"}
    assert judge("slow-receiver", made).outcome == "quiet"
    load(made, made.interfaces[1], 0.3)
    assert judge("pause-storm", made).outcome == "quiet"


@pytest.mark.parametrize(("sent", "outcome"), [(0.0, "found"), (5e9, "quiet")])
def test_a_storm_that_begins_within_the_window(sent, outcome):
    made = lossless()
    egress = made.interfaces[1]
    pause(made, egress, 0.5)
    load(made, egress, 0.4)
    steps = made.telemetry.stepped
    steps[interface.PFC_RX_PAUSE.name, priority(egress, PRIO)] = (range(4), [0.0, 0.1, 1.0, 1.0])
    steps[interface.TX_BYTES.name, egress] = (range(4), [9e9, 9e9, sent, sent])
    assert judge("pause-storm", made).outcome == outcome


def test_a_nic_reports_its_own_storm():
    made = lossless(counted=False)
    made.telemetry.grow(ethernet.PAUSE_STORM_ERRORS, made.netdevs[2], 0)
    assert judge("pause-storm", made).outcome == "quiet"
    made.telemetry.grow(ethernet.PAUSE_STORM_ERRORS, made.netdevs[2], 3)
    [finding] = judge("pause-storm", made).findings
    assert finding.subject == made.netdevs[2]


def incast(made):
    load(made, made.interfaces[1], 0.99)
    for sender in (0, 2, 3):
        pause(made, made.netdevs[sender], 0.3)
    return made


def test_a_full_egress_without_ecn_is_a_configuration_fault_first():
    made = incast(lossless())
    made.telemetry.put(queue(made.interfaces[1], 0), "ecn_enabled", value=False)
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[1], 0)
    shown = diagnose(made.telemetry, made.fabric, RULES)
    assert [finding.rule for finding in shown.findings] == ["pfc-before-ecn", "pause-root"]
    assert shown.findings[0].subject == made.interfaces[1]
    assert "ECN off" in shown.findings[0].summary
    assert shown.findings[1].explained_by == shown.findings[0].id
    assert judge("incast", made).outcome == "quiet"


def test_a_full_egress_that_marks_is_congestion_and_no_more():
    made = incast(lossless())
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[1], 300_000)
    assert judge("pfc-before-ecn", made).outcome == "quiet"
    [finding] = judge("pause-root", made).findings
    assert finding.subject == made.interfaces[1]
    [finding] = judge("incast", made).findings
    assert finding.subject == made.interfaces[1]
    assert "for as long as it lasts" in finding.summary
    assert made.ports[1] in finding.affected
    for sender in (0, 2, 3):
        pause(made, made.netdevs[sender], 0.03)
    [finding] = judge("incast", made).findings
    assert finding.severity == "info"
    del made.telemetry.grown[interface.QUEUE_ECN_MARKED.name]
    assert judge("incast", made).outcome == "cannot_tell"


def test_ecn_off_at_one_egress_in_use_is_told_before_anything_pauses():
    made = lossless()
    for slot in made.queues:
        made.telemetry.put(slot, "ecn_enabled", value=True)
    load(made, made.interfaces[1], 0.6)
    assert judge("pfc-before-ecn", made).outcome == "quiet"
    made.telemetry.put(made.queues[1], "ecn_enabled", value=False)
    [finding] = judge("pfc-before-ecn", made).findings
    assert (finding.subject, finding.severity) == (made.interfaces[1], "warning")
    load(made, made.interfaces[1], 0.1)
    assert judge("pfc-before-ecn", made).outcome == "quiet"


def test_ecn_off_everywhere_matters_where_hosts_wait_for_marks():
    made = lossless()
    for slot in made.queues:
        made.telemetry.put(slot, "ecn_enabled", value=False)
    load(made, made.interfaces[1], 0.6)
    assert judge("pfc-before-ecn", made).outcome == "quiet"
    made.telemetry.put(made.ports[0], "dcqcn_rp_enabled", (True,) * 8)
    [finding] = judge("pfc-before-ecn", made).findings
    assert finding.subject == made.interfaces[1]


def test_marks_tell_which_of_two_busy_egresses_is_full():
    made = incast(lossless())
    load(made, made.interfaces[3], 0.99)
    pause(made, made.netdevs[3], 0.0)
    for index, marks in ((1, 400_000), (3, 100)):
        made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[index], marks)
    [finding] = judge("pause-root", made).findings
    assert finding.subject == made.interfaces[1]


def test_an_egress_that_is_full_at_times_only_is_found_by_its_marks():
    made = lossless()
    load(made, made.interfaces[1], 0.5)
    load(made, made.interfaces[3], 0.6)
    for sender in (0, 2):
        pause(made, made.netdevs[sender], 0.3)
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[1], 300_000)
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[3], 0)
    [finding] = judge("incast", made).findings
    assert finding.subject == made.interfaces[1]
    assert "in bursts" in finding.summary


def test_pfc_counters_of_a_switch_that_has_them_swapped_are_read_the_other_way_round():
    made = lossless()
    frames = 50_000
    for host in (1, 0, 2):  # h2 stops its switch, which stops h1 and h3; the switch says rx
        stops = host == 1
        netdev, egress = (priority(w[host], PRIO) for w in (made.netdevs, made.interfaces))
        made.telemetry.grow(interface.PFC_TX_FRAMES, netdev, frames if stops else 0)
        made.telemetry.grow(interface.PFC_RX_FRAMES, netdev, 0 if stops else frames)
        made.telemetry.grow(interface.PFC_TX_FRAMES, egress, frames if stops else 0)
        made.telemetry.grow(interface.PFC_RX_FRAMES, egress, 0 if stops else frames)
        pause(made, made.netdevs[host], 0.0 if stops else 0.3)
        pause(made, made.interfaces[host], 0.0 if stops else 0.3)
    del made.telemetry.grown[interface.PFC_RX_PAUSE.name][priority(made.netdevs[1], PRIO)]
    [finding] = judge("slow-receiver", made).findings
    assert finding.subject == made.netdevs[1]
    assert finding.confidence <= 0.75


def test_ecn_on_but_hardly_marking_is_a_threshold_above_pfc():
    made = incast(lossless())
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[1], 50)
    [finding] = judge("pfc-before-ecn", made).findings
    assert "Kmin" in finding.summary


def test_frames_alone_bound_the_pause_and_lower_the_confidence():
    made = lossless(counted=False)
    for wire in [*made.netdevs, *made.interfaces]:
        made.telemetry.see(interface.SPEED, wire, 100e9)
    frames = 0.3 * SECONDS * 100e9 / (65535 * 512)
    made.telemetry.grow(interface.PFC_RX_FRAMES, priority(made.interfaces[1], PRIO), frames)
    [finding] = judge("pause-root", made).findings
    assert finding.subject == made.netdevs[1]
    assert finding.confidence <= 0.7
    assert "estimated" in finding.evidence[0].threshold


def test_what_the_peer_sent_tells_what_the_egress_suffered():
    made = lossless()
    del made.telemetry.grown[interface.PFC_RX_PAUSE.name]
    made.telemetry.grow(interface.PFC_TX_PAUSE, priority(made.netdevs[1], PRIO), 0.4 * SECONDS)
    [finding] = judge("pause-root", made).findings
    assert finding.subject == made.netdevs[1]
