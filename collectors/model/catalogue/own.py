"""What fabric-agent and `tuner serve` say of themselves on their /metrics.

Nothing else exposes these, so a row has no sources. To add a number, add its row here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

OwnKind: TypeAlias = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """A row: the exposition name, with unit and `_total` as Prometheus wants them; the meaning.

    labels: beyond those of the entity that it tells of, where it tells of one.
    """

    name: str
    kind: OwnKind
    meaning: str
    labels: tuple[str, ...]


def _own(name: str, meaning: str, *labels: str) -> OwnMetric:
    return OwnMetric(name, "counter" if name.endswith("_total") else "gauge", meaning, labels)


def _seconds(name: str, meaning: str) -> OwnMetric:
    return OwnMetric(name, "histogram", meaning, ())


# --- the agent

AGENT_INFO: Final = _own("fabric_agent_info", "Version of the agent; always 1.", "version")
PORT_INFO: Final = _own(
    "fabric_port_info", "Identity of an RDMA port; always 1.",
    "link_layer", "netdev", "driver", "pci_addr", "is_vf", "node_guid",
)  # fmt: skip
DEVICE_INFO: Final = _own(
    "node_infiniband_info", "Board, firmware and kind of an RDMA device; always 1.",
    "board_id", "firmware_version", "hca_type",
)  # fmt: skip
COLLECTOR_SUCCESS: Final = _own(
    "fabric_agent_collector_success",
    "1 where the last pass succeeded and none is late.",
    "collector",
)
COLLECTOR_AGE: Final = _own(
    "fabric_agent_collector_age_seconds", "Time since the last pass that succeeded.", "collector"
)
COLLECTOR_DURATION: Final = _own(
    "fabric_agent_collector_duration_seconds", "Length of the last pass.", "collector"
)
COLLECTOR_PASSES: Final = _own(
    "fabric_agent_collector_passes_total", "Passes that ended.", "collector"
)
COLLECTOR_OVERRUNS: Final = _own(
    "fabric_agent_collector_overruns_total", "Passes that overran their deadline.", "collector"
)
COLLECTOR_FAILURES: Final = _own(
    "fabric_agent_collector_failures_total",
    "Passes that failed, by reason.",
    "collector",
    "reason",
)
GAPS: Final = _own("fabric_agent_gaps_total", "Values not read, by reason.", "collector", "reason")
UPLINK_CONNECTED: Final = _own("fabric_agent_uplink_connected", "1 while the tuner takes data.")
UPLINK_REFUSED: Final = _own("fabric_agent_uplink_refused", "1 where the tuner refuses this agent.")
UPLINK_REFUSED_ITEMS: Final = _own(
    "fabric_agent_uplink_refused_items_total", "Items refused for good, and skipped."
)
UPLINK_ACKNOWLEDGED_ITEMS: Final = _own(
    "fabric_agent_uplink_acknowledged_items_total", "Items of this run safe with the tuner."
)
SPOOL_ITEMS: Final = _own("fabric_agent_spool_items_total", "Items of this run given to the spool.")
SPOOL_BYTES: Final = _own("fabric_agent_spool_bytes", "Size of the spool, on disk and in memory.")
SPOOL_DROPPED_ITEMS: Final = _own(
    "fabric_agent_spool_dropped_items_total", "Items lost because the spool was full."
)
SPOOL_WRITE_ERRORS: Final = _own(
    "fabric_agent_spool_write_errors_total",
    "Items that the disk refused; they wait in memory.",
)
DROPPED_PASSES: Final = _own(
    "fabric_agent_dropped_passes_total", "Passes lost because the disk did not keep up."
)

# --- `tuner serve`

AGENT_BATCHES: Final = _own(
    "fabric_tuner_agent_batches_total", "Batches that are safe on disk.", "agent"
)
AGENT_VALUES: Final = _own(
    "fabric_tuner_agent_values_total", "Values that are safe on disk.", "agent"
)
AGENT_DUPLICATES: Final = _own(
    "fabric_tuner_agent_duplicates_total", "Items that came again and were dropped.", "agent"
)
AGENT_REFUSED: Final = _own(
    "fabric_tuner_agent_refused_total", "Items that could not be understood.", "agent"
)
AGENT_CONNECTED: Final = _own(
    "fabric_tuner_agent_connected", "1 while its stream is live.", "agent"
)
AGENT_MISSING: Final = _own("fabric_tuner_agent_missing_items", "Numbers that never came.", "agent")
AGENT_ACKNOWLEDGED: Final = _own(
    "fabric_tuner_agent_acknowledged_seq",
    "Number up to which everything is safe, in the agent's current epoch.",
    "agent",
)
AGENT_LAST_BATCH: Final = _own(
    "fabric_tuner_agent_last_batch_timestamp_seconds",
    "Wall clock of its newest batch, 0 where there is none.",
    "agent",
)
LIMIT_REFUSALS: Final = _own(
    "fabric_tuner_limit_refusals_total",
    "Streams refused because the configured limit was reached.",
    "limit",
)
STORE_WRITABLE: Final = _own("fabric_tuner_store_writable", "0 while nothing can be stored.")
WINDOW_BYTES: Final = _own("fabric_tuner_window_bytes", "Bytes of the window in memory.")
DISK_BYTES: Final = _own("fabric_tuner_disk_bytes", "Bytes of complete segments on disk.")
COMMIT_TIME: Final = _seconds(
    "fabric_tuner_commit_seconds", "Time to make one group of items safe on disk."
)
INGEST_DELAY: Final = _seconds(
    "fabric_tuner_ingest_delay_seconds",
    "Age of the readings of a batch when they were safe, by the agent's clock.",
)

OWN: Final[Mapping[str, OwnMetric]] = MappingProxyType(
    {row.name: row for row in list(globals().values()) if isinstance(row, OwnMetric)}
)
