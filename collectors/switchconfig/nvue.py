"""Cumulus Linux: `nv set` lines or the YAML of `nv config show`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.errors import Malformed
from collectors.switchconfig.blocks import Reader, expand, pfc_tuple, whole

ON: Final = {"on", "enable", "enabled", "true"}
# Defaults of `qos roce` in lossless mode, by the user guide: bytes, percent.
ROCE: Final = {"kmin_bytes": 150_000, "kmax_bytes": 1_501_500, "pmax_ratio": 1.0}
ROCE_CLASSES: Final = (0, 3)
ROCE_PRIORITY: Final = 3
_DEEPEST: Final = 100  # no real configuration nests so far
QUEUE_PROFILES: Final = ("congestion-control", "egress-scheduler")
KINDS: Final = {"congestion-control": "marking", "egress-scheduler": "scheduler", "pfc": "pfc"}
DEFAULT: Final = ("default-global", 0)
MAPPING: Final = ("qos", "mapping", "default-global", "dscp")

Words = tuple[tuple[str, ...], int]
Classes = dict[int, list[tuple[str, str, int]]]
"""Traffic class -> setting, its text and its line."""


@dataclass
class _Profiles:
    """What profiles hold, and which port uses which. queues: by kind. uses: by (port, kind)."""

    queues: dict[str, dict[str, Classes]] = field(
        default_factory=lambda: {k: {} for k in QUEUE_PROFILES}
    )
    pfc: dict[str, set[int]] = field(default_factory=dict)
    lengths: dict[str, tuple[int, int]] = field(default_factory=dict)
    uses: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    places: list[int] = field(default_factory=lambda: [-1] * 64)


def parse_nvue(text: str, switch: Switch, where: str) -> Reader:
    """Return the settings. Raises Malformed for YAML that is none."""
    reader, lines, found = Reader(switch, where), list(_lines(text, where)), _Profiles()
    ports = sorted(
        {port for words, _ in lines if words[0] == "interface" for port in expand(words[1])}
    )
    for words, number in lines:
        if words[0] == "qos" and len(words) > 4 and words[1] != "roce":
            _profile(reader, found, words, number)
        elif words[0] == "interface" and words[2:3] == ("qos",) and words[4:5] == ("profile",):
            for port in expand(words[1]):
                found.uses[port, words[3]] = (words[-1], number)
        else:
            _single(reader, words, number)
    roce = next(
        (line for line in lines if line[0][:2] == ("qos", "roce") and "off" not in line[0]), None
    )
    if roce is not None and "lossy" not in roce[0]:
        found.pfc.setdefault(DEFAULT[0], set()).add(ROCE_PRIORITY)
    for port in ports:
        if port.startswith("swp"):
            _port(reader, port, found, roce)
    return reader


def _profile(reader: Reader, found: _Profiles, words: tuple[str, ...], number: int) -> None:
    kind, name, part = words[1], words[2], words[3]
    if kind in found.queues and part == "traffic-class" and len(words) >= 7:
        for queue in expand(words[4]):
            if (at := whole(queue)) is not None:
                rows = found.queues[kind].setdefault(name, {}).setdefault(at, [])
                rows.append((words[5], words[6], number))
    elif kind == "pfc" and part == "switch-priority":
        on = {int(text) for text in expand(words[4]) if text.isdigit()}
        found.pfc.setdefault(name, set()).update(on)
    elif kind == "pfc" and part == "cable-length" and (metres := whole(words[4])) is not None:
        found.lengths[name] = (metres, number)
    elif kind == "pfc":
        found.pfc.setdefault(name, set())
    elif words[:4] == MAPPING and words[5:6] == ("switch-priority",):
        _map(reader, found.places, words, number)


def _port(reader: Reader, port: str, found: _Profiles, roce: Words | None) -> None:
    for part, kind in KINDS.items():
        if (port, part) in found.uses:
            reader.uses(reader.port(port), kind, found.uses[port, part][0])
    profile, number = found.uses.get((port, "congestion-control"), DEFAULT)
    if profile in found.queues["congestion-control"]:
        _marking(reader, port, found.queues["congestion-control"][profile])
    elif roce is not None:
        _roce(reader, port, roce[1])
    elif number:
        why = f"no congestion-control profile {profile}"
        reader.odd.append((f"{reader.where}:{number}", why))
    profile, _ = found.uses.get((port, "egress-scheduler"), DEFAULT)
    _scheduling(reader, port, found.queues["egress-scheduler"].get(profile, {}))
    profile, number = found.uses.get((port, "pfc"), DEFAULT)
    if profile in found.pfc:
        line = number or (roce[1] if roce else 0)
        reader.set(reader.port(port), "pfc_priorities", pfc_tuple(found.pfc[profile]), line)
    if profile in found.lengths:
        metres, line = found.lengths[profile]
        reader.set(reader.port(port), "pfc_cable_length_metres", metres, line)


def _of_queues(port: Interface, classes: Classes) -> Iterator[tuple[Slot, str, str, int]]:
    for at, rows in classes.items():
        for word, text, number in rows:
            yield Slot(port, "queue", at), word, text, number


def _marking(reader: Reader, port: str, classes: Classes) -> None:
    names = {"min-threshold": "kmin_bytes", "max-threshold": "kmax_bytes"}
    for queue, word, text, number in _of_queues(reader.port(port), classes):
        value = whole(text)
        if word == "ecn":
            reader.set(queue, "ecn_enabled", text in ON, number)
        elif word in names and value is not None:
            reader.set(queue, names[word], value, number)
        elif word == "probability" and value is not None:
            reader.set(queue, "pmax_ratio", value / 100, number)


def _scheduling(reader: Reader, port: str, classes: Classes) -> None:
    for queue, word, text, number in _of_queues(reader.port(port), classes):
        if word == "mode":
            reader.set(queue, "scheduler", text, number)
        elif word == "bw-percent" and (share := whole(text)) is not None:
            reader.set(queue, "scheduler_weight", share, number)


def _map(reader: Reader, places: list[int], words: tuple[str, ...], number: int) -> None:
    """Take `qos mapping default-global dscp 26 switch-priority 3`."""
    priority = whole(words[6]) if len(words) > 6 else None
    for dscp in expand(words[4]):
        if dscp.isdigit() and int(dscp) < 64 and priority is not None:
            places[int(dscp)] = priority
    reader.set(reader.switch, "dscp_to_traffic_class", tuple(places), number)


def _roce(reader: Reader, port: str, number: int) -> None:
    for at in ROCE_CLASSES:
        queue = Slot(reader.port(port), "queue", at)
        reader.set(queue, "ecn_enabled", True, number)
        for name, value in ROCE.items():
            reader.set(queue, name, value, number)


def _single(reader: Reader, words: tuple[str, ...], number: int) -> None:
    switch: Entity = reader.switch
    last = words[-1]
    match words:
        case ("system", "forwarding", "ecmp-hash", field, state):
            if state in ON:
                _add_field(reader, field, number)
        case ("system", "forwarding", "hash-seed", seed) if (value := whole(seed)) is not None:
            reader.set(switch, "ecmp_hash_seed", value, number)
        case ("router", "adaptive-routing", "enable" | "state", state):
            mode = "adaptive" if state in ON else "static"
            reader.set(switch, "load_balancing", mode, number)
        case ("qos", "roce", "cable-length", length) if (value := whole(length)) is not None:
            reader.set(switch, "pfc_cable_length_metres", value, number)
        case ("interface", names, "link", "mtu", _) if (value := whole(last)) is not None:
            for name in expand(names):
                reader.set(reader.port(name), "mtu_bytes", value, number)
        case ("interface", names, "link", "fec", _):
            for name in expand(names):
                reader.set(reader.port(name), "fec", last, number)
        case ("interface", names, "link", "state", "down"):
            for name in expand(names):
                reader.set(reader.port(name), "admin_enabled", False, number)
        case _:
            pass


def _add_field(reader: Reader, field: str, number: int) -> None:
    for at, row in enumerate(reader.settings):
        if row.name == "ecmp_hash_fields" and isinstance(row.value, tuple):
            del reader.settings[at]
            reader.set(reader.switch, row.name, (*row.value, field), number)
            return
    reader.set(reader.switch, "ecmp_hash_fields", (field,), number)


def _lines(text: str, where: str) -> Iterator[Words]:
    commands = [
        (tuple(line.split()[2:]), number)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip().startswith("nv set ")
    ]
    if commands:
        yield from (line for line in commands if len(line[0]) > 1)
        return
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise Malformed(where, "nvue configuration", "neither `nv set` lines nor YAML") from error
    for document in documents:
        entries = document.value if isinstance(document, yaml.SequenceNode) else [document]
        for entry in entries:
            if isinstance(entry, yaml.MappingNode):
                inner = [value for name, value in entry.value if name.value == "set"]
                yield from _flatten(inner[0] if inner else entry, (), 0)


def _flatten(node: yaml.Node, words: tuple[str, ...], depth: int) -> Iterator[Words]:
    """Yield the words of every leaf with its line; JSON is YAML, too."""
    if depth > _DEEPEST:
        return
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from _flatten(value, (*words, str(name.value)), depth + 1)
        if not node.value and len(words) > 1:
            yield words, node.start_mark.line + 1
    elif isinstance(node, yaml.ScalarNode) and words:
        yield (*words, node.value), node.start_mark.line + 1
