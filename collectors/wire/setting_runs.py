"""The settings of a facts text, read by runs: consecutive settings of one entity.

Thousands of entities are set alike, so the text of a run without its entity was mostly seen
before; then comparing bytes replaces parsing. A text that `pack_facts` would not write so is
left to the parser of the whole, which also knows what to say of what is wrong.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from collectors.model.entities import Entity, parse_entity
from collectors.model.errors import Malformed
from collectors.model.sheets import Row, Sheet

BEGIN: Final = b'{"version":1,"settings":['
END: Final = b'],"attributes":['
_NEXT: Final = b'},{"entity":['
_FIRST: Final = b'{"entity":['
_NAME: Final = b'],"name":'
_COMMA: Final = ord(",")


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str | int | float | bool | tuple[str | int | float | bool, ...]
    where: str
    applies: str


class _Pattern:
    """A sheet and its text. pieces: joined by the text of an entity they are its run."""

    __slots__ = ("follower", "pieces", "sheet")

    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        self.pieces = (b"", *(piece + b"," for piece in pieces[:-1]), pieces[-1])
        self.sheet = Sheet(tuple(_row(piece) for piece in pieces))
        self.follower: _Pattern | None = None  # of the run that came after the last time


_decoder: Final = msgspec.json.Decoder(_Row)
_entity_decoder: Final = msgspec.json.Decoder(list[str])


def parse_runs(data: bytes) -> tuple[list[tuple[Entity, Sheet]], int] | None:
    """Return the runs of a facts text and where the text goes on, at `END`.

    None where the text must be parsed as a whole.
    """
    if not data.startswith(BEGIN) or b"\\" in data:  # now no string has a quote in it
        return None
    end = data.find(END)
    try:
        runs = _runs(data, end)
    except (msgspec.DecodeError, UnicodeDecodeError, Malformed, TypeError):
        return None
    return None if runs is None else (runs, end)


def _runs(data: bytes, end: int) -> list[tuple[Entity, Sheet]] | None:
    place = len(BEGIN)
    runs: list[tuple[Entity, Sheet]] = []
    last: _Pattern | None = None
    while place < end:
        name = data.find(_NAME, place, end)
        if name < 0 or not data.startswith(_FIRST, place):
            return None
        head = data[place : name + 2]
        pattern = last.follower if last is not None else None
        if pattern is not None and data.startswith(text := head.join(pattern.pieces), place):
            after = place + len(text)
        else:
            pattern, after = _read(data, place, end, head)
            if last is not None:
                last.follower = pattern
        pair = _entity_decoder.decode(data[place + len(_FIRST) - 1 : name + 1])
        runs.append((parse_entity(*pair), pattern.sheet))
        if after != end and data[after] != _COMMA:
            return None
        place, last = after + 1, pattern
    return runs if place == end + 1 or end == len(BEGIN) else None


def _read(data: bytes, place: int, end: int, head: bytes) -> tuple[_Pattern, int]:
    """Return the pattern of the run at a place, and where it ends."""
    pieces = []
    while data.startswith(head, place):
        begin = place + len(head)
        found = data.find(_NEXT, begin, end)
        after = end if found < 0 else found + 1
        pieces.append(data[begin:after])
        place = after + 1
    return _pattern(tuple(pieces)), after


@lru_cache(maxsize=1 << 14)
def _pattern(pieces: tuple[bytes, ...]) -> _Pattern:
    return _Pattern(pieces)


@lru_cache(maxsize=1 << 14)
def _row(piece: bytes) -> Row:
    """Return the row of its text: equal ones are one object, and so are their values."""
    row = _decoder.decode(b"{" + piece)
    return Row(
        intern(row.name),
        row.value,
        intern(row.where),
        "next_boot" if row.applies == "next_boot" else "running",
    )
