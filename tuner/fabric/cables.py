"""Cables that a file lists: what was planned, beside what the ends see.

A cable in a file is one more claim, `topology file`: it fills holes, and where an end sees
another one, both are shown as a conflict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from collectors.model.entities import Entity, Interface, Switch, Wire, display, wire_of
from collectors.model.errors import ConfigInvalid, Malformed
from collectors.model.facts import Neighbour
from collectors.switchconfig.cabling import (
    parse_config_db_links,
    parse_containerlab,
    parse_minigraph,
)
from collectors.user_input.text_file import read_text
from collectors.user_input.yaml_text import parse_yaml

HOW: Final = "topology file"
_DOT: Final = re.compile(r'"([^"]+)"\s*:\s*"([^"]+)"\s*--\s*"([^"]+)"\s*:\s*"([^"]+)"')
_BETWEEN: Final = re.compile(r"\s+(?:--|<->|->)\s+|\s*,\s*|\s+")

End: TypeAlias = tuple[str, str]
"""Device and port by name."""


def read_cables(path: Path) -> list[tuple[End, End]]:
    """Return the cables of a file as pairs of ends. Raises ConfigInvalid, Malformed."""
    return parse_cables(read_text(path, "read topology file"), str(path))


def parse_cables(text: str, where: str = HOW) -> list[tuple[End, End]]:
    """Return the cables of a text as pairs of ends. Raises Malformed, naming `where`.

    Forms: four words a line (`leaf1 Ethernet1 h1 eth0`, with commas, `--` or `<->` between, `#`
    for remarks); Graphviz as Cumulus' PTM takes it (`"leaf1":"swp1" -- "h1":"eth0"`); the JSON or
    YAML that `tuner topology` writes (`links` with `a` and `b`); SONiC's minigraph and
    config_db.json; and Containerlab's file.
    """
    start = text.lstrip()[:1]
    if start == "<":
        return _ends(parse_minigraph(text, where))
    if start == "{" and '"DEVICE_METADATA"' in text:
        return _ends(parse_config_db_links(text, where))
    if re.search(r"^topology\s*:", text, re.MULTILINE):
        return _ends(parse_containerlab(text, where))
    if start == "{" or re.match(r"\s*(schema|links)\s*:", text):
        return _links(_loaded(text, where), where)
    if "graph" in text.partition("{")[0].split() and "{" in text:
        return [((m[1], m[2]), (m[3], m[4])) for m in _DOT.finditer(text)]
    found: list[tuple[End, End]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = [word for word in _BETWEEN.split(line.partition("#")[0].strip()) if word]
        if not words:
            continue
        if len(words) != 4:
            why = f"line {number}: {line.strip()[:60]!r} is not device port device port"
            raise Malformed(where, "parse", why)
        found.append(((words[0], words[1]), (words[2], words[3])))
    return found


def claims(cables: Iterable[tuple[End, End]], entities: Iterable[Entity]) -> list[Neighbour]:
    """Return cables as claims. entities: known ones, by whose names ends are found."""
    known: dict[str, Wire] = {}
    for entity in entities:
        wire = wire_of(entity)
        if wire is not None:
            known.setdefault(display(wire).lower(), wire)

    def wire_named(end: End) -> Wire:
        # A host that LLDP knows by another word is found by `resolve`, as a neighbour is.
        named = Interface(Switch(end[0], end[0]), end[1])
        return known.get(" ".join(end).lower(), named)

    return [Neighbour(wire_named(a), wire_named(b), HOW) for a, b in cables]


def _ends(neighbours: Iterable[Neighbour]) -> list[tuple[End, End]]:
    """Return cables of another tool's file by the names of their ends."""
    found = []
    for cable in neighbours:
        (a, b), (c, d) = (display(end).split(" ", 1) for end in (cable.local, cable.remote))
        found.append(((a, b), (c, d)))
    return found


def _loaded(text: str, where: str) -> Any:
    try:
        json = text.lstrip()[:1] == "{"
        return msgspec.json.decode(text) if json else parse_yaml(text, where)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(where, "parse", str(error)) from error
    except ConfigInvalid as error:
        raise Malformed(error.subject, "parse", error.why) from error


def _links(loaded: Any, where: str) -> list[tuple[End, End]]:
    rows = loaded.get("links") if isinstance(loaded, dict) else None
    if not isinstance(rows, list):
        raise Malformed(where, "parse", "has no list of `links`")
    found: list[tuple[End, End]] = []
    for row in rows:
        ends = [row.get("a"), row.get("b")] if isinstance(row, dict) else []
        words = [end.split(" ", 1) for end in ends if isinstance(end, str)]
        if len(words) != 2 or any(len(pair) != 2 for pair in words):
            raise Malformed(where, "parse", f"{row!r:.80} is no cable with ends `a` and `b`")
        (a, b), (c, d) = words
        found.append(((a, b), (c, d)))
    return found
