"""NVIDIA Onyx (MLNX-OS) running-config: one whole command a line, comments begin with `#`.

Thresholds of marking are in KB of 1000 bytes (absolute) or percent of the buffer (relative);
buffers are in bytes, or with K or M behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from collectors.model.entities import Slot, Switch
from collectors.switchconfig.blocks import Line, Reader, expand, pfc_tuple, whole

_KB: Final = 1000
_INTERFACE = re.compile(r"interface ethernet ([\d/,-]+) (.+)")
_ECN = re.compile(
    r"traffic-class (\d+) congestion-control (ecn|red|both) "
    r"minimum-(absolute|relative) (\d+) maximum-(?:absolute|relative) (\d+)"
)
_ETS = re.compile(r"traffic-class (\d+) dcb ets (strict|wrr)(?: (\d+))?")
_GROUP = re.compile(r"ingress-buffer iPort\.pg(\d+) (.+)")
_SIZES: Final = {"": 1, "K": 1000, "M": 10**6}
_SIZE = re.compile(r"(\d+)([KM]?)")
_MAPPED = re.compile(r"qos map dscp (\d+) to switch-priority ([0-7])$")
_TRUST: Final = {"L2": "pcp", "L3": "dscp", "both": "both", "port": "port"}
_SPEED = re.compile(r"speed (\d+)G")


def parse_onyx(text: str, switch: Switch, where: str) -> Reader:
    """Return the settings of a running-config."""
    reader = Reader(switch, where)
    lines = list(_lines(text))
    pfc = _flow_control(lines)
    _map(reader, lines)
    for line in lines:
        match = _INTERFACE.match(line.text)
        if match is None:
            _switch(reader, line)
            continue
        for port in expand(match[1]):
            _interface(reader, f"Eth{port}", Line(match[2], line.number), pfc)
    return reader


def _lines(text: str) -> Iterator[Line]:
    for number, raw in enumerate(text.splitlines(), 1):
        plain = re.sub(r"\s+", " ", raw.strip())
        if plain and not plain.startswith("#"):
            yield Line(plain, number)


def _flow_control(lines: list[Line]) -> tuple[bool, ...]:
    """Return the priorities that PFC is on for wherever an interface has it."""
    if not any(line.text.startswith("dcb priority-flow-control enable") for line in lines):
        return pfc_tuple(())
    return pfc_tuple(
        int(line.words[3])
        for line in lines
        if re.match(r"dcb priority-flow-control priority [0-7] enable", line.text)
    )


def _map(reader: Reader, lines: list[Line]) -> None:
    places = [-1] * 64
    for line in lines:
        match = _MAPPED.match(line.text)
        if match and int(match[1]) < 64:
            places[int(match[1])] = int(match[2])
            reader.set(reader.switch, "dscp_to_traffic_class", tuple(places), line.number)


def _interface(reader: Reader, name: str, line: Line, pfc: tuple[bool, ...]) -> None:
    port, text, number = reader.port(name), line.text, line.number
    words = line.words
    if marking := _ECN.match(text):
        _marking(reader, Slot(port, "queue", int(marking[1])), line, marking)
    elif ets := _ETS.match(text):
        queue = Slot(port, "queue", int(ets[1]))
        reader.set(queue, "scheduler", ets[2], number)
        if ets[3]:
            reader.set(queue, "scheduler_weight", int(ets[3]), number)
    elif group := _GROUP.match(text):
        _buffer(reader, Slot(port, "priority_group", int(group[1])), line, group[2].split())
    elif text.startswith("dcb priority-flow-control mode"):
        reader.set(port, "pfc_mode", words[3], number)
        reader.set(port, "pfc_priorities", pfc if words[3] == "on" else pfc_tuple(()), number)
    elif text.startswith("qos trust"):
        reader.set(port, "trust", _TRUST.get(words[2], words[2]), number)
    elif text == "pfc-wd":
        reader.set(port, "pfc_watchdog_enabled", True, number)
    elif "congestion-control" in text or text.startswith("ingress-buffer"):
        reader.strange(line, "not understood")
    else:
        _link(reader, name, line)


def _link(reader: Reader, name: str, line: Line) -> None:
    port, text, words = reader.port(name), line.text, line.words
    if text.startswith("mtu ") and (mtu := whole(words[1])) is not None:
        reader.set(port, "mtu_bytes", mtu, line.number)
    elif speed := _SPEED.match(text):
        reader.set(port, "speed_bps", int(speed[1]) * 10**9, line.number)
    elif text.startswith("fec-override "):
        reader.set(port, "fec", words[1], line.number)
    elif text == "shutdown":
        reader.set(port, "admin_enabled", False, line.number)


def _marking(reader: Reader, queue: Slot, line: Line, match: re.Match[str]) -> None:
    reader.set(queue, "ecn_enabled", match[2] != "red", line.number)
    low, high = int(match[4]), int(match[5])
    if match[3] == "relative":
        reader.set(queue, "kmin_fill_ratio", low / 100, line.number)
        reader.set(queue, "kmax_fill_ratio", high / 100, line.number)
    else:
        reader.set(queue, "kmin_bytes", low * _KB, line.number)
        reader.set(queue, "kmax_bytes", high * _KB, line.number)


def _buffer(reader: Reader, group: Slot, line: Line, words: list[str]) -> None:
    for word, setting in (
        ("reserved", "reserved_buffer_bytes"),
        ("xoff", "pause_threshold_bytes"),
        ("xon", "resume_threshold_bytes"),
    ):
        if word not in words[:-1]:
            continue
        size = _SIZE.fullmatch(words[words.index(word) + 1])
        if size is None:
            reader.strange(line, f"{setting}: not a size")
        else:
            reader.set(group, setting, int(size[1]) * _SIZES[size[2]], line.number)
    if "alpha" in words[:-1]:
        alpha = re.fullmatch(r"(\d+)(?:/(\d+))?", words[words.index("alpha") + 1])
        if alpha is not None and int(alpha[2] or 1):
            share = int(alpha[1]) / int(alpha[2] or 1)
            reader.set(group, "buffer_alpha", share, line.number)


def _switch(reader: Reader, line: Line) -> None:
    text, words = line.text, line.words
    if text.startswith("pool ") and "size" in words[:-1]:
        number = re.search(r"(\d+)$", words[1])
        size = _SIZE.fullmatch(words[words.index("size") + 1])
        if number is not None and size is not None:
            at = int(number[1]) * 2 + words[1].startswith("e")  # ingress even, egress odd
            pool = Slot(reader.switch, "pool", at)
            reader.set(pool, "pool_size_bytes", int(size[1]) * _SIZES[size[2]], line.number)
            if "type" in words[:-1]:
                reader.set(pool, "pool_mode", words[words.index("type") + 1], line.number)
