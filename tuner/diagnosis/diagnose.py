"""Run the rules and put their findings in the order in which to act on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tuner.diagnosis.finding import (
    SECTIONS,
    SEVERITIES,
    Diagnosis,
    Finding,
    Verdict,
    finding_id,
)
from tuner.diagnosis.rule import AnyRule, HostRule
from tuner.diagnosis.view import FabricView, Telemetry


def diagnose(telemetry: Telemetry, fabric: FabricView, rules: Iterable[AnyRule]) -> Diagnosis:
    """Return what all rules say of a window.

    Causes come first: by section (link and configuration before knobs), then severity, then
    confidence. A symptom that another finding explains comes last, as information.
    """
    verdicts = tuple(
        rule.judge(rule, telemetry)
        if isinstance(rule, HostRule)
        else rule.judge(rule, telemetry, fabric)
        for rule in rules
    )
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    ordered = sorted(_with_causes(findings), key=_urgency)
    return Diagnosis(telemetry.since_ns, telemetry.until_ns, tuple(ordered), verdicts)


def outcomes(verdicts: Iterable[Verdict]) -> dict[str, list[str]]:
    """Return the ids of rules by outcome."""
    by: dict[str, list[str]] = {}
    for verdict in verdicts:
        by.setdefault(verdict.outcome, []).append(verdict.rule)
    return by


def _with_causes(findings: list[Finding]) -> list[Finding]:
    cause = {
        finding_id(rule, subject): finding.id
        for finding in findings
        for rule, subject in finding.explains
    }
    present = {finding.id: finding for finding in findings}
    return [
        replace(finding, severity="info", explained_by=cause[finding.id])
        if cause.get(finding.id, finding.id) != finding.id and not _mutual(finding, cause, present)
        else finding
        for finding in findings
    ]


def _mutual(finding: Finding, cause: dict[str, str], present: dict[str, Finding]) -> bool:
    """Tell whether two findings claim each other and this one is the more urgent."""
    other = present[cause[finding.id]]
    return cause.get(other.id) == finding.id and _urgency(finding) < _urgency(other)


def _urgency(finding: Finding) -> tuple[bool, int, int, float, str]:
    return (
        bool(finding.explained_by),
        SECTIONS.index(finding.section),
        -SEVERITIES.index(finding.severity),
        -finding.confidence,
        finding.id,
    )
