"""Very many queue pairs on one device whose receiver runs out of buffers: a hint (perftest #128).

The sum of work requests of all queue pairs has a limit that no attribute tells; beyond some
hundred queue pairs receives run short although each queue looks deep enough.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from collectors.model.catalogue import rdma, rdma_errors
from collectors.model.entities import Device, Port, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.host.roce_port import all_ports
from tuner.diagnosis.rule import HostRule, found, grew, verdict
from tuner.diagnosis.view import HostTelemetry

MANY: Final = 96
MIN_EVENTS: Final = 100
_SHORT: Final = (rdma_errors.OUT_OF_BUFFER, rdma.OUT_OF_SEQUENCE_RX, rdma_errors.RNR_NAK_TX)


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Count queue pairs of each device and look at its receiver's complaints."""
    pairs: Counter[Device] = Counter(fact.device for fact in telemetry.queue_pairs())
    findings: list[Finding] = []
    judged = bool(pairs) and any(telemetry.counted(metric.name) for metric in _SHORT)
    grown = [(metric, telemetry.growing(metric.name, MIN_EVENTS)) for metric in _SHORT]
    for port in all_ports(telemetry) if any(count >= MANY for count in pairs.values()) else ():
        short = [(metric, ports[port]) for metric, ports in grown if port in ports]
        if pairs[port.device] >= MANY and short:
            evidence = [grew(metric, port, growth, f"< {MIN_EVENTS}") for metric, growth in short]
            findings.append(_finding(rule, telemetry, port, pairs[port.device], evidence))
    missing = () if judged else ("queue pairs and buffer counters of an RDMA port",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _finding(
    rule: HostRule, telemetry: HostTelemetry, port: Port, pairs: int, evidence: list[Evidence]
) -> Finding:
    limits = telemetry.attributes(port.device)
    told = [
        Evidence(name, port.device, str(limits[name].value))
        for name in ("max_qp", "max_qp_wr")
        if name in limits
    ]
    return found(
        rule, port, "info", 0.5,
        f"{pairs} queue pairs share {display(port.device)}, whose "
        "receiver runs short: their work requests together may be over the device's budget",
        [Evidence("queue pairs", port.device, float(pairs), "", f"< {MANY}"), *evidence, *told],
        affected=[port],
    )  # fmt: skip


RULE: Final = HostRule(
    id="queue-pair-budget",
    section="host",
    title="More queue pairs than a device serves well",
    finds=f"devices with {MANY} queue pairs or more whose receiver runs short of buffers",
    quiet_when="there are fewer, or receivers do not run short",
    cannot_tell_when="queue pairs or the counters of receive buffers are unknown",
    refutes="the same errors appear with a handful of queue pairs",
    judge=judge,
)
FIX: Final = (
    "use fewer queue pairs (NCCL_IB_QPS_PER_CONNECTION, channels) or shallower queues, or a shared "
    "receive queue"
)
