"""What a search found is one optional change, that a plan expands and undo takes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.model.dcqcn import NVIDIA_FIRMWARE
from collectors.model.ecn import EcnThresholds
from collectors.model.entities import Port
from tests.tuner.diagnosis.test_rules import lab
from tuner.advice.cure import recommend_change
from tuner.advice.document import recommendation_document
from tuner.advice.joint import joint_change
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.planning import build_plan
from tuner.advice.recommend import once_each
from tuner.advice.recommendation import Effect
from tuner.advice.search.candidate import Candidate
from tuner.advice.search.objective import Score
from tuner.advice.search.search import Found
from tuner.advice.search.trials import Judged, Lead
from tuner.diagnosis.finding import Finding

NOW = Candidate("leave it", EcnThresholds(150e3, 1500e3, 1.0), NVIDIA_FIRMWARE, 1 / 8)
BEST = Candidate(
    "optimised", EcnThresholds(400e3, 1500e3, 0.2), replace(NVIDIA_FIRMWARE, ai_bps=20e6), 1 / 8
)
GAIN = Effect("job time", "seconds", 2.0, 1.5, 1.8, "packet simulation of the twin", "x")


def finding(subject) -> Finding:
    return Finding("incast", "control_loop", subject, "warning", 0.7, "x", 0, (), "y")


def found(best: Candidate = BEST) -> Found:
    one, now = (
        Judged(candidate, {0: Score(total, 1, 1, 1, 1)}, {})
        for candidate, total in ((best, 0.8), (NOW, 0.7))
    )
    return Found(one, now, now, Lead(0.1, 0.01, 0.1), (one, now), (True, True), (0,), 99, False)


def tuned():
    made = lab(3)
    for port in made.ports:
        made.telemetry.put(port, "congestion_control", "dcqcn")
        made.telemetry.put(port, "dcqcn_ai_bps", 5e6)
    for slot in made.queues:
        for name, value in (("kmin_bytes", 150e3), ("kmax_bytes", 1500e3), ("pmax_ratio", 1.0)):
            made.telemetry.put(slot, name, value)
    return made


def joint(made, best: Candidate = BEST):
    return joint_change(
        [finding(made.interfaces[0])], made.telemetry, made.fabric, found(best), 100e9, [GAIN]
    )


def test_all_knobs_are_one_optional_recommendation():
    made = tuned()
    rec = joint(made)
    assert rec.optional
    assert rec.risk == "medium"
    assert "3 NICs and 3 queues" in rec.risk_reason
    assert [(part.knob, part.current, part.proposed) for part in rec.parts] == [
        ("kmin_bytes", 150e3, 400e3), ("pmax_ratio", 1.0, 0.2), ("dcqcn_ai_bps", 5e6, 20e6),
    ]  # fmt: skip
    assert rec.effects == (GAIN,)
    assert len(list(rec.each())) == 9
    assert {one.id for one in rec.each()} == {rec.id}
    assert rec.undo.count(" again") == 3


def test_undo_of_all_parts_restores():
    made = tuned()
    rec = joint(made)
    settings = {(s.knob, s.scope): s.current for s in rec.each()}
    done = {(s.knob, s.scope): s.proposed for s in rec.each()}
    back = rec.of([replace(part, proposed=part.current) for part in rec.parts])
    assert settings != done
    assert {(s.knob, s.scope): s.proposed for s in back.each()} == settings


def test_what_a_fix_sets_is_not_set_again():
    made = tuned()
    slot = made.queues[1]
    fix = recommend_change(
        finding(slot), "kmin_bytes", slot, 5e3, 150e3, "as usual", [], confidence=0.9, risk="low"
    )
    first, rest = once_each([fix, joint(made)])
    assert first == fix
    settled = [(s.knob, s.scope) for s in rest.each()]
    assert len(settled) == 8
    assert ("kmin_bytes", slot) not in settled
    assert first.id != rest.id
    assert rest.id == joint(made).id  # of other parts, yet the same change


def test_a_place_that_is_unlike_makes_another_part_and_differences_of_nothing_none():
    made = tuned()
    made.telemetry.put(made.ports[0], "dcqcn_ai_bps", 10e6)
    parts = [p for p in joint(made).parts if p.knob == "dcqcn_ai_bps"]
    assert [(len(p.places), p.current) for p in parts] == [(1, 10e6), (2, 5e6)]
    near = replace(BEST, ecn=EcnThresholds(151e3, 1500e3, 1.0), dcqcn=NVIDIA_FIRMWARE)
    assert joint(made, near) is None


def test_a_nic_that_is_not_known_to_run_dcqcn_is_left_out():
    made = tuned()
    made.telemetry.put(made.ports[2], "congestion_control", "unknown")
    places = [p for part in joint(made).parts for p in part.places if isinstance(p, Port)]
    assert places == made.ports[:2]


def test_plan_expands_it_under_one_id():
    made = tuned()
    rec = joint(made)
    plan = build_plan([rec], made.telemetry, made.fabric, {})
    assert plan.steps == 9
    assert {step.recommendation for device in plan.devices for step in device.steps} == {rec.id}
    assert not plan.conflicts
    steps = [step for device in plan.devices for step in device.steps]
    assert all(step.disruption == KNOBS[step.knob].disruption for step in steps)
    document = recommendation_document(rec)
    assert [part.knob for part in document.joint] == [part.knob for part in rec.parts]
    assert document.optional


@pytest.mark.parametrize("field", ["summary", "risk_reason", "how", "undo", "because", "unit"])
def test_it_has_every_field(field):
    assert getattr(joint(tuned()), field)
