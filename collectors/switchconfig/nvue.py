"""Cumulus Linux: `nv set` lines or the YAML of `nv config show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import yaml

from collectors.model.entities import Entity, Slot, Switch
from collectors.model.errors import Malformed
from collectors.switchconfig.blocks import Reader, expand, pfc_tuple, whole

ON: Final = {"on", "enable", "enabled", "true"}
# Defaults of `qos roce` in lossless mode, by the user guide: bytes, percent.
ROCE: Final = {"kmin_bytes": 150_000, "kmax_bytes": 1_501_500, "pmax_ratio": 1.0}
ROCE_CLASSES: Final = (0, 3)
ROCE_PRIORITY: Final = 3
_DEEPEST: Final = 100  # no real configuration nests so far

Words = tuple[tuple[str, ...], int]
Profiles = dict[str, dict[int, list[tuple[str, str, int]]]]


def parse_nvue(text: str, switch: Switch, where: str) -> Reader:
    """Return the settings. Raises Malformed for YAML that is none."""
    reader, lines = Reader(switch, where), list(_lines(text, where))
    profiles: Profiles = {}
    uses: dict[str, tuple[str, int]] = {}
    pfc: dict[str, set[int]] = {}
    ports = sorted(
        {port for words, _ in lines if words[0] == "interface" for port in expand(words[1])}
    )
    for words, number in lines:
        if words[:2] == ("qos", "congestion-control") and words[3:4] == ("traffic-class",):
            for queue in expand(words[4]):
                if (at := whole(queue)) is not None and len(words) >= 7:
                    rows = profiles.setdefault(words[2], {}).setdefault(at, [])
                    rows.append((words[5], words[6], number))
        elif words[:2] == ("qos", "pfc") and words[3:4] == ("switch-priority",):
            on = {int(text) for text in expand(words[4]) if text.isdigit()}
            pfc.setdefault(words[2], set()).update(on)
        elif words[0] == "interface" and words[2:4] == ("qos", "congestion-control"):
            for port in expand(words[1]):
                uses[port] = (words[-1], number)
        else:
            _single(reader, words, number)
    roce = next(
        (line for line in lines if line[0][:2] == ("qos", "roce") and "off" not in line[0]), None
    )
    if roce is not None and "lossy" not in roce[0]:
        pfc.setdefault("default-global", set()).add(ROCE_PRIORITY)
    _ports(reader, ports, profiles, uses, pfc, roce)
    return reader


def _ports(
    reader: Reader,
    ports: list[str],
    profiles: Profiles,
    uses: dict[str, tuple[str, int]],
    pfc: dict[str, set[int]],
    roce: Words | None,
) -> None:
    for port in ports:
        if not port.startswith("swp"):
            continue
        profile, number = uses.get(port, ("default-global", 0))
        if profile in profiles:
            _marking(reader, port, profiles[profile])
        elif roce is not None:
            _roce(reader, port, roce[1])
        elif number:
            why = f"no congestion-control profile {profile}"
            reader.odd.append((f"{reader.where}:{number}", why))
        if pfc:
            on = pfc.get("default-global", set())
            reader.set(reader.port(port), "pfc_priorities", pfc_tuple(on), roce[1] if roce else 0)


def _marking(reader: Reader, port: str, classes: dict[int, list[tuple[str, str, int]]]) -> None:
    names = {"min-threshold": "kmin_bytes", "max-threshold": "kmax_bytes"}
    for at, rows in classes.items():
        queue = Slot(reader.port(port), "queue", at)
        for word, text, number in rows:
            value = whole(text)
            if word == "ecn":
                reader.set(queue, "ecn_enabled", text in ON, number)
            elif word in names and value is not None:
                reader.set(queue, names[word], value, number)
            elif word == "probability" and value is not None:
                reader.set(queue, "pmax_ratio", value / 100, number)


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
