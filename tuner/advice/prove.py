"""Recommendations held against the twin: effects simulated, harm dropped, thresholds searched.

Defects first: a place that differs from its like is mended whatever the twin says of it, other
cures unless they do harm there. Where that makes the job faster, what could only be better waits
for another look: it would be tuned for a fabric that is about to change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.model.entities import Entity, Port, wire_of
from collectors.model.errors import NotSupported
from tuner.advice.cure import GOODPUT, PAUSED, RETRANSMISSIONS
from tuner.advice.cures.configuration import EXPONENT
from tuner.advice.cures.congestion import ECN, TUNED
from tuner.advice.joint import homes, joint_change
from tuner.advice.norm import runs_dcqcn
from tuner.advice.recommend import once_each
from tuner.advice.recommendation import Recommendation
from tuner.advice.search import fluid
from tuner.advice.search.candidate import current_of
from tuner.advice.search.objective import Weights
from tuner.advice.search.search import LEAST_RUNS, Tried, search
from tuner.advice.trial import Trial, affordable
from tuner.advice.twin.budget import Budget
from tuner.advice.twin.change import HOST, REPAIR, Assignment, shows
from tuner.advice.twin.compare import Comparison
from tuner.diagnosis.finding import Diagnosis, Finding
from tuner.diagnosis.view import FabricView, Telemetry

RISK: Final = 1.05  # the same, of any N, RTT and burst around the estimate, for the search
WORTH: Final = 0.99  # times the job time: what changes less is left alone, if nothing is broken
KNOBS_ONLY: Final = ("balance", "control_loop", "placement")  # sections that name no defect
CURED: Final = 0.97  # times the job time: a cause is mended; thresholds wait for another look
GAIN: Final = 0.03  # of job time: less is not worth new thresholds for a whole fleet
CALM: Final = 0.05  # of time paused less: worth them, too
BOUNDED: Final = (GOODPUT, PAUSED, RETRANSMISSIONS)
"""Effects that accounting only bounds; a simulation tells more."""
MOST_RUNS: Final = 1000  # of a search
PROPOSED: Final = 0.1  # of the budget, for the fluid model
_GUESSED: Final = "closed forms"
_UNPAID: Final = "the budget was used up: its effect was not simulated (--budget)"
_NO_TRACE: Final = "the simulated fabric shows neither the fault nor its cure: no simulated effect"
_UNSEEN: Final = "the packet simulator does not show this knob: its effect was not simulated"


@dataclass(frozen=True, slots=True)
class Proof:
    """Recommendations as the twin left them, and what a user should know of how.

    tried: the settings that a search came down to.
    """

    recommendations: tuple[Recommendation, ...]
    notes: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()


def prove(
    recommendations: Iterable[Recommendation],
    diagnosis: Diagnosis,
    telemetry: Telemetry,
    fabric: FabricView,
    *,
    budget: Budget,
    seed: int = 1,
    weights: Weights | None = None,
    progress: Callable[[int], None] | None = None,
) -> Proof:
    """Return the recommendations with simulated effects, without those that do harm.

    Where a finding is about thresholds, the search's answer takes the place of closed forms.
    Without a twin (no cables, no byte counters) they are returned as they are.
    """
    made = tuple(recommendations)
    findings = {finding.id: finding for finding in diagnosis.findings}
    tuned = [f for f in diagnosis.findings if f.rule in TUNED and not f.explained_by]
    tuned = [f for f in tuned if f.severity != "info"]
    if not tuned and not any(shows(part.knob) for rec in made for part in rec.parts):
        return Proof(made)
    try:
        twin = affordable(telemetry, fabric, _ports(fabric, diagnosis.findings), budget)
    except NotSupported:
        return Proof(made)
    trial = Trial(telemetry, fabric, twin, seed, budget, progress)
    kept: list[Recommendation] = []
    groups = list(_by_cause(made).values())
    defects = [g for g in groups if not _is_optional(findings.get(g[0].because[0]), g)]
    joint = [change for group in defects for change in _changes(group)]
    # Defects are mended together where that does no harm: one of several alone may do.
    found = trial.tried(joint) if joint and len(defects) > 1 else None
    together = found is not None and not trial.vetoes(found, "config")
    if found is not None and together:
        trial.accepted += joint
        trial.cured = found.job_ratios[0] < CURED or any(
            map(trial.mends_drift, _of_rules(defects, tuned))
        )
        for group in defects:
            kept += _told(group, found, trial)
    for group in defects if not together else ():
        kept += _judged(trial, group, findings.get(group[0].because[0]))
    for group in _left(groups, defects, findings):
        if not trial.cured:
            kept += _judged(trial, group, findings.get(group[0].because[0]))
    if tuned and not trial.cured:
        guessed = {
            group[0].because[0]
            for group in groups
            if _is_optional(findings.get(group[0].because[0]), group)
        }
        stay = [r for r in kept if r.because[0] not in guessed or not _is_threshold(r.knob)]
        kept = _searched(trial, kept, stay, tuned, weights)
    if budget.cut:
        trial.notes.append(
            f"simulations ended by the clock after {budget.wall_s:.0f} s, before their work was "
            "done: this machine is slow or busy, and another run may answer otherwise"
        )
    return Proof(tuple(kept), tuple(trial.notes), trial.searched)


def _ports(fabric: FabricView, findings: Sequence[Finding]) -> list[Port]:
    """Return the RDMA ports that findings are about, or that hang on their interfaces."""
    behind: dict[Entity, Port] = {}
    for port in fabric.ports():
        wire = fabric.attached(port)
        far = fabric.peer(wire)
        behind |= {port: port, wire: port}
        if far is not None:
            behind[far] = port
    places = [place for f in findings if not f.explained_by for place in (f.subject, *f.affected)]
    found: dict[Port, None] = {}
    for place in places:
        near = wire_of(place)
        if near in behind:
            found.setdefault(behind[near])
    return list(found)


def _by_cause(made: Sequence[Recommendation]) -> Mapping[str, list[Recommendation]]:
    groups: dict[str, list[Recommendation]] = {}
    for rec in made:
        groups.setdefault(rec.because[0], []).append(rec)
    return groups


def _left(
    groups: Iterable[list[Recommendation]],
    defects: list[list[Recommendation]],
    findings: Mapping[str, Finding],
) -> list[list[Recommendation]]:
    """Return what is no defect; nothing about balance where a broken link makes it uneven."""
    reasons = [findings.get(group[0].because[0]) for group in defects]
    broken = any(finding is not None and finding.section == "link" for finding in reasons)
    return [
        group
        for group in groups
        if group not in defects
        and not (broken and findings[group[0].because[0]].section == "balance")
    ]


def _of_rules(
    groups: Iterable[list[Recommendation]], tuned: Iterable[Finding]
) -> list[list[Recommendation]]:
    """Return the causes whose findings are about thresholds."""
    ids = {finding.id for finding in tuned}
    return [group for group in groups if group[0].because[0] in ids]


def _is_optional(finding: Finding | None, group: Iterable[Recommendation]) -> bool:
    """Tell whether a cause is no defect, only values that could be better.

    A cure that is less sure than its finding is a closed form's guess of better values.
    """
    if finding is None:
        return False
    made = list(group)
    if any(rec.knob in (REPAIR, HOST) for rec in made):
        return False
    unsure = any(rec.confidence < finding.confidence for rec in made)
    return finding.section in KNOBS_ONLY or (finding.rule in TUNED and unsure)


def _changes(group: Iterable[Recommendation]) -> list[Assignment]:
    return [
        Assignment(part.knob, part.proposed, place)
        for rec in group
        for part in rec.parts
        if shows(part.knob)
        for place in part.places
    ]


def _judged(
    trial: Trial, group: Sequence[Recommendation], finding: Finding | None
) -> list[Recommendation]:
    """Return the recommendations of one cause with what the twin says of them together."""
    changes = _changes(group)
    if not changes:
        return [replace(rec, missing=(*rec.missing, _UNSEEN)) for rec in group]
    found = trial.tried(changes)
    if found is None:
        return [replace(rec, missing=(*rec.missing, _UNPAID)) for rec in group]
    section = "" if finding is None else finding.section
    drift = trial.mends_drift(group)
    if trial.vetoes(found, section) and section != "link" and not drift:
        return []
    optional = _is_optional(finding, group)
    if optional and trial.faithful and not _helps(found):
        return []
    trial.accepted += changes
    tuned = finding is not None and finding.rule in TUNED
    trial.cured |= not optional and (found.job_ratios[0] < CURED or (drift and tuned))
    return _told(group, found, trial)


def _told(group: Iterable[Recommendation], found: Comparison, trial: Trial) -> list[Recommendation]:
    """Return recommendations with simulated effects, or with why they have none.

    What was simulated takes the place of what accounting bounds.
    """
    if not found.differs:
        return [replace(rec, missing=(*rec.missing, _NO_TRACE)) for rec in group]
    effects = tuple(found.effects(trial.twin.assumed, share=trial.twin.load.share))
    return [
        replace(rec, effects=(*effects, *(e for e in rec.effects if e.metric not in BOUNDED)))
        if any(shows(part.knob) for part in rec.parts)
        else replace(rec, missing=(*rec.missing, _UNSEEN))
        for rec in group
    ]


def _helps(found: Comparison) -> bool:
    """Tell whether a change is worth it: a faster job, or fewer pauses for the same."""
    calmer = found.before[0].paused_ratio - found.after[0].paused_ratio > CALM
    return min(found.job_ratios) < WORTH or calmer


def _searched(
    trial: Trial,
    kept: list[Recommendation],
    stay: list[Recommendation],
    tuned: Sequence[Finding],
    weights: Weights | None,
) -> list[Recommendation]:
    """Return what stays and the joint change of the search; all that was kept if it is not better.

    What does not stay are guesses of thresholds by closed forms: the search tries them, too, and
    takes their place if it finds clearly better ones.
    """
    telemetry, fabric, budget = trial.telemetry, trial.fabric, trial.budget
    runs = min(MOST_RUNS, int(budget.left_s * (1 - PROPOSED) / trial.price_s))
    if runs < LEAST_RUNS or budget.late():
        wanted = budget.spent_s + LEAST_RUNS * trial.price_s / (1 - PROPOSED)
        trial.notes.append(
            f"thresholds were not searched: that takes --budget {math.ceil(wanted)} or more here"
        )
        return kept
    done = _changes(stay)
    twin = trial.with_all(tuple(change for change in trial.accepted if change in done))
    advised = []
    if len(stay) < len(kept):
        guessed = trial.with_all(tuple(trial.accepted))
        held = current_of(guessed.plan, guessed.watch[0])
        advised = [replace(held, name=_GUESSED, source=_GUESSED)]
    found = search(
        twin,
        runs=runs,
        weights=weights,
        proposals=int(budget.left_s * PROPOSED / fluid.RUN_S),
        advised=advised,
        seed=trial.seed,
        pfc=any(True for _ in homes(telemetry, fabric, EXPONENT)),
        nics=all(runs_dcqcn(telemetry, port) for port in twin.wiring.hosts),
        stop=budget.late,
        ran=trial.ran,
    )
    trial.searched = found.tried
    if found.stopped or found.best.candidate.source == _GUESSED:
        return kept
    compared = Comparison(
        *(tuple(one.runs[t] for t in found.trials) for one in (found.current, found.best))
    )
    ratios = compared.job_ratios
    faster = sum(ratios) / len(ratios) < 1 - GAIN
    calmer = compared.before[0].paused_ratio - compared.after[0].paused_ratio > CALM
    if max(ratios) > RISK or not found.worth_it or not (faster or calmer):
        if len(stay) < len(kept):
            return kept
        trial.notes.append(
            f"marking and rate control are best left as they are: of {found.evaluations} simulated "
            f"runs of other settings none is clearly better ({found.best.candidate.name} "
            f"{found.gain.mean:+.3f} ± {2 * found.gain.scatter:.3f} of score)"
        )
        return kept
    line_bps = twin.plan.topology.cables[twin.watch[0] // 2].rate_bps
    effects = compared.effects(twin.assumed, share=twin.load.share)
    made = joint_change(tuned, telemetry, fabric, found, line_bps, effects)
    if made is None:
        return kept
    return once_each([*stay, made])


def _is_threshold(knob: str) -> bool:
    if knob in ("dcqcn_rp_enabled", "dcqcn_np_enabled"):
        return False
    return knob in (*ECN, EXPONENT) or knob.startswith("dcqcn_")
