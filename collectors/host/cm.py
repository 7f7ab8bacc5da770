"""Counters of the RDMA connection manager: messages, retries, duplicates per port.

Under the port since Linux 5.14, under /sys/class/infiniband_cm before.
"""

from __future__ import annotations

from typing import Final

from collectors.host.context import HostCollector, HostContext
from collectors.host.inventory import Inventory, RdmaDevice, RdmaPort
from collectors.host.kernel_file import Unreadable, exists, folder, names_in, read_count
from collectors.model.catalogue.registry import columns
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Pass, Reading

_GROUPS: Final = ("cm_tx_msgs", "cm_tx_retries", "cm_rx_msgs", "cm_rx_duplicates")


class CmCollector:
    """Reads the counters of every wanted port that has them."""

    name = "cm"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)

    def read(self, clock: Clock) -> Pass:
        """Read once; a host without the connection manager has nothing to read."""
        gaps = GapLog(self.name)
        readings = [
            Reading(port.entity, values, clock(), device.incarnation)
            for device in self._inventory.devices(clock, gaps)
            for port in device.ports
            if (values := self._values(device, port, gaps))
        ]
        return Pass(tuple(readings), gaps.gaps())

    def _values(
        self, device: RdmaDevice, port: RdmaPort, gaps: GapLog
    ) -> dict[Column, int | float]:
        old = folder(
            self._context.sysfs, "class/infiniband_cm", device.name, str(port.entity.number)
        )
        home = old if exists(old) else port.path
        known = columns("cm")
        values: dict[Column, int | float] = {}
        for group in _GROUPS:
            try:
                messages = {name: read_count(f"{home}/{group}/{name}") for name in
                            names_in(f"{home}/{group}")}  # fmt: skip
            except Unreadable as why:
                if why.reason != "ENOENT":  # a sum with a hole would be a lie
                    gaps.add(port.entity, group, why.reason, why.detail)
                continue
            if group in known and messages:
                values[known[group]] = sum(messages.values())
            for name, value in messages.items():
                column = known.get(f"{group}/{name}")
                if column is not None:
                    values[column] = value
        return values


CM: Final = HostCollector(
    "cm", "connection manager: messages, retries, duplicates, rejects", CmCollector, interval_s=15.0
)
