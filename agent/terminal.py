"""Text for people: at most 100 columns, and names of devices or peers that stay mere names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.model.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDTH: Final = 100  # where the output is no terminal


def console() -> Console:
    """Return the console for tables: as wide as the terminal, 100 columns in pipes."""
    from rich.console import Console

    return Console(width=None if Console().is_terminal else WIDTH)


def plain(text: object, style: str = "") -> Text:
    """Return a text as it is: brackets are no markup, `:name:` no emoji, escapes do nothing."""
    from rich.text import Text

    return Text(printable(str(text), keep="\n"), style=style)
