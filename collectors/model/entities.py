"""What readings are about: hosts, devices, ports, switches, queues, queue pairs, links.

Each entity is frozen and hashable and has one canonical string, `kind/part/part...`, with the
parts percent-encoded; `parse_entity(str(entity)) == entity`. A `name` beside a `key` is a label
for people: it takes no part in equality or in the canonical string, because names change
(udev renames mlx5_0 to rocep1s0f0) and keys do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, get_args
from urllib.parse import quote, unquote

from collectors.model.errors import Malformed

SlotKind: TypeAlias = Literal[
    "priority",  # 802.1p / PFC priority 0-7
    "queue",  # egress queue
    "traffic_class",  # ETS traffic class
    "priority_group",  # ingress buffer group
    "vl",  # InfiniBand virtual lane
    "sl",  # InfiniBand service level
    "lane",  # physical lane of a link
    "pool",  # shared buffer pool
]


_MOST_KEPT = 256  # characters of a string whose entity is kept: nobody fills memory with longer
_SAFE = ":.,@+ -_"
_PLAIN = re.compile(r"[A-Za-z0-9~:.,@+ \-_/]*")
"""Canonical strings without percent-encoding: most of them, and quick to read."""


@lru_cache(maxsize=1 << 16)
def _quoted(part: str) -> str:
    return quote(part, safe=_SAFE)


def _part(text: str) -> str:
    return _quoted(text) if len(text) <= _MOST_KEPT else quote(text, safe=_SAFE)


def _kept(entity: Port | Interface | Slot | Link, value: int) -> int:
    """Keep the hash of an entity in it: what nests would be hashed anew at each look-up."""
    object.__setattr__(entity, "_hash", value or 1)
    return value or 1


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with RDMA devices."""

    name: str

    def __str__(self) -> str:
        return f"host/{_part(self.name)}"


@dataclass(frozen=True, slots=True)
class Device:
    """An RDMA device of a host. key: node GUID (16 hex digits) or PCI address."""

    host: str
    key: str
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"device/{_part(self.host)}/{_part(self.key)}"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of an RDMA device, numbered from 1."""

    device: Device
    number: int
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or _kept(self, hash((self.device, self.number)))

    def __reduce__(self) -> tuple[type[Port], tuple[object, ...]]:
        return Port, (self.device, self.number)

    def __str__(self) -> str:
        return f"port/{_part(self.device.host)}/{_part(self.device.key)}/{self.number}"


@dataclass(frozen=True, slots=True)
class Netdev:
    """A network interface of a host, by its name there."""

    host: str
    name: str

    def __str__(self) -> str:
        return f"netdev/{_part(self.host)}/{_part(self.name)}"


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch. key: chassis MAC, node GUID or, where neither is known, its name."""

    key: str
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"switch/{_part(self.key)}"


@dataclass(frozen=True, slots=True)
class Interface:
    """A port of a switch in the switch's own spelling (`Ethernet1/1`, IB: the port number)."""

    switch: Switch
    name: str
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or _kept(self, hash((self.switch, self.name)))

    def __reduce__(self) -> tuple[type[Interface], tuple[object, ...]]:
        return Interface, (self.switch, self.name)

    def __str__(self) -> str:
        return f"interface/{_part(self.switch.key)}/{_part(self.name)}"


Wire: TypeAlias = Port | Netdev | Interface
"""Anything that a cable can be plugged into."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One of the numbered parts of a port, interface or switch: a priority, queue, VL, lane..."""

    parent: Wire | Switch
    kind: SlotKind
    index: int
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or _kept(self, hash((self.parent, self.kind, self.index)))

    def __reduce__(self) -> tuple[type[Slot], tuple[object, ...]]:
        return Slot, (self.parent, self.kind, self.index)

    def __str__(self) -> str:
        return f"{self.kind}/{self.index}/{self.parent}"


def queue(parent: Wire, index: int) -> Slot:
    """Return the egress queue `index` of a port or interface."""
    return Slot(parent, "queue", index)


def priority(parent: Wire, index: int) -> Slot:
    """Return the PFC priority `index` (0-7) of a port or interface."""
    return Slot(parent, "priority", index)


@dataclass(frozen=True, slots=True)
class QueuePair:
    """A queue pair by its local number (24 bits)."""

    device: Device
    number: int

    def __str__(self) -> str:
        return f"qp/{_part(self.device.host)}/{_part(self.device.key)}/{self.number}"


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two ends; build it with `link()`, which orders the ends."""

    a: Wire
    b: Wire
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or _kept(self, hash((self.a, self.b)))

    def __reduce__(self) -> tuple[type[Link], tuple[object, ...]]:
        return Link, (self.a, self.b)

    def __str__(self) -> str:
        return f"link/{_part(str(self.a))}/{_part(str(self.b))}"


def link(one: Wire, other: Wire) -> Link:
    """Return the link of two ends, the same whichever is named first."""
    a, b = sorted((one, other), key=str)
    return Link(a, b)


Entity: TypeAlias = Host | Device | Port | Netdev | Switch | Interface | Slot | QueuePair | Link

_SLOT_KINDS = frozenset(get_args(SlotKind))
_ENDS = frozenset(("port", "netdev", "interface"))
_PARENTS = _ENDS | {"switch"}


def kind_of(entity: Entity) -> str:
    """Return the first word of the canonical string: `port`, `netdev`, `priority`..."""
    if isinstance(entity, Slot):
        return entity.kind
    return "qp" if isinstance(entity, QueuePair) else type(entity).__name__.lower()


def host_of(entity: Entity) -> str | None:
    """Return the name of the host that the entity belongs to, None for switches and links."""
    if isinstance(entity, Slot):
        entity = entity.parent
    if isinstance(entity, (Port, QueuePair)):
        return entity.device.host
    if isinstance(entity, (Device, Netdev)):
        return entity.host
    return entity.name if isinstance(entity, Host) else None


def wire_of(entity: Entity) -> Wire | None:
    """Return the port, netdev or interface that the entity is or is part of."""
    if isinstance(entity, Slot):
        return None if isinstance(entity.parent, Switch) else entity.parent
    return entity if isinstance(entity, (Port, Netdev, Interface)) else None


def display(entity: Entity) -> str:
    """Return the short form for people: `node7 mlx5_0/1 prio 3`, `leaf1 Ethernet1/1`."""
    match entity:
        case Host(name):
            return name
        case Device(host, key, name):
            return f"{host} {name or key}"
        case Port(device, number):
            return f"{display(device)}/{number}"
        case Netdev(host, name):
            return f"{host} {name}"
        case Switch(key, name):
            return name or key
        case Interface(switch, name):
            return f"{display(switch)} {name}"
        case Slot(parent, kind, index):
            return f"{display(parent)} {'prio' if kind == 'priority' else kind} {index}"
        case QueuePair(device, number):
            return f"{display(device)} qp {number}"
        case Link(a, b):
            return f"{display(a)} <-> {display(b)}"


def label_of(entity: Entity) -> str:
    """Return the label for people that the canonical string does not carry, or ''."""
    match entity:
        case Device(name=name) | Switch(name=name):
            return name
        case Port(device) | QueuePair(device):
            return device.name
        case Interface(switch):
            return switch.name
        case Slot(parent):
            return label_of(parent)
        case _:
            return ""


def parse_entity(text: str, label: str = "") -> Entity:
    """Return the entity of a canonical string; `label` becomes the name of its device or switch.

    Raises Malformed on anything that is not a canonical string.
    """
    parse = _parse if len(text) <= _MOST_KEPT else _parse.__wrapped__
    try:
        entity = parse(text, label)
    except (ValueError, IndexError, TypeError) as error:
        raise Malformed(text[:80], "parse entity", f"not a canonical string ({error})") from error
    if "%" in text and str(entity) != text:
        raise Malformed(text[:80], "parse entity", f"not canonical, should be {entity}")
    return entity


def _wire(text: str, label: str = "") -> Wire:
    if text.partition("/")[0] not in _ENDS:
        raise TypeError(f"{text[:20]!r} is no end of a link")
    entity = _parse(text, label)
    if not isinstance(entity, (Port, Netdev, Interface)):
        raise TypeError(f"{kind_of(entity)} is no end of a link")
    return entity


@lru_cache(maxsize=1 << 19)
def _parse(text: str, label: str) -> Entity:
    """Return an entity; what has no percent sign is canonical, or an error."""
    kind, _, rest = text.partition("/")
    if kind in _SLOT_KINDS:
        return _slot(kind, rest, label)
    parts = rest.split("/")
    if not _PLAIN.fullmatch(rest):
        if "%" not in rest:
            raise ValueError("some characters must be percent-encoded")
        parts = [unquote(part, errors="strict") for part in parts]
    match kind, parts:
        case "host", [name]:
            return Host(name)
        case "device", [host, key]:
            return Device(host, key, label)
        case "port", [host, key, number]:
            return Port(Device(host, key, label), _number(number))
        case "netdev", [host, name]:
            return Netdev(host, name)
        case "switch", [key]:
            return Switch(key, label)
        case "interface", [key, name]:
            return Interface(Switch(key, label), name)
        case "qp", [host, key, number]:
            return QueuePair(Device(host, key, label), _number(number))
        case "link", [a, b]:
            return link(_wire(a), _wire(b))
        case _:
            raise ValueError("unknown kind or wrong number of parts")


def _slot(kind: str, rest: str, label: str) -> Slot:
    index, _, parent_text = rest.partition("/")
    if parent_text.partition("/")[0] not in _PARENTS:  # so that nothing nests without end
        raise TypeError(f"it cannot be part of {parent_text[:20]!r}")
    parent = _parse(parent_text, label)
    if not isinstance(parent, (Port, Netdev, Interface, Switch)):
        raise TypeError(f"a {kind} cannot be part of a {kind_of(parent)}")
    return Slot(parent, kind, _number(index))  # type: ignore[arg-type]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        raise ValueError(f"{text!r} is no number")
    return int(text)
