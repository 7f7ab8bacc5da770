"""The order that people give to names: eth2 before eth10."""

from __future__ import annotations

import re


def natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers within names by value."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
