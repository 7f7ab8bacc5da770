"""What RDMA work requests did: requests, responses and bytes by operation, per driver.

Names and widths: the drivers' tables in Linux (hw/bnxt_re, irdma, hns, erdma, efa), the
firmware of ionic as it names itself. Requests are requests, not bytes.
"""

from typing import Final

from collectors.model.catalogue.rdma_sources import hw
from collectors.model.metric import Metric, counter, gauge

# --- requests ------------------------------------------------------------------------------------
ATOMIC_REQUESTS_RX = counter(
    "node_infiniband_rx_atomic_requests_total",
    "requests",
    "Atomic requests received.",
    hw("rx_atomic_requests", "mlx5", 32),
    hw("rx_atomic_req", "bnxt_re"),
)
READ_REQUESTS_RX = counter(
    "node_infiniband_rx_read_requests_total",
    "requests",
    "Read requests received.",
    hw("rx_read_requests", "mlx5", 32),
    hw("rx_read_req", "bnxt_re"),
    hw("iwInRdmaReads", "irdma"),
)
WRITE_REQUESTS_RX = counter(
    "node_infiniband_rx_write_requests_total",
    "requests",
    "Write requests received.",
    hw("rx_write_requests", "mlx5", 32),
    hw("rx_write_req", "bnxt_re"),
    hw("iwInRdmaWrites", "irdma"),
)
DCT_CONNECTS_RX = counter(
    "node_infiniband_rx_dct_connect_requests_total",
    "requests",
    "Dynamically connected transport connects received.",
    hw("rx_dct_connect", "mlx5", 32),
)
ACKS_DEFERRED = counter(
    "fabric_rdma_acks_deferred_total",
    "packets",
    "ACKs that the responder put off.",
    hw("ack_deferred", "rxe"),
)
SENDS_TX = counter(
    "fabric_rdma_sends_tx_total",
    "requests",
    "Send requests posted by this device.",
    hw("rdma_sends", "rxe"),
    hw("tx_send_req", "bnxt_re"),
    hw("iwOutRdmaSends", "irdma"),
    hw("send_wrs", "efa"),
)
SENDS_RX = counter(
    "fabric_rdma_sends_rx_total",
    "requests",
    "Send requests received by this device.",
    hw("rdma_recvs", "rxe"),
    hw("rx_send_req", "bnxt_re"),
    hw("iwInRdmaSends", "irdma"),
    hw("recv_wrs", "efa"),
)

# --- requests, responses and bytes by operation ---
READ_REQUESTS_TX = counter(
    "fabric_rdma_read_requests_tx_total",
    "requests",
    "Read requests sent.",
    hw("tx_read_req", "bnxt_re"),
    hw("iwOutRdmaReads", "irdma"),
    hw("rdma_read_wrs", "efa"),
)
WRITE_REQUESTS_TX = counter(
    "fabric_rdma_write_requests_tx_total",
    "requests",
    "Write requests sent.",
    hw("tx_write_req", "bnxt_re"),
    hw("iwOutRdmaWrites", "irdma"),
    hw("rdma_write_wrs", "efa"),
)
ATOMIC_REQUESTS_TX = counter(
    "fabric_rdma_atomic_requests_tx_total",
    "requests",
    "Atomic requests sent.",
    hw("tx_atomic_req", "bnxt_re"),
)
READ_RESPONSES_TX = counter(
    "fabric_rdma_read_responses_tx_total",
    "packets",
    "Read responses sent.",
    hw("tx_read_resp", "bnxt_re"),
)
READ_RESPONSES_RX = counter(
    "fabric_rdma_read_responses_rx_total",
    "packets",
    "Read responses received.",
    hw("rx_read_resp", "bnxt_re"),
)
ROCE_TX_PACKETS = counter(
    "fabric_roce_tx_packets_total",
    "packets",
    "RoCE packets sent, without other traffic of the function.",
    hw("tx_roce_only_pkts", "bnxt_re"),
    hw("tx_rc_pkt", "hns"),
    hw("rdma_tx_packets", "mlx5"),
)
ROCE_TX_BYTES = counter(
    "fabric_roce_tx_bytes_total",
    "bytes",
    "RoCE bytes sent, without other traffic of the function.",
    hw("tx_roce_only_bytes", "bnxt_re"),
    hw("rdma_tx_bytes", "mlx5"),
)
ROCE_RX_PACKETS = counter(
    "fabric_roce_rx_packets_total",
    "packets",
    "RoCE packets received, without other traffic of the function.",
    hw("rx_roce_only_pkts", "bnxt_re"),
    hw("rx_rc_pkt", "hns"),
    hw("rdma_rx_packets", "mlx5"),
)
ROCE_RX_BYTES = counter(
    "fabric_roce_rx_bytes_total",
    "bytes",
    "RoCE bytes received, without other traffic of the function.",
    hw("rx_roce_only_bytes", "bnxt_re"),
    hw("rdma_rx_bytes", "mlx5"),
)
ROCE_RX_GOOD_PACKETS = counter(
    "fabric_roce_rx_good_packets_total",
    "packets",
    "RoCE packets received and accepted.",
    hw("rx_roce_good_pkts", "bnxt_re"),
)
ROCE_RX_GOOD_BYTES = counter(
    "fabric_roce_rx_good_bytes_total",
    "bytes",
    "RoCE bytes received and accepted: goodput.",
    hw("rx_roce_good_bytes", "bnxt_re"),
)
UD_TX_PACKETS = counter(
    "fabric_rdma_ud_tx_packets_total",
    "packets",
    "Datagram packets sent.",
    hw("tx_ud_pkt", "hns"),
)
UD_RX_PACKETS = counter(
    "fabric_rdma_ud_rx_packets_total",
    "packets",
    "Datagram packets received.",
    hw("rx_ud_pkt", "hns"),
)
SEND_TX_BYTES = counter(
    "fabric_rdma_send_tx_bytes_total",
    "bytes",
    "Payload bytes of send requests.",
    hw("send_bytes", "efa"),
)
SEND_RX_BYTES = counter(
    "fabric_rdma_send_rx_bytes_total",
    "bytes",
    "Payload bytes of sends received.",
    hw("recv_bytes", "efa"),
)
READ_RX_BYTES = counter(
    "fabric_rdma_read_rx_bytes_total",
    "bytes",
    "Payload bytes that came by reads of this device.",
    hw("rdma_read_bytes", "efa"),
)
READ_TX_BYTES = counter(
    "fabric_rdma_read_tx_bytes_total",
    "bytes",
    "Payload bytes sent in answer to reads.",
    hw("rdma_read_resp_bytes", "efa"),
)
WRITE_TX_BYTES = counter(
    "fabric_rdma_write_tx_bytes_total",
    "bytes",
    "Payload bytes of write requests.",
    hw("rdma_write_bytes", "efa"),
)
WRITE_RX_BYTES = counter(
    "fabric_rdma_write_rx_bytes_total",
    "bytes",
    "Payload bytes written here by peers.",
    hw("rdma_write_recv_bytes", "efa"),
)
READ_ERRORS = counter(
    "fabric_rdma_read_errors_total",
    "events",
    "Read requests that completed in error.",
    hw("rdma_read_wr_err", "efa"),
)
WRITE_ERRORS = counter(
    "fabric_rdma_write_errors_total",
    "events",
    "Write requests that completed in error.",
    hw("rdma_write_wr_err", "efa"),
)
RETRANS_PACKETS_TX = counter(
    "fabric_rdma_retransmitted_tx_packets_total",
    "packets",
    "Packets sent again.",
    hw("retrans_pkts", "efa"),
)
RETRANS_BYTES_TX = counter(
    "fabric_rdma_retransmitted_tx_bytes_total",
    "bytes",
    "Bytes sent again.",
    hw("retrans_bytes", "efa"),
)
RETRANS_TIMEOUTS = counter(
    "fabric_rdma_retransmission_timeouts_total",
    "events",
    "Retransmission timers that ran out.",
    hw("retrans_timeout_events", "efa"),
)
IMPAIRED_CONNECTIONS = counter(
    "fabric_rdma_impaired_connections_total",
    "events",
    "Connections to peers that entered an impaired state.",
    hw("impaired_remote_conn_events", "efa"),
)
UNRESPONSIVE_PEERS = counter(
    "fabric_rdma_unresponsive_peers_total",
    "events",
    "Peers that stopped to answer.",
    hw("unresponsive_remote_events", "efa"),
)
CC_CE_RX = counter(
    "fabric_rdma_cc_ce_rx_packets_total",
    "packets",
    "Packets received with congestion experienced, by an optional counter of the device.",
    hw("cc_rx_ce_pkts", "mlx5"),
)
CC_CNP_RX = counter(
    "fabric_rdma_cc_cnp_rx_packets_total",
    "packets",
    "CNPs received, handled or not, by an optional counter of the device.",
    hw("cc_rx_cnp_pkts", "mlx5"),
)
CC_CNP_TX = counter(
    "fabric_rdma_cc_cnp_tx_packets_total",
    "packets",
    "CNPs sent, by an optional counter of the device.",
    hw("cc_tx_cnp_pkts", "mlx5"),
)
IWARP_RETRANS = counter(
    "fabric_iwarp_retransmitted_segments_total",
    "packets",
    "TCP segments of iWARP sent again.",
    hw("tcpRetransSegs", "irdma"),
)
IP4_RX_DISCARDS = counter(
    "fabric_rdma_ip4_rx_discards_total",
    "packets",
    "IPv4 packets of RDMA received and discarded.",
    hw("ip4InDiscards", "irdma"),
)
IP6_RX_DISCARDS = counter(
    "fabric_rdma_ip6_rx_discards_total",
    "packets",
    "IPv6 packets of RDMA received and discarded.",
    hw("ip6InDiscards", "irdma"),
)
IP4_RX_BYTES = counter(
    "fabric_rdma_ip4_rx_bytes_total",
    "bytes",
    "IPv4 bytes of RDMA received.",
    hw("ip4InOctets", "irdma"),
)
IP4_TX_BYTES = counter(
    "fabric_rdma_ip4_tx_bytes_total",
    "bytes",
    "IPv4 bytes of RDMA sent.",
    hw("ip4OutOctets", "irdma"),
)
IP6_RX_BYTES = counter(
    "fabric_rdma_ip6_rx_bytes_total",
    "bytes",
    "IPv6 bytes of RDMA received.",
    hw("ip6InOctets", "irdma"),
)
IP6_TX_BYTES = counter(
    "fabric_rdma_ip6_tx_bytes_total",
    "bytes",
    "IPv6 bytes of RDMA sent.",
    hw("ip6OutOctets", "irdma"),
)
RATE_LIMIT_TX_DROPS = counter(
    "fabric_rdma_rate_limit_tx_drops_total",
    "packets",
    "Packets dropped by the byte-rate limit of the instance on the way out.",
    hw("tx_bps_limit_drop_cnt", "erdma"),
)
RATE_LIMIT_RX_DROPS = counter(
    "fabric_rdma_rate_limit_rx_drops_total",
    "packets",
    "Packets dropped by the byte-rate limit of the instance on the way in.",
    hw("rx_bps_limit_drop_cnt", "erdma"),
)
PPS_LIMIT_TX_DROPS = counter(
    "fabric_rdma_packet_limit_tx_drops_total",
    "packets",
    "Packets dropped by the packet-rate limit of the instance on the way out.",
    hw("tx_pps_limit_drop_cnt", "erdma"),
)
PPS_LIMIT_RX_DROPS = counter(
    "fabric_rdma_packet_limit_rx_drops_total",
    "packets",
    "Packets dropped by the packet-rate limit of the instance on the way in.",
    hw("rx_pps_limit_drop_cnt", "erdma"),
)
ACTIVE_QPS = gauge(
    "fabric_rdma_active_qps",
    "count",
    "Queue pairs that exist now.",
    hw("active_qps", "bnxt_re"),
)
ACTIVE_CQS = gauge(
    "fabric_rdma_active_cqs",
    "count",
    "Completion queues that exist now.",
    hw("active_cqs", "bnxt_re"),
)
ACTIVE_MRS = gauge(
    "fabric_rdma_active_mrs",
    "count",
    "Memory regions that exist now.",
    hw("active_mrs", "bnxt_re"),
)
COMMANDS = counter(
    "fabric_rdma_commands_total",
    "requests",
    "Admin commands given to the device.",
    hw("submitted_cmds", "efa"),
    on="device",
)
COMMAND_ERRORS = counter(
    "fabric_rdma_command_errors_total",
    "requests",
    "Admin commands that failed.",
    hw("cmds_err", "efa"),
    on="device",
)
COMMANDS_LOST = counter(
    "fabric_rdma_commands_unanswered_total",
    "requests",
    "Admin commands that the device did not answer.",
    hw("no_completion_cmds", "efa"),
    on="device",
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))
