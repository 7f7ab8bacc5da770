"""Interfaces and their queues: netdevs of hosts and interfaces of switches alike."""

from fractions import Fraction
from typing import Final

from collectors.model.metric import Metric, Source, counter, gauge, state

MBPS: Final = Fraction(1_000_000)
US: Final = Fraction(1, 1_000_000)
_ENDS: Final = ("netdev", "interface")


def _stat(key: str) -> Source:
    return Source("netdev", f"statistics/{key}")


def ethtool(
    key: str, driver: str, scale: Fraction = Fraction(1), width: int = 64, note: str = ""
) -> Source:
    """Return a statistic of `ethtool -S`; {p} stands for a priority, {lane} for a lane."""
    return Source("ethtool", key, driver, scale=scale, width=width, note=note)


RX_BYTES = counter(
    "fabric_interface_rx_bytes_total",
    "bytes",
    "Bytes received by the interface, all traffic.",
    _stat("rx_bytes"),
    on=_ENDS,
)
TX_BYTES = counter(
    "fabric_interface_tx_bytes_total",
    "bytes",
    "Bytes sent by the interface, all traffic.",
    _stat("tx_bytes"),
    on=_ENDS,
)
RX_PACKETS = counter(
    "fabric_interface_rx_packets_total",
    "packets",
    "Packets received by the interface.",
    _stat("rx_packets"),
    on=_ENDS,
)
TX_PACKETS = counter(
    "fabric_interface_tx_packets_total",
    "packets",
    "Packets sent by the interface.",
    _stat("tx_packets"),
    on=_ENDS,
)
RX_ERRORS = counter(
    "fabric_interface_rx_errors_total",
    "packets",
    "Packets received in error.",
    _stat("rx_errors"),
    on=_ENDS,
)
TX_ERRORS = counter(
    "fabric_interface_tx_errors_total",
    "packets",
    "Packets that could not be sent because of an error.",
    _stat("tx_errors"),
    on=_ENDS,
)
RX_DROPS = counter(
    "fabric_interface_rx_drops_total",
    "packets",
    "Packets received and dropped.",
    _stat("rx_dropped"),
    on=_ENDS,
)
TX_DROPS = counter(
    "fabric_interface_tx_drops_total",
    "packets",
    "Packets dropped instead of sent.",
    _stat("tx_dropped"),
    on=_ENDS,
)
RX_CRC_ERRORS = counter(
    "fabric_interface_rx_crc_errors_total",
    "packets",
    "Frames received with a wrong checksum: cable or optics.",
    _stat("rx_crc_errors"),
    on=_ENDS,
)
CARRIER_DOWN = counter(
    "fabric_interface_carrier_down_total",
    "events",
    "Times that the link went down.",
    Source("netdev", "carrier_down_count"),
    on=_ENDS,
    width=32,
)
CARRIER_CHANGES = counter(
    "fabric_interface_carrier_changes_total",
    "events",
    "Times that the link went up or down.",
    Source("netdev", "carrier_changes"),
    on=_ENDS,
    width=32,
)
CARRIER = state(
    "fabric_interface_carrier",
    "1 where the link is up, 0 where it is down.",
    Source("netdev", "carrier"),
    on=_ENDS,
)
OPER_STATE = state(
    "fabric_interface_oper_state_id",
    "Operational state as in RFC 2863: 1 up, 2 down, 3 testing, 4 unknown, 5 dormant, "
    "6 not present, 7 lower layer down.",
    Source("netdev", "operstate"),
    on=_ENDS,
)
SPEED = gauge(
    "fabric_interface_speed_bps",
    "bps",
    "Speed of the link.",
    Source("netdev", "speed", scale=MBPS, note="-1 where unknown"),
    on=_ENDS,
)

# --- egress queues ---------------------------------------------------------------------------
_QUEUE: Final = ("queue",)
QUEUE_TX_BYTES = counter(
    "fabric_queue_tx_bytes_total",
    "bytes",
    "Bytes that left the egress queue for the wire.",
    Source("qdisc", "bytes"),
    on=_QUEUE,
)
QUEUE_TX_PACKETS = counter(
    "fabric_queue_tx_packets_total",
    "packets",
    "Packets that left the egress queue for the wire.",
    Source("qdisc", "packets"),
    on=_QUEUE,
)
QUEUE_DROPS = counter(
    "fabric_queue_drop_packets_total",
    "packets",
    "Packets that the egress queue dropped: full, or above its drop threshold.",
    Source("qdisc", "drops", width=32),
    on=_QUEUE,
)
QUEUE_ECN_MARKED = counter(
    "fabric_queue_ecn_marked_packets_total",
    "packets",
    "Packets that the egress queue marked with congestion experienced.",
    Source("qdisc", "red marked", width=32),
    Source("qdisc", "fq_codel ecn_mark", width=32),
    on=_QUEUE,
)
QUEUE_BACKLOG = gauge(
    "fabric_queue_occupancy_bytes",
    "bytes",
    "Bytes waiting in the egress queue at the time of reading.",
    Source("qdisc", "backlog"),
    on=_QUEUE,
)
QUEUE_WATERMARK = gauge(
    "fabric_queue_occupancy_max_bytes",
    "bytes",
    "Most bytes that waited in the egress queue since the device last cleared its watermark.",
    on=_QUEUE,
)

# --- flow control ----------------------------------------------------------------------------
_PRIORITY: Final = ("priority",)
PFC_RX_FRAMES = counter(
    "fabric_pfc_rx_frames_total",
    "frames",
    "PFC frames received for the priority: the peer asked this port to stop.",
    ethtool("rx_prio{p}_pause", "mlx5"),
    ethtool("rx_pfc_ena_frames_pri{p}", "bnxt_en"),
    ethtool("rx_priority_{p}_xoff.nic", "ice"),
    ethtool("mac_rx_pfc_pri{p}_pkt_num", "hns3"),
    on=_PRIORITY,
)
PFC_TX_FRAMES = counter(
    "fabric_pfc_tx_frames_total",
    "frames",
    "PFC frames sent for the priority: this port asked its peer to stop.",
    ethtool("tx_prio{p}_pause", "mlx5"),
    ethtool("tx_pfc_ena_frames_pri{p}", "bnxt_en"),
    ethtool("tx_priority_{p}_xoff.nic", "ice"),
    ethtool("mac_tx_pfc_pri{p}_pkt_num", "hns3"),
    on=_PRIORITY,
)
PFC_RX_PAUSE = counter(
    "fabric_pfc_rx_pause_seconds_total",
    "seconds",
    "Time that this port was not allowed to send the priority.",
    ethtool("rx_prio{p}_pause_duration", "mlx5", US),
    ethtool("pfc_pri{p}_rx_duration_us", "bnxt_en", US),
    ethtool("rx_pripause_{p}_1us_count", "ionic", US),
    on=_PRIORITY,
)
PFC_TX_PAUSE = counter(
    "fabric_pfc_tx_pause_seconds_total",
    "seconds",
    "Time that this port kept its peer from sending the priority.",
    ethtool("tx_prio{p}_pause_duration", "mlx5", US),
    ethtool("pfc_pri{p}_tx_duration_us", "bnxt_en", US),
    ethtool("tx_pripause_{p}_1us_count", "ionic", US),
    on=_PRIORITY,
)
PAUSE_RX_FRAMES = counter(
    "fabric_pause_rx_frames_total",
    "frames",
    "802.3x pause frames received, all traffic: the peer asked this port to stop.",
    ethtool("rx_pause_ctrl_phy", "mlx5"),
    ethtool("rx_pause_frames", "bnxt_en"),
    ethtool("link_xoff_rx.nic", "ice"),
    ethtool("frames_rx_pause", "ionic"),
    Source("ethtool_nl", "pause rx_frames"),
    on=_ENDS,
)
PAUSE_TX_FRAMES = counter(
    "fabric_pause_tx_frames_total",
    "frames",
    "802.3x pause frames sent, all traffic: this port asked its peer to stop.",
    ethtool("tx_pause_ctrl_phy", "mlx5"),
    ethtool("tx_pause_frames", "bnxt_en"),
    ethtool("link_xoff_tx.nic", "ice"),
    ethtool("frames_tx_pause", "ionic"),
    Source("ethtool_nl", "pause tx_frames"),
    on=_ENDS,
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))
