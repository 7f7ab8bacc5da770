"""Findings: what is wrong, where, since when, on what evidence, and what would refute it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from collectors.model.entities import Entity

Severity: TypeAlias = Literal["info", "warning", "critical"]
Outcome: TypeAlias = Literal["found", "quiet", "cannot_tell", "not_applicable"]
Section: TypeAlias = Literal[
    "link", "config", "flow_control", "balance", "control_loop", "host", "placement"
]
"""The order of decision: a fault of an earlier section comes before one of a later section."""

SECTIONS: tuple[Section, ...] = get_args(Section)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation. name: metric or setting; threshold: what it was held against, as text."""

    name: str
    entity: Entity
    value: float | str
    unit: str = ""
    threshold: str = ""
    since_ns: int = 0
    until_ns: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause at a place.

    rule: id of the rule. subject: where the fault sits. affected: who suffers. confidence: 0 to
    1, that cause and place are right. explains: (rule, place) of symptoms that follow from this
    one; a place is a cable as well as either of its ends. explained_by: id of the finding that
    this one follows from; then it is context only.
    """

    rule: str
    section: Section
    subject: Entity
    severity: Severity
    confidence: float
    summary: str
    since_ns: int
    evidence: tuple[Evidence, ...]
    refute: str
    affected: tuple[Entity, ...] = ()
    explains: tuple[tuple[str, Entity], ...] = field(default=())
    explained_by: str = ""

    @property
    def id(self) -> str:
        """Stable short name: the same rule at the same place has the same id in every run."""
        return finding_id(self.rule, self.subject)


def finding_id(rule: str, subject: Entity) -> str:
    """Return the id of a rule's finding at a place: eight hex digits."""
    return hashlib.blake2b(f"{rule} {subject}".encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule has to say. missing: what it would need to tell, where it cannot."""

    rule: str
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All verdicts of a window; findings in the order in which to act on them."""

    since_ns: int
    until_ns: int
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]

    def finding(self, text: str) -> Finding | None:
        """Return the finding whose id begins with a text, None unless exactly one does."""
        hits = [finding for finding in self.findings if finding.id.startswith(text)]
        return hits[0] if len(hits) == 1 else None
