"""Simulated switches whose numbers are those of a running packet simulation.

The simulation's own telemetry says what each port, queue, priority and group has counted; here
it is written into the states that SNMP, gNMI and Redis show, under the platform's names.
"""

from __future__ import annotations

import time
from typing import Final

from collectors.model.catalogue import interface as port_metrics
from collectors.model.catalogue import switch as switch_metrics
from collectors.model.entities import Interface, Slot, Switch
from collectors.model.reading import Reading
from simlab.packet.config import Plan
from simlab.packet.interventions import Schedule
from simlab.packet.simulation import Simulation
from simlab.packet.telemetry import POLLER, Telemetry
from simlab.switches.state import SwitchState, port_name

_MICRO: Final = 10**6
# metric -> word of the state, and what the metric's unit is multiplied by to get the word's
_WORDS: Final[dict[str, tuple[str, int]]] = {
    port_metrics.RX_BYTES.name: ("rx_bytes", 1),
    port_metrics.TX_BYTES.name: ("tx_bytes", 1),
    port_metrics.RX_DROPS.name: ("rx_drops", 1),
    port_metrics.TX_DROPS.name: ("tx_drops", 1),
    port_metrics.RX_ERRORS.name: ("rx_errors", 1),
    port_metrics.RX_CRC_ERRORS.name: ("rx_crc", 1),
    port_metrics.PFC_RX_FRAMES.name: ("pfc_rx", 1),
    port_metrics.PFC_TX_FRAMES.name: ("pfc_tx", 1),
    port_metrics.PFC_RX_PAUSE.name: ("pause_rx_us", _MICRO),
    port_metrics.QUEUE_TX_PACKETS.name: ("q_packets", 1),
    port_metrics.QUEUE_TX_BYTES.name: ("q_bytes", 1),
    port_metrics.QUEUE_DROPS.name: ("q_drops", 1),
    port_metrics.QUEUE_ECN_MARKED.name: ("q_ecn", 1),
    port_metrics.QUEUE_BACKLOG.name: ("q_depth", 1),
    port_metrics.QUEUE_WATERMARK.name: ("q_max", 1),
    switch_metrics.GROUP_MAX.name: ("pg_max", 1),
    switch_metrics.GROUP_HEADROOM_MAX.name: ("pg_headroom_max", 1),
}


class PacketFeed:
    """A simulation and a state for each of its switches. step_s: simulated time of one step."""

    def __init__(self, plan: Plan, platform: str) -> None:
        self.sim = Simulation(plan.topology, plan.model, plan.traffic, seed=plan.config.seed)
        self.telemetry = Telemetry(self.sim, start_ns=time.time_ns(), switch_refresh_s=0.0)
        self.step_s = plan.config.telemetry.interval_s
        self._end_s = plan.config.duration_s
        self._schedule = Schedule(plan.events)
        ports = self.telemetry.names.interfaces
        self.states: dict[Switch, SwitchState] = {}
        for interface in ports.values():
            state = self.states.get(interface.switch)
            if state is None:
                state = SwitchState(interface.switch.name, platform, 0)
                self.states[interface.switch] = state
            state.grow(_number(interface))
        for port, interface in ports.items():
            self._neighbour(interface, port ^ 1)
        self._show()

    @property
    def running(self) -> bool:
        """Whether there is simulated time left."""
        return self.sim.now_s < self._end_s - 1e-12

    def advance(self, seconds: float) -> None:
        """Simulate so much more, to the end of the plan at most, and show what was counted."""
        until = min(self.sim.now_s + seconds, self._end_s)
        passed = until - self.sim.now_s
        self._schedule.run(self.sim, until)
        for state in self.states.values():
            state.up_ticks = (state.up_ticks + round(passed * 100)) % 2**32
        self._show()

    def _neighbour(self, interface: Interface, far: int) -> None:
        """Let LLDP of an interface see what the cable leads to."""
        topology, names = self.sim.topology, self.telemetry.names
        node = topology.end(far)
        if node in topology.switches:
            remote = names.interface(far)
            other = self.states[remote.switch]
            shown = other.mac, port_name(other.platform, _number(remote)), other.name
        else:
            host = names.host(node)
            shown = SwitchState(host, "openconfig", 0).mac, names.netdev(node).name, host
        self.states[interface.switch].neighbours[_number(interface)] = shown

    def _show(self) -> None:
        for one in self.telemetry.passes():
            if one.agent == POLLER:
                for reading in one.seen.readings:
                    self._take(reading)

    def _take(self, reading: Reading) -> None:
        entity = reading.entity
        interface = entity.parent if isinstance(entity, Slot) else entity
        if not isinstance(interface, Interface):
            return
        slot = entity.index if isinstance(entity, Slot) else 0
        state = self.states[interface.switch]
        for column, value in reading.values.items():
            word, scale = _WORDS.get(column.metric, ("", 1))
            if word:
                number = round(column.to_unit(value) * scale)
                state.put(word, _number(interface), slot, number)


def _number(interface: Interface) -> int:
    """Return the number of a port from 1; the simulation calls it as SONiC would."""
    return int(interface.name.removeprefix("Ethernet")) // 4 + 1
