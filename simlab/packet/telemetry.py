"""A simulated fabric as agents and collectors would have read it.

Hosts speak like mlx5 (sysfs, hw_counters, ethtool), switches like SONiC's COUNTERS_DB: same
columns, widths, overflow and refresh. Counters that a source keeps in a coarser form (4-byte
words, microseconds, 16 bits that stick) are kept so here. The wall clock is the start time plus
simulated time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collectors.model.catalogue.registry import columns
from collectors.model.entities import (
    Device,
    Entity,
    Interface,
    Netdev,
    Port,
    Slot,
    Switch,
    priority,
    queue,
)
from collectors.model.metric import Column, Via
from collectors.model.reading import Instant, Pass, Reading
from simlab.packet import layout as at
from simlab.packet.results import QP_COUNTERS, arrivals, paused_ps, port_rows, qp_rows
from simlab.packet.simulation import Simulation

NIC_DRIVER: Final = "mlx5"
SWITCH_DRIVER: Final = "sonic"
WAIT_TICK_PS: Final = 4000  # one tick of port_xmit_wait here: 4 ns
PRIORITIES: Final = range(8)
PS_PER_S: Final = 10**12
SWITCH_REFRESH_S: Final = 1.0  # FLEX_COUNTER poll of ports and queues

_HW_COUNTERS: Final[Mapping[str, str]] = {
    "np_ecn_marked_roce_packets": "ce_received",
    "np_cnp_sent": "cnp_sent",
    "rp_cnp_handled": "cnp_handled",
    "out_of_sequence": "out_of_sequence",
    "duplicate_request": "duplicates",
    "local_ack_timeout_err": "timeouts",
    "rnr_nak_retry_err": "rnr_naks",
}


class Names:
    """What the simulated things are called in the vocabulary."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        topology = sim.topology
        tiers = topology.tier or (1,) * topology.node_count
        seen: dict[int, int] = {}
        self._switches: dict[int, Switch] = {}
        for node in topology.switches:
            number = seen[tiers[node]] = seen.get(tiers[node], -1) + 1
            word = {1: "leaf", 2: "spine", 3: "core"}.get(tiers[node], "switch")
            mac = f"02:00:00:00:{node >> 8:02x}:{node & 255:02x}"
            self._switches[node] = Switch(mac, f"{word}{number}")
        self._place = {
            node: divmod(i, topology.nics_per_host) for i, node in enumerate(topology.hosts)
        }
        self._numbers = topology.interface_numbers()

    def host(self, node: int) -> str:
        """Return the name of the machine that a NIC node belongs to."""
        return f"host{self._place[node][0]}"

    def device(self, node: int) -> Device:
        """Return the RDMA device of a NIC node; its key is the node GUID."""
        guid = f"{0x0200_5E00_0000_0000 + node:016x}"
        return Device(self.host(node), guid, f"mlx5_{self._place[node][1]}")

    def port(self, node: int) -> Port:
        """Return the RDMA port of a NIC node."""
        return Port(self.device(node), 1)

    def netdev(self, node: int) -> Netdev:
        """Return the network interface of a NIC node."""
        return Netdev(self.host(node), f"eth{self._place[node][1]}")

    def switch(self, node: int) -> Switch:
        """Return the switch of a node: leaf0, spine1 ..., known by its chassis MAC."""
        return self._switches[node]

    def interface(self, port: int) -> Interface:
        """Return the switch interface of a directed port."""
        number = self._numbers[port]
        return Interface(self.switch(self.sim.topology.end(port)), f"Ethernet{4 * (number - 1)}")


@dataclass(frozen=True, slots=True)
class AgentPass:
    """One pass of one collector of one agent."""

    agent: str
    collector: str
    seen: Pass
    at_ns: int = 0


class Telemetry:
    """Turns the state of a simulation into passes. Watermarks of switches are read and cleared."""

    def __init__(
        self, sim: Simulation, *, start_ns: int, switch_refresh_s: float = SWITCH_REFRESH_S
    ) -> None:
        self.sim = sim
        self.names = Names(sim)
        self.start_ns = start_ns
        self.boot_id = f"simulated-{start_ns:x}"
        self.switch_refresh_s = switch_refresh_s
        self._columns: dict[tuple[Via, str], Mapping[str, Column]] = {}
        forwarding = set(sim.topology.switches)
        self._interfaces = {
            port: self.names.interface(port)
            for port in range(2 * len(sim.topology.cables))
            if sim.topology.end(port) in forwarding
        }
        self._switch_pass: tuple[Reading, ...] = ()
        self._switch_at = -1.0

    def when(self) -> Instant:
        """Return the moment of the simulated clock."""
        passed = self.sim.word(at.NOW) // 1000
        return Instant(self.start_ns + passed, 10**12 + passed)

    def passes(self) -> Iterator[AgentPass]:
        """Yield what every collector of every agent reads now."""
        rows = port_rows(self.sim)
        arrived = arrivals(self.sim)
        sums = self._qp_sums(rows)
        paused = paused_ps(self.sim)
        by_host: dict[str, list[int]] = {}
        for node in self.sim.topology.hosts:
            by_host.setdefault(self.names.host(node), []).append(node)
        for host, nodes in by_host.items():
            counters, hardware, ethernet = [], [], []
            for node in nodes:
                port = self.sim.state.nics[node]
                row = rows[port]
                counters.append(self._sysfs(node, row, arrived[port]))
                hardware.append(self._hw_counters(node, sums[port]))
                if self.sim.model.infiniband is None:
                    ethernet += list(self._ethtool(node, row, paused[port]))
            yield AgentPass(host, "sysfs", Pass(tuple(counters)))
            yield AgentPass(host, "hw_counters", Pass(tuple(hardware)))
            if ethernet:
                yield AgentPass(host, "ethtool", Pass(tuple(ethernet)))
        yield AgentPass("switch-poller", "sonic_db", Pass(self._switches(rows, arrived, paused)))

    def _value(
        self, held: dict[Column, int | float], via: Via, key: str, value: float, driver: str
    ) -> None:
        """Add a value given in the metric's unit, in the native form of the source."""
        known = self._columns.setdefault((via, driver), columns(via, driver))
        column = known[key]
        native = int(value / column.scale) if column.scale != 1 else int(value)
        if column.kind == "counter":
            if column.overflow == "saturates":
                native = min(native, column.modulus - 1)
            else:
                native %= column.modulus
        held[column] = native

    def _reading(self, entity: Entity, values: dict[Column, int | float], who: str) -> Reading:
        return Reading(entity, values, self.when(), f"{self.boot_id}:{who}")

    def _qp_sums(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the QP counters summed by host port: [directed port, counter]."""
        sums = rows[:, at.PORT_SUMS : at.PORT_SUMS + at.QP_STATS_WORDS].copy()
        live = qp_rows(self.sim)
        live = live[live[:, at.QP_PORT] > 0]
        for index in range(at.QP_STATS_WORDS):
            responder = at.QP_STATS_RESPONDER >> index & 1
            place = live[:, at.QP_RX_PORT if responder else at.QP_PORT]
            ports = (place - self.sim.state.ports) // at.PORT_WORDS
            np.add.at(sums[:, index], ports, live[:, at.QP_STATS + index])
        return sums

    def _sysfs(self, node: int, row: NDArray[np.int64], arrived: NDArray[np.int64]) -> Reading:
        held: dict[Column, int | float] = {}
        values = {
            "port_xmit_data": row[at.PORT_TX_BYTES],
            "port_rcv_data": arrived[1],
            "port_xmit_packets": row[at.PORT_TX_PACKETS],
            "port_rcv_packets": arrived[0],
            "port_xmit_wait": row[at.PORT_WAIT] // WAIT_TICK_PS,
            "port_rcv_discards": row[at.PORT_RX_DISCARDS],
        }
        for key, value in values.items():
            if key in columns("sysfs_counters", NIC_DRIVER):
                self._value(held, "sysfs_counters", key, int(value), NIC_DRIVER)
        return self._reading(self.names.port(node), held, str(node))

    def _hw_counters(self, node: int, sums: NDArray[np.int64]) -> Reading:
        held: dict[Column, int | float] = {}
        for key, name in _HW_COUNTERS.items():
            value = int(sums[QP_COUNTERS[name] - at.QP_STATS])
            self._value(held, "hw_counters", key, value, NIC_DRIVER)
        self._value(held, "hw_counters", "rp_cnp_ignored", 0, NIC_DRIVER)
        return self._reading(self.names.port(node), held, str(node))

    def _ethtool(
        self, node: int, row: NDArray[np.int64], paused: NDArray[np.int64]
    ) -> Iterator[Reading]:
        netdev = self.names.netdev(node)
        whole: dict[Column, int | float] = {}
        discards = int(row[at.PORT_RX_DISCARDS])
        self._value(whole, "ethtool", "rx_discards_phy", discards, NIC_DRIVER)
        yield self._reading(netdev, whole, str(node))
        for index in PRIORITIES:
            group = at.PORT_GROUPS + index * at.GROUP_WORDS
            held: dict[Column, int | float] = {}
            values = {
                "rx_prio{p}_pause": row[at.PORT_PAUSE_RX + index],
                "tx_prio{p}_pause": row[group + at.GROUP_PAUSE_TX],
                "rx_prio{p}_pause_transition": row[at.PORT_PAUSE_EPISODES + index],
            }
            for key, value in values.items():
                self._value(held, "ethtool", key, int(value), NIC_DRIVER)
            micros = int(paused[index]) / PS_PER_S
            self._value(held, "ethtool", "rx_prio{p}_pause_duration", micros, NIC_DRIVER)
            yield self._reading(priority(netdev, index), held, str(node))

    def _switches(
        self, rows: NDArray[np.int64], arrived: NDArray[np.int64], paused: NDArray[np.int64]
    ) -> tuple[Reading, ...]:
        """Return the counters of all switches as of the last refresh of their database."""
        if self._switch_pass and self.sim.now_s < self._switch_at + self.switch_refresh_s - 1e-9:
            return self._switch_pass
        self._switch_at = self.sim.now_s
        readings: list[Reading] = []
        for port, interface in self._interfaces.items():
            readings += self._interface(interface, rows[port], arrived[port], paused[port])
            self._clear_watermarks(port, rows[port])
        self._switch_pass = tuple(readings)
        return self._switch_pass

    def _interface(
        self,
        interface: Interface,
        row: NDArray[np.int64],
        arrived: NDArray[np.int64],
        paused: NDArray[np.int64],
    ) -> Iterator[Reading]:
        who = interface.switch.key
        held: dict[Column, int | float] = {}
        drops = sum(
            int(row[at.PORT_QUEUES + bit * at.QUEUE_WORDS + at.QUEUE_DROPPED]) for bit in PRIORITIES
        )
        for key, value in {
            "SAI_PORT_STAT_IF_IN_OCTETS": arrived[1],
            "SAI_PORT_STAT_IF_OUT_OCTETS": row[at.PORT_TX_BYTES],
            "SAI_PORT_STAT_IF_IN_UCAST_PKTS": arrived[0],
            "SAI_PORT_STAT_IF_OUT_UCAST_PKTS": row[at.PORT_TX_PACKETS],
            "SAI_PORT_STAT_IF_OUT_DISCARDS": drops,
        }.items():
            self._value(held, "sonic_db", key, int(value), SWITCH_DRIVER)
        yield self._reading(interface, held, who)
        for index in PRIORITIES:
            yield self._priority(interface, index, row, paused)
            at_queue = at.PORT_QUEUES + index * at.QUEUE_WORDS
            if not row[at_queue + at.QUEUE_TX_PACKETS] and not row[at_queue + at.QUEUE_DROPPED]:
                continue
            held = {}
            for key, word in {
                "SAI_QUEUE_STAT_BYTES": at.QUEUE_TX_BYTES,
                "SAI_QUEUE_STAT_PACKETS": at.QUEUE_TX_PACKETS,
                "SAI_QUEUE_STAT_DROPPED_PACKETS": at.QUEUE_DROPPED,
                "SAI_QUEUE_STAT_DROPPED_BYTES": at.QUEUE_DROPPED_BYTES,
                "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": at.QUEUE_MARKED,
                "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES": at.QUEUE_BYTES,
                "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": at.QUEUE_WATERMARK,
            }.items():
                self._value(held, "sonic_db", key, int(row[at_queue + word]), SWITCH_DRIVER)
            yield self._reading(queue(interface, index), held, who)

    def _priority(
        self,
        interface: Interface,
        index: int,
        row: NDArray[np.int64],
        paused: NDArray[np.int64],
    ) -> Reading:
        group = at.PORT_GROUPS + index * at.GROUP_WORDS
        held: dict[Column, int | float] = {}
        name = f"SAI_PORT_STAT_PFC_{index}"
        suffix = f"{{priority={index}}}"
        values = {
            f"{name}_RX_PKTS{suffix}": int(row[at.PORT_PAUSE_RX + index]),
            f"{name}_TX_PKTS{suffix}": int(row[group + at.GROUP_PAUSE_TX]),
            f"{name}_ON2OFF_RX_PKTS{suffix}": int(row[at.PORT_PAUSE_EPISODES + index]),
            f"{name}_RX_PAUSE_DURATION_US{suffix}": int(paused[index]) / PS_PER_S,
        }
        for key, value in values.items():
            self._value(held, "sonic_db", key, value, SWITCH_DRIVER)
        return self._reading(Slot(interface, "priority", index), held, interface.switch.key)

    def _clear_watermarks(self, port: int, row: NDArray[np.int64]) -> None:
        handle = self.sim.port_row(port)
        for bit in PRIORITIES:
            place = at.PORT_QUEUES + bit * at.QUEUE_WORDS
            seen = int(row[place + at.QUEUE_WATERMARK])
            if seen:
                highest = max(seen, int(row[place + at.QUEUE_MAX]))
                self.sim.poke(handle + place + at.QUEUE_MAX, highest)
                self.sim.poke(handle + place + at.QUEUE_WATERMARK, int(row[place + at.QUEUE_BYTES]))
