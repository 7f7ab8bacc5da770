"""Plans in the languages of the devices, on the screen and as files: nothing is sent anywhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collectors.model.errors import Unavailable
from collectors.model.printable import printable

if TYPE_CHECKING:
    from tuner.advice.plan import Plan
    from tuner.render.form import Rendered

_LONGEST = 100  # of a folder's name

Render = Annotated[
    str,
    typer.Option(
        "--render",
        metavar="PLATFORM",
        help="write the changes in a device's language: auto (each its own), eos, nxos, junos, "
        "sonic, nvue, onyx, linux, mlxconfig, nccl, ucx, opensm",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="folder for --render's files",
        show_default=False,
        file_okay=False,
    ),
]


class PlanFormat(StrEnum):
    """How an answer with a plan is written."""

    table = "table"
    json = "json"
    yaml = "yaml"
    md = "md"


def rendered(plan: Plan, platform: str) -> tuple[Rendered, ...]:
    """Return the texts of a plan, none for platform ''."""
    from tuner.render.registry import render_plan

    return render_plan(plan, platform) if platform else ()


def known_language(platform: str) -> None:
    """End with exit code 2, before any work, for a language that there is not."""
    from tuner.render.registry import AUTO, RENDERERS

    if platform and platform not in (AUTO, *RENDERERS):
        known = ", ".join((AUTO, *RENDERERS))
        raise typer.BadParameter(f"no language {platform!r}; there are {known}")


def files_of(made: Rendered) -> Mapping[str, str]:
    """Return file name -> text of one device in one language."""
    from tuner.render.registry import RENDERERS

    texts = dict(made.files)
    if made.apply:
        suffix = RENDERERS[made.platform].suffix
        language = made.platform
        texts[f"{language}.apply.{suffix}"] = made.apply
        texts[f"{language}.undo.{suffix}"] = made.undo
        texts[f"{language}.verify.txt"] = made.verify
        texts[f"{language}.diff.txt"] = made.diff
    if made.missing:
        rows = (printable(f"{row.knob} of {row.place}: {row.why}") for row in made.missing)
        texts["not-carried-out.txt"] = "".join(f"{row}\n" for row in rows)
    return {name: printable(text, keep="\n") for name, text in texts.items()}


def folder_of(device: str) -> str:
    """Return the folder's name for a device: no way out of the folder, and not another's."""
    plain = re.sub(r"[^A-Za-z0-9_.@-]|^[.-]+", "_", device)[:_LONGEST] or "_"
    if plain == device:
        return plain
    return f"{plain}-{hashlib.blake2b(device.encode(errors='replace'), digest_size=3).hexdigest()}"


def write_out(plan: Plan, texts: Sequence[Rendered], out: Path) -> list[Path]:
    """Write plan.json, plan.md and a folder for each device. Raises Unavailable naming the file."""
    import msgspec

    from tuner.advice.plan_document import plan_document
    from tuner.render.markdown import plan_markdown

    document = msgspec.json.format(msgspec.json.encode(plan_document(plan))).decode()
    wanted = {out / "plan.json": document + "\n", out / "plan.md": plan_markdown(plan, texts)}
    for made in texts:
        folder = out / folder_of(made.device)
        wanted |= {folder / name: text for name, text in files_of(made).items()}
    for path, text in wanted.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Unavailable(str(path), "write", error.strerror or str(error)) from error
    return list(wanted)


def left_out(plan: Plan) -> Iterator[str]:
    """Yield what people must decide: conflicts, and recommendations that the plan refuses."""
    from collectors.model.entities import display

    told: dict[str, list[str]] = {}
    for conflict in plan.conflicts:  # of many places alike, the first stands for all
        _, _, what = conflict.why.partition(": ")
        text = f"Conflict: {conflict.why} ({', '.join(conflict.recommendations)})"
        told.setdefault(f"conflict {what}", []).append(text)
    for row in plan.refused:
        text = f"Not planned: {row.knob} of {display(row.scope)}: {row.why} ({row.recommendation})"
        told.setdefault(f"refused {row.knob} {row.why}", []).append(text)
    for first, *others in told.values():
        more = f", and {len(others)} more like it" if others else ""
        yield printable(f"{first}{more}.")


def listed_names(names: Sequence[str]) -> str:
    """Return names of devices for a line: the first three, and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return printable(", ".join(names[:3]) + more)


def printed(texts: Sequence[Rendered]) -> Iterator[str]:
    """Yield what to show of the texts where no folder is given."""
    for made in texts:
        for name, text in files_of(made).items():
            yield printable(f"=== {made.device}/{name}")
            yield text.rstrip()
