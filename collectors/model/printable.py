"""Text of devices for people: it shows, and does nothing else."""

from __future__ import annotations

import re
from typing import Final

_UNUSUAL: Final = re.compile(r"[^ -~]")
_OF_MARKDOWN: Final = re.compile(r"[\\|<>*_`\[\]#&]")


def printable(text: str, keep: str = "") -> str:
    """Return text of a device with nothing in it that ends a line or steers a terminal.

    Control characters, line and paragraph separators and marks of direction become U+FFFD. keep:
    those that may stay.
    """

    def seen(match: re.Match[str]) -> str:
        char = match[0]
        return char if char.isprintable() or char in keep else "\ufffd"

    return _UNUSUAL.sub(seen, text)


def markdown_text(text: str) -> str:
    """Return text as Markdown that shows just that: no markup, no HTML, one line."""
    return _OF_MARKDOWN.sub(r"\\\g<0>", printable(text))
