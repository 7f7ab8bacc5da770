"""LLDP neighbours of the interfaces of RDMA ports: which switch and interface each hangs on.

A packet socket per interface listens all the time; a pass takes what has come. Frames that the
adapter's firmware or a DCBX agent swallows are never seen here: with lldpd on the host, its JSON
may be given as a file or command output instead.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from collectors.codec.lldp import LldpNeighbour, parse_frame
from collectors.host.context import FrameSocket, HostCollector, HostContext, refuse_unknown
from collectors.host.inventory import Inventory
from collectors.host.kernel_file import Unreadable, read_text
from collectors.model.entities import Host, Interface, Netdev, Switch
from collectors.model.errors import Denied, FabricError, Malformed, NotSupported
from collectors.model.facts import Facts, Neighbour, Setting
from collectors.model.reading import Clock, GapLog, Pass

_NS: Final = 1_000_000_000


def remote_of(neighbour: LldpNeighbour) -> Interface:
    """Return the interface of a switch that a neighbour says it is.

    The switch's key is its chassis MAC where it tells one, else its name. The interface goes by
    the name that the switch's own management uses: the description where the identity is a MAC
    or a local number.
    """
    mac = neighbour.chassis_kind == "mac"
    key = neighbour.chassis if mac else neighbour.system_name or neighbour.chassis
    named = neighbour.port_kind in ("name", "alias", "component")
    name = neighbour.port if named else neighbour.port_description or neighbour.port
    return Interface(Switch(key, neighbour.system_name or neighbour.chassis), name)


def parse_lldpd(text: str) -> dict[str, LldpNeighbour]:
    """Return interface -> neighbour of `lldpcli -f json0 show neighbors`. Raises Malformed."""
    try:
        root = json.loads(text)
        found = {}
        for group in root["lldp"]:
            for entry in group.get("interface", []):
                found[str(entry["name"])] = _lldpd_neighbour(entry)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise Malformed("lldpd", "parse JSON", f"not its json0 form ({error})") from error
    return found


def _value(parent: Mapping[str, Any], name: str) -> str:
    entries = parent.get(name) or [{}]
    return str(entries[0].get("value", ""))


def _lldpd_neighbour(entry: Mapping[str, Any]) -> LldpNeighbour:
    chassis, port = entry["chassis"][0], entry["port"][0]
    kinds = {"mac": "mac", "ifname": "name", "ifalias": "alias", "local": "local", "ip": "address"}
    ttl = _value(port, "ttl")
    return LldpNeighbour(
        str(chassis["id"][0]["value"]),
        kinds.get(str(chassis["id"][0].get("type")), "local"),
        str(port["id"][0]["value"]),
        kinds.get(str(port["id"][0].get("type")), "local"),
        int(ttl) if ttl.isdecimal() else 120,
        _value(chassis, "name"),
        _value(chassis, "descr"),
        _value(port, "descr"),
        _value(chassis, "mgmt-ip"),
    )


class LldpCollector:
    """Keeps what the neighbours of wanted interfaces last said, until its time to live is over."""

    name = "lldp"

    def __init__(self, context: HostContext) -> None:
        """Take the option lldpd_json, a file. Raises ConfigInvalid for another."""
        self._context = context
        self._inventory = Inventory.of(context)
        self._sockets: dict[str, FrameSocket] = {}
        self._heard: dict[str, tuple[LldpNeighbour, int]] = {}
        refuse_unknown(self.name, context.options, "lldpd_json")
        self._lldpd = str(context.options.get("lldpd_json", ""))

    def read(self, clock: Clock) -> Pass:
        """Take the frames that came. Raises NotSupported where no packet socket is given."""
        gaps = GapLog(self.name)
        netdevs = self._inventory.netdevs(clock, gaps)
        now_ns = clock().mono_ns
        if self._lldpd:
            self._take_lldpd(netdevs, now_ns, gaps)
        elif netdevs and self._context.open_frames is None:
            raise NotSupported(self._context.host, "LLDP", "not given to this agent")
        else:
            for name, netdev in netdevs.items():
                self._take_frames(name, netdev, now_ns, gaps)
        for gone in set(self._sockets) - set(netdevs):
            self._sockets.pop(gone).close()
        neighbours: list[Neighbour] = []
        settings: list[Setting] = []
        for name, (neighbour, heard_ns) in list(self._heard.items()):
            if name not in netdevs or now_ns - heard_ns > neighbour.ttl_s * _NS:
                del self._heard[name]
                continue
            neighbours.append(Neighbour(netdevs[name], remote_of(neighbour), "lldp"))
            if neighbour.pfc_enabled is not None:
                settings.append(
                    Setting(netdevs[name], "peer_pfc_priorities", neighbour.pfc_enabled, "LLDP")
                )
        return Pass((), gaps.gaps(), Facts(tuple(settings), neighbours=tuple(neighbours)))

    def _take_lldpd(self, netdevs: Mapping[str, Netdev], now_ns: int, gaps: GapLog) -> None:
        """Read what lldpd has heard, as `lldpcli -f json0 show neighbors` wrote it to a file."""
        host = Host(self._context.host)
        try:
            found = parse_lldpd(read_text(self._lldpd))
        except Unreadable as why:
            gaps.add(host, "lldpd_json", why.reason, self._lldpd)
            return
        except Malformed as error:
            gaps.add(host, "lldpd_json", "malformed", error.why)
            return
        self._heard = {name: (seen, now_ns) for name, seen in found.items() if name in netdevs}

    def _take_frames(self, name: str, netdev: Netdev, now_ns: int, gaps: GapLog) -> None:
        for frame in self._frames(name, netdev, gaps):
            try:
                neighbour = parse_frame(frame)
            except Malformed as error:
                gaps.add(netdev, "LLDPDU", "malformed", error.why)
                continue
            if neighbour is not None and neighbour.ttl_s == 0:
                self._heard.pop(name, None)
            elif neighbour is not None:
                self._heard[name] = (neighbour, now_ns)

    def close(self) -> None:
        """Close the packet sockets."""
        for socket in self._sockets.values():
            socket.close()
        self._sockets.clear()

    def _frames(self, name: str, netdev: Netdev, gaps: GapLog) -> Iterator[bytes]:
        if self._context.open_frames is None:
            return
        try:
            if name not in self._sockets:
                self._sockets[name] = self._context.open_frames(name)
            yield from self._sockets[name].take()
        except Denied as error:
            gaps.add(netdev, "packet socket", "denied", error.why)
        except FabricError as error:
            gaps.add(netdev, "packet socket", type(error).__name__, error.why)
            with contextlib.suppress(KeyError):
                self._sockets.pop(name).close()


LLDP: Final = HostCollector(
    "lldp",
    "switch and interface at the other end, by LLDP",
    LldpCollector,
    interval_s=10.0,
    needs="CAP_NET_RAW",
)
