"""The Grafana dashboards, generated from the catalogue: `python deploy/grafana/boards.py`.

Writes one JSON file a board beside this file. A test generates them again and compares, and
another runs every expression against a real Prometheus that scraped a lab.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef

from collectors.model.catalogue import interface, ip, rdma, rdma_errors
from collectors.model.metric import Metric

HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
PORT: Final = 'instance=~"$instance",device=~"$device"'
NETDEV: Final = 'instance=~"$instance",netdev=~"$netdev"'
UNITS: Final = {"bytes": "Bps", "seconds": "percentunit"}

ROWS: Final[tuple[tuple[str, tuple[tuple[str, tuple[Metric, ...]], ...]], ...]] = (
    (
        "Traffic",
        (
            ("RDMA bytes", (rdma.RX_BYTES, rdma.TX_BYTES)),
            ("RDMA packets", (rdma.RX_PACKETS, rdma.TX_PACKETS)),
            ("Interface bytes", (interface.RX_BYTES, interface.TX_BYTES)),
        ),
    ),
    (
        "Congestion",
        (
            ("Packets received with congestion experienced", (rdma.CE_MARKED_RX, ip.IP_CE_RX)),
            ("CNPs", (rdma.CNP_TX, rdma.CNP_HANDLED, rdma.CNP_IGNORED)),
            ("PFC frames", (interface.PFC_RX_FRAMES, interface.PFC_TX_FRAMES)),
            ("Time paused by PFC", (interface.PFC_RX_PAUSE, interface.PFC_TX_PAUSE)),
            ("Credit stalls (ticks)", (rdma.TX_WAIT,)),
            ("Packets that cannot be marked", (ip.IP_NOT_ECT_RX,)),
        ),
    ),
    (
        "Loss and retransmission",
        (
            ("As responder", (rdma.OUT_OF_SEQUENCE_RX, rdma.DUPLICATE_RX)),
            (
                "As requester",
                (rdma.SEQUENCE_NAK_RX, rdma.ACK_TIMEOUTS, rdma.IMPLIED_NAK_RX, rdma.RETRIES),
            ),
            (
                "Receiver not ready",
                (rdma_errors.RNR_NAK_RX, rdma_errors.RNR_NAK_TX, rdma_errors.OUT_OF_BUFFER),
            ),
            ("Failed queue pairs", (rdma.RETRY_EXCEEDED, rdma_errors.RNR_RETRY_EXCEEDED)),
        ),
    ),
    (
        "Links",
        (
            (
                "Link down",
                (rdma.LINK_DOWNED, interface.CARRIER_DOWN),
            ),
            ("Errors", (rdma.RX_ERRORS, rdma.SYMBOL_ERRORS, rdma.ICRC_ERRORS, interface.RX_ERRORS)),
            ("Drops", (interface.RX_DROPS, interface.TX_DROPS, rdma.TX_DISCARDS)),
        ),
    ),
)


def selector(metric: Metric) -> str:
    """Return the labels by which the board's variables choose series of a metric."""
    return NETDEV if metric.on[0] in ("netdev", "interface", "priority") else PORT


def legend(metric: Metric) -> str:
    """Return the legend: direction and what, then where."""
    what = metric.name.removeprefix("node_infiniband_").removeprefix("fabric_")
    what = what.removesuffix("_total").replace("_", " ")
    place = "{{netdev}}" if selector(metric) is NETDEV else "{{device}}/{{port}}"
    priority = " prio {{priority}}" if "priority" in metric.on else ""
    return f"{{{{instance}}}} {place}{priority} {what}"


def panel(title: str, metrics: tuple[Metric, ...]) -> timeseries.Panel:
    """Return a graph of the rates of counters; the description is the catalogue's."""
    made = (
        timeseries.Panel()
        .title(title)
        .description("\n\n".join(f"`{metric.name}`: {metric.meaning}" for metric in metrics))
        .datasource(SOURCE)
        .unit(UNITS.get(metrics[0].unit, "cps"))
        .min(0)
        .height(8)
        .span(8)
        .fill_opacity(10)
        .legend(_legend())
        .tooltip(_tooltip())
    )
    for metric in metrics:
        expr = f"rate({metric.name}{{{selector(metric)}}}[$__rate_interval])"
        made = made.with_target(prometheus.Dataquery().expr(expr).legend_format(legend(metric)))
    return made


def number(title: str, expr: str, description: str) -> stat.Panel:
    """Return a single number."""
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .height(4)
        .span(6)
        .with_target(prometheus.Dataquery().expr(expr).instant())
    )


def hosts() -> dashboard.Dashboard:
    """Return the board of hosts: agents first, then traffic, congestion, loss, links."""
    made = (
        dashboard.Dashboard("Fabric: hosts")
        .uid("fabric-tuner-hosts")
        .description("RDMA traffic, congestion, loss and links, as agents on hosts see them.")
        .tags(["fabric-tuner", "rdma"])
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time("now-1h", "now")
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_variable("instance", "label_values(fabric_port_info, instance)"))
        .with_variable(
            _variable("device", 'label_values(fabric_port_info{instance=~"$instance"}, device)')
        )
        .with_variable(
            _variable("netdev", 'label_values(fabric_port_info{instance=~"$instance"}, netdev)')
        )
        .with_row(dashboard.Row("Agents"))
        .with_panel(
            number(
                "Agents that answer",
                'count(fabric_agent_info{instance=~"$instance"})',
                "Agents that Prometheus has scraped.",
            )
        )
        .with_panel(
            number(
                "Ports active",
                f"count({rdma.STATE.name}{{{PORT}}} == 4) or vector(0)",
                rdma.STATE.meaning,
            )
        )
        .with_panel(
            number(
                "Collectors that fail",
                'count(fabric_agent_collector_success{instance=~"$instance"} == 0) or vector(0)',
                "Collectors whose last pass read nothing.",
            )
        )
        .with_panel(
            number(
                "Oldest data",
                'max(fabric_agent_collector_age_seconds{instance=~"$instance"})',
                "Age of the oldest snapshot that any collector serves.",
            ).unit("s")
        )
        .with_panel(_inventory())
    )
    for title, panels in ROWS:
        made = made.with_row(dashboard.Row(title))
        for name, metrics in panels:
            made = made.with_panel(panel(name, metrics))
    return made


BOARDS: Final = {"fabric-hosts.json": hosts}


def render(name: str) -> str:
    """Return the JSON text of a board."""
    return json.dumps(
        json.loads(JSONEncoder(sort_keys=True).encode(BOARDS[name]().build())), indent=1
    )


def expressions(board: dict[str, Any]) -> list[str]:
    """Return every PromQL expression of a board's JSON."""
    found = [target["expr"] for target in board.get("targets", ()) if "expr" in target]
    for child in board.get("panels", ()):
        found += expressions(child)
    return found


def _inventory() -> table.Panel:
    return (
        table.Panel()
        .title("Ports")
        .description("Identity of every port; join it to counters on (instance, device, port).")
        .datasource(SOURCE)
        .height(6)
        .span(24)
        .with_target(
            prometheus.Dataquery().expr(f"fabric_port_info{{{PORT}}}").instant().format("table")  # type: ignore[arg-type]  # the SDK's enum is a string on the wire
        )
    )


def _variable(name: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(name)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(2)  # type: ignore[arg-type]  # on time range change
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _legend() -> Any:
    from grafana_foundation_sdk.builders import common

    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )


def _tooltip() -> Any:
    from grafana_foundation_sdk.builders import common

    return common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI)


if __name__ == "__main__":
    for file in BOARDS:
        (HERE / file).write_text(render(file) + "\n")
