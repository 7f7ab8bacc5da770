"""A board of collectors with one pass on it, and what a port may have been read of."""

from agent.snapshot import Snapshot
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.entities import (
    Device,
    Interface,
    Port,
    Switch,
)
from collectors.model.reading import Instant, Pass, Reading

PORT = Port(Device("gpu01", "0c42a1030016054c", "mlx5_0"), 1)
LEAF = Interface(Switch("aa:bb", "leaf1"), "Ethernet1/1")


def column(name, key):
    row = CATALOGUE[name]
    return row.column(next(s for s in row.sources if s.key == key))


RX_WORDS = column("node_infiniband_port_data_received_bytes_total", "port_rcv_data")
STATE = column("node_infiniband_state_id", "state")
MTU_DROPS = column("fabric_interface_rx_drops_total", "statistics/rx_dropped")
LIFESPAN = column("node_infiniband_lifespan_seconds", "lifespan")


def snapshot(*readings, facts=None, gaps=(), at=0):
    """A board whose only pass ended at monotonic 0, or at another time."""
    board = Snapshot()
    board.register("sysfs", 5)
    board.succeeded("sysfs", Pass(readings, gaps, facts), at, 0.25)
    return board


def reading(entity, values):
    return Reading(entity, values, Instant(1, 1))
