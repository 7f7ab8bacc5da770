"""Cures: the odd place gets what its like have; what the twin shows to be harmful is not said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.model.catalogue import interface
from collectors.model.entities import Interface, Netdev, Slot, Switch, priority, queue
from collectors.model.facts import QueuePairFact
from simlab.scenarios.change import applied
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.observe import record
from simlab.scenarios.outcome import outcome
from simlab.scenarios.registry import draw as draw_of
from tests.tuner.diagnosis.test_rules import lab
from tuner.advice.cure import recommend_change
from tuner.advice.cures.balance import spread_out
from tuner.advice.cures.configuration import aligned, as_knob, drifted
from tuner.advice.cures.congestion import mark_first
from tuner.advice.cures.host import set_ect
from tuner.advice.cures.published import unpublished
from tuner.advice.norm import usual, wanted
from tuner.advice.planning import build_plan
from tuner.advice.prove import prove
from tuner.advice.recommend import once_each, recommend
from tuner.advice.recommendation import Recommendation
from tuner.advice.twin.budget import Budget
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.finding import Evidence, Finding
from tuner.diagnosis.registry import RULES
from tuner.fabric.graph import build_fabric
from tuner.store.sources import open_window

ON = tuple(p == 3 for p in range(8))
OFF = (False,) * 8


def finding(rule: str, subject, affected=(), evidence=()) -> Finding:
    return Finding(
        rule, "config", subject, "critical", 0.9, "x", 0, tuple(evidence), "y", tuple(affected)
    )


def changes(recs: list[Recommendation]) -> dict[tuple[str, object], object]:
    steps = [step for rec in recs for step in rec.each()]
    return {(step.knob, step.scope): step.proposed for step in steps}


def test_the_odd_end_gets_what_most_have():
    made = lab(4)
    for wire in (*made.netdevs, *made.interfaces):
        made.telemetry.put(wire, "pfc_priorities", ON)
    made.telemetry.put(made.interfaces[2], "pfc_priorities", OFF)
    found = finding("pfc-mismatch", made.interfaces[2], [made.netdevs[2]])
    [rec] = aligned(found, made.telemetry, made.fabric, ("pfc_priorities",))
    assert (rec.scope, rec.current, rec.proposed) == (made.interfaces[2], OFF, ON)
    assert "of its like" in rec.summary
    assert rec.how.endswith("to 3")
    assert rec.undo.endswith("to none again")
    assert rec.risk == "medium"


def test_without_a_majority_only_what_every_fabric_needs_is_proposed():
    made = lab(2)
    netdev = made.netdevs[0]
    made.telemetry.put(netdev, "trust", "pcp")
    made.telemetry.put(netdev, "pfc_priorities", OFF)
    assert wanted(made.telemetry, made.fabric, "trust", netdev, "pcp")[0] == "dscp"
    assert wanted(made.telemetry, made.fabric, "pfc_priorities", netdev, OFF) is None
    assert usual(made.telemetry, made.fabric, "trust", netdev) is None


def test_a_switch_of_which_most_ports_are_odd_is_compared_with_all_like_ports():
    made = lab(6)
    for wire in made.interfaces:
        made.telemetry.put(queue(wire, 3), "kmin_bytes", 100e3)
    made.telemetry.put(queue(made.interfaces[0], 3), "kmin_bytes", 9e6)
    found = finding("x", made.interfaces[0].switch)
    [rec] = aligned(found, made.telemetry, made.fabric, ("kmin_bytes",))
    assert changes([rec]) == {("kmin_bytes", queue(made.interfaces[0], 3)): 100e3}


def test_egress_that_does_not_mark_gets_marks_and_thresholds():
    made = lab(4)
    slots = [queue(wire, 3) for wire in made.interfaces]
    for slot in slots[:3]:
        made.telemetry.put(slot, "ecn_enabled", True)
        for name, value in (("kmin_bytes", 1e5), ("kmax_bytes", 4e5), ("pmax_ratio", 0.2)):
            made.telemetry.put(slot, name, value)
    made.telemetry.put(slots[3], "ecn_enabled", False)
    found = finding(
        "pfc-before-ecn",
        made.interfaces[3],
        evidence=[
            Evidence(
                interface.PFC_RX_PAUSE.name, priority(made.netdevs[0], 3), 5.0, "seconds", "",
                1, 10_000_000_001,
            )
        ],
    )  # fmt: skip
    recs = list(mark_first(found, made.telemetry, made.fabric))
    assert changes(recs) == {
        ("ecn_enabled", slots[3]): True,
        ("kmin_bytes", slots[3]): 1e5,
        ("kmax_bytes", slots[3]): 4e5,
        ("pmax_ratio", slots[3]): 0.2,
    }
    assert recs[0].effects[0].before == pytest.approx(0.5)


def test_senders_without_ect_are_set_whether_subject_or_affected():
    made = lab(4)
    receiver, odd, capable, unread = made.ports
    for port in (receiver, capable):
        made.telemetry.put(port, "roce_ecn_codepoint", 2)

    def senders(subject, affected):
        found = finding("not-ect", subject, affected)
        recs = set_ect(found, made.telemetry, made.fabric)
        return [(rec.scope, rec.current, rec.missing) for rec in recs]

    not_read = ("the sender's ECN codepoint",)
    assert senders(receiver, [receiver, capable, unread]) == [(unread, None, not_read)]
    made.telemetry.put(odd, "roce_ecn_codepoint", 0)
    assert senders(odd, [odd, receiver]) == [(odd, 0, ())]
    assert senders(receiver, [receiver, odd, capable]) == [(odd, 0, ())]
    assert senders(receiver, [receiver]) == []
    unknown = ("which hosts send to this receiver", *not_read)
    assert senders(unread, [unread]) == [(unread, None, unknown)]


@pytest.mark.parametrize(("pattern", "qps"), [("all-to-all", 2), ("ring", 2)])
def test_queue_pairs_are_counted_for_each_direction(pattern, qps):
    made = lab(4)
    for here in range(4):
        for there in range(4):
            if here == there or (pattern == "ring" and abs(here - there) == 2):
                continue
            for number in range(2 * qps if pattern == "all-to-all" else qps):
                made.telemetry.pairs.append(
                    QueuePairFact(
                        made.ports[here].device, 1, 10 * there + number, job="train",
                        remote_address=f"10.0.0.{there}",
                    )
                )  # fmt: skip
    found = finding("ecmp-imbalance", made.interfaces[0].switch)
    [rec] = spread_out(found, made.telemetry, made.fabric)
    assert (rec.knob, rec.current, rec.proposed) == ("qps_per_connection", qps, 8)


def test_a_knob_is_set_once_at_a_place():
    made = lab(3)
    off = [queue(wire, 3) for wire in made.interfaces]
    found = finding("pfc-before-ecn", made.interfaces[0])
    first, second = (
        recommend_change(
            found, "ecn_enabled", places[0], False, True, "mark", [], confidence=0.9, risk="low",
            also=places[1:],
        )
        for places in (off[:2], off)
    )  # fmt: skip
    assert [rec.places for rec in once_each([first, second, first])] == [
        tuple(off[:2]), (off[2],),
    ]  # fmt: skip


def test_alpha_becomes_the_exponent_that_switches_are_set_by():
    assert as_knob("buffer_alpha", 1 / 8, 2.0) == ("buffer_alpha_exponent", -3, 1)
    assert as_knob("kmin_bytes", 1.0, 2.0) == ("kmin_bytes", 1.0, 2.0)


def advised(draw: Draw, folder, budget_s: float = 2.0):
    record(draw, folder)
    window, _ = open_window(f"dir={folder}", "", "")
    fabric = build_fabric(window)
    diagnosis = diagnose(window, fabric, RULES)
    recs = recommend(diagnosis, window, fabric)
    proof = prove(recs, diagnosis, window, fabric, budget=Budget(budget_s))
    return recs, proof.recommendations


@pytest.mark.parametrize("family", ["link-lossy-host-cable", "flow-slow-receiver"])
def test_advice_cures_the_draw_and_predicts_so(family, tmp_path):
    draw = draw_of(family, 2)
    _, recs = advised(draw, tmp_path / "r")
    made = [Change(one.scope, one.knob, one.proposed) for rec in recs for one in rec.each()]
    [truth] = draw.truths
    before, after, best = (
        outcome(one).job_time_s for one in (draw, applied(draw, made), applied(draw, truth.cure))
    )
    assert after <= best * 1.01 < before
    predicted = recs[0].effects[0]
    assert predicted.metric == "job time"
    assert predicted.high < predicted.before
    assert predicted.model == "packet simulation of the twin"


def test_healthy_but_uneven_fabric_is_left_alone(tmp_path):
    _, after = advised(draw_of("healthy-ring", 2), tmp_path / "r")
    assert after == ()


def test_without_a_twin_recommendations_stay_as_they_are():
    made = lab(4)
    made.telemetry.put(made.netdevs[1], "mtu_bytes", 1024)
    diagnosis = diagnose(made.telemetry, made.fabric, RULES)
    recs = recommend(diagnosis, made.telemetry, made.fabric)
    assert recs
    proof = prove(recs, diagnosis, made.telemetry, made.fabric, budget=Budget(1.0))
    assert proof.recommendations == recs


def test_steps_of_one_change_have_its_id():
    made = lab(3)
    found = finding("x", made.interfaces[0])
    made.telemetry.put(made.netdevs[0], "trust", "pcp")
    made.telemetry.put(made.netdevs[1], "trust", "pcp")
    hit = replace(found, subject=made.netdevs[0], affected=(made.netdevs[1],))
    [rec] = aligned(hit, made.telemetry, made.fabric, ("trust",))
    both = replace(rec, also=(made.netdevs[1],))
    assert [one.scope for one in both.each()] == [made.netdevs[0], made.netdevs[1]]
    assert {one.id for one in both.each()} == {both.id}
    assert all(isinstance(one.scope, Netdev | Interface | Slot) for one in both.each())


def test_parameters_outside_all_that_is_published_come_back():
    made = lab(4)
    for number, port in enumerate(made.ports):
        made.telemetry.put(port, "congestion_control", "unknown" if number == 3 else "dcqcn")
        made.telemetry.put(port, "dcqcn_cut_window_s", 1e-3)
        made.telemetry.put(port, "dcqcn_g", 1 / 256)
    [rec] = unpublished(finding("incast", made.interfaces[0]), made.telemetry, made.fabric)
    assert rec.knob == "dcqcn_cut_window_s"
    assert rec.places == tuple(made.ports[:3])  # not where the algorithm is not known to be DCQCN
    assert rec.current == 1e-3
    assert rec.proposed == pytest.approx(4e-6)


def test_both_rates_of_increase_come_back_in_their_order():
    made = lab(2)
    for port in made.ports:
        made.telemetry.put(port, "congestion_control", "dcqcn")
        made.telemetry.put(port, "dcqcn_ai_bps", 1e6)
        made.telemetry.put(port, "dcqcn_hai_bps", 2e6)
    recs = list(unpublished(finding("incast", made.interfaces[0]), made.telemetry, made.fabric))
    values = {rec.knob: rec.proposed for rec in recs}
    assert values["dcqcn_ai_bps"] < values["dcqcn_hai_bps"]
    assert not build_plan(recs, made.telemetry, made.fabric, {}).conflicts


def test_what_is_usual_is_counted_in_time_that_does_not_grow_with_the_square():
    made = lab(3)
    switches = [Switch(f"s{number}", f"s{number}") for number in range(100)]
    for switch in switches:
        for port in range(30):
            made.telemetry.put(queue(Interface(switch, f"p{port}"), 3), "kmin_bytes", 100e3)
    odd = queue(Interface(switches[7], "p3"), 3)
    made.telemetry.put(odd, "kmin_bytes", 5e3)
    asked = []
    original = made.telemetry.setting_all
    made.telemetry.setting_all = lambda name: asked.append(name) or original(name)
    found = finding("incast", made.interfaces[0])
    [rec] = drifted(found, made.telemetry, made.fabric, ("kmin_bytes",))
    assert changes([rec]) == {("kmin_bytes", odd): 100e3}
    assert len(asked) < 10
