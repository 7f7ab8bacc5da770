"""What every `tuner model` command gives: a table or JSON, a plot on request, an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.options import USAGE, Format, fail

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from collectors.model.dcqcn import DcqcnParameters
    from collectors.model.ecn import EcnThresholds

WARNS = 3
"""Exit code: the answer is a problem (saturated, unstable, unsafe, out of reach)."""

Cell = str | float | int | bool | None
Link = Annotated[str, typer.Option("--link", metavar="RATE", help="link speed, such as 400G")]
Kmin = Annotated[str, typer.Option("--kmin", metavar="SIZE", help="where marking begins")]
Kmax = Annotated[str, typer.Option("--kmax", metavar="SIZE", help="where it jumps to 1")]
Pmax = Annotated[float, typer.Option("--pmax", help="marking ratio just below Kmax, 0..1")]
Profile = Annotated[
    str,
    typer.Option(
        "--dcqcn",
        metavar="PROFILE",
        help="paper, nvidia_firmware, hpcc, conweave, simai, ns3_rdma or paraleon_expert",
    ),
]
Changed = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="a DCQCN parameter in base units, as ai_bps=400e6"
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="draw the curve as .svg or .png")
]
Answer = Annotated[Format, typer.Option("--format", help="how to write the answer")]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its JSON key, its heading, and how a number is shown to people."""

    key: str
    heading: str
    form: str = "{}"


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a model's refusal of its inputs into one line and exit code 2."""
    try:
        yield
    except (ValueError, KeyError) as error:
        fail(str(error.args[0] if error.args else error), USAGE)


def dcqcn_parameters(
    profile_name: str, changed: Sequence[str] | None, link_bps: float
) -> DcqcnParameters:
    """Return a published profile with the changes; ends with a usage error for unknown names."""
    from collectors.model.dcqcn import DcqcnParameters, profile

    with usage_errors():
        parameters = profile(profile_name, link_bps)
    values = asdict(parameters)
    for change in changed or ():
        name, separator, text = change.partition("=")
        if not separator or name not in values:
            fail(f"--set {change!r}: not one of {', '.join(values)} with =VALUE", USAGE)
        try:
            number = None if text == "off" else float(text)
        except ValueError:
            fail(f"--set {change!r}: {text!r} is no number", USAGE)
        kind = type(values[name])
        values[name] = kind(number) if number is not None and kind in (int, bool) else number
    return DcqcnParameters(**values)


def ecn_thresholds(kmin: str, kmax: str, pmax: float) -> EcnThresholds:
    """Return the thresholds; ends with a usage error where they make no curve."""
    from collectors.model.ecn import EcnThresholds
    from tuner.cli.quantity import size_bytes

    with usage_errors():
        return EcnThresholds(size_bytes(kmin), size_bytes(kmax), pmax)


def _shown(column: Column, cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return column.form.format(cell)


def answer(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    form: Format,
    *,
    notes: Sequence[str] = (),
    values: dict[str, Cell] | None = None,
) -> None:
    """Write the answer: a table with notes below, or one document with the same values.

    Infinite numbers become null in JSON.
    """
    if form is not Format.table:
        document = {
            "model": title,
            "rows": [
                {column.key: cell for column, cell in zip(columns, row, strict=True)}
                for row in rows
            ],
            **(values or {}),
            "notes": list(notes),
        }
        text = json.dumps(_finite(document), indent=2, ensure_ascii=False)
        if form is Format.yaml:
            import yaml

            text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True).rstrip()
        print(text)
        return
    from rich.table import Table

    from tuner.cli.show import console

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column.heading, justify="right")
    for row in rows:
        table.add_row(*(_shown(column, cell) for column, cell in zip(columns, row, strict=True)))
    out = console()
    out.print(table)
    for note in notes:
        out.print(note, highlight=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    return value


def draw(path: Path | None, paint: Callable[[Axes], None]) -> None:
    """Draw one diagram into a file; ends with one line if it cannot be written."""
    if path is None:
        return
    if path.suffix not in (".svg", ".png"):
        fail(f"--plot {path}: the name must end in .svg or .png", USAGE)
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    paint(axes)
    axes.grid(visible=True, alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        fail(f"--plot {path}: {error.strerror}; choose a place that can be written")
    finally:
        plt.close(figure)
