"""What agents read of simulated host NICs: like mlx5, through sysfs, hw_counters, ethtool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from collectors.codec.mad_smp import LINK_UP, POLLING, PORT_ACTIVE, PORT_DOWN
from collectors.model.entities import Netdev, Port, priority
from collectors.model.reading import Reading
from simlab.packet import layout as at
from simlab.packet.parameters import Form
from simlab.packet.picoseconds import PS_PER_S
from simlab.packet.results import SUM_PLACE
from simlab.packet.telemetry_snapshot import PRIORITIES, Snapshot, Values, put

NIC: Final = "mlx5"
WAIT_TICK_PS: Final = 4000  # one tick of port_xmit_wait here: 4 ns
_HW_COUNTERS: Final[Mapping[str, str]] = {
    "np_ecn_marked_roce_packets": "ce_received",
    "np_cnp_sent": "cnp_sent",
    "out_of_sequence": "out_of_sequence",
    "duplicate_request": "duplicates",
    "local_ack_timeout_err": "timeouts",
    "rnr_nak_retry_err": "rnr_naks",
}


def rdma_port(seen: Snapshot, node: int, port: Port, incarnation: str) -> Reading:
    """Return the port counters."""
    at_port = seen.sim.state.nics[node]
    row = seen.rows[at_port]
    held: Values = {}
    values = {
        "port_xmit_data": row[at.PORT_TX_BYTES],
        "port_rcv_data": seen.arrived[at_port, 1],
        "port_xmit_packets": row[at.PORT_TX_PACKETS],
        "port_rcv_packets": seen.arrived[at_port, 0],
        "port_xmit_wait": row[at.PORT_WAIT] // WAIT_TICK_PS,
        "port_rcv_discards": row[at.PORT_RX_DISCARDS],
        "symbol_error": seen.damaged(at_port),
        "port_rcv_errors": seen.damaged(at_port),
        "link_downed": int(not seen.is_up(at_port)),
    }
    put(held, "sysfs_counters", NIC, values)
    state, physical = port_states(up=seen.is_up(at_port))
    values = {
        "state": state,
        "phys_state": physical,
        "rate": seen.rate_bps(at_port) / 8,
    }
    put(held, "sysfs_port", NIC, values)
    return Reading(port, held, seen.when, incarnation)


def port_states(*, up: bool) -> tuple[int, int]:
    """Return PortState and PortPhysicalState of an RDMA port."""
    return (PORT_ACTIVE, LINK_UP) if up else (PORT_DOWN, POLLING)


def hardware(seen: Snapshot, node: int, port: Port, incarnation: str) -> Reading:
    """Return the hardware counters of the port's queue pairs."""
    at_port = seen.sim.state.nics[node]
    values = {key: int(seen.sums[at_port, SUM_PLACE[name]]) for key, name in _HW_COUNTERS.items()}
    cnps = int(seen.sums[at_port, SUM_PLACE["cnp_handled"]])
    obeys = seen.sim.model.congestion_at(node).form is not Form.OFF
    values |= {
        "rp_cnp_handled": cnps if obeys else 0,
        "rp_cnp_ignored": 0 if obeys else cnps,
        "packet_seq_err": int(seen.naks[at_port]),
        "out_of_buffer": int(seen.refused[at_port]),
        "req_transport_retries_exceeded": int(seen.failed[at_port]),
    }
    held: Values = {}
    put(held, "hw_counters", NIC, values)
    return Reading(port, held, seen.when, incarnation)


def interface(seen: Snapshot, node: int, netdev: Netdev, incarnation: str) -> Reading:
    """Return what the kernel says of the interface itself."""
    held: Values = {}
    at_port = seen.sim.state.nics[node]
    put(held, "netdev", NIC, cable_end(seen, at_port))
    return Reading(netdev, held, seen.when, incarnation)


def cable_end(seen: Snapshot, port: int) -> dict[str, float]:
    """Return speed, carrier and damaged frames of one end of a cable, by sysfs names."""
    up = seen.is_up(port)
    return {
        "speed": seen.rate_bps(port),
        "carrier": int(up),
        "operstate": 1 if up else 2,
        "carrier_down_count": int(not up),
        "statistics/rx_crc_errors": seen.damaged(port),
    }


def ethtool(seen: Snapshot, node: int, netdev: Netdev, incarnation: str) -> Iterator[Reading]:
    """Return the driver's statistics: of the port, then by priority."""
    at_port = seen.sim.state.nics[node]
    row = seen.rows[at_port]
    whole: Values = {}
    values = {
        "rx_discards_phy": int(row[at.PORT_RX_DISCARDS]),
        "rx_oversize_pkts_phy": seen.oversized(at_port),
    }
    put(whole, "ethtool", NIC, values)
    yield Reading(netdev, whole, seen.when, incarnation)
    far = at_port ^ 1
    for index in PRIORITIES:
        held: Values = {}
        counted = {
            "rx_prio{p}_pause": int(row[at.PORT_PAUSE_RX + index]),
            "tx_prio{p}_pause": seen.group(at_port, index, at.GROUP_PAUSE_TX),
            "rx_prio{p}_pause_transition": int(row[at.PORT_PAUSE_EPISODES + index]),
            "rx_prio{p}_pause_duration": int(seen.paused[at_port, index]) / PS_PER_S,
            "tx_prio{p}_pause_duration": int(seen.paused[far, index]) / PS_PER_S,
        }
        put(held, "ethtool", NIC, counted)
        yield Reading(priority(netdev, index), held, seen.when, incarnation)
