"""A plan as a page for people: rings, steps with their checks, conflicts, the texts of devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from collectors.model.entities import display
from collectors.model.printable import markdown_text as safe
from collectors.model.printable import printable
from tuner.advice.knobs.knob import PLATFORMS, Lasts, shown
from tuner.advice.plan import DevicePlan, Plan, Stage, alike
from tuner.render.form import Rendered

_LASTS: Final[Mapping[Lasts, str]] = {
    "running": "What is written is lost at reload or reboot; to keep it",
    "persistent": "What is written stays; it takes hold with",
    "next_reset": "What is written stays, and takes hold after a reset",
    "next_job": "What is written holds for the next start of a job; it belongs in",
}
_SHOWN_LINES = 150  # of a device's text
_SHOWN_DEVICES = 20  # of a ring, by name; the rest is counted


def plan_markdown(plan: Plan, rendered: Sequence[Rendered] = ()) -> str:
    """Return the page. rendered: texts to show below the steps."""
    lines = ["# Plan", ""]
    if not plan.steps:
        lines.append("Nothing to change.")
    else:
        devices = len(plan.devices)
        lines.append(f"{_count(plan.steps, 'step')} on {_count(devices, 'device')}.")
    for stage in plan.stages:
        lines += _stage(stage)
    for device in plan.devices:
        lines += _device(device)
        for made in rendered:
            if made.device == device.name:
                lines += _texts(made)
    lines += _left_out(plan)
    return "\n".join(lines).rstrip() + "\n"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"


def _stage(stage: Stage) -> Iterator[str]:
    names = safe(", ".join(stage.devices[:_SHOWN_DEVICES]))
    more = len(stage.devices) - _SHOWN_DEVICES
    yield from ("", f"## Ring: {safe(stage.name)}", "")
    yield f"Devices: {names}{f' and {more} more' if more > 0 else ''}."
    yield f"Watch for {stage.hold_s:.0f} s before the next ring:"
    yield from ("", *(f"- {safe(what)}" for what in stage.watch), "")
    yield "Stop and undo if:"
    yield from ("", *(f"- {safe(when)}" for when in stage.stop_if))


def _device(device: DevicePlan) -> Iterator[str]:
    title = PLATFORMS[device.platform].title if device.platform in PLATFORMS else "unknown language"
    yield from ("", f"## {safe(device.name)} ({title})", "")
    if device.platform in PLATFORMS:
        platform = PLATFORMS[device.platform]
        yield from (f"{_LASTS[platform.lasts]}: {platform.keep}.", "")
    yield "| # | knob | place | now | then | disruption |"
    yield "|--:|---|---|---|---|---|"
    groups = alike(device.steps)
    for group in groups:
        step = group.first
        now, then = (safe(shown(v, step.unit)) for v in (step.current, step.proposed))
        yield (
            f"| {group.numbers} | {step.knob} | {safe(group.places)} | {now} "
            f"| {then} | {safe(step.disruption)} |"
        )
    for group in groups:
        step = group.first
        told = f"({safe(step.recommendation)}, {step.risk} risk)"
        yield from ("", f"**{group.numbers}. {safe(step.summary)}** {told}", "")
        yield from (f"- because {safe(why)}" for why in step.why)
        yield f"- by hand: {safe(step.how)}"
        yield f"- check: {safe(step.check.reads_back)}"
        if step.check.watch:
            yield f"- within {step.check.within_s:.0f} s: {safe(step.check.watch)}"
        yield f"- undo: {safe(step.undo)}"


def _texts(made: Rendered) -> Iterator[str]:
    if made.apply:
        title = PLATFORMS[made.platform].title
        for name, text in (
            ("apply", made.apply),
            ("verify", made.verify),
            ("undo", made.undo),
            ("difference to what was read", made.diff),
            *made.files.items(),
        ):
            yield from ("", f"### {safe(made.device)}: {title}, {name}", "")
            lines = text.count("\n")
            if lines > _SHOWN_LINES:
                yield f"{lines} lines: see the file beside this page."
            else:
                yield from _fenced(printable(text.rstrip(), keep="\n"))
    if made.missing:
        yield from ("", f"### {safe(made.device)}: not carried out by these texts", "")
        yield from (f"- {row.knob} of {safe(row.place)}: {safe(row.why)}" for row in made.missing)


def _fenced(text: str) -> tuple[str, str, str]:
    """Return a text between fences that are longer than any that it holds."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return fence, text, fence


def _left_out(plan: Plan) -> Iterator[str]:
    if plan.conflicts:
        yield from ("", "## Conflicts", "")
        yield from (
            f"- {safe(row.why)} ({safe(', '.join(row.recommendations))})" for row in plan.conflicts
        )
    if plan.refused:
        yield from ("", "## Left out", "")
        for row in plan.refused:
            told = f"{display(row.scope)}: {row.why} ({row.recommendation})"
            yield f"- {row.knob} of {safe(told)}"
