"""`tuner suggest` and `tuner explain`: what is wrong, and what to change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collectors.model.errors import ConfigInvalid
from tuner.cli.options import (
    USAGE,
    Answer,
    Format,
    Since,
    Source,
    TunerAddress,
    fail,
    made_by,
    new_file,
    new_folder,
    reporting,
)
from tuner.cli.outcome import Communication, Gpus, MeasuredFiles, StepTime, measured_of
from tuner.cli.rendering import (
    Out,
    PlanFormat,
    Render,
    known_language,
    left_out,
    listed_names,
    printed,
    rendered,
    write_out,
)

if TYPE_CHECKING:
    from tuner.advice.outcome.measured import Measured
    from tuner.advice.plan import Plan
    from tuner.advice.recommendation import Recommendation
    from tuner.advice.search.search import Tried
    from tuner.diagnosis.finding import Diagnosis
    from tuner.fabric.graph import Fabric
    from tuner.store.window import Window

RECOMMENDED = 3
"""Exit code: there is something to do."""
UNCURED = 4
"""Exit code: nothing to recommend, yet a finding above information stands."""
SIMULATE_S = 10.0
Budget = Annotated[
    float,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        min=0.0,
        help="of simulations, as work: the same answer every time; 0: none",
    ),
]


@dataclass(frozen=True)
class Advice:
    """Everything that one look at a window gives."""

    window: Window
    fabric: Fabric
    diagnosis: Diagnosis
    recommendations: tuple[Recommendation, ...]
    source: str
    notes: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()

    def plan(self) -> Plan:
        """Return the ordered changes that the recommendations come down to."""
        from tuner.advice.planning import build_plan

        reasons = {finding.id: finding.summary for finding in self.diagnosis.findings}
        return build_plan(self.recommendations, self.window, self.fabric, reasons)


def advise(
    window: Window,
    source: str,
    measured: Measured | None = None,
    budget_s: float = 0.0,
    *,
    clock: Callable[[], float] | None = time.monotonic,
) -> Advice:
    """Return what the rules and cures say of a window, and what a change is worth to the job.

    With a budget the changes are tried, and thresholds searched, on a twin of the fabric; `clock`
    is what ends that on a machine that is far too slow for it, None for never.
    """
    from tuner.advice.outcome.measured import Measured
    from tuner.advice.outcome.money import with_outcome
    from tuner.advice.prove import Proof, prove
    from tuner.advice.recommend import recommend
    from tuner.advice.twin.budget import Budget
    from tuner.cli.progress import counting
    from tuner.diagnosis.diagnose import diagnose
    from tuner.diagnosis.registry import RULES
    from tuner.fabric.graph import build_fabric

    fabric = build_fabric(window)
    diagnosis = diagnose(window, fabric, RULES)
    proof = Proof(recommend(diagnosis, window, fabric))
    if budget_s > 0:
        budget = Budget(budget_s, clock)
        with counting("simulating", "runs", lambda: budget.spent_s / budget.seconds) as count:
            proof = prove(
                proof.recommendations,
                diagnosis,
                window,
                fabric,
                budget=budget,
                progress=count,
            )
    valued = with_outcome(proof.recommendations, measured or Measured())
    return Advice(window, fabric, diagnosis, valued, source, proof.notes, proof.tried)


def suggest(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    answer: Annotated[
        PlanFormat, typer.Option("--format", help="how to write the answer")
    ] = PlanFormat.table,
    render: Render = "",
    out: Out = None,
    measured: MeasuredFiles = None,
    step_time: StepTime = "",
    communication: Communication = "",
    gpus: Gpus = 0,
    budget: Budget = SIMULATE_S,
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema and end")] = False,
) -> None:
    """Name what is wrong and recommend what to change.

    Exit codes: 0 all is well, 3 recommendations, 4 findings above information but no change to
    recommend (`tuner explain ID` says what to do by hand), 1 error, 2 usage. A tuner with TLS:
    FABRIC_TUNER_CA, FABRIC_TUNER_CERT and FABRIC_TUNER_KEY name the files. What is told of the
    job (--measured, --step-time, --communication, --gpus) turns a predicted gain into bus
    bandwidth, step time and GPU-hours per day.

    --render writes the changes in the languages of the devices, with undo and checks; nothing is
    sent to a device. --format md is the whole plan as a page.
    """
    if schema:
        from tuner.advice.document import json_schema

        print(_json(json_schema()))
        return
    with reporting():
        new_folder(out, "--out")
        job = measured_of(measured, step_time, communication, gpus)
    if out is not None and not render:
        raise typer.BadParameter("--out needs --render PLATFORM")
    known_language(render)
    advice = _look(tuner, source, since, job, budget_s=budget)
    plan = advice.plan()
    texts = rendered(plan, render)
    written = 0
    if out is not None:  # first: what cannot be written is said before all else
        with reporting():
            written = len(write_out(plan, texts, out))
    if answer is PlanFormat.table:
        from tuner.cli import show

        told = show.suggestion(advice.diagnosis, advice.recommendations, advice.notes, advice.tried)
        show.console().print(told)
        for line in left_out(plan):
            show.console().print(line, markup=False, highlight=False)
    elif answer is PlanFormat.md:
        from tuner.render.markdown import plan_markdown

        print(plan_markdown(plan, texts), end="")
    else:
        print(as_text(_document(advice, plan), answer))
    if out is not None:
        print(f"wrote {written} files below {out}, begin with {out / 'plan.md'}", file=sys.stderr)
        if mute := [text.device for text in texts if not text.platform]:
            print(
                f"nothing written for {listed_names(mute)}: the language is not known, choose one "
                "with --render",
                file=sys.stderr,
            )
    elif answer is PlanFormat.table:
        print("\n".join(printed(texts)), end="\n" if texts else "")
    if advice.recommendations:
        raise typer.Exit(RECOMMENDED)
    ails = any(finding.severity != "info" for finding in advice.diagnosis.findings)
    raise typer.Exit(UNCURED if ails else 0)


def explain(
    finding: Annotated[str, typer.Argument(help="id of a finding or recommendation, or its begin")],
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="draw the evidence over time")
    ] = None,
    answer: Answer = Format.table,
    budget: Budget = SIMULATE_S,
) -> None:
    """Show everything about one finding: evidence over time, what would refute it, cure, undo."""
    if not finding.strip():
        fail("explain: an id of a finding is needed; `tuner diagnose` lists them", USAGE)
    with reporting():
        new_file(svg, "--svg")
    advice = _look(tuner, source, since, budget_s=budget)
    by_recommendation = [
        rec.because[0] for rec in advice.recommendations if rec.id.startswith(finding)
    ]
    wanted = by_recommendation[0] if len(by_recommendation) == 1 else finding
    chosen = advice.diagnosis.finding(wanted)
    if chosen is None:
        known = ", ".join(item.id for item in advice.diagnosis.findings) or "none"
        fail(f"{finding}: no such finding, or not one alone; there are: {known}")
    cures = [rec for rec in advice.recommendations if chosen.id in rec.because]
    from tuner.cli.curves import curves_of, write_svg
    from tuner.diagnosis.changes import changes_of

    curves = curves_of(advice.window, chosen.evidence)
    changes = changes_of(advice.window, chosen.evidence)
    if svg is not None:
        with reporting():
            if not curves:
                raise ConfigInvalid(str(svg), "--svg", "no evidence of this finding has a course")
            write_svg(svg, chosen.summary, curves)
    if answer is Format.table:
        from tuner.cli import show

        show.console().print(show.explanation(chosen, cures))
        if curves:
            show.console().print(show.over_time(curves))
        if changes.changes:
            show.console().print(show.level_changes(changes))
        return
    from tuner.advice.document import finding_document, recommendation_document

    document = {
        "schema": "fabric-tuner/explain/1",
        "finding": finding_document(chosen),
        "recommendations": [recommendation_document(rec) for rec in cures],
        "changes": [
            {
                "at_ns": change.at_ns,
                "metric": change.metric,
                "place": str(change.entity),
                "before_per_second": change.before,
                "after_per_second": change.after,
                "follows": change.follows.what if change.follows else "",
            }
            for change in changes.changes
        ],
    }
    print(as_text(document, answer))


def _look(
    tuner: str,
    source: str,
    since: str,
    measured: Measured | None = None,
    *,
    budget_s: float,
) -> Advice:
    from tuner.cli.options import look

    with reporting():
        window, named = look(tuner, source, since)
        return advise(window, named, measured, budget_s)


def _document(advice: Advice, plan: Plan) -> Any:
    from tuner.advice.document import suggest_document

    return suggest_document(
        advice.diagnosis,
        advice.recommendations,
        source=advice.source,
        agents=advice.window.agents,
        made_by=made_by(),
        plan=plan,
        notes=advice.notes,
        tried=advice.tried,
    )


def as_text(document: Any, answer: str) -> str:
    """Return a document as JSON, YAML or Markdown text."""
    import msgspec

    if answer == "md":
        from tuner.cli.markdown import markdown

        return markdown(document)
    if answer == "yaml":
        import yaml

        plain = msgspec.to_builtins(document)
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip()
    return _json(document)


def _json(document: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document)).decode()


COMMANDS: tuple[Callable[..., None], ...] = (suggest, explain)
