"""Rates, sizes and times as people write them: 400G, 150KB, 1MiB, 4us."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import typer

T = TypeVar("T")

_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*")
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3}
_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RATE_ENDINGS = ("bit/s", "b/s", "bps", "")
_SIZE_ENDINGS = ("B", "")


def _read(text: str, units: dict[str, float], example: str) -> float:
    match = _NUMBER.fullmatch(text)
    unit = match.group(2) if match else None
    if match is None or unit not in units:
        raise typer.BadParameter(f"{text!r} is not a value like {example}")
    return float(match.group(1)) * units[unit]


def _units(scales: dict[str, float], endings: tuple[str, ...]) -> dict[str, float]:
    lower = {"k": 1e3} | scales
    return {scale + ending: value for scale, value in lower.items() for ending in endings}


_RATES = _units(_SCALE, _RATE_ENDINGS)
_SIZES = _units(_SCALE | _BINARY, _SIZE_ENDINGS)


def rate_bps(text: str) -> float:
    """Return bit/s; raises typer.BadParameter."""
    return _read(text, _RATES, "400G")


def size_bytes(text: str) -> float:
    """Return bytes; KB is 1000, KiB 1024. Raises typer.BadParameter."""
    return _read(text, _SIZES, "150KB or 1MiB")


def seconds(text: str) -> float:
    """Return seconds; raises typer.BadParameter."""
    return _read(text, _TIME, "4us or 0.1s")


def many(text: str, read: Callable[[str], T]) -> list[T]:
    """Return the values of a comma-separated list; raises typer.BadParameter."""
    return [read(part) for part in text.split(",") if part.strip()]


def count(text: str) -> int:
    """Return a whole number of at least 1; raises typer.BadParameter."""
    if not text.strip().isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is not a count of 1 or more")
    return int(text)
