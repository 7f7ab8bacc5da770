"""What no rule could see, by the input that is missing: one line for each input, not each rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tuner.diagnosis.finding import Verdict


@dataclass(frozen=True, slots=True)
class Blind:
    """An input that is missing. rules: those that cannot tell without it."""

    need: str
    rules: tuple[str, ...]


def blind_spots(verdicts: Iterable[Verdict]) -> list[Blind]:
    """Return the inputs that rules which cannot tell lack, those of the most rules first."""
    rules: dict[str, dict[str, None]] = {}
    for verdict in verdicts:
        if verdict.outcome == "cannot_tell":
            for need in verdict.missing:
                rules.setdefault(need, {}).setdefault(verdict.rule)
    found = [Blind(need, tuple(of)) for need, of in rules.items()]
    return sorted(found, key=lambda one: -len(one.rules))
