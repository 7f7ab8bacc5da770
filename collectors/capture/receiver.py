"""Receives sFlow on a UDP socket and says per uplink what RoCE traffic left by it.

ECMP analysis needs to know which flow took which uplink: `uplinks()` has that; the readings
carry the sums per interface.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from collectors.capture.flows import Flow, FlowTable
from collectors.capture.pcap import PADDING, Frames
from collectors.capture.roce import CNP, Packets, decode
from collectors.capture.sflow import Sample, parse_datagram
from collectors.model.catalogue import switch as rows
from collectors.model.entities import Interface, Switch
from collectors.model.errors import Malformed, Unavailable
from collectors.model.metric import Column, Metric
from collectors.model.reading import Clock, GapLog, Pass, Reading

NAME: Final = "sflow"
PORT: Final = 6343
_MOST_A_PASS: Final = 50_000  # datagrams; the socket's buffer holds what is left
_BUFFER: Final = 8 << 20
_MAX_INTERFACES: Final = 100_000


def _column(row: Metric) -> Column:
    return row.column(row.sources[0])


ROCE, BYTES, CE, CNPS, NAKS = (
    _column(row)
    for row in (
        rows.SAMPLED_ROCE,
        rows.SAMPLED_BYTES,
        rows.SAMPLED_CE,
        rows.SAMPLED_CNP,
        rows.SAMPLED_NAK,
    )
)
_SUMS: Final = (ROCE, BYTES, CE, CNPS, NAKS)


def frames_of(samples: list[Sample]) -> Frames:
    """Return sampled headers as frames."""
    sizes = np.array([len(sample.header) for sample in samples], np.int64)
    data = np.zeros(int(sizes.sum()) + PADDING, np.uint8)
    joined = b"".join(sample.header for sample in samples)
    data[: len(joined)] = np.frombuffer(joined, np.uint8)
    start = np.cumsum(sizes) - sizes
    length = np.array([sample.length for sample in samples], np.int64)
    return Frames(data, start, sizes, length, np.zeros(len(samples), np.int64))


@dataclass
class _Exporter:
    switch: Switch
    sequence: int | None = None
    totals: dict[int, dict[Column, int]] = field(default_factory=dict)
    flows: dict[int, FlowTable] = field(default_factory=dict)


class SflowCollector:
    """A UDP socket and what came by it. exporters: agent address -> switch of the inventory.

    names: ifIndex -> interface name by switch, as SNMP learnt them; else `ifIndex 7`.
    """

    name = NAME

    def __init__(
        self,
        address: str = "0.0.0.0",  # noqa: S104  exporters send from other machines
        port: int = PORT,
        exporters: Mapping[str, Switch] | None = None,
        names: Mapping[Switch, Mapping[int, Interface]] | None = None,
        max_flows: int = 100_000,
    ) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._socket.bind((address, port))
        except OSError as error:
            self._socket.close()
            why = f"{error.strerror}; is another receiver there?"
            raise Unavailable(f"{address}:{port}", "sflow", why) from error
        self._socket.setblocking(False)
        self._known = dict(exporters or {})
        self._names = names or {}
        self._exporters: dict[str, _Exporter] = {}
        self._max_flows = max_flows

    @property
    def port(self) -> int:
        """The port that is listened on."""
        bound: int = self._socket.getsockname()[1]
        return bound

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def read(self, clock: Clock) -> Pass:
        """Take what has come since the last pass."""
        gaps = GapLog(NAME)
        batches: dict[str, list[Sample]] = {}
        for _ in range(_MOST_A_PASS):
            try:
                data, sender = self._socket.recvfrom(65535)
            except BlockingIOError:
                break
            self._datagram(data, str(sender[0]), batches, gaps)
        for agent, samples in batches.items():
            self._add(self._exporters[agent], samples, gaps)
        when = clock()
        readings = [
            Reading(self._interface(exporter.switch, index), dict(values), when)
            for exporter in self._exporters.values()
            for index, values in exporter.totals.items()
        ]
        return Pass(tuple(readings), gaps.gaps())

    def uplinks(self, switch: Switch) -> dict[str, tuple[Flow, ...]]:
        """Return interface -> flows that samples saw leave by it, in sampled packets."""
        return {
            self._interface(switch, index).name: table.flows()
            for exporter in self._exporters.values()
            if exporter.switch == switch
            for index, table in exporter.flows.items()
        }

    def _datagram(
        self, data: bytes, sender: str, batches: dict[str, list[Sample]], gaps: GapLog
    ) -> None:
        try:
            datagram = parse_datagram(data, sender)
        except Malformed as error:
            gaps.add(sender, "sflow", "malformed", error.why)
            return
        agent = datagram.agent
        if self._known and agent not in self._known:
            gaps.add(agent, "sflow", "unknown exporter", f"from {sender}")
            return
        exporter = self._exporters.get(agent)
        if exporter is None:
            switch = self._known.get(agent, Switch(agent, agent))
            exporter = self._exporters[agent] = _Exporter(switch)
        lost = 0 if exporter.sequence is None else datagram.sequence - exporter.sequence - 1
        if 0 < lost < 1 << 31:
            gaps.add(exporter.switch, "sflow", "datagrams lost", str(lost))
        exporter.sequence = datagram.sequence
        batches.setdefault(agent, []).extend(datagram.samples)

    def _add(self, exporter: _Exporter, samples: list[Sample], gaps: GapLog) -> None:
        by_output: dict[int, list[Sample]] = {}
        for sample in samples:
            if sample.output is None:
                gaps.add(exporter.switch, "sflow", "no output interface")
            else:
                by_output.setdefault(sample.output, []).append(sample)
        for index, leaving in by_output.items():
            if index not in exporter.totals and len(exporter.totals) >= _MAX_INTERFACES:
                gaps.add(exporter.switch, "sflow", "too many interfaces")
                continue
            packets = decode(frames_of(leaving))
            table = exporter.flows.setdefault(index, FlowTable(self._max_flows))
            table.add(packets)
            totals = exporter.totals.setdefault(index, dict.fromkeys(_SUMS, 0))
            for column, count in _estimate(packets, leaving).items():
                totals[column] += count

    def _interface(self, switch: Switch, index: int) -> Interface:
        known = self._names.get(switch, {}).get(index)
        return known if known is not None else Interface(switch, f"ifIndex {index}")


def _estimate(packets: Packets, samples: list[Sample]) -> Counter[Column]:
    rates = np.array([sample.rate for sample in samples], np.int64)[packets.frame]
    found: Counter[Column] = Counter()
    is_nak = (packets.syndrome >= 0) & (packets.syndrome >> 5 == 3)
    for column, chosen in (
        (ROCE, np.ones(len(packets), np.bool_)),
        (CE, packets.ecn == 3),
        (CNPS, packets.opcode == CNP),
        (NAKS, is_nak),
    ):
        found[column] = int(rates[chosen].sum())
    found[BYTES] = int((rates * packets.length).sum())
    return found
