"""Counters that stopped: bnxt_re never asks its firmware again after one query that failed."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma, rdma_work
from collectors.model.entities import display
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import all_ports, unread
from tuner.diagnosis.rule import HostRule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import HostTelemetry

MIN_PACKETS: Final = 10_000
# Filled by firmware queries; each packet of RDMA moves at least one of them.
_BY_QUERY: Final = (
    rdma_work.READ_REQUESTS_TX,
    rdma_work.WRITE_REQUESTS_TX,
    rdma_work.SENDS_TX,
    rdma_work.READ_REQUESTS_RX,
    rdma_work.WRITE_REQUESTS_RX,
    rdma_work.SENDS_RX,
    rdma_work.READ_RESPONSES_TX,
    rdma_work.READ_RESPONSES_RX,
)


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Hold packets, which the device writes by itself, against requests, which are asked for."""
    findings: list[Finding] = []
    judged = bnxt = False
    for port in all_ports(telemetry):
        driver = telemetry.attributes(port).get("driver")
        if driver is None or driver.value != "bnxt_re":
            continue
        bnxt = True
        grown = {m: telemetry.growth(m.name, port) for m in _BY_QUERY}
        known = {metric: growth for metric, growth in grown.items() if growth is not None}
        packets = [
            (metric, growth)
            for metric in (rdma.RX_PACKETS, rdma.TX_PACKETS)
            if (growth := telemetry.growth(metric.name, port)) is not None
        ]
        if not known or not packets:
            continue
        judged = True
        moved = sum(growth.total for _, growth in packets)
        if moved >= MIN_PACKETS and not any(growth.total for growth in known.values()):
            evidence = [grew(metric, port, growth) for metric, growth in packets]
            metric, growth = next(iter(known.items()))
            findings.append(
                found(
                    rule,
                    port,
                    "warning",
                    0.85,
                    f"hardware counters of {display(port)} are frozen: packets move, requests, "
                    "errors and congestion counters do not",
                    [*evidence, grew(metric, port, growth, "> 0")],
                    affected=[port],
                )
            )
    if all_ports(telemetry) and not bnxt:
        return beside_the_point(rule)
    missing = () if judged else unread(telemetry, "packet and request counters, read twice")
    return verdict(rule, findings, judged=judged, missing=missing)


RULE: Final = HostRule(
    id="frozen-counters",
    section="host",
    title="Frozen hardware counters",
    finds="bnxt_re ports whose packets move while no request counter does",
    quiet_when="request counters move with the packets, or nothing moves",
    cannot_tell_when="the counters were not read twice",
    refutes="all traffic of the port is other than RDMA requests",
    judge=judge,
)
FIX: Final = "reload bnxt_re (jobs stop): it queries the firmware again only after that"
