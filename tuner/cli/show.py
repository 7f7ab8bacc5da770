"""Findings and recommendations as tables for people: 100 columns, the cause first."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from collectors.model.entities import display
from collectors.model.printable import printable
from tuner.advice.recommendation import Effect, Part, Recommendation
from tuner.advice.words import clock, effect, observed, predictions, value
from tuner.cli.curves import Curve, span_of, sparkline
from tuner.diagnosis.blind import blind_spots
from tuner.diagnosis.changes import Changes
from tuner.diagnosis.finding import Diagnosis, Evidence, Finding, Verdict
from tuner.diagnosis.host.checks import CHECKS

if TYPE_CHECKING:
    from tuner.advice.search.search import Tried

WIDTH: Final = 100
MOST_PLACES: Final = 3
MOST_BLIND: Final = 6
MOST_ROWS: Final = 200
NAME_WIDTH: Final = 34  # columns for a metric's name
COURSE: Final = 40  # columns of a sparkline
_BY_HAND: Final = {rule.id: fix for rule, fix in CHECKS}
_COLOUR: Final = {"critical": "bold red", "warning": "yellow", "info": "dim"}


def console() -> Console:
    """Return the console for people: as wide as the terminal, or COLUMNS; at most 100 columns."""
    out = Console()
    known = out.is_terminal or "COLUMNS" in os.environ
    return out if known and out.width <= WIDTH else Console(width=WIDTH)


def suggestion(
    diagnosis: Diagnosis, recommendations: Sequence[Recommendation], notes: Sequence[str] = (),
    tried: Sequence[Tried] = (),
) -> RenderableType:  # fmt: skip
    """Return findings and recommendations of a window, and notes on how they were made."""
    span = f"{(diagnosis.until_ns - diagnosis.since_ns) / 1e9:.0f} s"
    if not diagnosis.since_ns:
        span = "all of the recording"
    parts: list[RenderableType] = [Text(f"window: {span} up to {clock(diagnosis.until_ns)}")]
    if all(v.outcome in ("cannot_tell", "not_applicable") for v in diagnosis.verdicts):
        parts.append(Text("nothing can be told: no rule has what it needs", style="yellow"))
    elif not diagnosis.findings:
        parts.append(Text("nothing found: the fabric looks healthy", style="green"))
    else:
        parts.append(findings_table(diagnosis.findings))
    if recommendations:
        parts.append(recommendations_table(recommendations))
    elif diagnosis.findings:
        known = any(finding.rule in _BY_HAND for finding in diagnosis.findings)
        more = "; `tuner explain ID` says what to do by hand" if known else ""
        parts.append(Text(f"no change is recommended for these findings{more}"))
    if tried:
        parts.append(tried_table(tried))
    parts += [plain(note) for note in notes]
    return Group(*parts, *cannot_tell(diagnosis.verdicts))


def tried_table(tried: Sequence[Tried]) -> Table:
    """Return how the settings did that a search came down to, each part from 0 to 1 (ideal)."""
    table = Table(
        title="Settings tried in the simulator (1 is ideal; * no other is better all round)",
        title_justify="left",
        expand=True,
    )
    table.add_column("settings", ratio=1)
    for name in ("score", "throughput", "tail", "queue", "free of pauses", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for row in tried:
        score = row.score
        parts = (score.total, score.throughput, score.tail, score.queue, score.pauses)
        table.add_row(row.name, *(f"{part:.3f}" for part in parts), "*" if row.undominated else "")
    return table


def cannot_tell(verdicts: Sequence[Verdict], most: int = MOST_BLIND) -> list[Text]:
    """Return how many rules could not judge, and the inputs that would help most of them."""
    spots = blind_spots(verdicts)
    if not spots:
        return []
    count = sum(verdict.outcome == "cannot_tell" for verdict in verdicts)
    lines = [f"cannot tell by {count} of {len(verdicts)} rules, which need:"]
    lines += [f"  {spot.need} ({', '.join(spot.rules)})" for spot in spots[:most]]
    if len(spots) > most:
        lines.append(f"  and {len(spots) - most} more inputs: `tuner diagnose` names all")
    return [plain("\n".join(lines), style="dim")]


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return one row for each finding."""
    table = Table(title="Findings", title_justify="left", expand=True)
    for name, options in (
        ("id", {"no_wrap": True}),
        ("severity", {"no_wrap": True}),
        ("what and where", {"ratio": 1}),
        ("sure", {"justify": "right", "no_wrap": True}),
    ):
        table.add_column(name, **options)
    rows = _following(findings)
    for finding, *others in rows[:MOST_ROWS]:
        what = finding.summary
        if others:
            places = ", ".join(display(other.subject) for other in others[:MOST_PLACES])
            more = ", ..." if len(others) > MOST_PLACES else ""
            what += f"; the same at {len(others)} more: {places}{more}"
        if finding.explained_by:
            what += f" (follows from {finding.explained_by})"
        table.add_row(
            f"{finding.id}\n+{len(others)} more" if others else finding.id,
            Text(finding.severity, style=_COLOUR[finding.severity]),
            plain(what),
            f"{finding.confidence:.0%}",
        )
    if len(rows) > MOST_ROWS:
        table.caption = f"and {len(rows) - MOST_ROWS} more: --format json has all"
    return table


def _following(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings, those of one rule that follow from the same cause together."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        alone = not finding.explained_by
        key = finding.id if alone else (finding.rule, finding.explained_by, finding.severity)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def recommendations_table(recommendations: Sequence[Recommendation]) -> Table:
    """Return one row for each recommendation."""
    table = Table(title="Recommendations", title_justify="left", expand=True)
    table.add_column("id", no_wrap=True)
    table.add_column("change", ratio=1)
    table.add_column("predicted", ratio=1)
    table.add_column("risk", no_wrap=True)
    told: tuple[Effect, ...] = ()
    for group in _alike(recommendations):
        rec = group[0]
        places = sum(len(one.places) for one in group)
        changes = [
            _change(part, places if not rec.joint else len(part.places)) for part in rec.parts
        ]
        why = f": {rec.missing[0]}" if rec.missing else ""
        predicted = "\n".join(predictions(rec.effects)) or f"no prediction{why}"
        if rec.effects and rec.effects == told:
            predicted = "all of these changes together: as above"
        told = rec.effects
        ids = rec.id if len(group) == 1 else f"{rec.id}\n+{len(group) - 1} more"
        risk = f"{rec.risk}\noptional" if rec.optional else rec.risk
        table.add_row(ids, plain("\n".join([rec.summary, *changes])), plain(predicted), risk)
    return table


def _change(part: Part, places: int) -> str:
    now = "unknown" if part.current is None else value(part.current, part.unit)
    more = f" (at {places} places)" if places > 1 else ""
    return f"{part.knob}: {now} → {value(part.proposed, part.unit)}{more}"


def _alike(recommendations: Sequence[Recommendation]) -> list[list[Recommendation]]:
    """Return recommendations that make one change of one knob for one cause, together."""
    groups: dict[object, list[Recommendation]] = {}
    for rec in recommendations:
        key = rec.knob, rec.current, rec.proposed, rec.because, rec.effects, rec.risk, rec.joint
        groups.setdefault(key, []).append(rec)
    return list(groups.values())


def explanation(finding: Finding, recommendations: Sequence[Recommendation]) -> RenderableType:
    """Return everything about one finding: evidence, what would refute it, what cures it."""
    head = Text.assemble(
        (f"{finding.rule} {finding.id}  ", "bold"),
        (finding.severity, _COLOUR[finding.severity]),
        f"  {finding.confidence:.0%} sure\n",
        plain(finding.summary),
    )
    lines = [f"where      {display(finding.subject)}   [{finding.subject}]"]
    if finding.since_ns:
        lines.append(f"since      {clock(finding.since_ns)}")
    if finding.affected:
        lines.append(f"affected   {', '.join(display(entity) for entity in finding.affected)}")
    if finding.explained_by:
        lines.append(f"cause      follows from finding {finding.explained_by}")
    lines.append(f"refuted if {finding.refute}")
    parts: list[RenderableType] = [head, plain("\n".join(lines)), evidence_table(finding.evidence)]
    parts += [recommendation(rec) for rec in recommendations]
    by_hand = _BY_HAND.get(finding.rule)
    if by_hand and not recommendations:
        parts.append(Text(f"by hand    {by_hand}"))
    return Group(*parts)


def evidence_table(evidence: Sequence[Evidence]) -> Table:
    """Return one row for each observation."""
    table = Table(title="Evidence", title_justify="left", expand=True)
    table.add_column("metric or setting", overflow="fold", width=NAME_WIDTH)
    table.add_column("where", ratio=2)
    table.add_column("value", justify="right", ratio=1)
    table.add_column("held against", overflow="fold", ratio=2)
    table.add_column("over", justify="right", no_wrap=True)
    for item in evidence:
        seconds = (item.until_ns - item.since_ns) / 1e9
        span = value(round(seconds, 3), "seconds") if item.since_ns else ""
        table.add_row(
            plain(folded(item.name, NAME_WIDTH)),
            plain(display(item.entity)),
            plain(observed(item)),
            plain(" ".join(part for part in (item.threshold, item.note) if part)),
            span,
        )
    return table


def over_time(curves: Sequence[Curve]) -> RenderableType:
    """Return a sparkline for each curve, all over the same span of time."""
    since_ns, until_ns = span_of(curves)
    begin, end = clock(since_ns).split(maxsplit=1)[1], clock(until_ns).split(maxsplit=1)[1]
    table = Table(title=f"Over time, {begin} to {end}", title_justify="left", expand=True)
    table.add_column("metric", width=NAME_WIDTH)
    table.add_column("course", no_wrap=True, width=COURSE)
    table.add_column("highest", justify="right", no_wrap=True)
    for curve in curves:
        metric = folded(curve.name.removesuffix("_total"), NAME_WIDTH)
        name = plain(f"{metric}\n{display(curve.entity)}")
        most = value(float(curve.values.max()), curve.unit)
        table.add_row(name, sparkline(curve, since_ns, until_ns, COURSE), most)
    return table


def level_changes(changes: Changes) -> RenderableType:
    """Return when the evidence changed its level, and after what."""
    table = Table(title="Changes of level", title_justify="left", expand=True)
    table.add_column("at", no_wrap=True)
    table.add_column("metric", width=NAME_WIDTH)
    table.add_column("per second", justify="right", no_wrap=True)
    table.add_column("shortly after", ratio=1)
    for change in changes.changes:
        metric = folded(change.metric.removesuffix("_total"), NAME_WIDTH)
        table.add_row(
            clock(change.at_ns).split()[1],
            plain(f"{metric}\n{display(change.entity)}"),
            f"{change.before:,.4g} → {change.after:,.4g}",
            plain(change.follows.what if change.follows else ""),
        )
    if not any(change.follows for change in changes.changes):
        return table
    words = "not by chance" if changes.linked else "which chance may do, too"
    told = f"{words}: {changes.by_chance:.2g} is the chance of as many after events"
    return Group(table, Text(told, style="dim"))


def recommendation(rec: Recommendation) -> RenderableType:
    """Return all fields of one recommendation."""
    lines = []
    for part in rec.parts:
        first, *others = part.places
        lines.append(f"knob       {part.knob} of {display(first)}   [{first}]")
        if others:
            lines.append(f"and of     {', '.join(display(place) for place in others)}")
        now = "not visible from here" if part.current is None else value(part.current, part.unit)
        lines += [
            f"now        {now}",
            f"proposed   {value(part.proposed, part.unit)}",
            f"how        {part.how}",
            f"undo       {part.undo}",
        ]
    optional = ", optional" if rec.optional else ""
    lines += [
        f"risk       {rec.risk}{optional}: {rec.risk_reason}",
        f"sure       {rec.confidence:.0%}",
    ]
    for item in rec.effects:
        lines += [f"predicted  {effect(item)}", f"           by {item.model}: {item.assumptions}"]
    lines += [f"missing    {what}" for what in rec.missing]
    return Group(
        plain(f"Recommendation {rec.id}: {rec.summary}", style="bold"),
        Padding(plain("\n".join(lines)), (0, 0, 0, 2)),
    )


def folded(name: str, width: int) -> str:
    """Return a long name in lines of at most some columns, broken behind its separators only."""
    lines = [""]
    for part in re.findall(r"[^_/.:|, ]*[_/.:|, ]?", name):
        if len(lines[-1] + part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def plain(text: str, style: str = "") -> Text:
    """Return text from a peer for the terminal: brackets are no markup, escapes do nothing."""
    return Text(printable(text, keep="\n"), style=style)
