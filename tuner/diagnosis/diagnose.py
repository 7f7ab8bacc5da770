"""Run the rules and put their findings in the order in which to act on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from collectors.model.entities import Entity
from tuner.diagnosis.connections import senders_by_receiver
from tuner.diagnosis.finding import (
    SECTIONS,
    SEVERITIES,
    Diagnosis,
    Finding,
    Verdict,
)
from tuner.diagnosis.fold import fold
from tuner.diagnosis.place import Spots
from tuner.diagnosis.rule import AnyRule, HostRule
from tuner.diagnosis.view import FabricView, Telemetry

SURE: Final = 0.7  # confidence below which a finding waits behind the sure ones of later sections
_TRAVELS: Final = frozenset({"loss-on-path", "ack-timeouts", "ack-loss"})
"""Symptoms of loss: whoever talks to a port that loses packets has them, too."""


def diagnose(telemetry: Telemetry, fabric: FabricView, rules: Iterable[AnyRule]) -> Diagnosis:
    """Return what all rules say of a window.

    Causes come first: what is more than information before information, the sure (SURE) before
    the unsure, then by section (link and configuration before knobs), severity and confidence. A
    symptom that another finding explains comes last, as information. Verdicts keep each rule's
    findings as they are; here those that are one fault are one.
    """
    verdicts = tuple(_judge(rule, telemetry, fabric) for rule in rules)
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    caused = _with_causes(findings, Spots(fabric, senders_by_receiver(telemetry)))
    ordered = sorted(fold(caused, fabric, _urgency), key=_urgency)
    return Diagnosis(telemetry.since_ns, telemetry.until_ns, tuple(ordered), verdicts)


def _judge(rule: AnyRule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Ask one rule; one that breaks on strange data costs its own verdict and no other."""
    try:
        if isinstance(rule, HostRule):
            return rule.judge(rule, telemetry)
        return rule.judge(rule, telemetry, fabric)
    except Exception as error:  # noqa: BLE001  whatever it is, the other rules go on
        why = f"a rule that does not break on this data ({type(error).__name__}: {error})"
        return Verdict(rule.id, "cannot_tell", (), (why,))


def outcomes(verdicts: Iterable[Verdict]) -> dict[str, list[str]]:
    """Return the ids of rules by outcome."""
    by: dict[str, list[str]] = {}
    for verdict in verdicts:
        by.setdefault(verdict.outcome, []).append(verdict.rule)
    return by


def _with_causes(findings: list[Finding], spots: Spots) -> list[Finding]:
    present = {finding.id: finding for finding in findings}
    at: dict[tuple[str, Entity], list[str]] = {}
    for finding in findings:
        for spot in spots.of(finding.subject):
            at.setdefault((finding.rule, spot), []).append(finding.id)
    claims = {
        (finding.id, effect)
        for finding in findings
        for rule, place in finding.explains
        for spot in (spots.at_partners(place) if rule in _TRAVELS else spots.around(place))
        for effect in at.get((rule, spot), ())
        if effect != finding.id
    }
    causes: dict[str, list[Finding]] = {}
    for cause, effect in claims:
        # Of two that claim each other the more urgent is the cause.
        if (effect, cause) in claims and _urgency(present[effect]) < _urgency(present[cause]):
            continue
        causes.setdefault(effect, []).append(present[cause])
    return [
        replace(finding, severity="info", explained_by=root.id)
        if (root := _root(finding, causes)) is not finding
        else finding
        for finding in findings
    ]


def _root(finding: Finding, causes: dict[str, list[Finding]]) -> Finding:
    """Follow the most urgent cause of each finding up to one that nothing explains."""
    passed = {finding.id}
    while above := [cause for cause in causes.get(finding.id, ()) if cause.id not in passed]:
        finding = min(above, key=_urgency)
        passed.add(finding.id)
    return finding


def _urgency(finding: Finding) -> tuple[bool, bool, bool, int, int, float, str]:
    return (
        bool(finding.explained_by),
        finding.severity == "info",
        finding.confidence < SURE,
        SECTIONS.index(finding.section),
        -SEVERITIES.index(finding.severity),
        -finding.confidence,
        finding.id,
    )
