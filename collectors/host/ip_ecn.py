"""Kernel IP counters that see ECN: per interface for IPv6, for the whole namespace for IPv4.

For Soft-RoCE these are the only ECN counters there are. /proc/net/dev_snmp6/<netdev> has IPv6
per interface; /proc/net/netstat (group IpExt) has IPv4 for all interfaces together, so it is
read into the host. Kernel: net/ipv6/proc.c, net/ipv4/proc.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectors.host.context import HostCollector, HostContext
from collectors.host.inventory import Inventory
from collectors.host.kernel_file import Unreadable, folder, parse_count, read_text
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Entity, Host
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Pass, Reading


def parse_dev_snmp6(text: str) -> Iterator[tuple[str, str]]:
    """Return (name, number as text) of each line of a dev_snmp6 file."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 2:
            yield fields[0], fields[1]


def parse_netstat(text: str) -> Iterator[tuple[str, str]]:
    """Return (`IpExt InCEPkts`, number as text): lines come in pairs, names then values."""
    lines = text.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        group, _, keys = names.partition(":")
        same, _, numbers = values.partition(":")
        if group == same:
            for key, number in zip(keys.split(), numbers.split(), strict=False):
                yield f"{group} {key}", number


def _values(
    pairs: Iterator[tuple[str, str]], known: dict[str, Column], entity: Entity, gaps: GapLog
) -> dict[Column, int | float]:
    values: dict[Column, int | float] = {}
    for name, number in pairs:
        column = known.get(name)
        if column is None:
            continue
        try:
            values[column] = parse_count(number.encode())
        except Unreadable as why:
            gaps.add(entity, name, why.reason, why.detail)
    return values


class IpEcnCollector:
    """Reads the IP counters of the interfaces of RDMA ports, and of the namespace."""

    name = "ip_ecn"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)

    def read(self, clock: Clock) -> Pass:
        """Read once; an interface without IPv6 has no file, which is a gap."""
        gaps = GapLog(self.name)
        netdevs = self._inventory.netdevs(clock, gaps)
        readings: list[Reading] = []
        known = dict(columns("dev_snmp6"))
        for name, netdev in netdevs.items():
            try:
                text = read_text(folder(self._context.procfs, "net", "dev_snmp6", name))
            except Unreadable as why:
                gaps.add(netdev, "dev_snmp6", why.reason, "no IPv6 on this interface?")
                continue
            pairs = dict(parse_dev_snmp6(text))
            values = _values(iter(pairs.items()), known, netdev, gaps)
            if values:
                # The index is new when an interface is made anew under its old name.
                incarnation = f"{self._context.boot_id}:{pairs.get('ifIndex', '')}"
                readings.append(Reading(netdev, values, clock(), incarnation))
        if netdevs:
            readings += self._namespace(clock, gaps)
        return Pass(tuple(readings), gaps.gaps())

    def _namespace(self, clock: Clock, gaps: GapLog) -> Iterator[Reading]:
        host = Host(self._context.host)
        try:
            text = read_text(folder(self._context.procfs, "net", "netstat"))
        except Unreadable as why:
            gaps.add(host, "netstat", why.reason, why.detail)
            return
        values = _values(parse_netstat(text), dict(columns("netstat")), host, gaps)
        if values:
            yield Reading(host, values, clock(), self._context.boot_id)


IP_ECN: Final = HostCollector(
    "ip_ecn",
    "IP packets received by ECN field, per interface (IPv6) and namespace (IPv4)",
    IpEcnCollector,
    interval_s=5.0,
)
