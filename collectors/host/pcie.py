"""The PCIe link under each RDMA device: speed, width, errors, NUMA node, ordering, ACS.

Configuration space is read with what any user may read (the first 64 bytes) or, as root, whole:
relaxed ordering and request sizes are in the PCI Express capability (PCIe base spec 7.5.3), ACS
in an extended capability of the bridges above (7.7.11).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final

from collectors.host.context import HostCollector, HostContext
from collectors.host.inventory import Inventory
from collectors.host.kernel_file import (
    Unreadable,
    folder,
    parse_count,
    read_bytes,
    read_optional,
    read_text,
    upstream_pci,
)
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Device
from collectors.model.facts import Attribute, Facts, Setting
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Pass, Reading

_CAPABILITY_PCIE: Final = 0x10
_EXTENDED_ACS: Final = 0x000D
_FACTS_NS: Final = 60_000_000_000


def parse_speed(text: str) -> float:
    """Return GT/s of `32.0 GT/s PCIe`; Unreadable for `Unknown`."""
    match = re.match(r"([0-9]+(?:\.[0-9]+)?) ?GT/s", text)
    if match is None:
        raise Unreadable("unknown" if text.startswith("Unknown") else "not numeric", text[:40])
    return float(match[1])


def parse_aer(text: str) -> int:
    """Return the total of an aer_dev_* file: its TOTAL_ERR_* line, else the sum of its lines."""
    total = 0
    for line in text.splitlines():
        name, _, digits = line.rpartition(" ")
        value = parse_count(digits.encode())
        if name.startswith("TOTAL"):
            return value
        total += value
    return total


def parse_express(config: bytes) -> tuple[bool, int, int] | None:
    """Return (relaxed ordering, payload bytes, read request bytes) of a configuration space.

    None where the capability is not in these bytes: without root only 64 are readable.
    """
    if len(config) < 64 or not config[6] & 0x10:
        return None
    at, hops = config[0x34] & 0xFC, 0
    while at and at + 10 <= len(config) and hops < 48:
        if config[at] == _CAPABILITY_PCIE:
            (control,) = struct.unpack_from("<H", config, at + 8)
            return bool(control & 0x10), 128 << (control >> 5 & 7), 128 << (control >> 12 & 7)
        at, hops = config[at + 1] & 0xFC, hops + 1
    return None


def parse_acs_redirect(config: bytes) -> bool | None:
    """Tell whether ACS of a bridge sends peer requests up to the root; None if it has no ACS."""
    at, hops = 0x100, 0
    while at and at + 8 <= len(config) and hops < 96:
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == _EXTENDED_ACS:
            (control,) = struct.unpack_from("<H", config, at + 6)
            return bool(control & 0x04)  # P2P request redirect
        at, hops = header >> 20 & 0xFFC, hops + 1
    return None


class PcieCollector:
    """Reads the PCI device under each wanted RDMA device."""

    name = "pcie"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)
        self._facts_ns: int | None = None

    def read(self, clock: Clock) -> Pass:
        """Read error counters each time, the link and its settings once a minute."""
        gaps = GapLog(self.name)
        readings: list[Reading] = []
        settings: list[Setting] = []
        attributes: list[Attribute] = []
        now = clock().mono_ns
        look = self._facts_ns is None or now - self._facts_ns >= _FACTS_NS
        for device in self._inventory.devices(clock, gaps):
            if not device.pci_address:
                continue
            path = folder(self._context.sysfs, "bus/pci/devices", device.pci_address)
            values = self._errors(path, device.entity, gaps)
            if values:
                readings.append(Reading(device.entity, values, clock(), device.incarnation))
            if look:
                settings += _link(path, device.entity, gaps)
                settings += _configuration(path, device.entity)
                node = read_optional(f"{path}/numa_node")
                if node.lstrip("-").isdecimal():
                    attributes.append(Attribute(device.entity, "numa_node", int(node)))
        if look:
            self._facts_ns = now
        facts = Facts(tuple(settings), tuple(attributes)) if look else None
        return Pass(tuple(readings), gaps.gaps(), facts)

    @staticmethod
    def _errors(path: str, entity: Device, gaps: GapLog) -> dict[Column, int | float]:
        values: dict[Column, int | float] = {}
        for key, column in columns("pci").items():
            try:
                values[column] = parse_aer(read_text(f"{path}/{key}"))
            except Unreadable as why:
                if why.reason != "ENOENT":  # without AER there is no such file
                    gaps.add(entity, key, why.reason, why.detail)
        return values


def _link(path: str, entity: Device, gaps: GapLog) -> Iterator[Setting]:
    for file, name in (
        ("current_link_speed", "pcie_speed_gtps"),
        ("max_link_speed", "pcie_speed_max_gtps"),
    ):
        try:
            yield Setting(entity, name, parse_speed(read_text(f"{path}/{file}")), f"{path}/{file}")
        except Unreadable as why:
            if why.reason not in ("ENOENT", "unknown"):
                gaps.add(entity, file, why.reason, why.detail)
    for file, name in (
        ("current_link_width", "pcie_width_lanes"),
        ("max_link_width", "pcie_width_max_lanes"),
    ):
        text = read_optional(f"{path}/{file}")
        if text.isdecimal() and int(text) not in (0, 255):  # what virtual functions say
            yield Setting(entity, name, int(text), f"{path}/{file}")


def _configuration(path: str, entity: Device) -> Iterator[Setting]:
    try:
        found = parse_express(read_bytes(f"{path}/config"))
    except Unreadable:
        return
    if found is None:
        return
    relaxed, payload, request = found
    yield Setting(entity, "pcie_relaxed_ordering", relaxed, f"{path}/config")
    yield Setting(entity, "pcie_max_payload_bytes", payload, f"{path}/config")
    yield Setting(entity, "pcie_max_read_request_bytes", request, f"{path}/config")
    answers = []
    for bridge in upstream_pci(path):
        try:
            answers.append(parse_acs_redirect(read_bytes(f"{bridge}/config")))
        except Unreadable:
            continue
    known = [answer for answer in answers if answer is not None]
    if known:
        yield Setting(entity, "pcie_acs_redirect", any(known), "bridges above")


PCIE: Final = HostCollector(
    "pcie",
    "PCIe under RDMA devices: link speed and width, errors, NUMA node, ordering, ACS",
    PcieCollector,
    interval_s=30.0,
    needs="root, for relaxed ordering and ACS",
)
