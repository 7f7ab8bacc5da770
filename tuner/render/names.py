"""What may stand in a command. Devices name themselves, with any text; a text that is run obeys it.

What does not look like a name is in no command: a step that would need it is left out by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from collectors.model.entities import Device, Entity, Host, Interface, Netdev, Port, Slot, Switch
from collectors.model.facts import Value
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.plan import DevicePlan, Step

HOST_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_:@-]|\.(?!\.)){0,63}")
"""Of hosts, network and RDMA devices, PCI functions: they are parts of paths, too."""

_SWITCH_PORT: Final = re.compile(r"[A-Za-z][A-Za-z0-9._:/-]{0,63}")
_PORTS: Final = {
    "linux": HOST_NAME,
    "onyx": re.compile(r"Eth[0-9]{1,3}(?:/[0-9]{1,3}){0,3}"),
}
_WORD: Final = re.compile(r"(?:[A-Za-z0-9=^+][A-Za-z0-9._:/@,=^+%-]{0,511})?")
_WORDS: Final = re.compile(r"[A-Za-z0-9._:/@,=^+% -]{0,512}")  # lines of a file, no command
_ROW: Final = re.compile(r"[A-Z][A-Z0-9_]{1,63}\|[A-Za-z0-9_][A-Za-z0-9._:/|,@-]{0,127}")
_SHOWN: Final = 40
_IN_PATHS: Final = ("pci_address", "netdev")


def faults(device: DevicePlan, platform: str) -> Callable[[Step], str]:
    """Return what says why a step must be in no command of a platform, '' where it may.

    A step is judged by its place, its values, and all that was read of the same port or device.
    """
    beside: dict[Entity, str] = {}
    for place, why in _beside(device, platform):
        beside.setdefault(_root(place), why)

    def fault(step: Step) -> str:
        why = (
            _place(step.scope, platform)
            or _value(step.knob, step.proposed, platform)
            or _value(step.knob, step.current, platform)
            or beside.get(_root(step.scope), "")
        )
        return why or (beside.get(device.device, "") if platform == "junos" else "")

    return fault


def _root(place: Entity) -> Entity:
    """Return the port of a switch, network device, RDMA device, host or switch of a place."""
    inner = place.parent if isinstance(place, Slot) else place
    return inner.device if isinstance(inner, Port) else inner


def _beside(device: DevicePlan, platform: str) -> Iterator[tuple[Entity, str]]:
    for row in device.settings:
        if row.name in KNOBS and (why := _value(row.name, row.value, platform)):
            yield row.entity, why
        if platform == "sonic":
            rows = (word for word in row.where.split() if "|" in word)
            for word in rows:
                if not _ROW.fullmatch(word):
                    yield row.entity, _unlike("row", word)
    for known in device.attributes:
        text = str(known.value)
        if known.name in _IN_PATHS and text and not HOST_NAME.fullmatch(text):
            yield known.entity, _unlike(known.name.replace("_", " "), text)
        of_queue = isinstance(known.entity, Slot) and isinstance(known.entity.parent, Switch)
        if known.name == "alias" and of_queue and not _SWITCH_PORT.fullmatch(text):
            yield known.entity, _unlike("forwarding class", text)


def _place(place: Entity, platform: str) -> str:
    named: tuple[tuple[str, str], ...]
    match _root(place):
        case Interface(_, name):
            pattern = _PORTS.get(platform, _SWITCH_PORT)
            return "" if pattern.fullmatch(name) else _unlike("interface", name)
        case Netdev(host, name):
            named = (("host", host), ("interface", name))
        case Device(host, key, name):
            named = (("host", host), ("device", name or key))
        case Host(host):
            named = (("host", host),)
        case _:
            return ""
    return next((_unlike(kind, name) for kind, name in named if not HOST_NAME.fullmatch(name)), "")


def _value(knob: str, value: Value | None, platform: str) -> str:
    pattern = _WORDS if platform == "opensm" else _WORD
    parts = value if isinstance(value, tuple) else (value,)
    ours = KNOBS[knob].choices
    texts = (part for part in parts if isinstance(part, str) and part not in ours)
    return next((_unlike("value", text) for text in texts if not pattern.fullmatch(text)), "")


def _unlike(kind: str, text: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"the {kind} {shown!r} does not look like one of this platform: no command may hold it"
