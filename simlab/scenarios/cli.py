"""`simlab scenarios`: the families, a draw and its truth, its telemetry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from simlab.scenarios.draw import Draw

T = TypeVar("T")

app = typer.Typer(
    help="Drawn fabrics with a known fault, or none, and the truth beside them.",
    no_args_is_help=True,
)

SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="the same seed draws the same scenario")
]
JsonOption = Annotated[bool, typer.Option("--json", help="as JSON")]


@app.command("list")
def list_families(as_json: JsonOption = False) -> None:
    """List all families: section, name, what is drawn."""
    from rich.console import Console
    from rich.table import Table

    from simlab.scenarios.registry import FAMILIES

    rows = [{"section": f.section, "family": f.name, "varies": f.varies} for f in FAMILIES.values()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table("section", "family", "varies", box=None)
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)


@app.command()
def show(name: str, seed: SeedOption = 1, as_json: JsonOption = False) -> None:
    """Show a draw: its fabric, its jobs, and what was planted where."""
    from collectors.model.entities import display

    drawn = _draw(name, seed)
    plan = drawn.plan
    document = {
        "family": drawn.family,
        "seed": seed,
        "fabric": plan.topology.name,
        "hosts": len(plan.topology.hosts),
        "duration_s": plan.config.duration_s,
        "jobs": [
            {
                "name": job.name, "pattern": job.pattern.value, "ranks": len(job.ranks),
                "size_bytes": job.size_bytes, "iterations": job.iterations, "qps": job.qps,
            }
            for job in drawn.jobs
        ],
        "truth": [
            {
                "causes": list(truth.causes),
                "places": [display(place) for place in truth.places],
                "cure": [
                    {"at": display(c.entity), "set": c.setting, "to": c.value} for c in truth.cure
                ],
            }
            for truth in drawn.truths
        ],
    }  # fmt: skip
    if as_json:
        print(json.dumps(document, indent=1))
        return
    print(f"{drawn.family}, seed {seed}: {document['fabric']}, {document['hosts']} NICs")
    for job in drawn.jobs:
        print(
            f"  job {job.name}: {job.pattern.value} of {len(job.ranks)}, "
            f"{job.iterations} x {job.size_bytes} bytes, {job.qps} QPs"
        )
    for truth in drawn.truths:
        places = ", ".join(dict.fromkeys(display(place) for place in truth.places))
        print(f"  fault: {' or '.join(truth.causes)} at {places}")
        for change in truth.cure:
            print(f"    cured by {change.setting} = {change.value} at {display(change.entity)}")
    if not drawn.truths:
        print("  nothing is wrong")


@app.command()
def run(
    name: str,
    seed: SeedOption = 1,
    record: Annotated[Path | None, typer.Option(help="write a recording to DIR")] = None,
    stream: Annotated[str, typer.Option(help="send to the tuner at HOST:PORT")] = "",
) -> None:
    """Simulate a draw: send or record its telemetry, or say what the fault costs its jobs."""
    import time

    from simlab.scenarios import observe
    from simlab.scenarios.change import applied
    from simlab.scenarios.outcome import outcome

    drawn = _draw(name, seed)
    if record is not None and stream:
        raise typer.BadParameter("--record and --stream: one of the two")
    if record is not None or stream:
        start = time.time_ns() - round(drawn.plan.config.duration_s * 1e9)
        sent = _reporting(
            lambda: (
                observe.stream(drawn, stream, start_ns=start)
                if record is None
                else observe.record(drawn, record, start_ns=start)
            )
        )
        print(f"{sent} values of {drawn.plan.config.duration_s * 1e3:g} ms")
        return
    found = outcome(drawn)
    print(f"job time {found.job_time_s * 1e3:.3f} ms{'' if found.finished else ', not finished'}")
    if drawn.truths:
        cured = outcome(applied(drawn, [c for truth in drawn.truths for c in truth.cure]))
        print(
            f"cured    {cured.job_time_s * 1e3:.3f} ms{'' if cured.finished else ', not finished'}"
        )


def _draw(name: str, seed: int) -> Draw:
    from simlab.scenarios.registry import draw

    return _reporting(lambda: draw(name, seed))


def _reporting(call: Callable[[], T]) -> T:
    from collectors.model.errors import ConfigInvalid, FabricError

    try:
        return call()
    except FabricError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ConfigInvalid) else 1) from None
