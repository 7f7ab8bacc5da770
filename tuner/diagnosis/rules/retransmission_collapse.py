"""Little loss, no goodput: go-back-N sends the same again and again (R10)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.entities import Port, display
from tuner.diagnosis.finding import Verdict
from tuner.diagnosis.rule import Rule, both_counted, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_PACKETS: Final = 1000
WASTED: Final = 0.3  # of packets received, that carried nothing new
_WASTE: Final = (rdma.OUT_OF_SEQUENCE_RX, rdma.DUPLICATE_RX)


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find responders of which a large share of packets is thrown away."""
    del fabric
    findings = []
    wasting = {port for metric in _WASTE for port in telemetry.growing(metric.name)}
    for port in (port for port in telemetry.entities(rdma.RX_PACKETS.name) if port in wasting):
        received = telemetry.growth(rdma.RX_PACKETS.name, port)
        known = [(m, g) for m in _WASTE if (g := telemetry.growth(m.name, port)) is not None]
        if received is None or not isinstance(port, Port) or received.total < MIN_PACKETS:
            continue
        wasted = sum(growth.total for _, growth in known)
        if wasted < WASTED * received.total:
            continue
        findings.append(
            found(
                rule,
                port,
                "critical",
                0.65,
                f"{min(wasted / received.total, 1):.0%} of the packets that {display(port)} "
                "receives carry nothing new: go-back-N multiplies a small loss",
                [
                    grew(rdma.RX_PACKETS, port, received),
                    *(grew(metric, port, growth, f"< {WASTED:.0%}") for metric, growth in known),
                ],
                affected=[port],
            )
        )
    judged = any(both_counted(telemetry, rdma.RX_PACKETS, metric) for metric in _WASTE)
    missing = () if judged else ("packets received, out of order and duplicate of a port",)
    return verdict(rule, findings, judged=judged, missing=missing)


RULE: Final = Rule(
    id="retransmission-collapse",
    section="control_loop",
    title="Retransmission collapse",
    finds=f"responders that throw away {WASTED:.0%} or more of what they receive",
    quiet_when="nearly all packets carry something new",
    cannot_tell_when="packets received, out of order and duplicate are not counted",
    refutes="the NICs repair loss selectively (then duplicates come from elsewhere)",
    judge=judge,
    answers=("R10",),
)
