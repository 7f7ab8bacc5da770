"""Feedback, link errors, PFC consistency, uplink balance, contradicting counters."""

import pytest

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Interface, Switch, link, priority
from collectors.model.facts import Neighbour
from tests.tuner.diagnosis.test_pause_rules import load, lossless
from tests.tuner.diagnosis.test_rules import judge, traffic
from tests.tuner.fake import lab


def hardware():
    made = lossless()
    for port in made.ports:
        for metric in (rdma.CE_MARKED_RX, rdma.CNP_TX, rdma.CNP_HANDLED, rdma.CNP_IGNORED):
            made.telemetry.grow(metric, port, 0)
    return made


def test_marked_but_no_cnp_is_a_notification_point_that_is_off():
    made = hardware()
    assert judge("cnp-feedback", made).outcome == "quiet"
    made.telemetry.grow(rdma.CE_MARKED_RX, made.ports[1], 50_000)
    [finding] = judge("cnp-feedback", made).findings
    assert finding.subject == made.ports[1]
    assert "no CNP" in finding.summary
    assert ("pause-root", made.interfaces[1]) in finding.explains
    made.telemetry.grow(rdma.CNP_TX, made.ports[1], 2000)
    for port in made.ports:
        made.telemetry.grow(rdma.CNP_HANDLED, port, 500)
    assert judge("cnp-feedback", made).outcome == "quiet"


def test_ignored_cnps_name_the_sender():
    made = hardware()
    made.telemetry.grow(rdma.CNP_IGNORED, made.ports[2], 5000)
    [finding] = judge("cnp-feedback", made).findings
    assert finding.subject == made.ports[2]


def test_cnps_that_nobody_saw_are_lost_but_only_if_all_ports_count():
    made = hardware()
    made.telemetry.grow(rdma.CE_MARKED_RX, made.ports[1], 50_000)
    made.telemetry.grow(rdma.CNP_TX, made.ports[1], 20_000)
    [finding] = judge("cnp-feedback", made).findings
    assert "CNPs sent" in finding.summary
    del made.telemetry.grown[rdma.CNP_HANDLED.name][made.ports[3]]
    assert judge("cnp-feedback", made).outcome == "quiet"


def test_feedback_of_software_rdma_is_beside_the_point_and_of_silence_unknown():
    assert judge("cnp-feedback", lab()).outcome == "not_applicable"
    assert judge("cnp-feedback", lossless()).outcome == "cannot_tell"


@pytest.mark.parametrize(
    ("metric", "total", "severity"),
    [
        (rdma.SYMBOL_ERRORS, 6, "warning"),
        (rdma.SYMBOL_ERRORS, 2000, "critical"),
        (rdma.ICRC_ERRORS, 50, "critical"),
    ],
)
def test_errors_of_a_link(metric, total, severity):
    made = traffic(lab())
    made.telemetry.grow(metric, made.ports[0], 0)
    assert judge("link-errors", made).outcome == "quiet"
    made.telemetry.grow(metric, made.ports[0], total)
    [finding] = judge("link-errors", made).findings
    assert (finding.subject, finding.severity) == (made.ports[0], severity)
    made.telemetry.grow(metric, made.ports[0], 4)
    assert judge("link-errors", made).outcome == "quiet"


def test_a_pegged_error_counter_is_not_silence():
    made = traffic(lab())
    made.telemetry.grow(rdma.SYMBOL_ERRORS, made.ports[0], 0)
    made.telemetry.grown[rdma.SYMBOL_ERRORS.name][made.ports[0]].saturated = True
    assert judge("link-errors", made).outcome == "found"


def pfc(*on):
    return tuple(index in on for index in range(8))


def test_pfc_on_other_priorities_at_the_two_ends():
    made = lossless()
    assert judge("pfc-mismatch", made).outcome == "cannot_tell"
    assert judge("pfc-mismatch", lab()).outcome == "not_applicable"
    for wire in [*made.netdevs, *made.interfaces]:
        made.telemetry.put(wire, "pfc_priorities", pfc(3))
    assert judge("pfc-mismatch", made).outcome == "quiet"
    made.telemetry.put(made.netdevs[2], "pfc_priorities", pfc(4))
    [finding] = judge("pfc-mismatch", made).findings
    assert finding.subject == link(made.netdevs[2], made.interfaces[2])
    assert "h3 h3 is the odd one" in finding.summary
    assert "priority 4" in finding.summary


def uplinks(made, loads):
    spine = Switch("spine", "spine")
    for number, share in enumerate(loads):
        near, far = Interface(Switch("sw", "sw"), f"u{number}"), Interface(spine, f"d{number}")
        made.telemetry.cables.append(Neighbour(near, far, "lldp"))
        made.telemetry.see(interface.SPEED, near, 100e9)
        load(made, near, share)
    return made


def test_uplinks_of_which_one_is_hot_and_one_idle():
    made = uplinks(lossless(), [0.95, 0.5, 0.5, 0.1])
    [finding] = judge("ecmp-imbalance", made).findings
    assert finding.subject == Switch("sw")
    assert finding.affected == (Interface(Switch("sw"), "u0"),)
    assert "u0" in finding.summary
    assert judge("ecmp-imbalance", uplinks(lossless(), [0.6, 0.5, 0.5, 0.5])).outcome == "quiet"
    assert judge("ecmp-imbalance", uplinks(lossless(), [0.3, 0.05, 0.05, 0.0])).outcome == "quiet"
    assert judge("ecmp-imbalance", lossless()).outcome == "cannot_tell"


def frames(made, wire, rx, tx):
    made.telemetry.grow(interface.PFC_RX_FRAMES, priority(wire, 3), rx)
    made.telemetry.grow(interface.PFC_TX_FRAMES, priority(wire, 3), tx)


def test_swapped_and_stuck_counters_are_told_from_sound_ones():
    made = lossless()
    for index in range(3):
        frames(made, made.netdevs[index], rx=1000 + index, tx=5000)
        frames(made, made.interfaces[index], rx=5000, tx=1000)
    assert judge("counters-disagree", made).outcome == "quiet"
    for index in range(3):
        frames(made, made.interfaces[index], rx=1000, tx=5000)
    [finding] = judge("counters-disagree", made).findings
    assert "swapped" in finding.summary
    assert finding.subject == Switch("sw")
    for index in range(3):
        frames(made, made.interfaces[index], rx=0, tx=0)
    [finding] = judge("counters-disagree", made).findings
    assert "counts no PFC frames" in finding.summary
    assert judge("counters-disagree", lossless()).outcome == "cannot_tell"
