"""The documents that `tuner suggest` and `tuner explain` write for machines.

Version 1. Fields are only ever added within a version; `tuner suggest --schema` prints the JSON
schema. Entities are canonical strings; `name` beside them is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from collectors.model.entities import Entity, display
from collectors.model.facts import Value
from tuner.advice.plan import Plan
from tuner.advice.plan_document import PlanDocument, plan_document
from tuner.advice.recommendation import Effect, Part, Recommendation
from tuner.diagnosis.finding import Diagnosis, Evidence, Finding, Verdict

if TYPE_CHECKING:
    from tuner.advice.search.search import Tried

SCHEMA: Final = "fabric-tuner/suggest/1"

Plain = str | int | float | bool | list[str | int | float | bool] | None


class Place(msgspec.Struct, frozen=True):
    """An entity."""

    entity: str
    name: str


class EvidenceDocument(msgspec.Struct, frozen=True):
    """One observation: metric or setting, where, what value, against which threshold, when."""

    metric: str
    place: Place
    value: float | str
    unit: str
    threshold: str
    since_ns: int
    until_ns: int
    note: str


class FindingDocument(msgspec.Struct, frozen=True):
    """What is wrong. explained_by: id of the finding that this one follows from, or ''."""

    id: str
    rule: str
    section: str
    place: Place
    severity: str
    confidence: float
    summary: str
    since_ns: int
    evidence: list[EvidenceDocument]
    refuted_if: str
    affected: list[Place]
    explained_by: str


class EffectDocument(msgspec.Struct, frozen=True):
    """A prediction: the metric goes from `before` to between `after_low` and `after_high`."""

    metric: str
    unit: str
    before: float | None
    after_low: float
    after_high: float
    model: str
    assumptions: str


class PartDocument(msgspec.Struct, frozen=True):
    """One of the knobs that a joint change sets, at all places with the same current value."""

    knob: str
    places: list[Place]
    current: Plain
    proposed: Plain
    unit: str
    how: str
    undo: str
    disruption: str


class RecommendationDocument(msgspec.Struct, frozen=True):
    """One change. current is null where it is not visible; `missing` says what would show it.

    also: further places that have the same current value and get the same proposed one. joint: all
    knobs of a joint change, of which the other fields name the first; else empty. optional: nothing
    is broken without it.
    """

    id: str
    knob: str
    scope: Place
    current: Plain
    proposed: Plain
    unit: str
    summary: str
    because: list[str]
    evidence: list[EvidenceDocument]
    predicted: list[EffectDocument]
    confidence: float
    risk: str
    risk_reason: str
    how: str
    undo: str
    missing: list[str]
    also: list[Place] = []
    joint: list[PartDocument] = []
    optional: bool = False


class RuleDocument(msgspec.Struct, frozen=True):
    """What a rule concluded: found, quiet, cannot_tell (and what is missing), not_applicable."""

    rule: str
    outcome: str
    missing: list[str]


class TriedDocument(msgspec.Struct, frozen=True):
    """How settings did in the simulator: parts of the score from 0 to 1 (ideal).

    undominated: none of the others is better in a part without being worse in another (Pareto).
    """

    name: str
    score: float
    throughput: float
    tail: float
    queue: float
    pauses: float
    undominated: bool


class SuggestDocument(msgspec.Struct, frozen=True):
    """The whole answer of `tuner suggest`. plan: its recommendations in the order to carry out.

    notes: what a user should know of how it came about. tried: settings that a search came down
    to, the chosen one first.
    """

    schema: str
    made_by: str
    since_ns: int
    until_ns: int
    source: str
    agents: list[str]
    findings: list[FindingDocument]
    recommendations: list[RecommendationDocument]
    rules: list[RuleDocument]
    plan: PlanDocument | None = None
    notes: list[str] = []
    tried: list[TriedDocument] = []


def suggest_document(
    diagnosis: Diagnosis,
    recommendations: Iterable[Recommendation],
    *,
    source: str,
    agents: Sequence[str],
    made_by: str,
    plan: Plan | None = None,
    notes: Sequence[str] = (),
    tried: Sequence[Tried] = (),
) -> SuggestDocument:
    """Return the document of a diagnosis and its recommendations."""
    return SuggestDocument(
        SCHEMA,
        made_by,
        diagnosis.since_ns,
        diagnosis.until_ns,
        source,
        list(agents),
        [finding_document(finding) for finding in diagnosis.findings],
        [recommendation_document(rec) for rec in recommendations],
        [_rule(verdict) for verdict in diagnosis.verdicts],
        None if plan is None else plan_document(plan),
        list(notes),
        [_tried(row) for row in tried],
    )


def _tried(row: Tried) -> TriedDocument:
    score = row.score
    parts = (score.total, score.throughput, score.tail, score.queue, score.pauses)
    return TriedDocument(row.name, *parts, row.undominated)


def finding_document(finding: Finding) -> FindingDocument:
    """Return one finding for machines."""
    return FindingDocument(
        finding.id,
        finding.rule,
        finding.section,
        _place(finding.subject),
        finding.severity,
        round(finding.confidence, 3),
        finding.summary,
        finding.since_ns,
        [_evidence(item) for item in finding.evidence],
        finding.refute,
        [_place(entity) for entity in finding.affected],
        finding.explained_by,
    )


def recommendation_document(rec: Recommendation) -> RecommendationDocument:
    """Return one recommendation for machines."""
    return RecommendationDocument(
        rec.id,
        rec.knob,
        _place(rec.scope),
        _plain(rec.current),
        _plain(rec.proposed),
        rec.unit,
        rec.summary,
        list(rec.because),
        [_evidence(item) for item in rec.evidence],
        [_effect(effect) for effect in rec.effects],
        round(rec.confidence, 3),
        rec.risk,
        rec.risk_reason,
        rec.how,
        rec.undo,
        list(rec.missing),
        [_place(entity) for entity in rec.also],
        [_part(part) for part in rec.joint],
        rec.optional,
    )


def _part(part: Part) -> PartDocument:
    return PartDocument(
        part.knob,
        [_place(place) for place in part.places],
        _plain(part.current),
        _plain(part.proposed),
        part.unit,
        part.how,
        part.undo,
        part.disruption,
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the document."""
    return msgspec.json.schema(SuggestDocument)


def _place(entity: Entity) -> Place:
    return Place(str(entity), display(entity))


def _plain(value: Value | None) -> Plain:
    return list(value) if isinstance(value, tuple) else value


def _evidence(item: Evidence) -> EvidenceDocument:
    return EvidenceDocument(
        item.name,
        _place(item.entity),
        item.value,
        item.unit,
        item.threshold,
        item.since_ns,
        item.until_ns,
        item.note,
    )


def _effect(effect: Effect) -> EffectDocument:
    return EffectDocument(
        effect.metric,
        effect.unit,
        effect.before,
        effect.low,
        effect.high,
        effect.model,
        effect.assumptions,
    )


def _rule(verdict: Verdict) -> RuleDocument:
    return RuleDocument(verdict.rule, verdict.outcome, list(verdict.missing))
