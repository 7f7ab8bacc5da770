"""`tuner report`: findings, advice, topology, pause tree and plots as one HTML page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from collectors.model.errors import ConfigInvalid
from tuner.cli.options import Since, Source, TunerAddress, made_by, new_file, reporting
from tuner.cli.outcome import Communication, Gpus, MeasuredFiles, StepTime, measured_of


def report(
    html: Annotated[Path, typer.Option("--html", help="file to write", show_default=False)],
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    measured: MeasuredFiles = None,
    step_time: StepTime = "",
    communication: Communication = "",
    gpus: Gpus = 0,
) -> None:
    """Write a page that stands alone: no script, nothing fetched; for tickets and archives."""
    from tuner.cli.options import look
    from tuner.cli.suggest import advise
    from tuner.report.page import Report, page

    with reporting():
        new_file(html, "--html")
        job = measured_of(measured, step_time, communication, gpus)
        window, named = look(tuner, source, since)
        advice = advise(window, named, job)
        text = page(
            Report(
                window,
                advice.fabric,
                advice.diagnosis,
                advice.recommendations,
                named,
                made_by(),
            )
        )
        try:
            html.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigInvalid(str(html), "--html", error.strerror or str(error)) from None
    print(f"{html}: {len(advice.diagnosis.findings)} findings, {len(text) / 1e3:.0f} kB")


COMMANDS: tuple[Callable[..., None], ...] = (report,)
