"""Names of settings and attributes: what facts may say, with unit and meaning.

A setting is configured (somebody could change it); an attribute is identity or inventory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Named:
    """A row: name, unit ('' for text), what it means, and what the places of a tuple are."""

    name: str
    unit: str
    meaning: str
    indexed_by: str = ""


_SETTINGS: Final = (
    Named("mtu_bytes", "bytes", "Largest IP packet that the interface sends."),
    Named("rdma_mtu_bytes", "bytes", "RDMA path MTU of the port: payload bytes of one packet."),
    Named("speed_bps", "bps", "Speed that the interface is set to."),
    Named("queue_limit_bytes", "bytes", "Most bytes that the egress queue holds."),
    Named("queue_rate_bps", "bps", "Rate that the egress queue is shaped to."),
    Named("ecn_enabled", "bool", "The egress queue marks ECN-capable packets instead of dropping."),
    Named("kmin_bytes", "bytes", "Queue depth at which marking begins."),
    Named("kmax_bytes", "bytes", "Queue depth at which marking reaches Pmax."),
    Named("pmax_ratio", "ratio", "Marking probability at Kmax."),
)
_ATTRIBUTES: Final = (
    Named("driver", "", "Kernel driver of the device: mlx5, bnxt_re, rxe..."),
    Named("firmware", "", "Firmware version."),
    Named("board_id", "", "Vendor's board id."),
    Named("hca_type", "", "Vendor's name for the kind of adapter."),
    Named("node_guid", "", "Node GUID, 16 hex digits."),
    Named("sys_image_guid", "", "System image GUID, 16 hex digits."),
    Named("node_type", "", "CA, switch, router."),
    Named("pci_address", "", "PCI address of the function."),
    Named("link_layer", "", "InfiniBand, Ethernet or Unknown."),
    Named("netdev", "", "Network interface of the RDMA port."),
    Named("is_vf", "bool", "The device is a virtual function."),
    Named("address", "", "Addresses of the interface."),
    Named("mac", "", "Hardware address of the interface."),
    Named("lid", "", "Local identifier of the InfiniBand port."),
    Named("max_qp", "count", "Most queue pairs that the device holds."),
    Named("max_qp_wr", "count", "Most work requests that a queue of the device holds."),
    Named("rdma_mtu_max_bytes", "bytes", "Largest RDMA path MTU that the port can do."),
)

SETTINGS: Final[Mapping[str, Named]] = MappingProxyType({row.name: row for row in _SETTINGS})
ATTRIBUTES: Final[Mapping[str, Named]] = MappingProxyType({row.name: row for row in _ATTRIBUTES})
