"""`fabric-agent targets`: the inventory of switches, tried out. Heavy imports inside commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from agent.terminal import console, fail, plain

if TYPE_CHECKING:
    from agent.ask_targets import Answer

app = typer.Typer(help="Switches of an inventory.", no_args_is_help=True)

COLUMNS: Final = (
    "target", "by", "up", "s", "values", "PFC", "ECN", "queues", "LLDP", "set", "what is not",
)  # fmt: skip
SIGNS: Final = {True: "yes", False: "no"}


@app.callback()
def main() -> None:
    """Switches of an inventory."""


@app.command("test")
def ask(
    file: Annotated[Path, typer.Argument(help="Inventory of switches, YAML.")],
    name: Annotated[list[str] | None, typer.Option("--name", help="Only this target.")] = None,
    form: Annotated[
        Literal["table", "json"], typer.Option("--format", help="How to print it.")
    ] = "table",
    timeout: Annotated[float, typer.Option(help="Seconds for one target.")] = 15.0,
) -> None:
    """Ask every target once: what answers, what is supported, how long it takes.

    Exit 1 where a target does not answer over one of its transports, 2 where the inventory is
    wrong or has no such target.
    """
    from agent.ask_targets import ask_all
    from agent.switches import Switchboard
    from collectors.model.errors import FabricError

    try:
        board = Switchboard(file)
    except FabricError as error:
        raise fail(error) from error
    known = [target.name for target in board.inventory.targets]
    for wanted in name or ():
        if wanted not in known:
            typer.echo(f"fabric-agent: {file}: no target {wanted!r}", err=True)
            raise typer.Exit(2)
    for target in board.inventory.targets:
        if target.pushes and target.name in (name or known):
            typer.echo(f"{target.name}: pushes {', '.join(target.pushes)}: not asked", err=True)
    answers = ask_all(board, tuple(name or known), timeout)
    if form == "json":
        import msgspec

        print(msgspec.json.encode(answers).decode())
    else:
        _print(answers)
    if not all(answer.answers for answer in answers):
        raise typer.Exit(1)


def _print(answers: tuple[Answer, ...]) -> None:
    from rich.table import Table

    table = Table(*COLUMNS)
    for name in ("s", "values", "LLDP", "set"):
        table.columns[COLUMNS.index(name)].justify = "right"
    for row in answers:
        table.add_row(
            plain(row.target),
            row.transport,
            SIGNS[row.answers],
            f"{row.seconds:.2f}",
            str(row.values),
            SIGNS[row.pfc],
            SIGNS[row.ecn],
            SIGNS[row.queues],
            str(row.neighbours),
            str(row.settings),
            plain(row.error or _lacks(row.lacks)),
        )
    console().print(table)
    if any(row.lacks for row in answers):
        console().print("What is not, by name: --format json", highlight=False)


def _lacks(lacks: tuple[str, ...]) -> str:
    """Return how many things a target lacks for each reason; a single one by its name."""
    by_reason: dict[str, list[str]] = {}
    for text in lacks:
        name, _, reason = text.rpartition(": ")
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(
        f"{len(names)} {reason}" if len(names) > 1 else f"{names[0]}: {reason}"
        for reason, names in by_reason.items()
    )
