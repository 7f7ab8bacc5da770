"""Quality of service of interfaces: PFC, ETS, trust, DSCP and APP tables, buffers, DCBX.

Reads only: on some drivers a change to PFC takes the link down. The PFC frame counts that come
along are used only for drivers without statistics of their own, because mlx5 answers old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from collectors.codec import dcb as codec
from collectors.codec.netlink import NETLINK_ROUTE, parse_replies
from collectors.host.backoff import Backoff
from collectors.host.context import HostCollector, HostContext, NetlinkSocket
from collectors.host.ethtool import ETHERNET_DRIVERS
from collectors.host.inventory import Inventory, incarnation_of
from collectors.host.kernel_file import folder, target
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Netdev, Slot
from collectors.model.errors import FabricError, NotSupported
from collectors.model.facts import Facts, Setting, Value
from collectors.model.reading import Clock, GapLog, Pass, Reading

Put: TypeAlias = Callable[[str, Value], Setting]

_ROCE_PORT: Final = 4791
_DCBX: Final = {0x01: "host", 0x02: "firmware", 0x04: "cee", 0x08: "ieee", 0x10: "static"}
_IEEE: Final = "DCB_CMD_IEEE_GET"


def settings_of(netdev: Netdev, dcb: codec.Dcb, driver: str) -> Iterator[Setting]:
    """Return the settings of one interface in the vocabulary of the catalogue."""

    def put(name: str, value: Value) -> Setting:
        return Setting(netdev, name, value, _IEEE)

    if dcb.pfc is not None:
        yield put("pfc_priorities", dcb.pfc.enabled)
        yield put("pfc_priorities_max", dcb.pfc.priorities_max)
        # mlx5 keeps the cable length in metres where the standard has bits.
        yield put(
            "pfc_cable_length_metres" if driver == "mlx5" else "pfc_delay_bits", dcb.pfc.delay
        )
    if dcb.peer_pfc is not None:
        yield put("peer_pfc_priorities", dcb.peer_pfc.enabled)
    if dcb.ets is not None:
        yield put("priority_to_traffic_class", dcb.ets.traffic_class)
        yield put("ets_algorithm", dcb.ets.algorithm)
        yield put("ets_bandwidth_ratio", tuple(p / 100 for p in dcb.ets.bandwidth_percent))
    if dcb.max_rate_bps:
        yield put("traffic_class_rate_bps", dcb.max_rate_bps)
    if dcb.buffers is not None:
        yield put("priority_to_buffer", dcb.buffers.buffer)
        yield put("buffer_bytes", dcb.buffers.bytes)
        yield put("buffer_total_bytes", dcb.buffers.total_bytes)
    if dcb.ets is not None or dcb.pfc is not None or dcb.apps:
        yield from _applications(put, dcb)


def _applications(put: Put, dcb: codec.Dcb) -> Iterator[Setting]:
    dscp = [-1] * 64
    for app in dcb.apps:
        if app.selector == codec.SELECTOR_DSCP and app.protocol < 64:
            dscp[app.protocol] = max(dscp[app.protocol], app.priority)
        by_port = app.selector in (codec.SELECTOR_DATAGRAM_PORT, codec.SELECTOR_ANY_PORT)
        if by_port and app.protocol == _ROCE_PORT:
            yield put("roce_priority_by_port", app.priority)
    mapped = any(priority >= 0 for priority in dscp)
    # Drivers without a trust table switch to DSCP with the first DSCP rule (mlx5, ice, bnxt).
    trust = dcb.trust[0] if dcb.trust else ("dscp" if mapped else "pcp")
    yield put("trust", trust)
    yield put("dscp_to_priority", tuple(dscp))
    rewrite = [-1] * 8
    for app in dcb.rewrite:
        if app.selector == codec.SELECTOR_DSCP and app.priority < 8:
            rewrite[app.priority] = app.protocol
    if dcb.rewrite:
        yield put("dscp_rewrite", tuple(rewrite))


class DcbCollector:
    """Reads the settings of wanted interfaces."""

    name = "dcb"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)
        self._backoff = Backoff(tries=1)
        self._socket: NetlinkSocket | None = None

    def read(self, clock: Clock) -> Pass:
        """Read once. Raises NotSupported where netlink may not be used."""
        gaps = GapLog(self.name)
        netdevs = self._inventory.netdevs(clock, gaps)
        if not netdevs:
            return Pass((), gaps.gaps(), Facts())
        if self._context.open_netlink is None:
            raise NotSupported(self._context.host, "DCB", "netlink is off")
        if self._socket is None:
            self._socket = self._context.open_netlink(NETLINK_ROUTE)
        settings: list[Setting] = []
        readings: list[Reading] = []
        for name, netdev in netdevs.items():
            now_ns = clock().mono_ns
            if self._backoff.held(name, now_ns):
                gaps.add(netdev, "dcb", "EOPNOTSUPP", "the driver has no DCB")
                continue
            try:
                dcb = _ask_dcb(self._socket, name)
                mode = _ask_dcbx(self._socket, name)
            except NotSupported as error:
                gaps.add(netdev, "dcb", "EOPNOTSUPP", error.why)
                self._backoff.failed(name, "EOPNOTSUPP", now_ns)
                continue
            except FabricError as error:
                gaps.add(netdev, "dcb", type(error).__name__, str(error))
                continue
            if mode is not None:
                words = tuple(word for bit, word in _DCBX.items() if mode & bit)
                settings.append(Setting(netdev, "dcbx_mode", words, "DCB_CMD_GDCBX"))
            if dcb is not None:
                path = folder(self._context.sysfs, "class", "net", name)
                driver = target(f"{path}/device/driver")
                driver = ETHERNET_DRIVERS.get(driver, driver)
                settings += settings_of(netdev, dcb, driver)
                incarnation = incarnation_of(self._context, name)
                readings += _frames(netdev, dcb, driver, clock, incarnation)
        return Pass(tuple(readings), gaps.gaps(), Facts(tuple(settings)))

    def close(self) -> None:
        """Close the netlink socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _ask_dcb(socket: NetlinkSocket, netdev: str) -> codec.Dcb | None:
    replies = socket.request(codec.pack_get(codec.CMD_IEEE_GET, netdev))
    return next(parse_replies(replies, codec.parse_dcb), None)


def _ask_dcbx(socket: NetlinkSocket, netdev: str) -> int | None:
    try:
        replies = socket.request(codec.pack_get(codec.CMD_GDCBX, netdev))
        return next(parse_replies(replies, codec.parse_dcbx), None)
    except NotSupported:  # a driver may have DCB without a DCBX mode
        return None


def _frames(
    netdev: Netdev, dcb: codec.Dcb, driver: str, clock: Clock, incarnation: str
) -> Iterator[Reading]:
    own = {column.metric for column in columns("ethtool", driver).values()}
    known = {k: c for k, c in columns("dcb").items() if c.metric not in own}
    if dcb.pfc is None or not known:
        return
    for priority in range(8):
        if dcb.pfc.enabled[priority]:
            frames = {
                "pfc indications": dcb.pfc.rx_frames[priority],
                "pfc requests": dcb.pfc.tx_frames[priority],
            }
            values = {known[key]: value for key, value in frames.items() if key in known}
            yield Reading(Slot(netdev, "priority", priority), values, clock(), incarnation)


DCB: Final = HostCollector(
    "dcb",
    "interfaces of RDMA ports: PFC, ETS, trust, DSCP and buffer settings",
    DcbCollector,
    interval_s=60.0,
    deadline_s=5.0,
)
