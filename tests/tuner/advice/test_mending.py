"""Defects are mended first, wholly, and whatever a twin says of them."""

from __future__ import annotations

import pytest

from simlab.scenarios.change import applied
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.outcome import outcome
from simlab.scenarios.registry import draw as draw_of
from tests.tuner.advice.test_cures import advised, finding
from tests.tuner.diagnosis.test_rules import lab
from tuner.advice.cures.watchdog import act_later
from tuner.advice.recommendation import Recommendation

SEED = 902_000  # of draws in which each of these faults costs job time


def job_time(draw: Draw) -> float:
    return outcome(draw, horizon_s=4 * draw.plan.config.duration_s).job_time_s


def followed(draw: Draw, recs: tuple[Recommendation, ...]) -> Draw:
    return applied(draw, [Change(p, rec.knob, rec.proposed) for rec in recs for p in rec.places])


@pytest.mark.parametrize(
    ("family", "knobs"),
    [
        ("flow-deadlock", {"route_repair", "pfc_watchdog_enabled"}),
        ("host-nic-overflow", {"pfc_priorities", "host_repair"}),
        ("config-watchdog", {"pfc_watchdog_detection_seconds"}),
        ("config-pool", {"pool_size_bytes"}),
        ("balance-unequal", {"link_repair"}),
        ("link-down-fabric", {"link_repair"}),
    ],
)
def test_a_defect_is_mended_as_well_as_by_who_knows_it(family, knobs, tmp_path):
    draw = draw_of(family, SEED)
    _, recs = advised(draw, tmp_path / "r", budget_s=0.5)
    assert {rec.knob for rec in recs} == knobs
    [truth] = draw.truths
    cured = job_time(applied(draw, truth.cure))
    assert job_time(followed(draw, recs)) <= 1.02 * cured < 0.9 * job_time(draw)


def test_only_switches_at_which_traffic_turns_upwards_again_lose_routes(tmp_path):
    draw = draw_of("flow-deadlock", SEED)
    before, _ = advised(draw, tmp_path / "r", budget_s=0.1)
    [routes] = [rec for rec in before if rec.knob == "route_repair"]
    topology = draw.plan.topology
    leaves = {draw.names.switch(n) for n in topology.switches if topology.tier[n] == 1}
    assert set(routes.places) == leaves


def test_weights_are_for_the_time_until_the_cable_is_back(tmp_path):
    before, _ = advised(draw_of("balance-unequal", SEED), tmp_path / "r", budget_s=0.1)
    assert not any(rec.knob == "ecmp_weight" for rec in before)
    assert any("until it is up, ECMP weight" in rec.summary for rec in before)


def test_a_watchdog_that_waits_long_enough_keeps_its_time():
    made = lab(3)
    name = "pfc_watchdog_detection_seconds"
    for wire, seconds in zip(made.interfaces, (2e-5, 2e-5, 0.4), strict=True):
        made.telemetry.put(wire, name, seconds)
    hasty, _, patient = made.interfaces
    recs = act_later(finding("watchdog-fired", patient), made.telemetry, made.fabric)
    assert not any(patient in rec.places for rec in recs)
    [rec] = act_later(finding("watchdog-fired", hasty), made.telemetry, made.fabric)
    assert (rec.current, rec.proposed) == (2e-5, 0.2)
    assert set(rec.places) == set(made.interfaces[:2])
