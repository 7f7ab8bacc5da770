"""Queue pairs: who talks to whom, through which UDP source port, for which job.

Off by default: the kernel queries the device once for each queue pair. A pass has a budget of
bytes and seconds for each device; what is beyond it is a gap, and the others go on. Counters of
queue pairs are read where somebody bound counter sets one to one; nothing is bound or enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final, TypeVar

from msgspec import structs

from collectors.codec import rdma_netlink as codec
from collectors.codec.netlink import NETLINK_RDMA, Message, parse_messages, parse_replies
from collectors.host.backoff import Backoff
from collectors.host.context import HostCollector, HostContext, NetlinkSocket, refuse_unknown
from collectors.host.inventory import Inventory, RdmaDevice
from collectors.host.jobs import read_environment, read_process
from collectors.host.kernel_file import Unreadable
from collectors.model.catalogue.registry import columns
from collectors.model.entities import QueuePair
from collectors.model.errors import ConfigInvalid, FabricError, NotSupported
from collectors.model.facts import Facts, QueuePairFact, Setting
from collectors.model.reading import Clock, GapLog, Pass, Reading
from collectors.model.roce import source_port

T = TypeVar("T")
_MAX_BYTES: Final = 4 << 20
_MAX_SECONDS: Final = 1.0

# Drivers that take the kernel's source port (include/rdma/ib_verbs.h, rdma_get_udp_sport);
# firmware of the others picks its own.
_KERNEL_SOURCE_PORT: Final = frozenset({"mlx5", "irdma", "hns", "erdma", "rxe", "mana"})
_CONNECTED: Final = frozenset({"RC", "UC", "XRC_INI", "XRC_TGT"})


def fact_of(
    device: RdmaDevice, info: codec.QueuePairInfo, connections: Mapping[int, tuple[str, str]]
) -> QueuePairFact:
    """Return what is known of a queue pair; the source port holds where no flow label is set."""
    port = None
    roce = any(p.link_layer == "Ethernet" for p in device.ports)
    if (
        roce
        and device.driver in _KERNEL_SOURCE_PORT
        and info.type in _CONNECTED
        and info.remote_qpn
    ):
        port = source_port(info.local_qpn, info.remote_qpn)
    local, remote = connections.get(info.local_qpn, ("", ""))
    return QueuePairFact(
        device.entity,
        info.port or 1,
        info.local_qpn,
        info.remote_qpn,
        info.type,
        info.state,
        info.pid,
        info.process,
        local_address=local,
        remote_address=remote,
        udp_source_port=port,
    )


class QueuePairCollector:
    """Lists the queue pairs of wanted devices."""

    name = "queue_pairs"

    def __init__(self, context: HostContext) -> None:
        """Take options: max_bytes, max_seconds, environment. Raises ConfigInvalid."""
        self._context = context
        self._inventory = Inventory.of(context)
        self._backoff = Backoff(tries=1)
        options = context.options
        refuse_unknown(self.name, options, "max_bytes", "max_seconds", "environment")
        self._max_bytes = int(_number(options, "max_bytes", _MAX_BYTES))
        self._max_seconds = _number(options, "max_seconds", _MAX_SECONDS)
        self._environment = options.get("environment", False) is True

    def read(self, clock: Clock) -> Pass:
        """List once. Raises NotSupported without netlink or without RDMA in the kernel."""
        gaps = GapLog(self.name)
        devices = self._inventory.devices(clock, gaps)
        if not devices:
            return Pass((), gaps.gaps(), Facts())
        if self._context.open_netlink is None:
            raise NotSupported(self._context.host, "queue pairs", "netlink is off")
        indices = self._indices()
        pairs: list[QueuePairFact] = []
        readings: list[Reading] = []
        settings: list[Setting] = []
        for device in devices:
            index = indices.get(device.name)
            if index is None:
                gaps.add(device.entity, "queue pairs", "not listed", "in another namespace?")
                continue
            try:
                connections = self._connections(device, index, gaps)
                pairs += self._pairs(device, index, connections, gaps)
                readings += self._counters(device, index, clock, gaps)
                settings += self._modes(device, index, gaps)
            except FabricError as error:
                gaps.add(device.entity, error.what, type(error).__name__, error.why)
        pairs = list(self._with_processes(pairs))
        settings += self._environments(pairs, gaps)
        return Pass(tuple(readings), gaps.gaps(), Facts(tuple(settings), queue_pairs=tuple(pairs)))

    def _open(self) -> NetlinkSocket:
        if self._context.open_netlink is None:
            raise NotSupported(self._context.host, "queue pairs", "netlink is off")
        return self._context.open_netlink(NETLINK_RDMA)

    def _indices(self) -> dict[str, int]:
        with closing(self._open()) as socket:
            replies = socket.request(codec.pack_get_devices())
        return {info.name: info.index for info in parse_replies(replies, codec.parse_device)}

    def _dump(
        self, device: RdmaDevice, what: str, request: bytes, gaps: GapLog
    ) -> Iterator[Message]:
        """Return the messages within the budget, on a socket of their own."""
        with closing(self._open()) as socket:
            replies, whole = socket.dump(request, self._max_bytes, self._max_seconds)
        if not whole:
            budget = f"{self._max_bytes} bytes or {self._max_seconds:g} s"
            gaps.add(device.entity, what, "overflow", f"more than {budget}; the rest is not read")
        for data in replies:
            yield from parse_messages(data)

    def _pairs(
        self,
        device: RdmaDevice,
        index: int,
        connections: Mapping[int, tuple[str, str]],
        gaps: GapLog,
    ) -> Iterator[QueuePairFact]:
        request = codec.pack_get_queue_pairs(index)
        for message in self._dump(device, "queue pairs", request, gaps):
            for info in codec.parse_queue_pairs(message):
                yield fact_of(device, info, connections)

    def _connections(
        self, device: RdmaDevice, index: int, gaps: GapLog
    ) -> dict[int, tuple[str, str]]:
        found: dict[int, tuple[str, str]] = {}
        request = codec.pack_get_connections(index)
        for message in self._dump(device, "connections", request, gaps):
            found |= codec.parse_connections(message)
        return found

    def _counters(
        self, device: RdmaDevice, index: int, clock: Clock, gaps: GapLog
    ) -> Iterator[Reading]:
        known = columns("hw_counters", device.driver)
        for port in device.ports:
            key = f"{device.name} counter sets"
            if self._backoff.held(key, clock().mono_ns):
                return
            request = codec.pack_get_counter_sets(index, port.entity.number)
            try:
                messages = list(self._dump(device, "counter sets", request, gaps))
            except FabricError:  # a driver without counter sets answers EOPNOTSUPP or EINVAL
                self._backoff.failed(key, "EOPNOTSUPP", clock().mono_ns)
                return
            for counters in (one for m in messages for one in codec.parse_counter_sets(m)):
                if len(counters.queue_pairs) != 1:
                    gaps.add(port.entity, "counter set", "of several queue pairs")
                    continue
                values = {known[n]: v for n, v in counters.values.items() if n in known}
                if values:
                    pair = QueuePair(device.entity, counters.queue_pairs[0])
                    incarnation = f"{device.incarnation}:{counters.identifier}"
                    yield Reading(pair, dict(values), clock(), incarnation)

    def _modes(self, device: RdmaDevice, index: int, gaps: GapLog) -> Iterator[Setting]:
        for port in device.ports:
            number = port.entity.number
            mode = self._ask(codec.pack_get_counter_mode(index, number), codec.parse_counter_mode)
            if mode is not None:
                yield Setting(port.entity, "qp_counter_mode", mode, "STAT_GET")
            status = self._ask(
                codec.pack_get_counter_status(index, number), codec.parse_counter_status
            )
            if status:
                on = tuple(sorted(name for name, enabled in status.items() if enabled))
                yield Setting(port.entity, "optional_counters_enabled", on, "STAT_GET_STATUS")
            elif status is None:
                gaps.add(port.entity, "optional counters", "unsupported", "since Linux 5.16")

    def _ask(self, request: bytes, parse: Callable[[Message], T | None]) -> T | None:
        try:
            with closing(self._open()) as socket:
                return next(parse_replies(socket.request(request), parse), None)
        except FabricError:  # not every driver and kernel has it
            return None

    def _with_processes(self, pairs: list[QueuePairFact]) -> Iterator[QueuePairFact]:
        procfs = str(self._context.procfs)
        known: dict[int, tuple[str, str]] = {}
        for pair in pairs:
            if pair.pid is None:
                yield pair
                continue
            if pair.pid not in known:
                known[pair.pid] = read_process(procfs, pair.pid)
            process, job = known[pair.pid]
            yield structs.replace(pair, process=process or pair.process, job=job)

    def _environments(self, pairs: list[QueuePairFact], gaps: GapLog) -> Iterator[Setting]:
        if not self._environment:
            return
        first: dict[int, QueuePair] = {}  # a process's environment stands with one of its pairs
        for pair in pairs:
            if pair.pid is not None:
                first.setdefault(pair.pid, QueuePair(pair.device, pair.local_qpn))
        for pid, subject in sorted(first.items()):
            where = f"/proc/{pid}/environ"
            try:
                found = read_environment(str(self._context.procfs), pid)
            except Unreadable as why:
                hint = "needs root" if why.reason == "EACCES" else why.detail
                gaps.add(subject, where, why.reason, hint)
                continue
            if found:
                yield Setting(subject, "job_environment", found, where)


def _number(options: Mapping[str, object], name: str, default: float) -> float:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ConfigInvalid("queue_pairs", f"option {name}", "must be a number above 0")
    return value


QUEUE_PAIRS: Final = HostCollector(
    "queue_pairs",
    "queue pairs with process, job and predicted UDP source port (one device query each)",
    QueuePairCollector,
    interval_s=60.0,
    deadline_s=10.0,
    on=False,
    needs="root for the environment of jobs",
)
