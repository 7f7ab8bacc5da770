"""The search: better than what runs and than every preset, within steps, the same every time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.model.dcqcn import NVIDIA_FIRMWARE, PAPER, firmware_of_parameters, profile
from collectors.model.ecn import EcnThresholds
from collectors.model.errors import ConfigInvalid
from simlab.packet.config import Config, FlowFile, Plan, TopologyFile
from simlab.packet.parameters import CongestionControl, EcnAt, Form, Model, NicModel, SwitchModel
from simlab.packet.topology import star
from simlab.packet.workloads import incast
from tuner.advice.search.candidate import (
    Candidate,
    applied,
    changed_settings,
    current_of,
    held,
    reverted,
    stepped,
    unlike,
)
from tuner.advice.search.objective import Score, Weights, pareto
from tuner.advice.search.presets import PRESETS
from tuner.advice.search.search import search
from tuner.advice.search.trials import Judged, lead
from tuner.advice.twin.load import Load
from tuner.advice.twin.twin import Seen, Twin, around
from tuner.advice.twin.wiring import Wiring

BAD = EcnThresholds(5e3, 50e3, 1.0)


def twin(senders: int = 8, ecn: EcnThresholds = BAD, dcqcn=NVIDIA_FIRMWARE) -> Twin:
    topology = star(senders + 1)
    traffic = incast(range(senders), senders, 1_000_000)
    marking = (EcnAt(rate_bps=100e9, thresholds=ecn),)
    model = Model(
        congestion=CongestionControl(form=Form.FIRMWARE, dcqcn=dcqcn),
        switch=SwitchModel(ecn=marking),
    )
    config = Config(topology=TopologyFile(path=""), workload=FlowFile(path=""), duration_s=4e-3)
    wiring = Wiring(topology, (), (), {}, {}, ())
    return Twin(
        Plan(config, topology, model, traffic, ()),
        wiring,
        Load(traffic, 1e-3, 1.0, ()),
        (2 * senders + 1,),
        around(float(senders), "given"),
        around(5e-6, "given"),
        around(1e6, "given"),
        Seen(1e-3, None, None),
        (),
    )


def test_best_beats_leaving_it_and_every_preset_and_is_the_same_again():
    found = search(twin(), runs=200, seed=3)
    again = search(twin(), runs=200, seed=3)
    assert found.worth_it
    assert found.best.runs[0].job_s < 0.9 * found.current.runs[0].job_s
    assert [one.candidate for one in found.table] == [one.candidate for one in again.table]
    assert found.evaluations == again.evaluations
    assert 150 < found.evaluations <= 210
    names = [one.candidate.source for one in found.table]
    assert any(preset.source in names for preset in PRESETS)
    assert "the running settings" in names
    assert any(one.candidate.dcqcn is None for one in found.table)
    names = [one.candidate.name for one in found.table]
    assert [row.name for row in found.tried[1:]] == names[1:]
    assert found.tried[0].name.startswith(names[0])
    assert any(row.undominated for row in found.tried)
    assert found.tried[0].score.total > found.tried[-1].score.total
    assert lead(found.best, found.incumbent, found.trials[1:]).mean >= 0
    assert all(set(found.trials) <= set(one.scores) for one in (found.best, found.current))


def test_good_settings_are_left_alone():
    best = search(twin(), runs=200, seed=3).best.candidate
    tuned = twin(ecn=best.ecn, dcqcn=best.dcqcn)
    switch = replace(tuned.plan.model.switch, alpha=best.alpha)
    model = replace(tuned.plan.model, switch=switch)
    tuned = replace(tuned, plan=replace(tuned.plan, model=model))
    assert not search(tuned, runs=60, seed=4).worth_it


def test_a_search_that_is_stopped_leaves_it():
    ran = []
    found = search(twin(), runs=200, ran=lambda *_: ran.append(1), stop=lambda: len(ran) >= 20)
    assert found.stopped
    assert not found.worth_it
    assert found.best is found.current
    assert len(ran) < 40


def test_settings_that_contribute_nothing_stay_as_they_are():
    found = search(twin(), runs=200, seed=3)
    changed = changed_settings(found.current.candidate, found.best.candidate)
    assert 0 < len(changed) < 6
    now = found.current.candidate
    other = replace(now, alpha=1.0, ecn=EcnThresholds(60e3, 70e3, 0.5))
    assert unlike(other, now) == [
        ("kmin_bytes", "kmax_bytes", "pmax_ratio"),
        ("kmax_bytes",), ("pmax_ratio",), ("alpha",), ("kmin_bytes",),
    ]  # fmt: skip
    assert reverted(other, now, ["alpha"]) == replace(other, alpha=now.alpha)
    assert reverted(other, now, ["kmax_bytes"]) == other  # Kmin would be above it
    assert reverted(other, now, ["kmin_bytes", "kmax_bytes", "pmax_ratio"]).ecn == now.ecn


def test_what_is_advised_by_other_means_is_kept_unless_another_clearly_leads():
    best = search(twin(), runs=200, seed=3).best.candidate
    advised = replace(best, name="closed forms", source="closed forms")
    found = search(twin(), runs=60, seed=4, advised=[advised])
    assert found.incumbent.candidate.source == "closed forms"
    assert found.best.candidate.source == "closed forms"
    far = replace(advised, dcqcn=replace(advised.dcqcn, ai_bps=2e9, hai_bps=4e9))
    tried = search(twin(), runs=60, seed=4, advised=[far])
    assert any(one.candidate.dcqcn.ai_bps == 2e9 for one in tried.table if one.candidate.dcqcn)


def judged(*totals: float) -> Judged:
    scores = {trial: Score(total, 0, 0, 0, 0) for trial, total in enumerate(totals)}
    return Judged(current_of(twin().plan, 17), scores, {})


def test_a_lead_is_clear_where_it_is_more_than_the_scatter_of_the_differences():
    rough, other = judged(0.5, 0.7, 0.6, 0.8), judged(0.52, 0.71, 0.62, 0.81)
    assert lead(other, rough, range(4)).clear  # each trial says so, although trials differ more
    assert not lead(judged(0.6, 0.6, 0.7, 0.8), rough, range(4)).clear  # one trial says so
    assert not lead(rough, rough, range(4)).clear
    worse_at_worst = judged(0.45, 0.9, 0.8, 1.0)
    assert lead(worse_at_worst, rough, range(4)).mean > 0.1
    assert not lead(worse_at_worst, rough, (0, 0, 0, 1)).clear


def test_steps_are_bounded_except_back_into_the_published_range():
    now = current_of(twin().plan, 17)
    far = Candidate("", EcnThresholds(1e6, 3e6, 0.01), profile("hpcc", 400e9), 1.0)
    near = stepped(far, now, 2.0)
    assert near.ecn == EcnThresholds(10e3, 10e3 + 90e3, 0.5)
    assert near.dcqcn.ai_bps == 2 * now.dcqcn.ai_bps
    assert near.alpha == 2 * now.alpha
    wild = replace(now, ecn=EcnThresholds(50e6, 100e6, 0.01))
    assert stepped(far, wild, 2.0).ecn == far.ecn  # from beyond all that is published: any of it


def test_candidates_are_values_that_registers_hold():
    made = held(replace(PAPER, ai_bps=41.4e6, increase_timer_s=55.4e-6))
    assert made.ai_bps == 41e6
    assert made.increase_timer_s == pytest.approx(55e-6)
    firmware_of_parameters(made, wide_fields=True)
    assert held(replace(PAPER, cut_gain=0.3)) is None


def test_changes_are_named_as_settings_and_take_effect_everywhere():
    plan = twin().plan
    model = replace(plan.model, nics={0: NicModel(congestion=CongestionControl(form=Form.OFF))})
    plan = replace(plan, model=model)
    now = current_of(plan, 17)
    off = Candidate("", now.ecn, None, now.alpha)
    assert changed_settings(now, off) == {"dcqcn_rp_enabled": (False,) * 8}
    new = Candidate("", EcnThresholds(1e5, 4e5, 0.2), now.dcqcn, 1.0)
    assert changed_settings(now, new) == {
        "kmin_bytes": 1e5, "kmax_bytes": 4e5, "pmax_ratio": 0.2, "buffer_alpha_exponent": 0,
    }  # fmt: skip
    made = applied(plan, new, 100e9).model
    assert made.switch.ecn[0].thresholds == new.ecn
    assert made.switch.alpha == 1.0
    assert made.nics[0].congestion is None
    assert applied(plan, off, 100e9).model.congestion.form is Form.OFF


def test_pareto_keeps_what_nothing_beats():
    good = Score(0.9, 1.0, 0.9, 0.1, 1.0)
    quiet = Score(0.5, 0.5, 0.5, 0.9, 1.0)
    worse = Score(0.4, 0.5, 0.4, 0.9, 1.0)
    assert pareto([good, quiet, worse]) == [True, True, False]
    with pytest.raises(ConfigInvalid, match="positive"):
        Weights(throughput=-1)
