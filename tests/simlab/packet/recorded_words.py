"""What a run of the packet model comes to: every counter, in a form to be recorded."""

from __future__ import annotations

import numpy as np

from simlab.packet import layout as at
from simlab.packet.results import (
    QP_COUNTERS,
    arrivals,
    group_words,
    message_rows,
    paused_ps,
    port_rows,
    port_table,
    qp_table,
    qp_total,
    queue_words,
)
from simlab.packet.simulation import Simulation

QUEUE_WORDS = {
    "queue tx bytes": at.QUEUE_TX_BYTES, "queue tx packets": at.QUEUE_TX_PACKETS,
    "queue marked": at.QUEUE_MARKED, "queue dropped": at.QUEUE_DROPPED,
    "queue dropped bytes": at.QUEUE_DROPPED_BYTES, "queue watermark": at.QUEUE_WATERMARK,
    "queue deficit": at.QUEUE_DEFICIT, "queue bytes": at.QUEUE_BYTES,
}  # fmt: skip
GROUP_WORDS = {
    "group max": at.GROUP_MAX, "group pauses": at.GROUP_PAUSE_TX,
    "group resumes": at.GROUP_RESUME_TX, "group dropped": at.GROUP_DROPPED,
    "group headroom max": at.GROUP_HEADROOM_MAX, "group bytes": at.GROUP_BYTES,
}  # fmt: skip
PORT_WORDS = {
    "wait": at.PORT_WAIT, "resumes received": at.PORT_RESUME_RX, "lost": at.PORT_LOST,
    "lost bytes": at.PORT_LOST_BYTES, "receive discards": at.PORT_RX_DISCARDS,
    "watchdog events": at.PORT_WATCH_EVENTS,
}  # fmt: skip
PORT_ROWS = {
    "pauses received": at.PORT_PAUSE_RX, "pause episodes": at.PORT_PAUSE_EPISODES,
    "credit wait": at.PORT_CREDIT_WAIT, "credit": at.PORT_CREDIT,
}  # fmt: skip
MESSAGE_WORDS = {
    "started": at.MSG_START, "acknowledged": at.MSG_ACKED_TIME, "received": at.MSG_RECEIVED_TIME,
    "repeats": at.MSG_RECEIVED,
}  # fmt: skip
TOTALS = {
    "events": at.EVENTS, "link packets": at.LINK_PACKETS, "now": at.NOW,
    "packets alive": at.PACKETS_ALIVE, "cnps sent": at.CNP_SENT_TOTAL,
    "messages done": at.DONE_MESSAGES,
}  # fmt: skip
COLUMNS = ("tx_packets", "tx_bytes", "rx_packets", "rx_bytes", "queue_max_bytes")


def told(sim: Simulation) -> dict[str, list[int]]:
    """Return every counter as its total and its total weighted by place, zeros left out."""
    ports, rows, messages = port_table(sim), port_rows(sim), message_rows(sim)
    tables = {f"qp {name}": column for name, column in qp_table(sim).items()}
    tables |= {f"port {name}": ports[name] for name in COLUMNS}
    tables |= {name: queue_words(sim, word) for name, word in QUEUE_WORDS.items()}
    tables |= {name: group_words(sim, word) for name, word in GROUP_WORDS.items()}
    tables |= {name: rows[:, word] for name, word in PORT_WORDS.items()}
    tables |= {name: rows[:, word : word + 8] for name, word in PORT_ROWS.items()}
    tables |= {name: messages[:, word] for name, word in MESSAGE_WORDS.items()}
    tables |= {name: np.array(sim.word(word)) for name, word in TOTALS.items()}
    tables |= {f"all {name}": np.array(qp_total(sim, name)) for name in QP_COUNTERS}
    tables |= {"arrivals": arrivals(sim), "paused": paused_ps(sim), "trace": sim.samples()}
    found = {}
    for name, table in tables.items():
        values = [int(value) for value in np.asarray(table).ravel()]
        if any(values):
            weighted = sum(place * value for place, value in enumerate(values, start=1))
            found[name] = [sum(values), weighted % (2**31 - 1)]
    return found
