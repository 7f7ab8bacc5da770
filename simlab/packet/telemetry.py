"""A simulated fabric as agents and collectors would have read it.

Hosts speak like mlx5 (sysfs, hw_counters, ethtool), switches like SONiC's COUNTERS_DB or, on
InfiniBand, like a sweep with management datagrams: same columns, widths, overflow and refresh.
Counters that a source keeps in a coarser form (4-byte words, microseconds, 16 bits that stick)
are kept so here. The wall clock is the start time plus simulated time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from collectors.model.reading import Instant, Pass, Reading
from simlab.packet import layout as at
from simlab.packet.simulation import Simulation
from simlab.packet.telemetry_host import ethtool, hardware, interface, rdma_port
from simlab.packet.telemetry_infiniband import swept_port
from simlab.packet.telemetry_names import Names
from simlab.packet.telemetry_snapshot import PRIORITIES, Snapshot, snapshot
from simlab.packet.telemetry_switch import cable, pool, switch_port

SWITCH_REFRESH_S: Final = 1.0  # FLEX_COUNTER poll of ports and queues
POLLER: Final = "switch-poller"


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
        self.names = Names(sim.topology)
        self.start_ns = start_ns
        self.boot_id = f"simulated-{start_ns:x}"
        self.switch_refresh_s = switch_refresh_s
        self._switch_pass: tuple[Reading, ...] = ()
        self._switch_at = -1.0

    def when(self) -> Instant:
        """Return the moment of the simulated clock."""
        passed = self.sim.word(at.NOW) // 1000
        return Instant(self.start_ns + passed, 10**12 + passed)

    def passes(self) -> Iterator[AgentPass]:
        """Yield what every collector of every agent reads now."""
        seen = snapshot(self.sim, self.when())
        for host, nodes in self.names.hosts.items():
            yield from self._host(seen, host, nodes)
        if self.sim.model.infiniband is not None:
            yield AgentPass(POLLER, "infiniband", Pass(tuple(self._sweep(seen))))
            return
        yield AgentPass(POLLER, "sonic_db", Pass(self._switches(seen)))
        ends = (
            cable(seen, port, entity, self._incarnation(entity.switch.key))
            for port, entity in self.names.interfaces.items()
        )
        yield AgentPass(POLLER, "netdev", Pass(tuple(ends)))

    def _incarnation(self, who: str) -> str:
        return f"{self.boot_id}:{who}"

    def _host(self, seen: Snapshot, host: str, nodes: list[int]) -> Iterator[AgentPass]:
        counters, queue_pairs, netdevs, statistics = [], [], [], []
        for node in nodes:
            port, netdev, who = self.names.port(node), self.names.netdev(node), str(node)
            incarnation = self._incarnation(who)
            counters.append(rdma_port(seen, node, port, incarnation))
            queue_pairs.append(hardware(seen, node, port, incarnation))
            netdevs.append(interface(seen, node, netdev, incarnation))
            statistics += list(ethtool(seen, node, netdev, incarnation))
        yield AgentPass(host, "sysfs", Pass(tuple(counters)))
        yield AgentPass(host, "hw_counters", Pass(tuple(queue_pairs)))
        if self.sim.model.infiniband is None:
            yield AgentPass(host, "netdev", Pass(tuple(netdevs)))
            yield AgentPass(host, "ethtool", Pass(tuple(statistics)))

    def _sweep(self, seen: Snapshot) -> Iterator[Reading]:
        for node in self.sim.topology.hosts:
            port = self.sim.state.nics[node]
            yield swept_port(seen, port, self.names.port(node), self._incarnation(str(node)))
        for port, entity in self.names.interfaces.items():
            yield swept_port(seen, port, entity, self._incarnation(entity.switch.key))

    def _switches(self, seen: Snapshot) -> tuple[Reading, ...]:
        """Return the counters of all switches as of the last refresh of their database."""
        if self._switch_pass and self.sim.now_s < self._switch_at + self.switch_refresh_s - 1e-9:
            return self._switch_pass
        self._switch_at = self.sim.now_s
        readings: list[Reading] = []
        for port, entity in self.names.interfaces.items():
            readings += switch_port(seen, port, entity, self._incarnation(entity.switch.key))
            self._clear_watermarks(port, seen)
        for index, node in enumerate(self.sim.topology.switches):
            switch = self.names.switch(node)
            readings.append(pool(seen, index, switch, self._incarnation(switch.key)))
        self._switch_pass = tuple(readings)
        return self._switch_pass

    def _clear_watermarks(self, port: int, seen: Snapshot) -> None:
        handle = self.sim.port_row(port)
        for index in PRIORITIES:
            place = handle + at.PORT_QUEUES + index * at.QUEUE_WORDS
            mark = seen.queue(port, index, at.QUEUE_WATERMARK)
            if mark:
                highest = max(mark, seen.queue(port, index, at.QUEUE_MAX))
                self.sim.poke(place + at.QUEUE_MAX, highest)
                held = seen.queue(port, index, at.QUEUE_BYTES)
                self.sim.poke(place + at.QUEUE_WATERMARK, held)
