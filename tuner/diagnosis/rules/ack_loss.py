"""Requests come twice although none was missing: acknowledgements are lost (R56)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.entities import Port, display
from tuner.diagnosis.connections import senders_by_receiver
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.lossless import drops_at_all
from tuner.diagnosis.place import cable_of, names
from tuner.diagnosis.rule import Rule, both_counted, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_EVENTS: Final = 20
FEW: Final = 0.05  # gaps seen for each duplicate: with more, requests are lost, not answers


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find responders with duplicates and without gaps whose requesters were not asked again."""
    if drops_at_all(telemetry) is False:
        # Where everything that loses packets is counted and nothing did, answers come late.
        return verdict(rule, (), judged=True)
    findings = []
    for port, twice in telemetry.growing(rdma.DUPLICATE_RX.name, MIN_EVENTS).items():
        gap = telemetry.growth(rdma.OUT_OF_SEQUENCE_RX.name, port)
        if isinstance(port, Port) and gap is not None and gap.total <= FEW * twice.total:
            finding = _finding(rule, telemetry, fabric, port, twice, gap)
            if finding is not None:
                findings.append(finding)
    judged = both_counted(telemetry, rdma.DUPLICATE_RX, rdma.OUT_OF_SEQUENCE_RX)
    missing = () if judged else ("duplicate requests and packets out of order of a port",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    fabric: FabricView,
    port: Port,
    twice: Growing,
    gap: Growing,
) -> Finding | None:
    senders = list(senders_by_receiver(telemetry).get(port, ()))
    naks = [telemetry.growth(rdma.SEQUENCE_NAK_RX.name, sender) for sender in senders]
    if sum(nak.total for nak in naks if nak is not None) > FEW * twice.total:
        return None
    late = [
        (sender, growth)
        for sender in senders
        if (growth := telemetry.growth(rdma.ACK_TIMEOUTS.name, sender)) and growth.total > 0
    ]
    who = f" ({names([sender for sender, _ in late])} time out)" if late else ""
    return found(
        rule,
        port,
        "warning",
        0.75 if late else 0.6,
        f"{display(port)} gets {twice.total:.0f} requests twice and misses none: its "
        f"acknowledgements are lost or late on the way back{who}",
        [
            grew(rdma.DUPLICATE_RX, port, twice, f"< {MIN_EVENTS}"),
            grew(rdma.OUT_OF_SEQUENCE_RX, port, gap),
            *(grew(rdma.ACK_TIMEOUTS, sender, growth) for sender, growth in late[:6]),
        ],
        affected=senders,
        explains=[
            (name, place) for place in (port, *senders) for name in ("ack-timeouts", "loss-on-path")
        ]
        + [("loss-on-path", cable_of(fabric, port))],
    )


RULE: Final = Rule(
    id="ack-loss",
    section="flow_control",
    title="Acknowledgements are lost",
    finds="responders that get requests twice and miss none, whose requesters get no NAK",
    quiet_when=f"under {MIN_EVENTS} duplicates, or gaps show that requests are lost",
    cannot_tell_when="no port counts both duplicates and packets out of order",
    refutes="the requesters' timeout is shorter than the way to the responder and back",
    judge=judge,
    answers=("R56",),
)
