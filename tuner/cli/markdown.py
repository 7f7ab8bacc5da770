"""Documents as Markdown: lists of records become tables, what nests becomes a section."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from collectors.model.printable import markdown_text
from collectors.model.units import quantity

_MOST_NS: Final = 1 << 62  # the year 2116
_MEASURED: Final = (
    "value", "current", "proposed", "before", "after", "low", "high", "after_low", "after_high",
)  # fmt: skip
"""Fields whose unit is in the field `unit` beside them."""
_LEFT_OUT: Final = ("schema",)


def markdown(document: Any) -> str:
    """Return a document (structs, mappings, lists, values) as Markdown."""
    plain = msgspec.to_builtins(document)
    title = str(plain.get("schema", "answer")) if isinstance(plain, dict) else "answer"
    words = title.split("/")
    lines = [f"# {words[1].replace('-', ' ') if len(words) > 1 else title}", ""]
    _section(plain, 2, lines)
    return "\n".join(lines).rstrip()


def _section(value: Any, level: int, lines: list[str]) -> None:
    if isinstance(value, dict):
        _mapping(value, level, lines)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        _records(value, level, lines)
    elif isinstance(value, list):
        if not value:
            lines += ["none", ""]
        for item in value:
            if _is_flat(item):
                lines.append(f"- {_cell(item)}")
            else:
                _section(item, level, lines)
        lines.append("")
    else:
        lines += [_cell(value), ""]


def _mapping(value: dict[str, Any], level: int, lines: list[str]) -> None:
    flat = {k: v for k, v in value.items() if _is_flat(v) and v != [] and k not in _LEFT_OUT}
    lines += [
        f"- {_words(key)}: {_said(key, value)}"
        for key, item in flat.items()
        if item != "" and not _within(key, value)
    ]
    if flat:
        lines.append("")
    for key, item in value.items():
        if key not in flat and key not in _LEFT_OUT:
            lines += [f"{'#' * min(level, 6)} {_words(key)}", ""]
            _section(item, level + 1, lines)


def _records(rows: list[dict[str, Any]], level: int, lines: list[str]) -> None:
    """One record in full, several as a table of what fits into cells."""
    if len(rows) == 1 and not all(_is_flat(item) for item in rows[0].values()):
        _mapping(rows[0], level, lines)
        return
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if all(_is_flat(row.get(name, "")) for row in rows)
        and any(row.get(name, "") not in ("", None, []) for row in rows)
        and not all(_within(name, row) for row in rows)
    ]
    lines.append(f"| {' | '.join(map(_words, names))} |")
    lines.append(f"|{' --- |' * len(names)}")
    lines += [f"| {' | '.join(_said(n, row) for n in names)} |" for row in rows]
    lines.append("")


def _is_flat(value: Any) -> bool:
    """Tell whether a value fits into a cell: no records, but a place or a list of places."""
    if isinstance(value, dict):
        return set(value) == {"entity", "name"}
    if isinstance(value, list):
        return all(_is_flat(item) for item in value)
    return True


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return _cell(value["name"])
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    text = f"{value:,.6g}" if isinstance(value, float) else str("" if value is None else value)
    return markdown_text(text)


def _within(name: str, row: dict[str, Any]) -> bool:
    """Tell whether a field is the unit that the numbers beside it are written with."""
    return name == "unit" and any(type(row.get(one)) in (int, float) for one in _MEASURED)


def _said(name: str, row: dict[str, Any]) -> str:
    """Return the value of a field; times as a date in UTC, measured numbers with their unit."""
    value = row.get(name, "")
    if name in _MEASURED and row.get("unit") and type(value) in (int, float):
        return _cell(quantity(value, row["unit"]))
    if name.endswith("_ns") and isinstance(value, int) and 0 < value < _MOST_NS:
        return datetime.fromtimestamp(value / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return _cell(value)


def _words(name: str) -> str:
    return _cell(name.removesuffix("_ns").replace("_", " "))
