"""What a poller reads of simulated Ethernet switches: like SONiC's COUNTERS_DB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectors.model.entities import Interface, Slot, Switch, queue
from collectors.model.reading import Reading
from simlab.packet import layout as at
from simlab.packet.picoseconds import PS_PER_S
from simlab.packet.telemetry_host import cable_end
from simlab.packet.telemetry_snapshot import PRIORITIES, Snapshot, Values, put
from simlab.packet.traffic import DATA_PRIORITY

DRIVER: Final = "sonic"
_QUEUE: Final = {
    "SAI_QUEUE_STAT_BYTES": at.QUEUE_TX_BYTES,
    "SAI_QUEUE_STAT_PACKETS": at.QUEUE_TX_PACKETS,
    "SAI_QUEUE_STAT_DROPPED_PACKETS": at.QUEUE_DROPPED,
    "SAI_QUEUE_STAT_DROPPED_BYTES": at.QUEUE_DROPPED_BYTES,
    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": at.QUEUE_MARKED,
    "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES": at.QUEUE_BYTES,
    "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": at.QUEUE_WATERMARK,
}
_GROUP: Final = {
    "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES": at.GROUP_MAX,
    "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES": at.GROUP_HEADROOM_MAX,
    "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS": at.GROUP_DROPPED,
}


def switch_port(
    seen: Snapshot, port: int, interface: Interface, incarnation: str
) -> Iterator[Reading]:
    """Return the counters of an interface, its queues, priorities and priority groups."""
    row = seen.rows[port]
    held: Values = {}
    counted = {
        "SAI_PORT_STAT_IF_IN_OCTETS": int(seen.arrived[port, 1]),
        "SAI_PORT_STAT_IF_OUT_OCTETS": int(row[at.PORT_TX_BYTES]),
        "SAI_PORT_STAT_IF_IN_UCAST_PKTS": int(seen.arrived[port, 0]),
        "SAI_PORT_STAT_IF_OUT_UCAST_PKTS": int(row[at.PORT_TX_PACKETS]),
        "SAI_PORT_STAT_IF_IN_ERRORS": seen.damaged(port) + seen.oversized(port),
        "SAI_PORT_STAT_IF_IN_DISCARDS": sum(
            seen.group(port, index, at.GROUP_DROPPED) for index in PRIORITIES
        ),
        "SAI_PORT_STAT_IF_OUT_DISCARDS": sum(
            seen.queue(port, index, at.QUEUE_DROPPED) for index in PRIORITIES
        ),
    }
    put(held, "sonic_db", DRIVER, counted)
    yield Reading(interface, held, seen.when, incarnation)
    for index in PRIORITIES:
        yield _priority(seen, port, interface, index, incarnation)
        used = seen.queue(port, index, at.QUEUE_TX_PACKETS) + seen.queue(
            port, index, at.QUEUE_DROPPED
        )
        if used or index == DATA_PRIORITY:
            held = {}
            words = {key: seen.queue(port, index, word) for key, word in _QUEUE.items()}
            words |= _watchdog(seen, port, index)
            put(held, "sonic_db", DRIVER, words)
            yield Reading(queue(interface, index), held, seen.when, incarnation)
        if seen.group(port, index, at.GROUP_MAX) or seen.group(port, index, at.GROUP_DROPPED):
            held = {}
            words = {key: seen.group(port, index, word) for key, word in _GROUP.items()}
            put(held, "sonic_db", DRIVER, words)
            yield Reading(Slot(interface, "priority_group", index), held, seen.when, incarnation)


def _watchdog(seen: Snapshot, port: int, index: int) -> dict[str, int]:
    """Return what the PFC watchdog of a queue counts, nothing where there is none."""
    row = seen.rows[port]
    if not row[at.PORT_WATCHDOG]:
        return {}
    fired = int(row[at.PORT_WATCH_EVENTS]) if row[at.PORT_PAUSE_EPISODES + index] else 0
    stormed = int(row[at.PORT_WATCH_UNTIL]) >> index & 1
    return {
        "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": fired,
        "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED": fired - stormed,
        "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS": (
            seen.queue(port, index, at.QUEUE_DROPPED) if fired else 0
        ),
    }


def _priority(
    seen: Snapshot, port: int, interface: Interface, index: int, incarnation: str
) -> Reading:
    held: Values = {}
    name = f"SAI_PORT_STAT_PFC_{index}"
    suffix = f"{{priority={index}}}"
    row = seen.rows[port]
    values = {
        f"{name}_RX_PKTS{suffix}": int(row[at.PORT_PAUSE_RX + index]),
        f"{name}_TX_PKTS{suffix}": seen.group(port, index, at.GROUP_PAUSE_TX),
        f"{name}_ON2OFF_RX_PKTS{suffix}": int(row[at.PORT_PAUSE_EPISODES + index]),
        f"{name}_RX_PAUSE_DURATION_US{suffix}": int(seen.paused[port, index]) / PS_PER_S,
    }
    put(held, "sonic_db", DRIVER, values)
    return Reading(Slot(interface, "priority", index), held, seen.when, incarnation)


def pool(seen: Snapshot, index: int, switch: Switch, incarnation: str) -> Reading:
    """Return the watermark of the shared buffer of the switch with this index."""
    row = seen.sim.state.switches + index * at.SWITCH_WORDS
    held: Values = {}
    most = seen.sim.word(row + at.SWITCH_MAX)
    put(held, "sonic_db", DRIVER, {"SAI_BUFFER_POOL_STAT_WATERMARK_BYTES": most})
    return Reading(Slot(switch, "pool", 0), held, seen.when, incarnation)


def cable(seen: Snapshot, port: int, interface: Interface, incarnation: str) -> Reading:
    """Return the interface's speed, carrier and damaged frames."""
    held: Values = {}
    put(held, "netdev", DRIVER, cable_end(seen, port))
    return Reading(interface, held, seen.when, incarnation)
