"""OpenConfig configuration in JSON (RFC 7951), as RESTCONF and gNMI Get give it.

openconfig-qos 2.2: WRED profiles with thresholds in bytes, their use by queues, dedicated
buffers; openconfig-interfaces: MTU, speed, FEC, admin state. A line number does not exist:
settings name the path instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from collectors.model.entities import Entity, Slot, Switch
from collectors.model.errors import Malformed
from collectors.model.facts import Setting, Value
from collectors.switchconfig.blocks import Reader

Node = Mapping[str, Any]
_FEC: Final = {"FEC_RS528": "rs", "FEC_RS544": "rs", "FEC_RS544_2X_INTERLEAVE": "rs",
               "FEC_FC": "fc", "FEC_DISABLED": "none", "FEC_AUTO": "auto"}  # fmt: skip
_LAST_NUMBER = re.compile(r"(\d+)\D*$")
_SPEED = re.compile(r"SPEED_(\d+)GB")


def parse_openconfig(text: str, switch: Switch, where: str) -> Reader:
    """Return the settings. Raises Malformed for text that is no JSON object."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(where, "openconfig", "not JSON") from error
    if not isinstance(tree, Mapping):
        raise Malformed(where, "openconfig", "not a JSON object")
    reader = Reader(switch, where)
    qos = _child(tree, "qos")
    _queues(reader, qos)
    for entry in _entries(tree, "interfaces", "interface"):
        _interface(reader, entry)
    return reader


def _child(node: Any, *names: str) -> Node:
    """Return a container, whatever module prefix its names carry; empty where it is not there."""
    for name in names:
        found = None
        if isinstance(node, Mapping):
            found = next(
                (value for key, value in node.items() if str(key).rpartition(":")[2] == name), None
            )
        node = found
    return node if isinstance(node, Mapping) else {}


def _entries(node: Any, *names: str) -> Iterator[Node]:
    holder = _child(node, *names[:-1])
    for key, value in holder.items():
        if str(key).rpartition(":")[2] == names[-1] and isinstance(value, list):
            yield from (entry for entry in value if isinstance(entry, Mapping))


def _leaf(node: Node, name: str) -> Any:
    """Return a leaf of `config`, or of `state` where the device shows only that."""
    for holder in ("config", "state"):
        for key, value in _child(node, holder).items():
            if str(key).rpartition(":")[2] == name:
                return value
    return None


def _whole(value: Any) -> int | None:
    """Return a number; RFC 7951 writes 64-bit ones as text."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() else None


def _set(reader: Reader, entity: Entity, name: str, value: Value | None, path: str) -> None:
    if value is not None:
        reader.settings.append(Setting(entity, name, value, f"{reader.where}:{path}"))


def _queues(reader: Reader, qos: Node) -> None:
    marking = {
        str(_leaf(entry, "name") or entry.get("name")): entry
        for entry in _entries(qos, "queue-management-profiles", "queue-management-profile")
    }
    buffers = {
        (str(entry.get("name")), str(queue.get("name"))): queue
        for entry in _entries(qos, "buffer-allocation-profiles", "buffer-allocation-profile")
        for queue in _entries(entry, "queues", "queue")
    }
    for entry in _entries(qos, "interfaces", "interface"):
        port = str(entry.get("interface-id", ""))
        for queue in _entries(entry, "output", "queues", "queue"):
            name = str(queue.get("name", ""))
            number = _LAST_NUMBER.search(name)
            if not port or number is None:
                reader.odd.append((f"{reader.where}: queue {name!r} of {port!r}", "no number"))
                continue
            slot = Slot(reader.port(port), "queue", int(number[1]))
            if (profile := _leaf(queue, "queue-management-profile")) is not None:
                _profile(reader, slot, str(profile), marking)
            allocation = (str(_leaf(queue, "buffer-allocation-profile")), name)
            if (own := buffers.get(allocation)) is not None:
                path = f"/qos/buffer-allocation-profiles[{allocation[0]}]/queues[{name}]"
                _set(reader, slot, "reserved_buffer_bytes",
                     _whole(_leaf(own, "dedicated-buffer")), path)  # fmt: skip


def _profile(reader: Reader, slot: Slot, name: str, known: Mapping[str, Node]) -> None:
    path = f"/qos/queue-management-profiles[{name}]/wred/uniform"
    if name not in known:
        reader.odd.append((f"{reader.where}:{path}", "no such profile"))
        return
    uniform = _child(known[name], "wred", "uniform")
    enabled = _leaf(uniform, "enable-ecn")
    _set(reader, slot, "wred_profile", name, path)
    _set(reader, slot, "ecn_enabled", enabled if isinstance(enabled, bool) else None, path)
    for leaf, setting in (("min-threshold", "kmin_bytes"), ("max-threshold", "kmax_bytes")):
        _set(reader, slot, setting, _whole(_leaf(uniform, leaf)), path)
    for leaf, setting in (
        ("min-threshold-percent", "kmin_fill_ratio"),
        ("max-threshold-percent", "kmax_fill_ratio"),
        ("max-drop-probability-percent", "pmax_ratio"),
    ):
        percent = _whole(_leaf(uniform, leaf))
        _set(reader, slot, setting, None if percent is None else percent / 100, path)
    _set(reader, slot, "ecn_average_weight", _whole(_leaf(uniform, "weight")), path)


def _interface(reader: Reader, entry: Node) -> None:
    name = str(entry.get("name", ""))
    if not name:
        return
    port, path = reader.port(name), f"/interfaces/interface[{name}]"
    _set(reader, port, "mtu_bytes", _whole(_leaf(entry, "mtu")), path)
    enabled = _leaf(entry, "enabled")
    _set(reader, port, "admin_enabled", enabled if isinstance(enabled, bool) else None, path)
    ethernet = _child(entry, "ethernet")
    speed = _SPEED.search(str(_leaf(ethernet, "port-speed")))
    _set(reader, port, "speed_bps", int(speed[1]) * 10**9 if speed else None, f"{path}/ethernet")
    fec = _FEC.get(str(_leaf(ethernet, "fec-mode")).rpartition(":")[2])
    _set(reader, port, "fec", fec, f"{path}/ethernet")
