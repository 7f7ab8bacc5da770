"""One fault, one finding: what both ends of a cable report, what a whole fleet has alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from collectors.model.entities import Port, Wire
from tuner.diagnosis.finding import Evidence, Finding, Section
from tuner.diagnosis.place import Spots, names
from tuner.diagnosis.view import FabricView

FLEET: Final = 4  # places with one wrong setting: from here on somebody set them all
MANY: Final = 16  # places with one symptom, each of which may be a fault of its own
_SETTINGS: Final[tuple[Section, ...]] = ("config", "control_loop", "host")
_EXAMPLES: Final = 3  # further places whose evidence is shown

Item = TypeVar("Item")
Urgency = Callable[[Finding], tuple[bool, bool, bool, int, int, float, str]]


def fold(findings: Iterable[Finding], fabric: FabricView, urgency: Urgency) -> list[Finding]:
    """Return the findings with those that are one made one, the most urgent in the lead.

    urgency: sorts the lead first; an equal fault of a whole fleet is led by its worst place.
    """
    spots = Spots(fabric)
    ends = _grouped(findings, lambda finding: _cable(finding, fabric, spots))
    joined = [_joined(sorted(group, key=urgency)) for group in ends]
    made: list[Finding] = []
    leads: dict[str, str] = {}
    for group in _grouped(joined, _likeness):
        group.sort(key=urgency)
        most = FLEET if group[0].section in _SETTINGS else MANY
        if len(group) < most:
            made += group
            continue
        made.append(_folded(group))
        leads |= {finding.id: group[0].id for finding in group}
    return [
        replace(finding, explained_by=leads.get(finding.explained_by, finding.explained_by))
        for finding in made
    ]


def _grouped(
    findings: Iterable[Finding], key: Callable[[Finding], Hashable]
) -> list[list[Finding]]:
    groups: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    return list(groups.values())


def _cable(finding: Finding, fabric: FabricView, spots: Spots) -> Hashable:
    """Return what two findings about the two ends of one cable share: faults of links only."""
    if finding.section != "link":
        return finding.id
    at = spots.of(finding.subject)
    wires = {fabric.attached(spot) if isinstance(spot, Port) else spot for spot in at}
    peers = {fabric.peer(wire) for wire in wires if isinstance(wire, Wire)}
    return finding.rule, frozenset(wires | {peer for peer in peers if peer is not None})


def _joined(group: list[Finding]) -> Finding:
    lead, *others = group
    if not others:
        return lead
    return replace(
        lead,
        evidence=_unique(item for finding in group for item in finding.evidence),
        affected=_unique(entity for finding in group for entity in finding.affected),
        explains=_unique(claim for finding in group for claim in finding.explains),
    )


def _likeness(finding: Finding) -> Hashable:
    kinds = frozenset(item.name for item in finding.evidence)
    return finding.rule, finding.severity, bool(finding.explained_by), kinds


def _folded(group: list[Finding]) -> Finding:
    lead, *others = group
    count = Evidence(
        "places with this finding", lead.subject, float(len(group)), "count", f"< {FLEET}"
    )
    examples = (item for finding in others[:_EXAMPLES] for item in finding.evidence[:1])
    return replace(
        lead,
        summary=f"{lead.summary}; the same at {len(others)} more: "
        f"{names([finding.subject for finding in others], _EXAMPLES)}",
        evidence=_unique([*lead.evidence, count, *examples]),
        affected=_unique(
            entity for finding in group for entity in (*finding.affected, finding.subject)
        ),
        explains=_unique(claim for finding in group for claim in finding.explains),
    )


def _unique(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))
