"""What people see: at most 100 columns, names of devices that stay mere names, one-line errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from agent.cli import exit_code
from collectors.model.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDTH: Final = 100  # where the output is no terminal


def console() -> Console:
    """Return the console for tables: as wide as the terminal, 100 columns in pipes."""
    from rich.console import Console

    return Console(width=None if Console().is_terminal else WIDTH)


def fail(error: Exception) -> typer.Exit:
    """Print an error as one line on stderr and return the exit to raise."""
    typer.echo(f"fabric-agent: {error}", err=True)
    return typer.Exit(exit_code(error))


def plain(text: object, style: str = "") -> Text:
    """Return a text as it is: brackets are no markup, `:name:` no emoji, escapes do nothing."""
    from rich.text import Text

    return Text(printable(str(text), keep="\n"), style=style)
