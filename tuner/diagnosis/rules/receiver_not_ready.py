"""The receiver posts too few receives: a host's matter, not the network's (R19)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma_errors
from collectors.model.entities import Port, display
from tuner.diagnosis.finding import Verdict
from tuner.diagnosis.place import cable_of, names
from tuner.diagnosis.rule import Rule, found, grew, growths, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_EVENTS: Final = 10
CRITICAL_RATE: Final = 5.0  # per second
_RECEIVER: Final = (rdma_errors.RNR_NAK_TX, rdma_errors.OUT_OF_BUFFER)
_SENDER: Final = rdma_errors.RNR_NAK_RX


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find receivers that were not ready; where no receiver counts, the senders that were told."""
    told = telemetry.growing(_SENDER.name, MIN_EVENTS)
    senders = [port for port in fabric.ports() if port in told]
    short = {port for metric in _RECEIVER for port in telemetry.growing(metric.name)}
    receivers: list[Port] = []
    findings = []
    for port in (port for port in fabric.ports() if port in short):
        grown = [(metric, telemetry.growth(metric.name, port)) for metric in _RECEIVER]
        known = [(metric, growth) for metric, growth in grown if growth is not None]
        total = sum(growth.total for _, growth in known)
        if total < MIN_EVENTS:
            continue
        receivers.append(port)
        rate = max(growth.rate for _, growth in known)
        evidence = [grew(m, port, g, f">= {MIN_EVENTS}") for m, g in known if g.total > 0]
        evidence += growths(telemetry, [(_SENDER, sender) for sender in senders])
        findings.append(
            found(
                rule,
                port,
                "critical" if rate > CRITICAL_RATE else "warning",
                0.95 if senders else 0.85,
                f"{display(port)} was not ready {total:.0f} times: its application posts too few "
                "receives",
                evidence,
                affected=senders,
                explains=[("loss-on-path", cable_of(fabric, p)) for p in [port, *senders]],
            )
        )
    if senders and not receivers:
        evidence = [
            grew(_SENDER, port, growth, f">= {MIN_EVENTS}")
            for port in senders
            if (growth := telemetry.growth(_SENDER.name, port)) is not None
        ]
        findings.append(
            found(
                rule,
                senders[0],
                "warning",
                0.6,
                f"a receiver of {names(senders)} is not ready; which one, no counter tells",
                evidence,
                affected=senders,
                explains=[("loss-on-path", cable_of(fabric, p)) for p in senders],
            )
        )
    judged = any(telemetry.counted(metric.name) for metric in (_SENDER, *_RECEIVER))
    missing = () if judged else ("RNR counters of a port",)
    return verdict(rule, findings, judged=judged, missing=missing)


RULE: Final = Rule(
    id="receiver-not-ready",
    section="host",
    title="Receiver not ready",
    finds="receivers that answer not-ready or drop for want of a posted receive",
    quiet_when=f"under {MIN_EVENTS} events",
    cannot_tell_when="no port counts not-ready answers",
    refutes="the receiver's posted receives never run out",
    judge=judge,
    answers=("R19",),
)
