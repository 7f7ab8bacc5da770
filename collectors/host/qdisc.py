"""Egress queues of Linux interfaces: tbf, RED, fq_codel… as the kernel's traffic control has them.

On a host these are the queues in front of its NIC. On a Linux box that forwards (a soft router,
a SONiC-less white box, the lab's bridge) they are the switch's queues: with the option `switch`
its interfaces are entities of that switch, and their interface statistics and MTU are read, too,
because no other collector looks at interfaces without an RDMA device.

Option: switch, the name of the switch that this machine is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectors.codec.netlink import NETLINK_ROUTE, parse_replies
from collectors.codec.qdisc import EgressQueue, egress_queues, pack_get_qdiscs, parse_qdisc
from collectors.host.context import HostCollector, HostContext, NetlinkSocket
from collectors.host.kernel_file import Unreadable, folder, names_in, read_optional
from collectors.host.netdev import read_values
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Interface, Netdev, Switch, queue
from collectors.model.errors import ConfigInvalid, FabricError, NotSupported
from collectors.model.facts import Facts, Setting
from collectors.model.reading import Clock, GapLog, Pass, Reading

_WHERE: Final = "tc qdisc"


class QdiscCollector:
    """Reads the egress queues of all wanted interfaces in one netlink dump."""

    name = "qdisc"

    def __init__(self, context: HostContext) -> None:
        for option, value in context.options.items():
            if option != "switch" or not isinstance(value, str) or not value:
                where = f"collectors.qdisc.options.{option}"
                raise ConfigInvalid(where, "check", "the only option is switch: NAME")
        self._context = context
        self._switch = str(context.options.get("switch", ""))
        self._socket: NetlinkSocket | None = None
        self._facts: Facts | None = None

    def read(self, clock: Clock) -> Pass:
        """Read once. Raises NotSupported where netlink may not be used, Unavailable if it fails."""
        gaps = GapLog(self.name)
        names = dict(self._interfaces(gaps))
        queues = [found for found in self._dump() if found.index in names]
        when = clock()
        known = columns("qdisc")
        readings = [
            Reading(
                queue(self._end(names[found.index]), found.number),
                {known[key]: value for key, value in found.counts.items() if key in known},
                when,
                f"{self._context.boot_id}:{found.index}:{found.handle:x}",
            )
            for found in queues
        ]
        if self._switch:
            for index, name in names.items():
                end = self._end(name)
                values = dict(read_values(self._path(name), end, gaps))
                if values:
                    incarnation = f"{self._context.boot_id}:{index}"
                    readings.append(Reading(end, values, clock(), incarnation))
        facts = Facts(tuple(self._settings(names, queues)))
        changed, self._facts = facts != self._facts, facts
        return Pass(tuple(readings), gaps.gaps(), facts if changed else None)

    def close(self) -> None:
        """Close the netlink socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _dump(self) -> list[EgressQueue]:
        if self._context.open_netlink is None:
            raise NotSupported(self._context.host, "read qdisc", "netlink may not be used here")
        try:
            if self._socket is None:
                self._socket = self._context.open_netlink(NETLINK_ROUTE)
            replies = self._socket.request(pack_get_qdiscs())
        except FabricError:
            self.close()
            raise
        return egress_queues(parse_replies(replies, parse_qdisc))

    def _interfaces(self, gaps: GapLog) -> Iterator[tuple[int, str]]:
        """Yield (index, name) of the wanted interfaces."""
        path = folder(self._context.sysfs, "class", "net")
        try:
            names = names_in(path)
        except Unreadable as why:
            gaps.add(self._context.host, path, why.reason, why.detail)
            return
        for name in names:
            index = read_optional(f"{path}/{name}/ifindex")
            if name != "lo" and index.isdecimal() and self._context.wants(name):
                yield int(index), name

    def _settings(self, names: dict[int, str], queues: list[EgressQueue]) -> Iterator[Setting]:
        for found in queues:
            slot = queue(self._end(names[found.index]), found.number)
            for name, value in found.settings.items():
                yield Setting(slot, name, value, _WHERE)
        for name in names.values() if self._switch else ():
            where = f"{self._path(name)}/mtu"
            mtu = read_optional(where)
            if mtu.isdecimal():
                yield Setting(self._end(name), "mtu_bytes", int(mtu), where)

    def _end(self, name: str) -> Interface | Netdev:
        if self._switch:
            return Interface(Switch(self._switch, self._switch), name)
        return Netdev(self._context.host, name)

    def _path(self, name: str) -> str:
        return folder(self._context.sysfs, "class", "net", name)


QDISC: Final = HostCollector(
    "qdisc",
    "egress queues of interfaces: bytes, drops, ECN marks, backlog; rate, limit, thresholds",
    QdiscCollector,
    interval_s=5.0,
    on=False,  # RDMA NICs bypass these queues: for soft switches and Soft-RoCE hosts
)
