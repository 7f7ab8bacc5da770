"""What a host collector gets when it is built, and the row by which it is registered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from collectors.model.errors import ConfigInvalid
from collectors.model.reading import Collector

if TYPE_CHECKING:
    from collectors.host.inventory import Inventory


class FrameSocket(Protocol):
    """LLDP frames of one interface."""

    def take(self) -> list[bytes]:
        """Return the frames that came since the last call. Raises FabricError."""

    def close(self) -> None:
        """Close the socket."""


class Ethtool(Protocol):
    """Statistics of interfaces by their drivers; tests and labs give a fake."""

    def driver(self, netdev: str) -> str:
        """Return the driver's name. Raises NotSupported, Denied or Unavailable."""

    def statistics(self, netdev: str) -> list[tuple[str, int]]:
        """Return (name, value) in the driver's order; names may repeat. Raises likewise."""

    def close(self) -> None:
        """Close what is open."""


class NetlinkSocket(Protocol):
    """A netlink socket of one family; fakes answer from recorded messages."""

    def request(self, message: bytes) -> list[bytes]:
        """Send one message and return the whole replies, multi-part dumps included.

        Raises FabricError (Unavailable, Denied, NotSupported) for errno replies and time-outs.
        """

    def dump(self, message: bytes, max_bytes: int, max_seconds: float) -> tuple[list[bytes], bool]:
        """Return the datagrams of a dump and whether they are all; then close the socket.

        Raises as request does.
        """

    def close(self) -> None:
        """Close the socket."""


@dataclass(frozen=True)
class HostContext:
    """The host as collectors see it; tests and containers pass other roots.

    host: name that the entities carry. include, exclude: regular expressions on device and
    interface names; an excluded device must not be touched at all, not even opened. open_netlink:
    family number -> socket, None where netlink may not be used; open_ethtool, open_frames
    (LLDP of an interface): likewise. inventory: shared by the collectors; without one, each
    has its own. boot_id: part of incarnations.
    """

    host: str
    sysfs: Path = Path("/sys")
    procfs: Path = Path("/proc")
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    boot_id: str = ""
    open_netlink: Callable[[int], NetlinkSocket] | None = None
    open_ethtool: Callable[[], Ethtool] | None = None
    open_frames: Callable[[str], FrameSocket] | None = None
    inventory: Inventory | None = None
    options: dict[str, object] = field(default_factory=dict)

    def wants(self, *names: str) -> bool:
        """Tell whether a device known by these names may be touched."""
        if any(re.fullmatch(pattern, name) for pattern in self.exclude for name in names):
            return False
        if not self.include:
            return True
        return any(re.fullmatch(pattern, name) for pattern in self.include for name in names)


def refuse_unknown(collector: str, options: Mapping[str, object], *known: str) -> None:
    """Raise ConfigInvalid for an option that a collector does not have."""
    unknown = set(options) - set(known)
    if unknown:
        why = f"not among {', '.join(known)}"
        raise ConfigInvalid(collector, f"option {min(unknown)!r}", why)


@dataclass(frozen=True, slots=True)
class HostCollector:
    """A row of the registry: one source on a host.

    interval_s, deadline_s: defaults that the agent's config may change. on: read unless
    configured otherwise. needs: privilege or package that it wants, for people.
    """

    name: str
    meaning: str
    build: Callable[[HostContext], Collector]
    interval_s: float = 5.0
    deadline_s: float = 2.0
    on: bool = True
    needs: str = ""
