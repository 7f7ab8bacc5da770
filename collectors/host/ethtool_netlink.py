"""What drivers tell in the kernel's standard terms: pause, FEC, MAC and PHY statistics, optics.

For every driver that answers the ethtool family of generic netlink. A metric that the driver
already gives under its own names (ethtool.py) is not read twice. 802.3x pause and link settings
are facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from collectors.codec import ethtool as codec
from collectors.codec import optics
from collectors.codec.genetlink import pack_get_family, parse_family
from collectors.codec.netlink import NETLINK_GENERIC, Message, parse_replies
from collectors.host.backoff import Backoff
from collectors.host.context import HostCollector, HostContext, NetlinkSocket
from collectors.host.ethtool import ETHERNET_DRIVERS
from collectors.host.inventory import Inventory, incarnation_of
from collectors.host.kernel_file import exists, folder, target
from collectors.host.worker import OneAtATime
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Entity, Netdev, Slot
from collectors.model.errors import FabricError, NotSupported, Unavailable
from collectors.model.facts import Facts, Setting
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Instant, Pass, Reading

T = TypeVar("T")
_CALL_S: Final = 2.0
_LOWER_PAGE: Final = 0
_LANE_PAGE: Final = 0x11


class EthtoolNetlinkCollector:
    """Reads wanted interfaces that are no virtual functions, each in a worker with a deadline."""

    name = "ethtool_netlink"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)
        self._worker = OneAtATime()
        self._backoff = Backoff(tries=1)

    def read(self, clock: Clock) -> Pass:
        """Read once. Raises NotSupported where netlink may not be used."""
        gaps = GapLog(self.name)
        netdevs = self._inventory.netdevs(clock, gaps)
        if not netdevs:
            return Pass((), gaps.gaps(), Facts())
        if self._context.open_netlink is None:
            raise NotSupported(self._context.host, "ethtool netlink", "netlink is off")
        readings: list[Reading] = []
        settings: list[Setting] = []
        for name, netdev in netdevs.items():
            path = folder(self._context.sysfs, "class", "net", name)
            if exists(f"{path}/device/physfn"):
                gaps.add(netdev, "ethtool", "virtual function", "read on the physical function")
                continue
            session = _Session(self._context, netdev, self._backoff, gaps, clock())
            try:
                values = self._worker.run(name, session.read, _CALL_S)
            except FabricError as error:
                gaps.add(netdev, error.what, "no answer", error.why)
                continue
            driver = target(f"{path}/device/driver")
            own = columns("ethtool", ETHERNET_DRIVERS.get(driver, driver))
            known = columns("ethtool_nl")
            taken = {column.metric for column in own.values()}
            incarnation = incarnation_of(self._context, name)
            by_entity: dict[Entity, dict[Column, int | float]] = {}
            for key, entity, value in values:
                column = known.get(key)
                if column is not None and column.metric not in taken:
                    by_entity.setdefault(entity, {})[column] = value
            readings += [
                Reading(entity, found, session.when, incarnation)
                for entity, found in by_entity.items()
            ]
            settings += session.settings
        return Pass(tuple(readings), gaps.gaps(), Facts(tuple(settings)))


class _Session:
    """One interface, one socket, one pass: what a worker runs."""

    def __init__(
        self, context: HostContext, netdev: Netdev, backoff: Backoff, gaps: GapLog, when: Instant
    ) -> None:
        self._context = context
        self._netdev = netdev
        self._backoff = backoff
        self._gaps = gaps
        self.when = when
        self.settings: list[Setting] = []
        self._socket: NetlinkSocket | None = None
        self._family = 0

    def read(self) -> list[tuple[str, Entity, int | float]]:
        """Return (key, entity, value) of all that the driver answers."""
        if self._context.open_netlink is None:
            return []
        self._socket = self._context.open_netlink(NETLINK_GENERIC)
        try:
            replies = self._socket.request(pack_get_family(codec.FAMILY))
            parse = partial(parse_family, name=codec.FAMILY)
            self._family = next(parse_replies(replies, parse), 0)
            if not self._family:
                raise Unavailable(self._netdev.name, "find ethtool family", "not in the reply")
            return [
                *self._pause(),
                *self._link(),
                *self._fec(),
                *self._statistics(),
                *self._optics(),
            ]
        finally:
            self._socket.close()

    def _ask(self, what: str, request: bytes, parse: Callable[[Message], T | None]) -> T | None:
        key = f"{self._netdev.name} {what}"
        if self._socket is None or self._backoff.held(key, self.when.mono_ns):
            return None
        try:
            return next(parse_replies(self._socket.request(request), parse), None)
        except NotSupported:  # a driver without this group is no gap
            self._backoff.failed(key, "EOPNOTSUPP", self.when.mono_ns)
        except FabricError as error:
            self._gaps.add(self._netdev, what, type(error).__name__, error.why)
        return None

    def _set(self, name: str, value: bool | int | None, where: str) -> None:
        if value is not None:
            self.settings.append(Setting(self._netdev, name, value, where))

    def _pause(self) -> Iterator[tuple[str, Entity, int | float]]:
        name = self._netdev.name
        reply = self._ask("pause", codec.pack_pause_get(self._family, name), codec.parse_pause)
        if reply is None:
            return
        self._set("pause_rx_enabled", reply.rx, "ETHTOOL_MSG_PAUSE_GET")
        self._set("pause_tx_enabled", reply.tx, "ETHTOOL_MSG_PAUSE_GET")
        self._set("pause_autonegotiate", reply.autonegotiate, "ETHTOOL_MSG_PAUSE_GET")
        for key, value in (("rx_frames", reply.rx_frames), ("tx_frames", reply.tx_frames)):
            if value is not None:
                yield f"pause {key}", self._netdev, value

    def _link(self) -> Iterator[tuple[str, Entity, int | float]]:
        name = self._netdev.name
        modes = self._ask(
            "link modes", codec.pack_link_modes_get(self._family, name), codec.parse_link_modes
        )
        if modes is not None and modes.speed_mbps is not None:
            self._set("speed_bps", modes.speed_mbps * 1_000_000, "ETHTOOL_MSG_LINKMODES_GET")
            self._set("speed_autonegotiate", modes.autonegotiate, "ETHTOOL_MSG_LINKMODES_GET")
        state = self._ask(
            "link state", codec.pack_link_state_get(self._family, name), codec.parse_link_state
        )
        if state is not None and state.down_count is not None:
            yield "linkstate down_count", self._netdev, state.down_count

    def _fec(self) -> Iterator[tuple[str, Entity, int | float]]:
        request = codec.pack_fec_get(self._family, self._netdev.name)
        reply = self._ask("fec", request, codec.parse_fec)
        if reply is None:
            return
        for key in ("corrected_blocks", "uncorrectable_blocks", "corrected_bits"):
            counts: tuple[int, ...] = getattr(reply, key)
            if counts:
                yield f"fec {key}", self._netdev, counts[0]

    def _statistics(self) -> Iterator[tuple[str, Entity, int | float]]:
        request = codec.pack_statistics_get(self._family, self._netdev.name)
        reply = self._ask("statistics", request, codec.parse_statistics)
        if reply is not None:
            for key, value in reply.values.items():
                yield key, self._netdev, value

    def _optics(self) -> Iterator[tuple[str, Entity, int | float]]:
        lower = self._ask("module", self._memory(_LOWER_PAGE, 0), codec.parse_module)
        if lower is None:
            return
        try:
            lanes = b""
            if optics.is_cmis(lower) and optics.has_pages(lower):
                lanes = (
                    self._ask("module", self._memory(_LANE_PAGE, 128), codec.parse_module) or b""
                )
            found = optics.parse_module_readings(lower, lanes)
        except FabricError as error:
            self._gaps.add(self._netdev, "module", type(error).__name__, error.why)
            return
        if found is None:
            return
        if found.temperature_celsius is not None:
            yield "module temperature", self._netdev, found.temperature_celsius
        for key, powers in (("rx", found.rx_power_watts), ("tx", found.tx_power_watts)):
            for lane, watts in enumerate(powers):
                yield f"module {key}_power", Slot(self._netdev, "lane", lane), watts

    def _memory(self, page: int, offset: int) -> bytes:
        return codec.pack_module_get(self._family, self._netdev.name, page, offset, 128)


ETHTOOL_NETLINK: Final = HostCollector(
    "ethtool_netlink",
    "interfaces of RDMA ports: pause and link settings, FEC, standard statistics, optics",
    EthtoolNetlinkCollector,
    interval_s=30.0,
    deadline_s=6.0,
)
