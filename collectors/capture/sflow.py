"""sFlow version 5 datagrams (sflow.org): packet samples and interface counters. Pure.

What is not a raw Ethernet header sample is passed over by its length; an exporter may add
records of its own.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from typing import Final

from collectors.model.errors import Malformed

_FLOW, _EXPANDED_FLOW = 1, 3
_RAW_HEADER: Final = 1
_ETHERNET: Final = 1
_MOST_SAMPLES: Final = 256
# Two top bits of an interface say what it is; only plain interface numbers name a port.
_PLAIN: Final = 0x3FFFFFFF


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled packet.

    rate: one packet in so many is sampled. input, output: ifIndex, None where it is unknown,
    several or none. length: on the wire. header: the first bytes.
    """

    rate: int
    input: int | None
    output: int | None
    length: int
    header: bytes


@dataclass(frozen=True, slots=True)
class Datagram:
    """agent: address that the exporter gives itself. sequence, up_time_ms: of the exporter.

    dropped: samples that the exporter lost since it started, by its own count.
    """

    agent: str
    sub_agent: int
    sequence: int
    up_time_ms: int
    samples: tuple[Sample, ...]
    dropped: int


class _Reader:
    """XDR: big-endian words. Raises Malformed past the end."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._source = source
        self.at = 0

    def words(self, count: int) -> tuple[int, ...]:
        """Return unsigned words."""
        self._need(count * 4)
        found = struct.unpack_from(f">{count}I", self._data, self.at)
        self.at += count * 4
        return found

    def octets(self, count: int) -> bytes:
        """Return bytes and skip their padding."""
        self._need(count)
        found = self._data[self.at : self.at + count]
        self.at += (count + 3) // 4 * 4
        return found

    def part(self, size: int) -> _Reader:
        """Return a reader of the next bytes alone, and go past them."""
        return _Reader(self.octets(size), self._source)

    def _need(self, count: int) -> None:
        if self.at + count > len(self._data):
            raise Malformed(self._source, "sflow", "cut off", self._data, self.at)


def _port(kind: int, value: int) -> int | None:
    return value if kind == 0 and 0 < value < _PLAIN else None


def parse_datagram(data: bytes, source: str) -> Datagram:
    """Return a datagram. source: address that it came from, for errors. Raises Malformed."""
    reader = _Reader(data, source)
    version, family = reader.words(2)
    if version != 5 or family not in (1, 2):
        raise Malformed(source, "sflow", f"version {version}, address family {family}", data)
    agent = str(ipaddress.ip_address(reader.octets(4 if family == 1 else 16)))
    sub_agent, sequence, up_time, count = reader.words(4)
    samples: list[Sample] = []
    dropped = 0
    for _ in range(min(count, _MOST_SAMPLES)):
        kind, size = reader.words(2)
        body = reader.part(size)
        if kind in (_FLOW, _EXPANDED_FLOW):
            found, lost = _flow(body, expanded=kind == _EXPANDED_FLOW)
            samples += found
            dropped += lost
    return Datagram(agent, sub_agent, sequence, up_time, tuple(samples), dropped)


def _flow(body: _Reader, *, expanded: bool) -> tuple[list[Sample], int]:
    if expanded:
        _, _, _, rate, _, drops, in_kind, in_value, out_kind, out_value, count = body.words(11)
    else:
        _, _, rate, _, drops, packed_in, packed_out, count = body.words(8)
        in_kind, in_value = packed_in >> 30, packed_in & _PLAIN
        out_kind, out_value = packed_out >> 30, packed_out & _PLAIN
    ends = _port(in_kind, in_value), _port(out_kind, out_value)
    found = []
    for _ in range(min(count, 32)):
        kind, size = body.words(2)
        record = body.part(size)
        if kind != _RAW_HEADER:
            continue
        protocol, length, _, header_size = record.words(4)
        if protocol == _ETHERNET:
            found.append(Sample(rate, *ends, length, record.octets(header_size)))
    return found, drops
