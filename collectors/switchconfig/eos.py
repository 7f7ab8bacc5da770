"""Arista EOS running-config. Thresholds come in several units; segments need the chip's cell."""

from __future__ import annotations

import re

from collectors.model.entities import Slot, Switch
from collectors.switchconfig.blocks import (
    BYTES,
    Line,
    Reader,
    expand,
    parse_indented,
    pfc_tuple,
    whole,
)

_ECN = re.compile(
    r"random-detect ecn minimum-threshold (\d+) (\w+) maximum-threshold (\d+) (\w+)"
    r"(?: max-mark-probability (\d+))?(?: weight (\d+))?"
)
_SPEED = re.compile(r"(?:forced )?(\d+)g", re.IGNORECASE)


def parse_eos(text: str, switch: Switch, where: str, cell_bytes: int | None = None) -> Reader:
    """Return the settings of a running-config. cell_bytes: of a `segment` on this chip."""
    root = parse_indented(text)
    reader = Reader(switch, where)
    profiles = {line.words[2]: line for line in root.starting("qos profile") if len(line.words) > 2}
    watchdog = [line for line in root.below if "pause watchdog" in line.text]
    _map(reader, root)
    _hash(reader, root)
    for block in root.starting("interface"):
        for name in expand(block.text.removeprefix("interface ").strip()):
            if name.startswith("Ethernet"):
                _interface(reader, name, block, profiles, watchdog, cell_bytes)
    return reader


def _interface(
    reader: Reader,
    name: str,
    block: Line,
    profiles: dict[str, Line],
    watchdog: list[Line],
    cell_bytes: int | None,
) -> None:
    port = reader.port(name)
    bodies = [block]
    for word in ("service-profile", "service-policy type qos-profile"):
        used = block.first(word)
        if used is not None:
            profile = profiles.get(used.words[-1])
            if profile is None:
                reader.strange(used, "no such qos profile")
            else:
                bodies.append(profile)
    if (mtu := block.first("mtu")) is not None and (size := whole(mtu.words[-1])) is not None:
        reader.set(port, "mtu_bytes", size, mtu.number)
    if (speed := block.first("speed")) is not None and (match := _SPEED.search(speed.text)):
        reader.set(port, "speed_bps", int(match[1]) * 10**9, speed.number)
    if (fec := block.first("error-correction encoding")) is not None:
        reader.set(port, "fec", fec.words[-1], fec.number)
    if (shut := block.first("shutdown")) is not None:
        reader.set(port, "admin_enabled", False, shut.number)
    _flow_control(reader, name, bodies)
    _watchdog(reader, name, [*watchdog, *(line for body in bodies for line in body.below)])
    for body in bodies:
        for word in ("uc-tx-queue", "tx-queue"):
            for queue in body.starting(word):
                _queue(reader, name, queue, cell_bytes)


def _flow_control(reader: Reader, name: str, bodies: list[Line]) -> None:
    port = reader.port(name)
    for body in bodies:
        if (trust := body.after("qos trust")) is not None:
            line = body.first("qos trust")
            word = {"cos": "pcp"}.get(trust, trust)
            reader.set(port, "trust", word, line.number if line else 0)
        if (mode := body.first("priority-flow-control on")) is None:
            continue
        on = [
            int(line.words[2])
            for line in body.starting("priority-flow-control priority")
            if line.words[-1] == "no-drop" and line.words[2].isdigit()
        ]
        reader.set(port, "pfc_mode", "on", mode.number)
        reader.set(port, "pfc_priorities", pfc_tuple(on), mode.number)


def _watchdog(reader: Reader, name: str, lines: list[Line]) -> None:
    """Take defaults first, then what the port says: the later wins."""
    found: dict[str, tuple[float | str, int]] = {}
    for line in lines:
        if "pause watchdog" not in line.text:
            continue
        words = line.words
        for word, setting in (
            ("timeout", "detection_seconds"),
            ("recovery-time", "restoration_seconds"),
            ("polling-interval", "poll_seconds"),
        ):
            text = words[words.index(word) + 1 :][:1] if word in words else []
            if text and re.fullmatch(r"\d+(\.\d+)?", text[0]):
                found[setting] = (float(text[0]), line.number)
        if "action" in words:
            found["action"] = (words[words.index("action") + 1], line.number)
    for setting, (value, number) in found.items():
        reader.set(reader.port(name), f"pfc_watchdog_{setting}", value, number)


def _queue(reader: Reader, name: str, block: Line, cell_bytes: int | None) -> None:
    number = whole(block.words[1])
    if number is None:
        reader.strange(block, "no queue number")
        return
    queue = Slot(reader.port(name), "queue", number)
    for line in block.starting("random-detect ecn"):
        if line.text == "random-detect ecn count":
            reader.set(queue, "ecn_counting_enabled", True, line.number)
            continue
        match = _ECN.match(line.text)
        if match is None:
            reader.strange(line, "not understood")
            continue
        reader.set(queue, "ecn_enabled", True, line.number)
        reader.marking(queue, line, match, BYTES | {"segments": cell_bytes})
    if (strict := block.first("priority strict")) is not None:
        reader.set(queue, "scheduler", "strict", strict.number)
    if (share := block.first("bandwidth percent")) is not None:
        reader.set(queue, "scheduler_weight", whole(share.words[-1]) or 0, share.number)


def _map(reader: Reader, root: Line) -> None:
    places = [-1] * 64
    last = 0
    for line in root.starting("qos map dscp"):
        match = re.fullmatch(r"qos map dscp ([\d ,-]+) to traffic-class (\d+).*", line.text)
        if match is None:
            reader.strange(line, "not understood")
            continue
        parts = re.split(r"[ ,]+", match[1].strip())
        for name in (name for part in parts for name in expand(part)):
            if name.isdigit() and int(name) < 64:
                places[int(name)] = int(match[2])
        last = line.number
    if last:
        reader.set(reader.switch, "dscp_to_traffic_class", tuple(places), last)


def _hash(reader: Reader, root: Line) -> None:
    policies = root.starting("load-balance policies")
    profiles = (profile for row in policies for profile in row.starting("load-balance"))
    for line in (line for profile in profiles for line in profile.below):
        if line.text.startswith("fields"):
            fields = tuple(line.words[1:])
            reader.set(reader.switch, "ecmp_hash_fields", fields, line.number)
        elif "hash seed" in line.text and (seed := whole(line.words[-1])) is not None:
            reader.set(reader.switch, "ecmp_hash_seed", seed, line.number)
        elif "key shift" in line.text and (shift := whole(line.words[-1])) is not None:
            reader.set(reader.switch, "ecmp_hash_offset", shift, line.number)
