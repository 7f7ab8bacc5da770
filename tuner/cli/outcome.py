"""Options that say what is known of the job, so that a change can be given a worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collectors.model.errors import ConfigInvalid

if TYPE_CHECKING:
    from tuner.advice.outcome.measured import Measured

_LONGEST_STEP_S = 86400.0

MeasuredFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--measured",
        help="nccl-tests output, NCCL inspector log or DCGM scrape of the job; repeat for more",
        show_default=False,
    ),
]
StepTime = Annotated[
    str, typer.Option("--step-time", metavar="TIME", help="of the job: 1.2s", show_default=False)
]
Communication = Annotated[
    str,
    typer.Option(
        "--communication",
        metavar="SHARE",
        help="part of a step spent waiting for communication: 30%",
        show_default=False,
    ),
]
Gpus = Annotated[
    int, typer.Option("--gpus", min=0, max=10_000_000, help="of the job", show_default=False)
]


def measured_of(
    files: Sequence[Path] | None, step_time: str, communication: str, gpus: int
) -> Measured:
    """Return what options and files say together; options win.

    Raises ConfigInvalid for an option or file that cannot be read, Malformed for a damaged file.
    """
    from tuner.advice.outcome.measured import Measured, joined
    from tuner.advice.outcome.read import parse_measured
    from tuner.cli.quantity import seconds

    step_s = seconds(step_time) if step_time else None
    if step_s is not None and not 0 < step_s <= _LONGEST_STEP_S:
        raise ConfigInvalid(step_time, "--step-time", "must be over 0 s and at most a day")
    told = Measured(
        gpus=gpus or None,
        step_s=step_s,
        communication_ratio=_share(communication) if communication else None,
        sources=("options",) if gpus or step_time or communication else (),
    )
    return joined([told, *(parse_measured(_text(path), str(path)) for path in files or ())])


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise ConfigInvalid(str(path), "--measured", error.strerror or str(error)) from None


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ConfigInvalid(text, "--communication", "must be a share like 30% or 0.3")
    return share
