"""Cisco NX-OS running-config: class maps, network-qos and queuing policies, DLB, load sharing."""

from __future__ import annotations

import re
from typing import Final

from collectors.model.entities import Interface, Slot, Switch
from collectors.switchconfig.blocks import (
    BYTES,
    Line,
    Reader,
    expand,
    parse_indented,
    pfc_tuple,
    whole,
)

_PROFILES: Final = {
    "queuing output": "scheduler",
    "queuing input": "buffer",
    "qos input": "classifier",
    "network-qos": "pfc",
}
_WRED = re.compile(
    r"random-detect minimum-threshold (\d+) (\w+) maximum-threshold (\d+) (\w+)"
    r"(?: drop-probability (\d+))?(?: weight (\d+))?( ecn)?"
)
_BUFFER = re.compile(r"pause buffer-size (\d+) pause-threshold (\d+) resume-threshold (\d+)")


def parse_nxos(text: str, switch: Switch, where: str) -> Reader:
    """Return the settings of a running-config."""
    root = parse_indented(text)
    reader = Reader(switch, where)
    policies = {
        (line.words[2], line.words[3]): line
        for line in root.starting("policy-map type")
        if len(line.words) > 3
    }
    system = root.first("system qos") or Line("", 0)
    _profiles(reader, switch, system)
    dscp_of = _class_maps(root)
    for block in root.starting("interface"):
        for name in expand(block.words[-1]):
            if name.startswith("Ethernet"):
                _interface(reader, name, block, system, policies, dscp_of)
    _load_sharing(reader, root)
    return reader


def _profiles(reader: Reader, place: Interface | Switch, block: Line) -> None:
    """Note the policies that an interface or the switch uses itself."""
    for way, kind in _PROFILES.items():
        if (used := block.first(f"service-policy type {way}")) is not None:
            reader.uses(place, kind, used.words[-1])


def _class_maps(root: Line) -> dict[str, tuple[int, ...]]:
    found = {}
    for block in root.starting("class-map type qos"):
        values = [
            int(name)
            for line in block.starting("match dscp")
            for part in line.words[2:]
            for name in expand(part)
            if name.isdigit() and int(name) < 64
        ]
        found[block.words[-1]] = tuple(values)
    return found


Policies = dict[tuple[str, str], Line]


def _policy(
    reader: Reader, kind: str, way: str, places: tuple[Line, Line], policies: Policies
) -> Line | None:
    """Return the policy of a kind that holds on a port: its own, else the system's."""
    for place in places:
        prefix = f"service-policy type {kind}{way}"
        used = place.first(prefix)
        if used is not None:
            policy = policies.get((kind, used.words[-1]))
            if policy is None:
                reader.strange(used, "no such policy-map")
            return policy
    return None


def _interface(
    reader: Reader,
    name: str,
    block: Line,
    system: Line,
    policies: Policies,
    dscp_of: dict[str, tuple[int, ...]],
) -> None:
    port = reader.port(name)
    if (mtu := block.first("mtu")) is not None and (size := whole(mtu.words[-1])) is not None:
        reader.set(port, "mtu_bytes", size, mtu.number)
    if (speed := block.first("speed")) is not None and (rate := whole(speed.words[-1])) is not None:
        reader.set(port, "speed_bps", rate * 10**6, speed.number)
    if (fec := block.first("fec")) is not None:
        reader.set(port, "fec", fec.words[-1], fec.number)
    if (shut := block.first("shutdown")) is not None:
        reader.set(port, "admin_enabled", False, shut.number)
    if (watchdog := block.first("priority-flow-control watch-dog-interval")) is not None:
        reader.set(port, "pfc_watchdog_enabled", watchdog.words[-1] == "on", watchdog.number)
    _profiles(reader, port, block)
    places = (block, system)
    mode = block.first("priority-flow-control mode")
    if mode is not None:
        reader.set(port, "pfc_mode", mode.words[-1], mode.number)
        network = _policy(reader, "network-qos", "", places, policies)
        if network is not None and mode.words[-1] != "off":
            _network(reader, name, network)
    incoming = _policy(reader, "qos", " input", places, policies)
    if incoming is not None:
        _classification(reader, name, incoming, dscp_of)
    for way in (" output", " input"):
        queuing = _policy(reader, "queuing", way, places, policies)
        for queue in [] if queuing is None else queuing.starting("class type queuing"):
            _queue(reader, name, queue)


def _network(reader: Reader, name: str, policy: Line) -> None:
    on = [
        int(word)
        for block in policy.starting("class type network-qos")
        for line in block.starting("pause pfc-cos")
        for word in line.words[2:]
        if word.isdigit()
    ]
    reader.set(reader.port(name), "pfc_priorities", pfc_tuple(on), policy.number)


def _classification(
    reader: Reader, name: str, policy: Line, dscp_of: dict[str, tuple[int, ...]]
) -> None:
    places = [-1] * 64
    for block in policy.starting("class"):
        group = block.after("set qos-group")
        for dscp in dscp_of.get(block.words[-1], ()):
            if group is not None and group.isdigit():
                places[dscp] = int(group)
    reader.set(reader.port(name), "dscp_to_traffic_class", tuple(places), policy.number)
    reader.set(reader.port(name), "trust", "dscp", policy.number)


def _queue(reader: Reader, name: str, block: Line) -> None:
    match = re.search(r"q(\d+)$", block.words[-1])
    if match is None and "default" not in block.words[-1]:
        reader.strange(block, "no queue number")
        return
    number = int(match[1]) if match else 0
    queue = Slot(reader.port(name), "queue", number)
    for line in block.below:
        if wred := _WRED.match(line.text):
            reader.set(queue, "ecn_enabled", wred[7] is not None, line.number)
            reader.marking(queue, line, wred, BYTES)
        elif buffer := _BUFFER.match(line.text):
            group = Slot(reader.port(name), "priority_group", number)
            for place, setting in enumerate(
                ("xoff_bytes", "pause_threshold_bytes", "resume_threshold_bytes"), 1
            ):
                reader.set(group, setting, int(buffer[place]), line.number)
        elif line.text.startswith("priority level"):
            reader.set(queue, "scheduler", "strict", line.number)
        elif line.text.startswith("bandwidth") and (share := whole(line.words[-1])) is not None:
            reader.set(queue, "scheduler_weight", share, line.number)
        elif line.text.startswith("random-detect"):
            reader.strange(line, "not understood")


def _load_sharing(reader: Reader, root: Line) -> None:
    switch = reader.switch
    for line in root.starting("ip load-sharing address"):
        words = line.words[3:]
        for word, setting in (("universal-id", "ecmp_hash_seed"), ("rotate", "ecmp_hash_offset")):
            if word in words[:-1] and (value := whole(words[words.index(word) + 1])) is not None:
                reader.set(switch, setting, value, line.number)
                del words[words.index(word) : words.index(word) + 2]
        reader.set(switch, "ecmp_hash_fields", tuple(words), line.number)
    for block in root.starting("hardware profile dlb"):
        mode = next((line for line in block.below if line.text.startswith("mode ")), None)
        word = mode.text.removeprefix("mode ").replace("-", "_") if mode else "flowlet"
        reader.set(switch, "load_balancing", word, mode.number if mode else block.number)
        aging = block.first("flowlet-aging")
        if aging is not None and (us := whole(aging.words[-1])) is not None:
            reader.set(switch, "flowlet_gap_seconds", us / 10**6, aging.number)
