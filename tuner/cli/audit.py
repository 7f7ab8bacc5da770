"""`tuner audit`: whether the configuration is consistent, end to end and across the fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tuner.cli.concern import (
    CablesOption,
    HostOption,
    JobOption,
    JobsOption,
    LinkOption,
    ended,
    judged,
)
from tuner.cli.options import Answer, Format, Since, Source, TunerAddress, look, reporting
from tuner.cli.suggest import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.diagnosis.finding import Diagnosis, Finding


def audit(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    host: HostOption = "",
    link: LinkOption = "",
    job: JobOption = "",
    jobs: JobsOption = None,
    cables: CablesOption = None,
    answer: Answer = Format.table,
) -> None:
    """Check configuration along cables and paths and against the fleet; no counters needed.

    PFC, DSCP maps, trust, ECN, CNP class, MTU, speed, FEC, headroom, watchdog, hash seeds per
    tier, traffic class and GID of jobs; and who differs from most of its role. What could not be
    compared is named. Exit codes: 0 nothing above information, 3 findings, 1 error, 2 usage.
    """
    from tuner.diagnosis.audit.registry import AUDIT

    with reporting():
        window, named = look(tuner, source, since)
        result, chosen = judged(
            AUDIT, window, host=host, link=link, job=job, jobs=jobs, cables=cables
        )
    if answer is Format.table:
        _show(result, chosen)
    else:
        from tuner.advice.document import finding_document

        document = {
            "schema": "fabric-tuner/audit/1",
            "source": named,
            "findings": [finding_document(finding) for finding in chosen],
            "checks": [
                {"check": v.rule, "outcome": v.outcome, "not_compared": list(v.missing)}
                for v in result.verdicts
            ],
        }
        print(as_text(document, answer))
    raise ended(chosen)


def _show(result: Diagnosis, chosen: Sequence[Finding]) -> None:
    from rich.table import Table

    from tuner.cli import show
    from tuner.diagnosis.audit.registry import AUDIT

    console = show.console()
    table = Table("check", "what", "outcome", title="Audit", title_justify="left", box=None)
    titles = {rule.id: rule.title for rule in AUDIT}
    for verdict in result.verdicts:
        count = sum(finding.rule == verdict.rule for finding in chosen)
        outcome = f"{count} found" if count else verdict.outcome.replace("_", " ")
        if not count and verdict.outcome == "found":
            outcome = "quiet here"
        table.add_row(verdict.rule, titles[verdict.rule], outcome)
    console.print(table)
    console.print(show.findings_table(chosen) if chosen else "nothing differs")
    blind = [(v.rule, what) for v in result.verdicts for what in v.missing]
    if blind:
        console.print("not compared:", style="dim")
        for rule, what in blind:
            console.print(show.plain(f"  {rule}: {what}", style="dim"))


COMMANDS: tuple[Callable[..., None], ...] = (audit,)
