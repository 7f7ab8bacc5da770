"""Recommendations held against the twin: effects simulated, harm dropped, thresholds searched.

Defects first: a place that differs from its like is mended whatever the twin says of it, other
cures unless they do harm there. Where that makes the job faster, what could only be better waits
for another look: it would be tuned for a fabric that is about to change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from collectors.model.entities import Entity, Interface, Port, Slot, wire_of
from collectors.model.errors import NotSupported
from collectors.model.facts import Value
from tuner.advice.cure import recommend_change
from tuner.advice.cures.configuration import ALPHA, EXPONENT, as_knob
from tuner.advice.cures.congestion import ECN, TUNED
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.norm import rate_bps, runs_dcqcn, usual
from tuner.advice.recommend import once_each
from tuner.advice.recommendation import Recommendation
from tuner.advice.search.candidate import changed_settings
from tuner.advice.search.objective import Weights
from tuner.advice.search.search import Found, search
from tuner.advice.twin.change import HOST, REPAIR, Assignment, shows
from tuner.advice.twin.compare import Comparison, compare
from tuner.advice.twin.twin import Twin, build_twin
from tuner.diagnosis.finding import Diagnosis, Finding
from tuner.diagnosis.view import FabricView, Telemetry

HARM: Final = 1.02  # times the job time: worse than this is not recommended
RISK: Final = 1.05  # the same, of any N, RTT and burst around the estimate, for the search
WORTH: Final = 0.99  # times the job time: what changes less is left alone, if nothing is broken
FAITHFUL: Final = 0.25  # of the time seen: a twin further off does not speak against mending
DEFECTS: Final = ("link", "config", "host")
KNOBS_ONLY: Final = ("balance", "control_loop", "placement")  # sections that name no defect
CURED: Final = 0.97  # times the job time: a cause is mended; thresholds wait for another look
GAIN: Final = 0.03  # of job time: less is not worth new thresholds for a whole fleet
CALM: Final = 0.05  # of time paused less: worth them, too
TRIED_ON: Final = 3  # variations of N, RTT and burst
_UNSEEN: Final = "the packet simulator does not show this knob: its effect was not simulated"


@dataclass
class _Trial:
    """A twin and the changes that were accepted so far."""

    telemetry: Telemetry
    fabric: FabricView
    twin: Twin
    seed: int
    accepted: list[Assignment] = field(default_factory=list)
    cured: bool = False

    def __post_init__(self) -> None:
        """Tell whether the twin does what was seen: takes about as long for the same bytes."""
        seen = self.twin.seen.seconds * self.twin.load.share
        took = self.twin.run(seed=self.seed).job_s
        self.faithful = seen > 0 and abs(took / seen - 1) < FAITHFUL

    def vetoes(self, found: Comparison, section: str) -> bool:
        """Tell whether a change does harm on the twin; against a defect only a faithful one can."""
        harmful = found.job_ratios[0] > HARM
        return harmful and (self.faithful or section not in DEFECTS)

    def mends_drift(self, group: Iterable[Recommendation]) -> bool:
        """Tell whether a cure only brings places to what most of their like have."""
        return all(
            (norm := self._usual(rec.knob, place)) is not None and norm == rec.proposed
            for rec in group
            for place in rec.places
        )

    def _usual(self, knob: str, place: Entity) -> Value | None:
        found = usual(self.telemetry, self.fabric, knob, place)
        if found is None and knob == EXPONENT:
            found = usual(self.telemetry, self.fabric, ALPHA, place)
            return None if found is None else as_knob(ALPHA, found[0], found[0])[2]
        return None if found is None else found[0]

    def now(self) -> Twin:
        """Return the twin with everything that was accepted."""
        return self.twin.changed(self.telemetry, self.fabric, self.accepted)

    def tried(self, changes: Sequence[Assignment]) -> Comparison:
        """Return what further changes do."""
        after = self.twin.changed(self.telemetry, self.fabric, [*self.accepted, *changes])
        return compare(self.now(), after, variations=TRIED_ON, seed=self.seed)


def prove(
    recommendations: Iterable[Recommendation],
    diagnosis: Diagnosis,
    telemetry: Telemetry,
    fabric: FabricView,
    *,
    budget_s: float,
    seed: int = 1,
    weights: Weights | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Recommendation, ...]:
    """Return the recommendations with simulated effects, without those that do harm.

    Where a finding is about thresholds, the search's answer takes the place of closed forms.
    Without a twin (no cables, no byte counters) they are returned as they are.
    """
    made = tuple(recommendations)
    findings = {finding.id: finding for finding in diagnosis.findings}
    tuned = [f for f in diagnosis.findings if f.rule in TUNED and not f.explained_by]
    tuned = [f for f in tuned if f.severity != "info"]
    if not tuned and not any(shows(rec.knob) for rec in made):
        return made
    began = time.monotonic()
    try:
        twin = build_twin(telemetry, fabric, about=_ports(fabric, diagnosis.findings))
    except NotSupported:
        return made
    trial = _Trial(telemetry, fabric, twin, seed)
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
    left = budget_s - (time.monotonic() - began)
    if tuned and left > 0 and not trial.cured:
        kept = _searched(trial, kept, tuned, left, weights, progress)
    return tuple(kept)


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
        Assignment(rec.knob, rec.proposed, place)
        for rec in group
        if shows(rec.knob)
        for place in rec.places
    ]


def _judged(
    trial: _Trial, group: Sequence[Recommendation], finding: Finding | None
) -> list[Recommendation]:
    """Return the recommendations of one cause with what the twin says of them together."""
    changes = _changes(group)
    if not changes:
        return [replace(rec, missing=(*rec.missing, _UNSEEN)) for rec in group]
    found = trial.tried(changes)
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


def _told(
    group: Iterable[Recommendation], found: Comparison, trial: _Trial
) -> list[Recommendation]:
    """Return recommendations with simulated effects, or with why they have none."""
    effects = tuple(found.effects(trial.twin.assumed, share=trial.twin.load.share))
    return [
        replace(rec, effects=(*effects, *rec.effects))
        if shows(rec.knob)
        else replace(rec, missing=(*rec.missing, _UNSEEN))
        for rec in group
    ]


def _helps(found: Comparison) -> bool:
    """Tell whether a change is worth it: a faster job, or fewer pauses for the same."""
    calmer = found.before[0].paused_ratio - found.after[0].paused_ratio > CALM
    return min(found.job_ratios) < WORTH or calmer


def _searched(
    trial: _Trial,
    kept: list[Recommendation],
    tuned: Sequence[Finding],
    budget_s: float,
    weights: Weights | None,
    progress: Callable[[int], None] | None,
) -> list[Recommendation]:
    """Return the recommendations with those of the search, where these are worth it."""
    known = all(runs_dcqcn(trial.telemetry, port) for port in trial.twin.wiring.hosts)
    found = search(
        trial.now(), weights=weights, budget_s=budget_s, seed=trial.seed, nics=known,
        progress=progress,
    )  # fmt: skip
    found_worth = Comparison(found.current.runs, found.best.runs)
    ratios = found_worth.job_ratios
    if max(ratios) > RISK:
        return kept
    faster = sum(ratios) / len(ratios) < 1 - GAIN
    calmer = found.current.runs[0].paused_ratio - found.best.runs[0].paused_ratio > CALM
    if not found.worth_it or not (faster or calmer):
        return kept
    ids = {finding.id for finding in tuned}
    others = [rec for rec in kept if rec.because[0] not in ids or not _is_threshold(rec.knob)]
    return once_each([*others, *_of_search(trial, tuned[0], found, found_worth)])


def _is_threshold(knob: str) -> bool:
    if knob in ("dcqcn_rp_enabled", "dcqcn_np_enabled"):
        return False
    return knob in (*ECN, "buffer_alpha_exponent") or knob.startswith("dcqcn_")


def _of_search(
    trial: _Trial, finding: Finding, found: Found, compared: Comparison
) -> Iterable[Recommendation]:
    """Yield a recommendation for each setting that the best candidate changes, by current value."""
    best = found.best.candidate
    line = trial.twin.plan.topology.cables[trial.twin.watch[0] // 2].rate_bps
    effects = compared.effects(trial.twin.assumed, share=trial.twin.load.share)
    summary = (
        f"{best.name}: best of {found.evaluations} simulated runs on the twin, score "
        f"{found.best.robust:.3f} against {found.current.robust:.3f} of the running settings"
    )
    for knob, value in changed_settings(found.current.candidate, best).items():
        groups: dict[tuple[Value | None, Value], list[Entity]] = {}
        for place, now in _homes(trial, knob):
            wanted = value
            if knob in ECN[:2] and isinstance(value, float):
                wanted = round(value * (rate_bps(trial.telemetry, place) or line) / line)
            if now != wanted and KNOBS[knob].unfit(wanted) == "":
                groups.setdefault((now, wanted), []).append(place)
        for (now, wanted), places in groups.items():
            yield recommend_change(
                finding,
                knob,
                places[0],
                now,
                wanted,
                summary,
                effects,
                confidence=min(finding.confidence, 0.85),
                risk="low",
                missing=() if now is not None else ("the running value",),
                also=places[1:],
            )


def _homes(trial: _Trial, knob: str) -> Iterable[tuple[Entity, Value | None]]:
    """Yield every place that a knob of the search is set at, with its value now."""
    telemetry = trial.telemetry
    if knob.startswith("dcqcn_"):
        for port in trial.fabric.ports():
            setting = telemetry.settings(port).get(knob)
            if runs_dcqcn(telemetry, port):
                yield port, None if setting is None else setting.value
        return
    if knob == "buffer_alpha_exponent":
        for name in (knob, ALPHA):
            for place, setting in telemetry.setting_all(name).items():
                if isinstance(place, Slot) and place.kind == "priority_group":
                    yield place, as_knob(name, setting.value, setting.value)[1]
        return
    for place, enabled in telemetry.setting_all("ecn_enabled").items():
        if isinstance(place, Slot) and isinstance(place.parent, Interface):
            setting = telemetry.settings(place).get(knob)
            if enabled.value or knob == "ecn_enabled" or setting is not None:
                yield place, None if setting is None else setting.value
