"""The form of a rule: what it needs, its thresholds, and a judge without side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from collectors.model.entities import Entity
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence, Finding, Section, Severity, Verdict
from tuner.diagnosis.view import FabricView, Growing, HostTelemetry, Telemetry


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over the whole fabric.

    id: word of the rule in findings and config. title: one line. finds, quiet_when,
    cannot_tell_when: the contract, for people; the tests have a case of each. refutes: what would
    prove a finding of it wrong. answers: rows of the table of root causes (RULES.md) it covers.
    """

    id: str
    section: Section
    title: str
    finds: str
    quiet_when: str
    cannot_tell_when: str
    refutes: str
    judge: Callable[[Rule, Telemetry, FabricView], Verdict]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostRule:
    """A rule that needs one host only: pure, so that the agent's doctor runs it, too."""

    id: str
    section: Section
    title: str
    finds: str
    quiet_when: str
    cannot_tell_when: str
    refutes: str
    judge: Callable[[HostRule, HostTelemetry], Verdict]
    answers: tuple[str, ...] = ()


AnyRule = Rule | HostRule


def grew(metric: Metric, entity: Entity, growth: Growing, threshold: str = "") -> Evidence:
    """Return the growth of a counter as evidence."""
    return Evidence(
        metric.name,
        entity,
        growth.total,
        metric.unit,
        threshold,
        growth.first_at_ns,
        growth.last_at_ns,
        "counter saturated: a lower bound" if growth.saturated else "",
    )


def growths(
    telemetry: HostTelemetry,
    places: Iterable[tuple[Metric, Entity]],
    threshold: str = "",
    *,
    grown: bool = False,
) -> Iterator[Evidence]:
    """Yield the growth of counters as evidence, where it is known; grown: and not zero."""
    for metric, entity in places:
        growth = telemetry.growth(metric.name, entity)
        if growth is not None and (growth.total > 0 or not grown):
            yield grew(metric, entity, growth, threshold)


def found(
    rule: AnyRule,
    subject: Entity,
    severity: Severity,
    confidence: float,
    summary: str,
    evidence: Iterable[Evidence],
    *,
    affected: Iterable[Entity] = (),
    explains: Iterable[tuple[str, Entity]] = (),
) -> Finding:
    """Return a finding of a rule; it holds since the oldest evidence that has a time."""
    evidence = tuple(evidence)
    times = [item.since_ns for item in evidence if item.since_ns]
    return Finding(
        rule.id,
        rule.section,
        subject,
        severity,
        confidence,
        summary,
        min(times, default=0),
        evidence,
        rule.refutes,
        tuple(affected),
        tuple(explains),
    )


def verdict(
    rule: AnyRule, findings: Iterable[Finding], *, judged: bool, missing: Iterable[str] = ()
) -> Verdict:
    """Return found, or quiet where something could be judged, or else cannot tell."""
    findings = tuple(findings)
    missing = tuple(missing)
    if findings:
        return Verdict(rule.id, "found", findings, missing)
    return Verdict(rule.id, "quiet" if judged else "cannot_tell", (), missing)


def beside_the_point(rule: AnyRule) -> Verdict:
    """Return not applicable: what the rule is about does not exist on this fabric."""
    return Verdict(rule.id, "not_applicable")


def both_counted(telemetry: HostTelemetry, one: Metric, other: Metric) -> bool:
    """Tell whether any entity has the growth of both counters."""
    return any(
        telemetry.growth(one.name, entity) is not None
        and telemetry.growth(other.name, entity) is not None
        for entity in telemetry.entities(one.name)
    )


def counted(telemetry: HostTelemetry, metrics: Iterable[Metric], entity: Entity) -> float | None:
    """Return the sum of several counters' growth, None where none of them is known."""
    grown = [telemetry.growth(metric.name, entity) for metric in metrics]
    known = [growth.total for growth in grown if growth is not None]
    return sum(known) if known else None
