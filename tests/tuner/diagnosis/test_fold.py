"""One fault is one finding, and faults that are several stay several."""

from dataclasses import replace

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import link
from tests.tuner.diagnosis.test_pause_rules import lossless
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.finding import Evidence, Finding
from tuner.diagnosis.fold import FLEET, MANY, fold
from tuner.diagnosis.registry import RULES


def finding(subject, *, rule="reaction-off", section="config", confidence=0.8, name="setting"):
    evidence = (Evidence(name, subject, "off"),)
    return Finding(
        rule, section, subject, "critical", confidence, "is off", 0, evidence, "is on", (subject,)
    )


def urgency(one):
    return (False, False, False, 0, 0, -one.confidence, one.id)


def test_a_setting_that_is_wrong_on_the_whole_fleet_is_one_finding():
    made = lossless(6)
    found = [finding(port) for port in made.ports]
    found[3] = replace(found[3], confidence=0.9)
    [one] = fold(found, made.fabric, urgency)
    assert one.id == found[3].id
    assert set(one.affected) == set(made.ports)
    assert "the same at 5 more" in one.summary
    assert any(item.value == 6 for item in one.evidence)


def test_a_few_places_and_different_evidence_stay_apart():
    made = lossless(6)
    few = [finding(port) for port in made.ports[: FLEET - 1]]
    assert len(fold(few, made.fabric, urgency)) == FLEET - 1
    mixed = [finding(port, name=f"setting {n % 2}") for n, port in enumerate(made.ports)]
    assert len(fold(mixed, made.fabric, urgency)) == 6


def test_links_that_fail_are_faults_of_their_own_until_they_are_very_many():
    made = lossless(MANY)
    found = [finding(wire, rule="link-down", section="link") for wire in made.netdevs]
    assert len(fold(found[:-1], made.fabric, urgency)) == MANY - 1
    assert len(fold(found, made.fabric, urgency)) == 1


def test_both_ends_of_a_cable_report_one_fault():
    made = lossless()
    ends = made.ports[0], made.netdevs[0], made.interfaces[0]
    found = [finding(end, rule="link-errors", section="link") for end in ends]
    found.append(finding(link(*ends[1:]), rule="link-errors", section="link"))
    [one] = fold(found, made.fabric, urgency)
    assert len(one.evidence) == 4


def test_what_a_folded_finding_explains_points_to_the_one_that_is_left():
    made = lossless(8)
    for port in made.ports:
        made.telemetry.grow(rdma.SYMBOL_ERRORS, port, 50)
        made.telemetry.see(interface.CARRIER, port, 1)
    shown = diagnose(made.telemetry, made.fabric, RULES)
    ids = {one.id for one in shown.findings}
    assert all(one.explained_by in ids for one in shown.findings if one.explained_by)
