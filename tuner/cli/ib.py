"""`tuner ib`: who makes an InfiniBand subnet wait, and what to tell its subnet manager."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.options import Answer, Format, Since, Source, TunerAddress, fail, reporting

if TYPE_CHECKING:
    from tuner.cli.suggest import Advice
    from tuner.diagnosis.credits import Credits
    from tuner.fabric.graph import Fabric

app = typer.Typer(help="InfiniBand: congestion and the subnet manager.", no_args_is_help=True)

FOUND = 3
"""Exit code: there is congestion, or something to change."""


@app.command()
def congestion(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    answer: Answer = Format.table,
) -> None:
    """Show the roots of congestion, their victims, and what the rules say of the subnet.

    Exit codes: 0 nobody waits, 3 roots or findings, 1 error, 2 usage.
    """
    from tuner.cli.suggest import advise
    from tuner.diagnosis.credits import credit_waits
    from tuner.fabric.graph import build_fabric

    with reporting():
        from tuner.cli.options import look

        window, named = look(tuner, source, since)
        advice = advise(window, named)
    fabric = build_fabric(window)
    seen = credit_waits(window, fabric)
    document = _document(advice, seen, fabric)
    if answer is Format.table:
        _show(advice, document)
    elif answer is Format.json:
        print(json.dumps(document, indent=1))
    else:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False), end="")
    raise typer.Exit(FOUND if document["roots"] or document["findings"] else 0)


@app.command()
def opensm(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    current: Annotated[
        Path | None, typer.Option(help="opensm.conf as it is now, for a diff instead")
    ] = None,
) -> None:
    """Print the opensm.conf lines that the recommendations ask for. Writes nothing.

    Exit codes: 0 nothing for the subnet manager, 3 lines, 1 error, 2 usage.
    """
    from tuner.cli.suggest import advise
    from tuner.render.opensm import diff_opensm, render_opensm

    with reporting():
        from tuner.cli.options import look

        window, named = look(tuner, source, since)
        plan = advise(window, named).plan()
    steps = [step for device in plan.devices for step in device.steps]
    if current is None:
        text = render_opensm(steps)
    else:
        try:
            now = current.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            fail(f"{current}: read: {error}")
        text = diff_opensm(now, steps, str(current))
    print(text, end="")
    raise typer.Exit(FOUND if text else 0)


def _document(advice: Advice, seen: Credits, fabric: Fabric) -> dict[str, Any]:
    from collectors.model.entities import display

    roots = []
    for root in seen.blamed():
        egress = fabric.peer(root.wire) if root.kind == "slow_receiver" else root.wire
        load = seen.loads.get(egress) if egress is not None else None
        roots.append(
            {
                "root": display(root.wire),
                "entity": str(root.wire),
                "kind": root.kind,
                "score": round(root.score, 4),
                "load": None if load is None else round(load, 4),
                "victims": [
                    {
                        "port": display(wire),
                        "entity": str(wire),
                        "waits": round(seen.graph.stalled[wire], 4),
                    }
                    for wire in seen.victims(root)
                ],
            }
        )
    return {
        "schema": "fabric-tuner/ib-congestion/1",
        "source": advice.source,
        "ports": len(seen.waiting),
        "waiting": len(seen.graph.stalled),
        "roots": roots,
        "findings": [
            {
                "id": finding.id,
                "rule": finding.rule,
                "severity": finding.severity,
                "summary": finding.summary,
                "explained_by": finding.explained_by,
            }
            for finding in advice.diagnosis.findings
            if finding.rule.startswith("ib-")
        ],
        "recommendations": [
            {"id": rec.id, "knob": rec.knob, "summary": rec.summary}
            for rec in advice.recommendations
        ],
    }


_KINDS = {
    "slow_receiver": "host drains slowly or is full",
    "congested_egress": "link is full",
    "unknown": "no cause seen behind it",
}


def _show(advice: Advice, document: dict[str, Any]) -> None:
    from rich.table import Table

    from tuner.cli import show

    out = show.console()
    out.print(f"{document['ports']} ports with transmit-wait counters, {document['waiting']} wait")
    if document["roots"]:
        table = Table(title="Roots of congestion", title_justify="left", expand=True)
        table.add_column("root", ratio=2)
        table.add_column("kind", ratio=2)
        table.add_column("load", justify="right", no_wrap=True)
        table.add_column("victims, longest wait first", ratio=4)
        for root in document["roots"]:
            victims = [f"{v['port']} {v['waits']:.0%}" for v in root["victims"][:6]]
            more = len(root["victims"]) - 6
            table.add_row(
                show.plain(root["root"]),
                _KINDS[root["kind"]],
                "-" if root["load"] is None else f"{root['load']:.0%}",
                show.plain(", ".join(victims) + (f" and {more} more" if more > 0 else "")),
            )
        out.print(table)
    findings = [f for f in advice.diagnosis.findings if f.rule.startswith("ib-")]
    if findings:
        out.print(show.findings_table(findings))
    if advice.recommendations:
        out.print(show.recommendations_table(advice.recommendations))
    if not document["roots"] and not findings:
        out.print("nobody waits and the rules find nothing", style="green")
