"""Pause trees on a small lossless fabric: found, quiet, cannot tell, not applicable."""

import pytest

from collectors.model.catalogue import interface
from collectors.model.entities import priority, queue
from collectors.model.facts import Attribute
from tests.tuner.diagnosis.test_rules import judge
from tests.tuner.fake import SECONDS, lab
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES

PRIO = 3
RULE_IDS = ("pause-root", "pfc-deadlock", "pfc-before-ecn")


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
    [finding] = judge("pause-root", made).findings
    assert finding.subject == made.netdevs[1]
    assert "slow receiver" in finding.summary
    assert finding.severity == "critical"
    assert made.ports[0] in finding.affected
    assert judge("pfc-before-ecn", made).outcome == "quiet"


def test_a_nic_that_pauses_without_end_and_receives_nothing_is_a_storm():
    made = lossless()
    pause(made, made.interfaces[1], 0.99)
    pause(made, made.netdevs[0], 0.95)
    made.telemetry.grow(interface.RX_BYTES, made.netdevs[1], 0)
    [finding] = judge("pause-root", made).findings
    assert "pause storm" in finding.summary


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


def test_a_full_egress_that_marks_is_congestion_and_no_more():
    made = incast(lossless())
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, made.queues[1], 300_000)
    assert judge("pfc-before-ecn", made).outcome == "quiet"
    [finding] = judge("pause-root", made).findings
    assert finding.subject == made.interfaces[1]


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
