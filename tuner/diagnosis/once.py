"""Answers that several rules ask of a window, made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar
from weakref import WeakKeyDictionary

from tuner.diagnosis.view import HostTelemetry

Answer = TypeVar("Answer")

_made: WeakKeyDictionary[HostTelemetry, dict[Hashable, object]] = WeakKeyDictionary()


def once(telemetry: HostTelemetry, key: Hashable, make: Callable[[], Answer]) -> Answer:
    """Return what `make` made when this window was asked for `key` for the first time."""
    answers = _made.setdefault(telemetry, {})
    if key not in answers:
        answers[key] = make()
    return answers[key]  # type: ignore[return-value]  # a key always stands for one type
