"""Names of settings and attributes: what facts may say, with unit and meaning.

A setting is configured (somebody could change it); an attribute is identity or inventory.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.catalogue import switch_settings
from collectors.model.catalogue.host_settings import HOST_SETTINGS
from collectors.model.catalogue.named import Named
from collectors.model.facts import Value

_MOST: Final = 1 << 64

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
    Named("pause_rx_enabled", "bool", "The interface obeys 802.3x pause."),
    Named("pause_tx_enabled", "bool", "The interface sends 802.3x pause."),
    Named("pause_autonegotiate", "bool", "802.3x pause is negotiated with the peer."),
    Named("speed_autonegotiate", "bool", "The speed is negotiated with the peer."),
    Named("ib_lanes_enabled", "", "Link widths that the InfiniBand port may use: 1x 4x..."),
    Named("ib_speeds_enabled", "", "Link speeds that the InfiniBand port may use: QDR EDR..."),
    Named("ib_operational_vls", "count", "Data virtual lanes in use on the link."),
    Named("ib_hoq_life", "count", "HOQLife code: a packet waits at most 4.096 us x 2^code."),
    Named("ib_vl_stall_count", "count", "Packets lost to HOQLife before the lane counts stalled."),
    Named(
        "ib_vl_high_limit", "count", "Bytes/4096 of high-priority lanes before one low; 255: no."
    ),
    Named("ib_sl_to_vl", "count", "Virtual lane of each service level.", "service level"),
    Named("ib_vl_arbitration_high", "count", "Weight by virtual lane, 64 B units.", "virtual lane"),
    Named("ib_vl_arbitration_low", "count", "Weight by virtual lane, 64 B units.", "virtual lane"),
    Named("ib_cc_supported", "bool", "The device answers the congestion control class."),
    Named("ib_cc_threshold", "count", "Switch marking threshold: 0 off ... 15 most eager."),
    Named("ib_cc_marking_rate", "count", "A switch marks at most one packet in this many + 1."),
    Named("ib_cc_packet_size", "count", "Smallest packet that is marked, 64 B units."),
    Named("ib_cc_control_map", "count", "Adapter: bitmap of service levels under control."),
    Named("ib_cc_ccti_timer", "count", "Recovery timer, 1.024 us units.", "service level"),
    Named("ib_cc_ccti_increase", "count", "Steps back for each BECN.", "service level"),
    Named("ib_cc_ccti_min", "count", "Smallest table index.", "service level"),
    Named(
        "ib_cc_trigger_threshold", "count", "Index at which an event is logged.", "service level"
    ),
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
    Named("ib_port_guid", "", "Port GUID of an InfiniBand adapter's port, 16 hex digits."),
    Named("ib_tier", "count", "Tier of an InfiniBand switch: 0 leaf, 1 spine, 2 core."),
    Named("ib_rail", "count", "Rail of an adapter port: its place among the ports of its host."),
    Named("ib_oddity", "", "How the cabling differs here from its like in the fabric."),
    Named("max_qp", "count", "Most queue pairs that the device holds."),
    Named("max_qp_wr", "count", "Most work requests that a queue of the device holds."),
    Named("numa_node", "count", "NUMA node that the PCIe device hangs on, -1: unknown."),
    Named("rdma_mtu_max_bytes", "bytes", "Largest RDMA path MTU that the port can do."),
)

SETTINGS: Final[Mapping[str, Named]] = MappingProxyType(
    {row.name: row for row in (*_SETTINGS, *HOST_SETTINGS, *switch_settings.SETTINGS)}
)
_NUMERIC: Final = {n: row for n, row in SETTINGS.items() if row.unit not in ("", "bool")}
ATTRIBUTES: Final[Mapping[str, Named]] = MappingProxyType(
    {row.name: row for row in (*_ATTRIBUTES, *switch_settings.ATTRIBUTES)}
)


def fits(name: str, value: Value) -> bool:
    """Tell whether a value has the type of its setting: numbers where the row has a unit.

    A bool is no number, nor is one that a counter of 64 bits could not hold. What has no row, and
    text, fits as it is.
    """
    row = _NUMERIC.get(name)
    if row is None:
        return True
    if isinstance(value, tuple) and not row.indexed_by:
        return False
    parts = value if isinstance(value, tuple) else (value,)
    return all(
        isinstance(part, (int, float)) and not isinstance(part, bool) and abs(part) < _MOST
        for part in parts
    )
