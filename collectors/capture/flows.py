"""Flows of decoded packets: who talks to whom, marks, CNPs, NAKs, retransmissions by queue pair.

A flow is (source, destination, UDP source port, destination QP): what ECMP hashes, and the
queue pair behind it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collectors.capture.roce import CNP, Packets

_PSN: Final = 1 << 24
_HALF: Final = 1 << 23
_MAX_FLOWS: Final = 1_000_000
# RC and UC requests and read responses consume PSNs of their own stream.
_SEQUENCED: Final = tuple(range(0x0D)) + tuple(range(0x13, 0x18)) + tuple(range(0x20, 0x2C))
OPERATIONS: Final = {
    "send": (0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x16, 0x17, 0x64, 0x65),
    "write": (0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B),
    "read_request": (0x0C,),
    "read_response": (0x0D, 0x0E, 0x0F, 0x10),
    "ack": (0x11,),
    "atomic": (0x12, 0x13, 0x14),
    "cnp": (CNP,),
}


_CLASSES: Final = len(OPERATIONS) + 1
_CLASS_OF: Final = np.zeros(256, np.int64)
for _at, _codes in enumerate(OPERATIONS.values(), 1):
    _CLASS_OF[list(_codes)] = _at
_IS_SEQUENCED: Final = np.isin(np.arange(256), _SEQUENCED)


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow. ce, ect: packets with that codepoint. resent: packets whose PSN had been sent.

    nak, rnr: sequence-error and receiver-not-ready NAKs within the flow. where: interfaces that
    samples saw it leave by, for sFlow.
    """

    source: str
    destination: str
    source_port: int
    destination_qp: int
    packets: int = 0
    bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0
    ect: int = 0
    ce: int = 0
    cnp: int = 0
    nak: int = 0
    rnr: int = 0
    resent: int = 0
    operations: tuple[tuple[str, int], ...] = ()

    @property
    def ce_ratio(self) -> float:
        """Share of the ECN-capable packets that are marked."""
        return self.ce / (self.ect + self.ce) if self.ect + self.ce else 0.0


Key = tuple[str, str, int, int]


class FlowTable:
    """Adds up packets chunk by chunk. lost: packets of flows beyond what the table holds."""

    def __init__(self, max_flows: int = _MAX_FLOWS) -> None:
        self._flows: dict[Key, Flow] = {}
        self._next_psn: dict[Key, int] = {}
        self._max_flows = max_flows
        self._names: dict[tuple[int, int, bool], str] = {}
        self.lost = 0
        self.packets = 0

    def add(self, packets: Packets) -> None:
        """Add the packets of a chunk, in their order."""
        self.packets += len(packets)
        if not len(packets):
            return
        for key, sums in self._groups(packets):
            self._merge(key, sums)

    def flows(self) -> tuple[Flow, ...]:
        """Return all flows, the largest first."""
        return tuple(sorted(self._flows.values(), key=lambda flow: -flow.bytes))

    def _groups(self, packets: Packets) -> Iterable[tuple[Key, Flow]]:
        group, first = _group(packets)
        count = len(first)
        small = group.astype(np.uint16) if count <= 1 << 16 else group  # radix sort
        order = np.argsort(small, kind="stable")
        sizes = np.bincount(group, minlength=count)
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        names = [self._key(packets, int(at)) for at in first]
        resent = self._resent(packets, group, order, names)

        def having(chosen: NDArray[np.bool_]) -> list[int]:
            totals: list[int] = np.bincount(group[chosen], minlength=count).tolist()
            return totals

        ecn, syndrome = packets.ecn, packets.syndrome
        classes = np.bincount(
            group * _CLASSES + _CLASS_OF[packets.opcode], minlength=count * _CLASSES
        ).reshape(count, _CLASSES)
        kinds = {name: classes[:, at].tolist() for at, name in enumerate(OPERATIONS, 1)}
        octets = np.bincount(group, weights=packets.length, minlength=count)
        columns: dict[str, list[int]] = {
            "packets": sizes.tolist(),
            "bytes": octets.astype(np.int64).tolist(),
            "ect": having((ecn == 1) | (ecn == 2)),
            "ce": having(ecn == 3),
            "cnp": kinds["cnp"],
            "nak": having((syndrome >= 0) & (syndrome >> 5 == 3)),
            "rnr": having((syndrome >= 0) & (syndrome >> 5 == 1)),
            "resent": having(resent),
        }
        times = packets.time_ns
        for at, key in enumerate(names):
            mine = order[bounds[at] : bounds[at + 1]]
            operations = tuple((name, sums[at]) for name, sums in kinds.items() if sums[at])
            flow = Flow(*key, first_ns=int(times[mine[0]]), last_ns=int(times[mine[-1]]))
            sums = {name: values[at] for name, values in columns.items()}
            yield key, replace(flow, operations=operations, **sums)  # type: ignore[arg-type]

    def _resent(
        self,
        packets: Packets,
        group: NDArray[np.int64],
        order: NDArray[np.int64],
        names: list[Key],
    ) -> NDArray[np.bool_]:
        """Mark packets whose PSN lies at or before one that the flow has already sent."""
        result = np.zeros(len(packets), np.bool_)
        sequenced = _IS_SEQUENCED[packets.opcode]
        kept = order[sequenced[order]]
        if not len(kept):
            return result
        groups, psn = group[kept], packets.psn[kept]
        starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
        step = np.empty(len(kept), np.int64)
        step[1:] = (psn[1:] - psn[:-1] + _HALF) % _PSN - _HALF
        # What came before this chunk: the next PSN of each flow, as the place to measure from.
        for at in starts:
            expected = self._next_psn.get(names[groups[at]])
            step[at] = 1 if expected is None else (psn[at] - expected + 1 + _HALF) % _PSN - _HALF
        position = np.cumsum(step)
        spans = np.diff(np.append(starts, len(kept)))
        base = np.repeat(position[starts] - step[starts], spans)
        position -= base
        lift = np.repeat(np.arange(len(starts), dtype=np.int64) << 40, spans)
        highest = np.maximum.accumulate(position + lift)
        before = np.empty_like(highest)
        before[1:] = highest[:-1]
        before[starts] = lift[starts]  # position 0: the packet before the first
        result[kept] = position + lift <= before
        ends = np.append(starts[1:], len(kept)) - 1
        for at, end in zip(starts, ends, strict=True):
            name = names[groups[at]]
            reached = max(0, int(highest[end] - lift[end]))
            start = self._next_psn.get(name, int(psn[at]))
            self._next_psn[name] = (start + reached) % _PSN
        return result

    def _key(self, packets: Packets, at: int) -> Key:
        is_v6 = bool(packets.is_ipv6[at])
        return (
            self._name(int(packets.source_high[at]), int(packets.source[at]), is_v6),
            self._name(int(packets.destination_high[at]), int(packets.destination[at]), is_v6),
            int(packets.source_port[at]),
            int(packets.destination_qp[at]),
        )

    def _name(self, high: int, low: int, is_v6: bool) -> str:
        key = (high, low, is_v6)
        name = self._names.get(key)
        if name is None:
            number = high << 64 | low
            address = ipaddress.IPv6Address(number) if is_v6 else ipaddress.IPv4Address(number)
            name = self._names[key] = str(address)
        return name

    def _merge(self, key: Key, new: Flow) -> None:
        old = self._flows.get(key)
        if old is None:
            if len(self._flows) >= self._max_flows:
                self.lost += new.packets
                return
            self._flows[key] = new
            return
        operations = dict(old.operations)
        for name, count in new.operations:
            operations[name] = operations.get(name, 0) + count
        self._flows[key] = replace(
            old,
            packets=old.packets + new.packets,
            bytes=old.bytes + new.bytes,
            last_ns=new.last_ns,
            ect=old.ect + new.ect,
            ce=old.ce + new.ce,
            cnp=old.cnp + new.cnp,
            nak=old.nak + new.nak,
            rnr=old.rnr + new.rnr,
            resent=old.resent + new.resent,
            operations=tuple(operations.items()),
        )


def _group(packets: Packets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each packet and the first packet of each group."""
    mix = np.uint64(0x9E3779B97F4A7C15)
    hashed = packets.source * mix
    for part in (
        packets.destination,
        packets.source_high,
        packets.destination_high,
        packets.source_port.astype(np.uint64) << np.uint64(24)
        | packets.destination_qp.astype(np.uint64),
    ):
        hashed = (hashed ^ part) * mix
        hashed ^= hashed >> np.uint64(29)
    _, first, group = np.unique(hashed, return_index=True, return_inverse=True)
    return group.astype(np.int64), first


def matrix(flows: Iterable[Flow]) -> dict[tuple[str, str], int]:
    """Return (source, destination) -> bytes."""
    found: dict[tuple[str, str], int] = {}
    for flow in flows:
        key = (flow.source, flow.destination)
        found[key] = found.get(key, 0) + flow.bytes
    return found
