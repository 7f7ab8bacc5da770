"""Messages of the RDMA connection manager (kernel core/cm.c): how setting up connections fares.

The kernel counts eleven kinds of message in four groups; a group is summed, and what tells of
trouble stands alone.
"""

from typing import Final

from collectors.model.metric import Metric, Source, counter

TX_MESSAGES = counter(
    "fabric_cm_tx_messages_total",
    "messages",
    "Connection management messages sent.",
    Source("cm", "cm_tx_msgs"),
)
TX_RETRIES = counter(
    "fabric_cm_tx_retries_total",
    "messages",
    "Connection management messages sent again: the peer or the path is silent.",
    Source("cm", "cm_tx_retries"),
)
RX_MESSAGES = counter(
    "fabric_cm_rx_messages_total",
    "messages",
    "Connection management messages received.",
    Source("cm", "cm_rx_msgs"),
)
RX_DUPLICATES = counter(
    "fabric_cm_rx_duplicates_total",
    "messages",
    "Connection management messages received again: the peer missed the answer.",
    Source("cm", "cm_rx_duplicates"),
)
TX_REQUESTS = counter(
    "fabric_cm_tx_requests_total",
    "messages",
    "Connections asked for by this host.",
    Source("cm", "cm_tx_msgs/req"),
)
RX_REQUESTS = counter(
    "fabric_cm_rx_requests_total",
    "messages",
    "Connections asked for by peers.",
    Source("cm", "cm_rx_msgs/req"),
)
RX_REJECTS = counter(
    "fabric_cm_rx_rejects_total",
    "messages",
    "Connections that peers refused.",
    Source("cm", "cm_rx_msgs/rej"),
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))
