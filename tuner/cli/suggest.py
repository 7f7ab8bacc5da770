"""`tuner suggest` and `tuner explain`: what is wrong, and what to change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.options import Answer, Format, Since, Source, TunerAddress, fail, made_by, reporting
from tuner.cli.outcome import Communication, Gpus, MeasuredFiles, StepTime, measured_of
from tuner.cli.rendering import Out, PlanFormat, Render, printed, rendered, write_out

if TYPE_CHECKING:
    from tuner.advice.outcome.measured import Measured
    from tuner.advice.plan import Plan
    from tuner.advice.recommendation import Recommendation
    from tuner.diagnosis.finding import Diagnosis
    from tuner.fabric.graph import Fabric
    from tuner.store.window import Window

RECOMMENDED = 3
"""Exit code: there is something to do."""


@dataclass(frozen=True)
class Advice:
    """Everything that one look at a window gives."""

    window: Window
    fabric: Fabric
    diagnosis: Diagnosis
    recommendations: tuple[Recommendation, ...]
    source: str

    def plan(self) -> Plan:
        """Return the ordered changes that the recommendations come down to."""
        from tuner.advice.planning import build_plan

        reasons = {finding.id: finding.summary for finding in self.diagnosis.findings}
        return build_plan(self.recommendations, self.window, self.fabric, reasons)


def advise(window: Window, source: str, measured: Measured | None = None) -> Advice:
    """Return what the rules and cures say of a window, and what a change is worth to the job."""
    from tuner.advice.outcome.measured import Measured
    from tuner.advice.outcome.money import with_outcome
    from tuner.advice.recommend import recommend
    from tuner.diagnosis.diagnose import diagnose
    from tuner.diagnosis.registry import RULES
    from tuner.fabric.graph import build_fabric

    fabric = build_fabric(window)
    diagnosis = diagnose(window, fabric, RULES)
    recommendations = recommend(diagnosis, window, fabric)
    valued = with_outcome(recommendations, measured or Measured())
    return Advice(window, fabric, diagnosis, valued, source)


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
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema and end")] = False,
) -> None:
    """Name what is wrong and recommend what to change.

    Exit codes: 0 no change to recommend, 3 recommendations, 1 error, 2 usage. A tuner with TLS:
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
        job = measured_of(measured, step_time, communication, gpus)
    if out is not None and not render:
        raise typer.BadParameter("--out needs --render PLATFORM")
    advice = _look(tuner, source, since, job)
    plan = advice.plan()
    texts = rendered(plan, render)
    if answer is PlanFormat.table:
        from tuner.cli import show

        show.console().print(show.suggestion(advice.diagnosis, advice.recommendations))
    elif answer is PlanFormat.md:
        from tuner.render.markdown import plan_markdown

        print(plan_markdown(plan, texts), end="")
    else:
        print(as_text(_document(advice, plan), answer))
    if out is not None:
        with reporting():
            files = write_out(plan, texts, out)
        print(
            f"wrote {len(files)} files below {out}, begin with {out / 'plan.md'}", file=sys.stderr
        )
    elif answer is PlanFormat.table:
        print("\n".join(printed(texts)), end="\n" if texts else "")
    raise typer.Exit(RECOMMENDED if advice.recommendations else 0)


def explain(
    finding: Annotated[str, typer.Argument(help="id of a finding or recommendation, or its begin")],
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    answer: Answer = Format.table,
) -> None:
    """Show everything about one finding: evidence, what would refute it, cure, undo."""
    advice = _look(tuner, source, since)
    by_recommendation = [
        rec.because[0] for rec in advice.recommendations if rec.id.startswith(finding)
    ]
    wanted = by_recommendation[0] if len(by_recommendation) == 1 else finding
    chosen = advice.diagnosis.finding(wanted)
    if chosen is None:
        known = ", ".join(item.id for item in advice.diagnosis.findings) or "none"
        fail(f"{finding}: no such finding, or not one alone; there are: {known}")
    cures = [rec for rec in advice.recommendations if chosen.id in rec.because]
    if answer is Format.table:
        from tuner.cli import show

        show.console().print(show.explanation(chosen, cures))
        return
    from tuner.advice.document import finding_document, recommendation_document

    document = {
        "schema": "fabric-tuner/explain/1",
        "finding": finding_document(chosen),
        "recommendations": [recommendation_document(rec) for rec in cures],
    }
    print(as_text(document, answer))


def _look(tuner: str, source: str, since: str, measured: Measured | None = None) -> Advice:
    from tuner.cli.options import look

    with reporting():
        window, named = look(tuner, source, since)
        return advise(window, named, measured)


def _document(advice: Advice, plan: Plan) -> Any:
    from tuner.advice.document import suggest_document

    return suggest_document(
        advice.diagnosis,
        advice.recommendations,
        source=advice.source,
        agents=advice.window.agents,
        made_by=made_by(),
        plan=plan,
    )


def as_text(document: Any, answer: str) -> str:
    """Return a document as JSON or YAML text."""
    import msgspec

    if answer == "yaml":
        import yaml

        plain = msgspec.to_builtins(document)
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip()
    return _json(document)


def _json(document: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document)).decode()


COMMANDS: tuple[Callable[..., None], ...] = (suggest, explain)
