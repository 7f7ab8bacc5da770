"""Bursts: what samples every few milliseconds say of the seconds between two passes.

Averages over five seconds hide microbursts; these rows are computed by the agent from counters
that cost the device nothing to read (collectors/host/burst.py).
"""

from typing import Final

from collectors.model.metric import Metric, Source, gauge

_ON: Final = ("port", "netdev")


def _derived(key: str) -> Source:
    return Source("derived", f"burst {key}", number="float")


RX_MAX = gauge(
    "fabric_burst_rx_max_bps",
    "bps",
    "Highest rate received between two samples.",
    _derived("rx max"),
    on=_ON,
    number="float",
)
TX_MAX = gauge(
    "fabric_burst_tx_max_bps",
    "bps",
    "Highest rate sent between two samples.",
    _derived("tx max"),
    on=_ON,
    number="float",
)
RX_P99 = gauge(
    "fabric_burst_rx_p99_bps",
    "bps",
    "Rate received that one sample in a hundred exceeds.",
    _derived("rx p99"),
    on=_ON,
    number="float",
)
TX_P99 = gauge(
    "fabric_burst_tx_p99_bps",
    "bps",
    "Rate sent that one sample in a hundred exceeds.",
    _derived("tx p99"),
    on=_ON,
    number="float",
)
RX_BUSY = gauge(
    "fabric_burst_rx_busy_ratio",
    "ratio",
    "Share of the time in which more was received than the set share of the line rate.",
    _derived("rx busy"),
    on=_ON,
    number="float",
)
TX_BUSY = gauge(
    "fabric_burst_tx_busy_ratio",
    "ratio",
    "Share of the time in which more was sent than the set share of the line rate.",
    _derived("tx busy"),
    on=_ON,
    number="float",
)
RX_SILENCE = gauge(
    "fabric_burst_rx_pause_max_seconds",
    "seconds",
    "Longest time without a byte received between times with traffic.",
    _derived("rx pause"),
    on=_ON,
    number="float",
)
TX_SILENCE = gauge(
    "fabric_burst_tx_pause_max_seconds",
    "seconds",
    "Longest time without a byte sent between times with traffic.",
    _derived("tx pause"),
    on=_ON,
    number="float",
)
EVENTS_MAX = gauge(
    "fabric_burst_events_max",
    "count",
    "Most events of the sampled counters, bytes aside, between two samples.",
    _derived("events max"),
    on=_ON,
    number="float",
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))
