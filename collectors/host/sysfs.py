"""RDMA ports in sysfs: PMA counters, state, rate, GID table, identity.

Each file under `counters/` is one PerfMgt request and, on most hardware, one command to the
firmware; `state`, `phys_state` and `rate` query the port once each. So the files are dealt out
to three collectors with intervals of their own, none of which costs a port more than ten
commands a pass: what moves with traffic, what tells of errors, and the rest. Hardware counters
are read elsewhere (hw_counters.py), because netlink gives all of them in one message.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from collectors.host.backoff import Backoff
from collectors.host.context import HostCollector, HostContext
from collectors.host.inventory import Inventory, RdmaDevice, RdmaPort
from collectors.host.kernel_file import (
    Unreadable,
    folder,
    names_in,
    parse_count,
    read_count,
    read_optional,
    read_text,
)
from collectors.model.catalogue.registry import columns
from collectors.model.facts import Attribute, Facts, Gid, Setting
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Pass, Reading

_TRAFFIC: Final = frozenset(
    {
        "state",
        "phys_state",
        "port_rcv_data",
        "port_xmit_data",
        "port_rcv_packets",
        "port_xmit_packets",
        "port_xmit_wait",
    }
)
_ERRORS: Final = frozenset(
    {
        "rate",
        "symbol_error",
        "link_error_recovery",
        "link_downed",
        "port_rcv_errors",
        "port_xmit_discards",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "port_rcv_remote_physical_errors",
    }
)
_FACTS_NS: Final = 30_000_000_000
_EMPTY_RUN: Final = 64

# RoCE: payload that fits the interface's MTU once GRH or IP, UDP, BTH, the largest extended
# headers and ICRC are taken off (kernel iboe_get_mtu; rxe allows for 80 bytes).
_ROCE_HEADERS: Final = 96
_RXE_HEADERS: Final = 80
_RDMA_MTUS: Final = (4096, 2048, 1024, 512, 256)


def parse_enum(text: str) -> int:
    """Return the number of `4: ACTIVE`; an unknown name keeps its number. Unreadable if none."""
    return parse_count(text.split(":", 1)[0].encode())


def parse_rate(text: str) -> int:
    """Return bytes per second of `400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`, `0 GB/sec`.

    The kernel writes tenths at most. Raises Unreadable for another text.
    """
    whole, _, tenths = text.split(" ", 1)[0].partition(".")
    if not (whole.isdecimal() and whole.isascii() and (not tenths or tenths.isdecimal())):
        raise Unreadable("not numeric", text[:40])
    tenth_gigabits = int(whole) * 10 + int((tenths or "0")[0])
    return tenth_gigabits * 100_000_000 // 8


def rdma_mtu(netdev_mtu: int, driver: str) -> int | None:
    """Return the RoCE path MTU that an interface's MTU leaves room for, None if not even 256."""
    room = netdev_mtu - (_RXE_HEADERS if driver == "rxe" else _ROCE_HEADERS)
    return next((size for size in _RDMA_MTUS if size <= room), None)


_PARSE: Final[Mapping[str, Callable[[str], int]]] = {
    "state": parse_enum,
    "phys_state": parse_enum,
    "rate": parse_rate,
}


_File: TypeAlias = tuple[str, str, Column, Callable[[str], int] | None]
"""What people call it, its path, its column, and how its text is read (None: a number)."""


@dataclass(frozen=True)
class _Share:
    """Which files one of the three collectors reads."""

    name: str
    wants: Callable[[str], bool]
    facts: bool


class SysfsCollector:
    """Reads its share of the files of every wanted RDMA port."""

    def __init__(self, context: HostContext, share: _Share) -> None:
        self._context = context
        self._share = share
        self._inventory = Inventory.of(context)
        self._backoff = Backoff()
        self._facts_ns: int | None = None
        self._plans: dict[str, tuple[str, int, tuple[_File, ...], str]] = {}

    @property
    def name(self) -> str:
        """`sysfs`, `sysfs_errors` or `sysfs_rest`."""
        return self._share.name

    def read(self, clock: Clock) -> Pass:
        """Read the share once; each file that fails is a gap and costs no other."""
        gaps = GapLog(self.name)
        devices = self._inventory.devices(clock, gaps)
        readings = [
            Reading(port.entity, values, clock(), device.incarnation)
            for device in devices
            for port in device.ports
            if (values := self._values(device, port, clock, gaps))
        ]
        facts = None
        now = clock().mono_ns
        if self._share.facts and (self._facts_ns is None or now - self._facts_ns >= _FACTS_NS):
            self._facts_ns = now
            facts = self._facts(devices)
        return Pass(tuple(readings), gaps.gaps(), facts)

    def _values(
        self, device: RdmaDevice, port: RdmaPort, clock: Clock, gaps: GapLog
    ) -> dict[Column, int | float]:
        values: dict[Column, int | float] = {}
        now_ns = clock().mono_ns
        backoff = self._backoff
        for what, path, column, parse in self._files(device, port, now_ns, gaps):
            if backoff.any and (held := backoff.held(path, now_ns)):
                gaps.add(port.entity, what, held, "not asked again for a while")
                continue
            try:
                values[column] = parse(read_text(path)) if parse else read_count(path)
            except Unreadable as why:
                gaps.add(port.entity, what, why.reason, why.detail)
                backoff.failed(path, why.reason, now_ns)
            else:
                if backoff.any:
                    backoff.worked(path)
        return values

    def _files(
        self, device: RdmaDevice, port: RdmaPort, now_ns: int, gaps: GapLog
    ) -> tuple[_File, ...]:
        """Return the files of a port that this collector reads, looked up twice a minute."""
        planned = self._plans.get(port.path)
        if planned and planned[0] == device.incarnation and now_ns - planned[1] < _FACTS_NS:
            files, unknown = planned[2:]
        else:
            try:
                present = names_in(f"{port.path}/counters")
            except Unreadable as why:
                if why.reason != "ENOENT":  # rxe, irdma, bnxt_re, efa... have no such folder
                    gaps.add(port.entity, "counters", why.reason, why.detail)
                    return tuple(self._own_files(device, port))
                present = ()
            files, unknown = self._plan(device, port, present)
            self._plans[port.path] = (device.incarnation, now_ns, files, unknown)
        if unknown:
            gaps.add(port.entity, "counters", "not in the catalogue", unknown)
        return files

    def _own_files(self, device: RdmaDevice, port: RdmaPort) -> Iterator[_File]:
        for key, column in columns("sysfs_port", device.driver).items():
            if self._share.wants(key):
                yield key, f"{port.path}/{key}", column, _PARSE.get(key)

    def _plan(
        self, device: RdmaDevice, port: RdmaPort, present: tuple[str, ...]
    ) -> tuple[tuple[_File, ...], str]:
        known = columns("sysfs_counters", device.driver)
        # bnxt_re shows the same value in both folders: one series, from hw_counters.
        elsewhere = {column.metric for column in columns("hw_counters", device.driver).values()}
        files = list(self._own_files(device, port))
        for name in present:
            column = known.get(name)
            if column and self._share.wants(name) and column.metric not in elsewhere:
                files.append((f"counters/{name}", f"{port.path}/counters/{name}", column, None))
        unknown = [name for name in present if name not in known] if self._share.facts else []
        return tuple(files), ", ".join(unknown)[:200]

    def _facts(self, devices: tuple[RdmaDevice, ...]) -> Facts:
        attributes: list[Attribute] = []
        gids: list[Gid] = []
        settings: list[Setting] = []
        for device in devices:
            attributes += _device_attributes(device)
            for port in device.ports:
                attributes += _port_attributes(device, port)
                gids += _gids(port)
                settings += self._rdma_mtu(device, port)
        return Facts(tuple(settings), tuple(attributes), tuple(gids))

    def _rdma_mtu(self, device: RdmaDevice, port: RdmaPort) -> Iterator[Setting]:
        if port.link_layer != "Ethernet" or not port.netdev:
            return
        where = folder(self._context.sysfs, "class/net", port.netdev, "mtu")
        mtu = read_optional(where)
        size = rdma_mtu(int(mtu), device.driver) if mtu.isdecimal() else None
        if size is not None:
            yield Setting(port.entity, "rdma_mtu_bytes", size, where)


def _device_attributes(device: RdmaDevice) -> Iterator[Attribute]:
    files = {
        "firmware": "fw_ver",
        "board_id": "board_id",
        "hca_type": "hca_type",
        "node_guid": "node_guid",
        "sys_image_guid": "sys_image_guid",
        "node_type": "node_type",
    }
    for name, file in files.items():
        value = read_optional(f"{device.path}/{file}")
        if name.endswith("guid"):
            value = value.replace(":", "").lower()
        if value:
            yield Attribute(device.entity, name, value)
    if device.driver:
        yield Attribute(device.entity, "driver", device.driver)
    if device.pci_address:
        yield Attribute(device.entity, "pci_address", device.pci_address)
        yield Attribute(device.entity, "is_vf", device.is_vf)


def _port_attributes(device: RdmaDevice, port: RdmaPort) -> Iterator[Attribute]:
    if port.link_layer:
        yield Attribute(port.entity, "link_layer", port.link_layer)
    if port.netdev:
        yield Attribute(port.entity, "netdev", port.netdev)
    if device.driver:
        yield Attribute(port.entity, "driver", device.driver)


def _gids(port: RdmaPort) -> Iterator[Gid]:
    """Return the entries that are in use; an empty one has the zero GID and no type.

    The kernel fills the lowest free index first (core/cache.c find_gid), and a table may have
    1,024 of them: behind a long run of empty ones nothing is looked for.
    """
    try:
        indices = sorted(int(name) for name in names_in(f"{port.path}/gids") if name.isdigit())
    except Unreadable:
        return
    empty = 0
    for index in indices:
        if empty == _EMPTY_RUN:
            return
        try:
            gid = ipaddress.IPv6Address(read_text(f"{port.path}/gids/{index}"))
        except (Unreadable, ipaddress.AddressValueError):
            continue
        if int(gid) == 0:
            empty += 1
            continue
        empty = 0
        kind = read_optional(f"{port.path}/gid_attrs/types/{index}")
        if kind == "IB/RoCE v1":
            kind = "RoCE v1" if port.link_layer == "Ethernet" else "IB"
        netdev = read_optional(f"{port.path}/gid_attrs/ndevs/{index}")
        yield Gid(port.entity, index, str(gid), kind, netdev)


def _row(name: str, meaning: str, wants: Callable[[str], bool], interval_s: float) -> HostCollector:
    share = _Share(name, wants, facts=name == "sysfs")
    return HostCollector(
        name, meaning, lambda context: SysfsCollector(context, share), interval_s, deadline_s=2.0
    )


SYSFS: Final = _row(
    "sysfs",
    "RDMA ports: state, data, packets, transmit wait; identity and GIDs as facts",
    _TRAFFIC.__contains__,
    5.0,
)
SYSFS_ERRORS: Final = _row(
    "sysfs_errors", "RDMA ports: rate and error counters", _ERRORS.__contains__, 15.0
)
SYSFS_REST: Final = _row(
    "sysfs_rest",
    "RDMA ports: filters, multicast, management drops",
    lambda key: key not in _TRAFFIC and key not in _ERRORS,
    60.0,
)
