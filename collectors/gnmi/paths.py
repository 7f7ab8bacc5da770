"""gNMI paths: text <-> message, and where a path points once prefix and module names are off."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from collectors.gnmi.messages import gnmi
from collectors.model.errors import Malformed

_ELEMENT = re.compile(r"([^\[\]/]+)((?:\[[^=\]]+=(?:\\.|[^\]\\])*\])*)")
_KEY = re.compile(r"\[([^=\]]+)=((?:\\.|[^\]\\])*)\]")
_MODULE = re.compile(
    r"(openconfig|oc|arista|eos|cisco|junos|jnx|juniper|nvidia|nv|mlnx|sonic|ietf|huawei|srl|nokia)"
    r"[A-Za-z0-9_-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the tree. schema: `/a/b/c` without keys. keys: (element, key, value), in order."""

    schema: str
    keys: tuple[tuple[str, str, str], ...] = ()
    origin: str = ""
    target: str = ""


def pack_path(text: str, origin: str = "", target: str = "") -> Any:
    r"""Return the message for `/a/b[name=x]/c`; `\]` stands for a bracket within a value.

    Raises Malformed on text that is no path.
    """
    elements = []
    at = 0
    stripped = text.strip("/")
    while at < len(stripped):
        match = _ELEMENT.match(stripped, at)
        if match is None:
            raise Malformed(text, "gnmi path", "not of the form /a/b[key=value]/c", offset=at)
        keys = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _KEY.findall(match[2])}
        elements.append(gnmi.PathElem(name=match[1], key=keys))
        at = match.end()
        if at < len(stripped) and stripped[at] != "/":
            raise Malformed(text, "gnmi path", "not of the form /a/b[key=value]/c", offset=at)
        at += 1
    return gnmi.Path(elem=elements, origin=origin, target=target)


def plain(name: str, modules: frozenset[str] = frozenset()) -> str:
    """Return an element's name without a module prefix: `openconfig-interfaces:interfaces`.

    Only prefixes that are modules are taken off: a MAC address keeps its colons.
    """
    prefix, colon, rest = name.partition(":")
    if not colon or ":" in rest:
        return name
    return rest if prefix in modules or _MODULE.fullmatch(prefix) else name


def parse_location(prefix: Any, path: Any, modules: frozenset[str] = frozenset()) -> Location:
    """Return where prefix and path point together; either may be empty."""
    names: list[str] = []
    keys: list[tuple[str, str, str]] = []
    origin = path.origin or (prefix.origin if prefix is not None else "")
    for part in (prefix, path):
        if part is None:
            continue
        for element in part.elem:
            name = element.name
            if name.endswith(":") and not names and not origin:  # the origin as first element
                origin = name.rstrip(":")
                continue
            name = plain(name, modules)
            names.append(name)
            keys.extend(
                (name, plain(key, modules), element.key[key]) for key in sorted(element.key)
            )
        if not part.elem:  # gNMI 0.3: strings instead of elements
            names.extend(plain(name, modules) for name in part.element)
    target = (prefix.target if prefix is not None else "") or path.target
    return Location("/" + "/".join(names), tuple(keys), origin, target)


INTERFACE_KEYS: Final = frozenset(
    {
        ("interface", "name"),
        ("interface", "interface-id"),
        ("interface", "id"),
        ("If-list", "name"),
        ("PhysIf-list", "id"),
        ("voq-interface", "name"),
        ("group", "name"),
    }
)
_DIGITS = re.compile(r"(\d+)\D*$")


def interface_of(location: Location) -> str | None:
    """Return the interface that a location is about, in the usual spelling of its platform."""
    for element, key, value in location.keys:
        if (element, key) in INTERFACE_KEYS:
            return re.sub(r"^eth(?=\d+/)", "Ethernet", value)
    return None


def number_of(location: Location) -> int | None:
    """Return the queue, priority or group that a location is about: the last number of its key.

    Queues are called `3`, `UC3`, `Ethernet1-3`, `c-out-8q-q3` by different devices.
    """
    for element, key, value in reversed(location.keys):
        if (element, key) in INTERFACE_KEYS or key == "queue-type":
            continue
        match = _DIGITS.search(value)
        return int(match[1]) if match else None
    return None
