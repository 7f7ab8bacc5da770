"""Running configurations as trees of lines: indentation (EOS, NX-OS), braces or `set` (Junos)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.facts import Attribute, Setting, Value


@dataclass
class Line:
    """A line with the lines below it. number: from 1, in the file."""

    text: str
    number: int
    below: list[Line] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """The line's words."""
        return self.text.split()

    def starting(self, prefix: str) -> Iterator[Line]:
        """Yield the lines below that begin with these words."""
        for line in self.below:
            if line.text == prefix or line.text.startswith(prefix + " "):
                yield line

    def first(self, prefix: str) -> Line | None:
        """Return the first line below that begins with these words."""
        return next(self.starting(prefix), None)

    def after(self, prefix: str) -> str | None:
        """Return what follows these words on the first line below that begins with them."""
        line = self.first(prefix)
        return None if line is None else line.text[len(prefix) :].strip()


def parse_indented(text: str) -> Line:
    """Return the root of an indented configuration; comments (`!`) and empty lines are left out."""
    root = Line("", 0)
    stack: list[tuple[int, Line]] = [(-1, root)]
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("!"):
            continue
        depth = len(raw) - len(raw.lstrip())
        while stack[-1][0] >= depth:
            stack.pop()
        line = Line(re.sub(r"\s+", " ", stripped), number)
        stack[-1][1].below.append(line)
        stack.append((depth, line))
    return root


_TOKEN = re.compile(r'/\*.*?\*/|#[^\n]*|"[^"]*"|[{};]|\[[^\]]*\]|[^\s{};"\[]+', re.DOTALL)

Path = tuple[tuple[str, ...], int]
Units = Mapping[str, int | None]
"""Unit of a threshold -> its bytes, None where the chip decides."""
BYTES: Final = {"bytes": 1, "kbytes": 1000, "mbytes": 10**6}


def parse_braces(text: str) -> list[Path]:
    """Return every statement of a Junos configuration as its full list of words, with its line.

    `set` lines and the hierarchical form give the same; `inactive:` statements are left out.
    """
    if re.search(r"^\s*set\s", text, re.MULTILINE) and "{" not in text:
        return [
            (tuple(_words(line.strip()[4:])), number)
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip().startswith("set ")
        ]
    found: list[Path] = []
    stack: list[tuple[str, ...]] = []
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        piece = match[0]
        number = text.count("\n", 0, match.start()) + 1
        if piece.startswith(("/*", "#")):
            continue
        if piece == "{":
            stack.append(tuple(words))
            words = []
        elif piece in ("}", ";"):
            path = tuple(word for level in stack for word in level) + tuple(words)
            if (words or piece == ";") and "inactive:" not in path:
                found.append((path, number))
            words = []
            if piece == "}" and stack:
                stack.pop()
        else:
            words.extend(_words(piece))
    return found


def _words(text: str) -> list[str]:
    return [word.strip('"') for word in re.findall(r'"[^"]*"|[^\s\[\]]+', text)]


@dataclass
class Reader:
    """Collects what a parser finds. where: file or command; odd: what could not be understood."""

    switch: Switch
    where: str
    settings: list[Setting] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    odd: list[tuple[str, str]] = field(default_factory=list)

    def set(self, entity: Entity, name: str, value: Value, line: int) -> None:
        """Note a setting with the line that it stands on."""
        self.settings.append(Setting(entity, name, value, f"{self.where}:{line}"))

    def uses(self, place: Interface | Switch, kind: str, profile: str) -> None:
        """Note the profile that an interface or the switch takes a kind of settings from."""
        self.attributes.append(Attribute(place, f"{kind}_profile", profile))

    def strange(self, line: Line, why: str) -> None:
        """Note a line that could not be understood."""
        self.odd.append((f"{self.where}:{line.number} {line.text}"[:120], why))

    def marking(self, queue: Slot, line: Line, found: re.Match[str], units: Units) -> None:
        """Note Kmin, Kmax, Pmax in percent and the weight of the average.

        found: Kmin, its unit, Kmax, its unit, probability and weight as groups 1 to 6.
        """
        for value, unit, setting in ((1, 2, "kmin_bytes"), (3, 4, "kmax_bytes")):
            size = units.get(found[unit])
            if size is None:
                self.strange(line, f"{setting}: bytes of {found[unit]} are unknown on this chip")
            else:
                self.set(queue, setting, int(found[value]) * size, line.number)
        self.set(queue, "pmax_ratio", int(found[5] or 100) / 100, line.number)
        if found[6]:
            self.set(queue, "ecn_average_weight", int(found[6]), line.number)

    def port(self, name: str) -> Interface:
        """Return an interface of the switch."""
        return Interface(self.switch, name)


def expand(text: str) -> list[str]:
    """Return `swp1-3,swp7` or `Ethernet1/1-2` as names; a plain name as itself."""
    found: list[str] = []
    stem = ""
    for part in text.split(","):
        match = re.fullmatch(r"(.*?)(\d+)-(?:\1)?(\d+)", part)
        if match and int(match[3]) - int(match[2]) < 1024:
            stem = match[1] or stem
            found += [f"{stem}{n}" for n in range(int(match[2]), int(match[3]) + 1)]
        else:
            name = re.fullmatch(r"(.*?)(\d+)", part)
            if name:
                stem = name[1] or stem
                part = f"{stem}{name[2]}"  # noqa: PLW2901
            found.append(part)
    return found


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern with `*` means."""
    return [name for name in names if fnmatch.fnmatchcase(name, pattern)]


def whole(text: str | None) -> int | None:
    """Return text as a number, None where it is none."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def pfc_tuple(priorities: Iterable[int]) -> tuple[bool, ...]:
    """Return the eight switches of PFC."""
    on = set(priorities)
    return tuple(priority in on for priority in range(8))
