"""What only libibverbs tells: the active RDMA MTU, limits and the GID table as programs see it.

pyverbs comes from the distribution, because it must match the installed libibverbs exactly.
Opening a device takes firmware resources for a moment, so this source is off by default and
slow. Without pyverbs, without permission or without a device node, the reason is one gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from collectors.host.context import HostCollector, HostContext
from collectors.host.inventory import Inventory, RdmaDevice
from collectors.host.kernel_file import Unreadable, names_in, read_optional
from collectors.model.errors import Denied, FabricError, NotSupported, Unavailable
from collectors.model.facts import Attribute, Facts, Gid, Setting
from collectors.model.reading import Clock, GapLog, Pass


@dataclass(frozen=True, slots=True)
class VerbsPort:
    """Attributes of a port. active_mtu_bytes, max_mtu_bytes: payload of one packet."""

    number: int
    active_mtu_bytes: int
    max_mtu_bytes: int
    lid: int
    gids: tuple[tuple[int, str, str], ...]  # index, gid, type


@dataclass(frozen=True, slots=True)
class VerbsDevice:
    """Attributes of a device."""

    firmware: str
    max_qp: int
    max_qp_wr: int
    ports: tuple[VerbsPort, ...]


class Verbs(Protocol):
    """A verbs library; tests give a fake."""

    def version(self) -> str:
        """Return the library's version, '' if it does not tell."""

    def names(self) -> tuple[str, ...]:
        """Return the devices that it can open. Raises NotSupported or Unavailable."""

    def query(self, name: str) -> VerbsDevice:
        """Open a device, query it, close it. Raises Denied or Unavailable."""


class Pyverbs:
    """The distribution's pyverbs; loading it raises NotSupported with the package to install."""

    def __init__(self) -> None:
        try:
            import pyverbs.device  # not the package alone: the extension must load too
        except (ImportError, OSError) as error:
            why = f"{error}; install the distribution's python3-pyverbs for this Python"
            raise NotSupported("pyverbs", "load", why) from error
        self._device: Any = pyverbs.device
        self._gid_types = self._enums()

    @staticmethod
    def _enums() -> dict[int, str]:
        from importlib import import_module

        try:
            enums = import_module("pyverbs.libibverbs_enums")  # rdma-core 50 and newer
        except ImportError:
            enums = import_module("pyverbs.enums")
        names = {
            "IBV_GID_TYPE_IB": "IB",
            "IBV_GID_TYPE_ROCE_V1": "RoCE v1",
            "IBV_GID_TYPE_ROCE_V2": "RoCE v2",
        }
        return {
            int(getattr(enums, key)): text for key, text in names.items() if hasattr(enums, key)
        }

    def version(self) -> str:
        """Return the version that the package tells."""
        from importlib import metadata

        try:
            return metadata.version("pyverbs")
        except metadata.PackageNotFoundError:
            return ""

    def names(self) -> tuple[str, ...]:
        """Return the devices whose node this process may open."""
        try:
            found = self._device.get_device_list()
        except Exception as error:
            raise Unavailable("pyverbs", "list devices", str(error).splitlines()[0]) from error
        return tuple(d.name.decode() if isinstance(d.name, bytes) else str(d.name) for d in found)

    def query(self, name: str) -> VerbsDevice:
        """Open, query, close."""
        try:
            context = self._device.Context(name=name)
        except Exception as error:
            raise Unavailable(name, "open device", str(error).splitlines()[0]) from error
        try:
            attributes = context.query_device()
            version = attributes.fw_version
            ports = tuple(
                self._port(context, number)
                for number in range(1, int(attributes.phys_port_cnt) + 1)
            )
            return VerbsDevice(
                version.decode() if isinstance(version, bytes) else str(version),
                int(attributes.max_qp),
                int(attributes.max_qp_wr),
                ports,
            )
        except FabricError:
            raise
        except Exception as error:
            raise Unavailable(name, "query device", str(error).splitlines()[0]) from error
        finally:
            context.close()

    def _port(self, context: Any, number: int) -> VerbsPort:
        port = context.query_port(number)
        entries = []
        for entry in context.query_gid_table(int(port.gid_tbl_len)):
            if int(entry.port_num) == number:
                gid = str(entry.gid_str if hasattr(entry, "gid_str") else entry.gid)
                kind = self._gid_types.get(int(entry.gid_type), str(entry.gid_type))
                entries.append((int(entry.gid_index), _gid_text(gid), kind))
        return VerbsPort(
            number,
            128 << int(port.active_mtu),
            128 << int(port.max_mtu),
            int(port.lid),
            tuple(entries),
        )


def _gid_text(gid: str) -> str:
    import ipaddress

    try:
        return str(ipaddress.IPv6Address(gid))
    except ipaddress.AddressValueError:
        return gid


class VerbsCollector:
    """Facts of every wanted device that verbs can open."""

    name = "verbs"

    def __init__(self, context: HostContext, verbs: Verbs | None = None) -> None:
        self._context = context
        self._verbs = verbs
        self._inventory = Inventory.of(context)

    def read(self, clock: Clock) -> Pass:
        """Query every device once. Raises NotSupported where pyverbs does not load."""
        gaps = GapLog(self.name)
        devices = self._inventory.devices(clock, gaps)
        if not devices:
            return Pass((), gaps.gaps(), Facts())
        if self._verbs is None:
            self._verbs = Pyverbs()
        openable = self._verbs.names()
        attributes: list[Attribute] = []
        settings: list[Setting] = []
        gids: list[Gid] = []
        for device in devices:
            if device.name not in openable:
                gaps.add(device.entity, "device node", *self._why_hidden(device))
                continue
            try:
                info = self._verbs.query(device.name)
            except FabricError as error:
                reason = "denied" if isinstance(error, Denied) else "not opened"
                gaps.add(device.entity, error.what, reason, str(error))
                continue
            attributes.append(Attribute(device.entity, "max_qp", info.max_qp))
            attributes.append(Attribute(device.entity, "max_qp_wr", info.max_qp_wr))
            seen_by_number = {seen.number: seen for seen in info.ports}
            for port in (port.entity for port in device.ports):
                seen = seen_by_number.get(port.number)
                if seen is None:
                    continue
                mtu, where = seen.active_mtu_bytes, "ibv_query_port"
                settings.append(Setting(port, "rdma_mtu_bytes", mtu, where))
                attributes.append(Attribute(port, "rdma_mtu_max_bytes", seen.max_mtu_bytes))
                attributes.append(Attribute(port, "lid", seen.lid))
                gids += [Gid(port, i, gid, kind) for i, gid, kind in seen.gids]
        versions = (("pyverbs", self._verbs.version()),) if self._verbs.version() else ()
        facts = Facts(tuple(settings), tuple(attributes), tuple(gids), versions=versions)
        return Pass((), gaps.gaps(), facts)

    def _why_hidden(self, device: RdmaDevice) -> tuple[str, str]:
        """Return reason and detail for a device that sysfs has and verbs has not."""
        for name in self._nodes(device):
            return "hidden", (
                f"/dev/infiniband/{name} cannot be opened here: give the container the device node "
                "(--device=/dev/infiniband) and read-write permission on it"
            )
        return "no verbs node", "the kernel module ib_uverbs is not loaded"

    def _nodes(self, device: RdmaDevice) -> Iterator[str]:
        root = f"{self._context.sysfs}/class/infiniband_verbs"
        try:
            names = names_in(root)
        except Unreadable:
            return
        for name in names:
            if read_optional(f"{root}/{name}/ibdev") == device.name:
                yield name


VERBS: Final = HostCollector(
    "verbs",
    "active RDMA MTU, limits, GID table as programs see them (opens each device)",
    VerbsCollector,
    interval_s=300.0,
    deadline_s=10.0,
    on=False,
    needs="python3-pyverbs and the device nodes under /dev/infiniband",
)
