"""Hardware counters of RDMA ports: one netlink message a port, files only where that fails.

On mlx5 every file read under `hw_counters/` is a set of firmware commands, while one STAT_GET
brings all counters for the price of one set. A port whose driver does not answer STAT_GET
(mlx5 in switchdev mode, reply too large, no netlink in this container) is read from its files,
and netlink is tried again after ten minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from collectors.codec.netlink import NETLINK_RDMA, parse_messages, parse_replies
from collectors.codec.rdma_layout import CounterLayout, counter_layout
from collectors.codec.rdma_netlink import (
    pack_get_counters,
    pack_get_devices,
    parse_counters,
    parse_device,
)
from collectors.host.backoff import Backoff
from collectors.host.context import HostCollector, HostContext, NetlinkSocket
from collectors.host.inventory import Inventory, RdmaDevice, RdmaPort
from collectors.host.kernel_file import Listings, Unreadable, names_in, read_count
from collectors.model.catalogue.ignored import IGNORED
from collectors.model.catalogue.registry import CATALOGUE, columns
from collectors.model.entities import Device, Port
from collectors.model.errors import FabricError
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Instant, Pass, Reading

_UNREADABLE: Final = 0xFFFF_FFFF_FFFF_FFFF  # what ionic prints for a counter it could not read
_ALWAYS_COUNT: Final = frozenset({"mlx5", "bnxt_re", "irdma", "hns", "efa", "erdma", "rxe"})
_RETRY_NS: Final = 600_000_000_000
_KEEP_NS: Final = 30_000_000_000


class HwCounterCollector:
    """Reads the hardware counters of every wanted port."""

    name = "hw_counters"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)
        self._backoff = Backoff()
        self._listings = Listings()
        self._socket: NetlinkSocket | None = None
        self._no_netlink_since: int | None = None
        self._files_since: dict[Port, tuple[str, int]] = {}
        self._found: tuple[tuple[str, ...], int, Mapping[str, int]] | None = None
        self._layouts: dict[Port, CounterLayout | None] = {}
        self._lifespans: dict[Port, tuple[str, int, int | None]] = {}

    def read(self, clock: Clock) -> Pass:
        """Read every port once: over netlink, else from files; gaps for what gave neither."""
        gaps = GapLog(self.name)
        devices = self._inventory.devices(clock, gaps)
        indices = self._indices(devices, clock, gaps) if devices else {}
        readings: list[Reading] = []
        for device in devices:
            for port in device.ports:
                when = clock()
                counters = self._over_netlink(device, port, indices, when, gaps)
                if counters is None:
                    counters = dict(self._from_files(port.path, device, port.entity, when, gaps))
                values = self._values(device, port, counters, gaps)
                if not counters and device.driver in _ALWAYS_COUNT:
                    self._explain(device, port, gaps)
                lifespan = self._lifespan(device, port, when)
                if values or lifespan:
                    readings.append(
                        Reading(port.entity, {**values, **lifespan}, when, device.incarnation)
                    )
            readings += self._device_level(device, clock(), gaps)
        return Pass(tuple(readings), gaps.gaps())

    def close(self) -> None:
        """Close the netlink socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _indices(
        self, devices: tuple[RdmaDevice, ...], clock: Clock, gaps: GapLog
    ) -> Mapping[str, int]:
        """Return name -> number of each device; asked again when one is new or has gone."""
        now_ns = clock().mono_ns
        known = tuple(f"{device.name} {device.incarnation}" for device in devices)
        if self._found and self._found[0] == known and now_ns - self._found[1] < _KEEP_NS:
            return self._found[2]
        if self._context.open_netlink is None:
            return {}
        if self._no_netlink_since is not None and now_ns - self._no_netlink_since < _RETRY_NS:
            return {}
        try:
            if self._socket is None:
                self._socket = self._context.open_netlink(NETLINK_RDMA)
            infos = parse_replies(self._socket.request(pack_get_devices()), parse_device)
            found = {info.name: info.index for info in infos}
        except FabricError as error:
            gaps.add(self._context.host, "netlink", type(error).__name__, str(error))
            self._no_netlink_since = now_ns
            self.close()
            return {}
        self._no_netlink_since = None
        self._found = (known, now_ns, found)
        return found

    def _over_netlink(
        self,
        device: RdmaDevice,
        port: RdmaPort,
        indices: Mapping[str, int],
        when: Instant,
        gaps: GapLog,
    ) -> dict[str, int] | None:
        """Return the counters, None where the files must be read instead."""
        index = indices.get(device.name)
        if index is None or self._socket is None:
            return None
        since = self._files_since.get(port.entity)
        if since and since[0] == device.incarnation and when.mono_ns - since[1] < _RETRY_NS:
            return None
        try:
            for data in self._socket.request(pack_get_counters(index, port.entity.number)):
                counters = self._counters(port.entity, data)
                if counters is not None:
                    self._files_since.pop(port.entity, None)
                    return counters
        except FabricError as error:
            self._found = None  # a device that came back has another number
            if self._has_files(port.path):  # a driver without counters is no gap
                gaps.add(port.entity, "STAT_GET", type(error).__name__, str(error))
        self._files_since[port.entity] = (device.incarnation, when.mono_ns)
        return None

    def _counters(self, port: Port, data: bytes) -> dict[str, int] | None:
        layout = self._layouts.get(port)
        if layout is not None:
            counters = layout.read(data)
            if counters is not None:
                return counters
        for message in parse_messages(data):
            counters = parse_counters(message)
            if counters is not None:
                self._layouts[port] = counter_layout(data)
                return counters
        return None

    @staticmethod
    def _has_files(path: str) -> bool:
        try:
            return bool(names_in(f"{path}/hw_counters"))
        except Unreadable:
            return False

    def _from_files(
        self, path: str, device: RdmaDevice, entity: Port | Device, when: Instant, gaps: GapLog
    ) -> Iterator[tuple[str, int]]:
        try:
            names = self._listings.names(f"{path}/hw_counters", device.incarnation, when.mono_ns)
        except Unreadable as why:
            gaps.add(entity, "hw_counters", why.reason, why.detail)
            return
        # The kernel's cache is filled by the first file only (core/sysfs.c with mlx5): read
        # that one first and the others come from the cache, within its lifespan.
        for name in sorted(names, key=lambda name: name != "rx_write_requests"):
            if name in IGNORED:
                continue
            file = f"{path}/hw_counters/{name}"
            if self._backoff.any and (held := self._backoff.held(file, when.mono_ns)):
                gaps.add(entity, f"hw_counters/{name}", held, "not asked again for a while")
                continue
            try:
                yield name, read_count(file)
            except Unreadable as why:
                gaps.add(entity, f"hw_counters/{name}", why.reason, why.detail)
                self._backoff.failed(file, why.reason, when.mono_ns)
            else:
                if self._backoff.any:
                    self._backoff.worked(file)

    def _explain(self, device: RdmaDevice, port: RdmaPort, gaps: GapLog) -> None:
        """Say why a driver that counts shows nothing, unless the counters stand at the device."""
        if self._has_files(device.path):
            return
        hint = (
            "neither netlink nor sysfs has any here: in a container, use the host's network "
            "namespace and mount its /sys; else the device has none"
        )
        gaps.add(port.entity, "hw_counters", "no counters", hint)

    @staticmethod
    def _values(
        device: RdmaDevice, port: RdmaPort, counters: Mapping[str, int], gaps: GapLog
    ) -> dict[Column, int | float]:
        known = columns("hw_counters", device.driver)
        values: dict[Column, int | float] = {}
        unknown: list[str] = []
        for name, value in counters.items():
            column = known.get(name)
            if column is None:
                if name not in IGNORED:
                    unknown.append(name)
            elif value == _UNREADABLE and device.driver == "ionic":
                gaps.add(port.entity, f"hw_counters/{name}", "unreadable in firmware")
            else:
                values[column] = value
        if unknown:
            shown = ", ".join(sorted(unknown))[:200]
            gaps.add(port.entity, "hw_counters", "not in the catalogue", shown)
        return values

    def _lifespan(
        self, device: RdmaDevice, port: RdmaPort, when: Instant
    ) -> dict[Column, int | float]:
        """Return how long the kernel caches; that changes by hand only, so it is kept a while."""
        column = columns("hw_counters", device.driver).get("lifespan")
        if column is None:
            return {}
        kept = self._lifespans.get(port.entity)
        if kept and kept[0] == device.incarnation and when.mono_ns - kept[1] < _KEEP_NS:
            value = kept[2]
        else:
            try:
                value = read_count(f"{port.path}/hw_counters/lifespan")
            except Unreadable:
                value = None
            self._lifespans[port.entity] = (device.incarnation, when.mono_ns, value)
        return {} if value is None else {column: value}

    def _device_level(self, device: RdmaDevice, when: Instant, gaps: GapLog) -> Iterator[Reading]:
        """Return what stands above the ports: EFA's commands, all of mlx5 in switchdev mode.

        In switchdev mode the device's own function is behind port 1, so what the catalogue
        knows of ports goes there.
        """
        counters = dict(self._from_files(device.path, device, device.entity, when, gaps))
        if not counters:
            return
        known = columns("hw_counters", device.driver)
        of_device: dict[Column, int | float] = {}
        of_port: dict[Column, int | float] = {}
        for name, value in counters.items():
            column = known.get(name)
            if column is None:
                if name not in IGNORED:
                    gaps.add(device.entity, f"hw_counters/{name}", "not in the catalogue")
            elif "device" in CATALOGUE[column.metric].on:
                of_device[column] = value
            else:
                of_port[column] = value
        if of_device:
            yield Reading(device.entity, of_device, when, device.incarnation)
        if of_port and device.ports:
            yield Reading(device.ports[0].entity, of_port, when, device.incarnation)


HW_COUNTERS: Final = HostCollector(
    "hw_counters",
    "RDMA hardware counters: congestion, loss, requests; netlink, else files",
    HwCounterCollector,
    interval_s=5.0,
    deadline_s=2.0,
)
