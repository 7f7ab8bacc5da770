"""The form of a knob: what a recommendation may ask to change, and all that one must know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from collectors.model.facts import Value
from collectors.model.units import quantity

Lasts: TypeAlias = Literal["running", "persistent", "next_reset", "next_job"]
"""running: until reload or reboot. next_reset: kept, in force only after a reset of the device."""

Owner: TypeAlias = Literal["operator", "firmware"]


@dataclass(frozen=True, slots=True)
class Platform:
    """A configuration language. lasts: how long what is written lives. keep: makes it persist."""

    title: str
    lasts: Lasts
    keep: str


PLATFORMS: Final[Mapping[str, Platform]] = MappingProxyType(
    {
        "eos": Platform("Arista EOS", "running", "copy running-config startup-config"),
        "nxos": Platform("Cisco NX-OS", "running", "copy running-config startup-config"),
        "junos": Platform("Junos", "persistent", "commit"),
        "sonic": Platform("SONiC", "running", "config save -y"),
        "nvue": Platform("NVIDIA Cumulus Linux (NVUE)", "running", "nv config save"),
        "onyx": Platform("NVIDIA Onyx", "running", "configuration write"),
        "linux": Platform("Linux host", "running", "a unit that runs at boot"),
        "mlxconfig": Platform("NVIDIA firmware (mlxconfig)", "next_reset", "mlxfwreset or reboot"),
        "nccl": Platform("NCCL/RCCL environment", "next_job", "the job's launcher"),
        "ucx": Platform("UCX environment", "next_job", "the job's launcher"),
        "opensm": Platform("OpenSM", "persistent", "SIGHUP or restart of opensm"),
    }
)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a platform keeps a knob: command, file or variable."""

    platform: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A knob.

    name: that of the setting which facts carry its value under, where one does (`setting` says
    so; '' where nothing carries it). on: kinds of entity that have it. low, high: range in `unit`;
    choices: what else it may be. places: of a tuple (8 priorities, 64 DSCPs), 0 for one value.
    defaults: (vendor or firmware, value). disruption: what a change does to running traffic.
    agrees: who must have the same, or fit. how, undo: for people, with {place}, {value} and
    {current} to fill in. owner: advice never touches what the firmware owns.
    """

    name: str
    meaning: str
    unit: str = ""
    on: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    choices: tuple[Value, ...] = ()
    places: int = 0
    defaults: tuple[tuple[str, Value], ...] = ()
    homes: tuple[Home, ...] = ()
    disruption: str = "none beyond the change itself"
    agrees: str = ""
    setting: str = ""
    how: str = ""
    undo: str = ""
    owner: Owner = "operator"

    def home(self, platform: str) -> Home | None:
        """Return where a platform keeps it, None where that platform does not have it."""
        return next((home for home in self.homes if home.platform == platform), None)

    def unfit(self, value: Value) -> str:
        """Return why a value does not fit the knob, '' where it does."""
        if isinstance(value, tuple):
            if self.places and len(value) != self.places:
                return f"needs {self.places} places, has {len(value)}"
            parts: tuple[Value, ...] = value
        elif self.places:
            return f"needs {self.places} places, is one value"
        else:
            parts = (value,)
        return next((why for part in parts if (why := self._unfit(part))), "")

    def _unfit(self, value: Value) -> str:
        if self.choices:
            known = ", ".join(str(choice) for choice in self.choices)
            return "" if value in self.choices else f"{value} is none of {known}"
        if self.low is None and self.high is None:
            return ""
        if not isinstance(value, (int, float)):
            return f"{value!r} is no number"
        low = float("-inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        return "" if low <= value <= high else f"{value:g} is outside {low:g}..{high:g}"


def at(**places: str) -> tuple[Home, ...]:
    """Return homes: platform=place."""
    return tuple(Home(platform, place) for platform, place in places.items())


def filled(knob: Knob, place: str, value: Value, current: Value | None) -> tuple[str, str]:
    """Return what to do and how to take it back, for people; {number} is for commands."""
    named = f"{knob.name} of {{place}}"
    how = knob.how or f"set {named} to {{value}}"
    undo = knob.undo or f"set {named} to {{current}} again"
    before = "its former value" if current is None else shown(current, knob.unit)
    words = {"place": place, "value": shown(value, knob.unit), "current": before}
    words["number"] = _plain(value)
    return how.format(**words), undo.format(**words)


def _plain(value: Value) -> str:
    """Return a value for people: maps as `26:3 48:6`, switches as the places that are on."""
    if isinstance(value, float):
        return f"{value:.12g}"
    if not isinstance(value, tuple):
        return str(value)
    if value and all(isinstance(part, bool) for part in value):
        return ",".join(str(at) for at, part in enumerate(value) if part) or "none"
    if len(value) in (8, 64) and all(isinstance(part, (int, float)) for part in value):
        return " ".join(f"{at}:{part}" for at, part in enumerate(value) if part != -1) or "none"
    return ",".join(str(part) for part in value)


def shown(value: Value | None, unit: str = "") -> str:
    """Return a value for people, all of its digits."""
    if value is None:
        return "unknown"
    if unit and isinstance(value, (int, float)) and not isinstance(value, bool):
        return quantity(value, unit, exact=True)
    return _plain(value)


def named(*tables: tuple[Knob, ...]) -> Iterator[tuple[str, Knob]]:
    """Yield name and knob of some tables. Raises ValueError for a name that stands twice."""
    seen: set[str] = set()
    for table in tables:
        for knob in table:
            if knob.name in seen:
                raise ValueError(f"knob {knob.name} stands twice")
            seen.add(knob.name)
            yield knob.name, knob
