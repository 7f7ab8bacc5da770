"""Statistics of `ethtool -S`, the named few of each driver: flow control, drops, PHY, PCIe.

A driver has hundreds of statistics, most of them per queue; the catalogue names those that tell
of the fabric. Virtual functions are never asked: on mlx5 the call can block in the mailbox of
the physical function for as long as that one likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from collectors.host.backoff import Backoff
from collectors.host.context import Ethtool, HostCollector, HostContext
from collectors.host.inventory import Inventory, incarnation_of
from collectors.host.kernel_file import exists, folder
from collectors.host.worker import OneAtATime
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Entity, Netdev, Slot
from collectors.model.errors import FabricError, NotSupported
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Instant, Pass, Reading

# Name that a network driver gives itself -> name in the catalogue.
ETHERNET_DRIVERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mlx5_core": "mlx5",
        "mlx5e_rep": "mlx5",
        "fabric_lab_nic": "mlx5",  # simlab/nic speaks like mlx5
    }
)
_PRIORITIES: Final = 8
_LANES: Final = 8
_CALL_S: Final = 1.0

Place = tuple[Column, str, int]  # column, kind of slot or '', its index


@cache
def places(driver: str) -> Mapping[str, Place]:
    """Return statistic -> where it goes, for the curated statistics of a driver."""
    found: dict[str, Place] = {}
    for key, column in columns("ethtool", driver).items():
        if "{p}" in key:
            for index in range(_PRIORITIES):
                found[key.replace("{p}", str(index))] = (column, "priority", index)
        elif "{lane}" in key:
            for index in range(_LANES):
                found[key.replace("{lane}", str(index))] = (column, "lane", index)
        else:
            found[key] = (column, "", 0)
    return MappingProxyType(found)


def parse_statistics(
    netdev: Netdev, driver: str, statistics: list[tuple[str, int]], gaps: GapLog
) -> dict[Entity, dict[Column, int | float]]:
    """Return entity -> values of the curated statistics; a name that repeats is a gap."""
    wanted = places(driver)
    values: dict[Entity, dict[Column, int | float]] = {}
    for name, value in statistics:
        place = wanted.get(name)
        if place is None:
            continue
        column, kind, index = place
        entity: Entity = Slot(netdev, kind, index) if kind else netdev  # type: ignore[arg-type]
        held = values.setdefault(entity, {})
        if column in held:
            gaps.add(netdev, name, "duplicate name")
        else:
            held[column] = value
    return values


class EthtoolCollector:
    """Reads the curated statistics of wanted interfaces that are no virtual functions."""

    name = "ethtool"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)
        self._worker = OneAtATime()
        self._backoff = Backoff(tries=1)
        self._ethtool: Ethtool | None = None
        self._drivers: dict[str, str] = {}

    def read(self, clock: Clock) -> Pass:
        """Read once. Raises NotSupported where the context has no way to ask drivers."""
        gaps = GapLog(self.name)
        netdevs = self._inventory.netdevs(clock, gaps)
        if not netdevs:
            return Pass((), gaps.gaps())
        if self._ethtool is None:
            if self._context.open_ethtool is None:
                raise NotSupported(self._context.host, "ethtool", "not given to this agent")
            self._ethtool = self._context.open_ethtool()
        readings: list[Reading] = []
        for name, netdev in netdevs.items():
            path = folder(self._context.sysfs, "class", "net", name)
            incarnation = incarnation_of(self._context, name)
            when = clock()
            for entity, values in self._values(path, netdev, when, gaps).items():
                readings.append(Reading(entity, values, when, incarnation))
        return Pass(tuple(readings), gaps.gaps())

    def _values(
        self, path: str, netdev: Netdev, when: Instant, gaps: GapLog
    ) -> dict[Entity, dict[Column, int | float]]:
        ethtool, name = self._ethtool, netdev.name
        held = self._backoff.held(name, when.mono_ns)
        if ethtool is None or held:
            gaps.add(netdev, "statistics", held, "the driver has none; not asked again for a while")
            return {}
        if exists(f"{path}/device/physfn"):
            gaps.add(netdev, "statistics", "virtual function", "read on the physical function")
            return {}

        def ask() -> tuple[str, list[tuple[str, int]]]:
            driver = self._drivers.get(name) or ethtool.driver(name)
            return driver, ethtool.statistics(name)

        try:
            driver, statistics = self._worker.run(name, ask, _CALL_S)
        except NotSupported as error:
            gaps.add(netdev, "statistics", "EOPNOTSUPP", error.why)
            self._backoff.failed(name, "EOPNOTSUPP", when.mono_ns)
            return {}
        except FabricError as error:
            gaps.add(netdev, "statistics", error.what, error.why)
            return {}
        self._drivers[name] = driver
        driver = ETHERNET_DRIVERS.get(driver, driver)
        return parse_statistics(netdev, driver, statistics, gaps)


ETHTOOL: Final = HostCollector(
    "ethtool",
    "interfaces of RDMA ports: PFC, pause time, drops by priority, PHY, PCIe stalls",
    EthtoolCollector,
    interval_s=15.0,
    deadline_s=5.0,
)
