"""What a sweep with management datagrams reads of a simulated InfiniBand subnet."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Interface, Port
from collectors.model.reading import Reading
from simlab.packet import layout as at
from simlab.packet.picoseconds import PS_PER_S
from simlab.packet.results import SUM_PLACE
from simlab.packet.telemetry_host import WAIT_TICK_PS, port_states
from simlab.packet.telemetry_snapshot import Snapshot, Values, put

LANES: Final = 4


def swept_port(seen: Snapshot, port: int, entity: Port | Interface, incarnation: str) -> Reading:
    """Return the counters, state and derived units of one end of a cable."""
    row = seen.rows[port]
    up = seen.is_up(port)
    rate = seen.rate_bps(port)
    built = seen.sim.topology.cables[port // 2].rate_bps
    extended = {
        "PortXmitData": int(row[at.PORT_TX_BYTES]),
        "PortRcvData": int(seen.arrived[port, 1]),
        "PortXmitPkts": int(row[at.PORT_TX_PACKETS]),
        "PortRcvPkts": int(seen.arrived[port, 0]),
        "PortXmitWait": int(row[at.PORT_WAIT]) // WAIT_TICK_PS,
        "SymbolErrorCounter": seen.damaged(port),
        "PortRcvErrors": seen.damaged(port),
        "LinkDownedCounter": int(not up),
        "PortXmitDiscards": 0,
    }
    state, physical = port_states(up=up)
    values: dict[str, float] = {
        f"PortCountersExtended.{name}": value for name, value in extended.items()
    }
    values |= {
        "PortInfo.PortState": state,
        "PortInfo.PortPhysicalState": physical,
        "PortInfo.LinkSpeedActive": rate / 8,
        "PortInfo.LinkWidthActive": 1 if rate * LANES <= built else LANES,
    }
    if isinstance(entity, Port):
        values["PortRcvConCtrl.PortPktRcvFECN"] = _of_qps(seen, port, "ce_received")
        values["PortRcvConCtrl.PortPktRcvBECN"] = _of_qps(seen, port, "cnp_handled")
    held: Values = {}
    put(held, "mad", "*", values)
    put(held, "derived", "*", {"ib_data_rate": rate, "ib_tick": WAIT_TICK_PS / PS_PER_S})
    return Reading(entity, held, seen.when, incarnation)


def _of_qps(seen: Snapshot, port: int, name: str) -> int:
    return int(seen.sums[port, SUM_PLACE[name]])
