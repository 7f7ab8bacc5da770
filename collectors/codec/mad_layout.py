"""Attribute layouts as tables: (name, bit offset, width), compiled once, read and written fast.

A layout is what the InfiniBand books print: rows of named bit fields in a payload of known
length. Bit 0 is the most significant bit of byte 0, as in the books. Nothing here knows what a
field means.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.model.errors import Malformed

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


@dataclass(frozen=True, slots=True)
class Field:
    """One row: `count` values of `width` bits from bit `bit`; `raw` keeps the bytes."""

    name: str
    bit: int
    width: int
    count: int = 1
    raw: bool = False

    @property
    def end(self) -> int:
        """Return the first bit after the field."""
        return self.bit + self.width * self.count


def repeated(name: str, bit: int, width: int, count: int) -> Field:
    """Return a field that is a tuple of `count` equal values."""
    return Field(name, bit, width, count)


def raw(name: str, bit: int, width: int) -> Field:
    """Return a field whose value is its bytes; it begins and ends on a byte."""
    return Field(name, bit, width, raw=True)


def _containers(fields: Iterable[Field]) -> list[tuple[int, int]]:
    """Return non-overlapping (bit, width) words, naturally aligned, that cover the fields."""
    words: list[tuple[int, int]] = []
    for field in fields:
        for index in range(field.count):
            low, width = field.bit + index * field.width, 8
            while low // width * width + width < low + field.width:
                width *= 2
            # A byte-aligned field is its own word even where a 64-bit one straddles alignment.
            own = field.width in _CODES and low % 8 == 0
            words.append((low, field.width) if own else (low // width * width, width))
    words.sort(key=lambda word: (word[0], -word[1]))
    merged: list[tuple[int, int]] = []
    for word in words:
        if merged and word[0] < merged[-1][0] + merged[-1][1]:
            continue  # inside the word before: that one is wider or the same
        merged.append(word)
    return merged


class Layout:
    """A compiled attribute layout.

    `parse` reads a payload into {name: int | tuple | bytes}; `pack` is its exact inverse for the
    bits that the table names. Raises Malformed when the payload is too short.
    """

    def __init__(self, name: str, attribute: int, section: str, size: int, *fields: Field) -> None:
        """Compile the rows; a wrong table raises at import, not in the field."""
        self.name, self.attribute, self.section, self.size = name, attribute, section, size
        self.fields = fields
        self.names = tuple(field.name for field in fields)
        words = _containers(field for field in fields if not field.raw)
        used = {(f.bit + i * f.width, f.width) for f in fields if not f.raw for i in range(f.count)}
        code, at, slots = ">", 0, {}
        for index, (bit, width) in enumerate(words):
            code += f"{(bit - at) // 8}x{_CODES[width]}"
            at = bit + width
            slots[bit] = (index, width)
        self._struct = struct.Struct(code)
        self._words = words
        # (word index, shift, mask) of every scalar, in table order
        self._plan: list[tuple[int, int, int]] = []
        for bit, width in (
            (f.bit + i * f.width, f.width) for f in fields if not f.raw for i in range(f.count)
        ):
            start = max(b for b in slots if b <= bit)
            index, word = slots[start]
            if bit + width > start + word:
                raise ValueError(f"{name}: no word holds bit {bit}, width {width}")
            self._plan.append((index, start + word - bit - width, (1 << width) - 1))
        # every scalar is a word of its own, in table order: no shifting
        self._direct = used == set(words) and [index for index, _, _ in self._plan] == list(
            range(len(words))
        )
        self._plain = self._direct and all(f.count == 1 and not f.raw for f in fields)
        self.need = max((field.end + 7) // 8 for field in fields)
        if self.need > size:
            raise ValueError(f"{name}: fields end at byte {self.need}, payload has {size}")

    def __repr__(self) -> str:
        return f"Layout({self.name}, 0x{self.attribute:04x}, IBTA {self.section})"

    def parse(self, payload: bytes | bytearray | memoryview) -> dict[str, Any]:
        """Read the fields of one payload (`size` bytes, more is ignored)."""
        if len(payload) < self.need:
            raise Malformed(
                self.name, "parse", f"{len(payload)} bytes, needs {self.need}", bytes(payload)
            )
        words = self._struct.unpack_from(payload)
        if self._plain:
            return dict(zip(self.names, words, strict=True))
        if self._direct:
            scalars = words
        else:
            scalars = tuple(words[index] >> shift & mask for index, shift, mask in self._plan)
        values: dict[str, Any] = {}
        at = 0
        for field in self.fields:
            if field.raw:
                values[field.name] = bytes(payload[field.bit // 8 : field.end // 8])
            elif field.count == 1:
                values[field.name] = scalars[at]
                at += 1
            else:
                values[field.name] = scalars[at : at + field.count]
                at += field.count
        return values

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """Write a payload of `size` bytes; absent fields are zero.

        Raises ValueError for a name that the table lacks or a value that does not fit.
        """
        unknown = set(values) - set(self.names)
        if unknown:
            raise ValueError(f"{self.name} has no field {min(unknown)}")
        words = [0] * len(self._words)
        blobs: list[tuple[int, bytes]] = []
        plan = iter(self._plan)
        for field in self.fields:
            value = values.get(field.name)
            if field.raw:
                blob = value if isinstance(value, bytes) else b""
                if len(blob) > field.width // 8:
                    raise ValueError(f"{self.name}.{field.name}: {len(blob)} bytes do not fit")
                blobs.append((field.bit // 8, blob))
                continue
            many = value if isinstance(value, tuple) else (0 if value is None else value,)
            if value is None:
                many = (0,) * field.count
            if len(many) != field.count:
                raise ValueError(f"{self.name}.{field.name}: needs {field.count} values")
            for one in many:
                index, shift, mask = next(plan)
                if not isinstance(one, int) or not 0 <= one <= mask:
                    raise ValueError(f"{self.name}.{field.name}: {one!r} does not fit")
                words[index] |= one << shift
        out = bytearray(self.size)
        self._struct.pack_into(out, 0, *words)
        for at, blob in blobs:
            out[at : at + len(blob)] = blob
        return bytes(out)
