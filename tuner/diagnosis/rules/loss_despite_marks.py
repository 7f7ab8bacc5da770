"""Packets are lost although ECN marks and CNPs flow both ways: lossless has a hole (nccl #394).

For fabrics whose switches are not seen: with their queues in sight, rules that name the switch
say more, and this one stands aside.
"""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Port, display
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.place import cable_of, names
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_LOST: Final = 1000
MIN_SHARE: Final = 1e-4  # of packets received
MIN_MARKED: Final = 1000
_MARKS: Final = (rdma.CE_MARKED_RX, rdma.CNP_TX)


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Look for ports that both receive out of order and answer marks with CNPs."""
    if telemetry.growth_all(interface.QUEUE_DROPS.name):
        return beside_the_point(rule)
    lost_all = telemetry.growth_all(rdma.OUT_OF_SEQUENCE_RX.name)
    marks_all = [telemetry.growth_all(metric.name) for metric in _MARKS]
    findings: list[Finding] = []
    judged = False
    for port, lost in lost_all.items():
        marks = [grown.get(port) for grown in marks_all]
        received = telemetry.growth(rdma.RX_PACKETS.name, port)
        known = [growth for growth in marks if growth is not None]
        if not isinstance(port, Port) or len(known) < len(_MARKS):
            continue
        judged = True
        share = MIN_SHARE * received.total if received is not None else 0.0
        if lost.total < max(MIN_LOST, share) or min(g.total for g in known) < MIN_MARKED:
            continue
        senders = [
            other for other, growth in telemetry.growth_all(rdma.SEQUENCE_NAK_RX.name).items()
            if growth.total > 0 and other != port
        ]  # fmt: skip
        findings.append(
            found(
                rule, port, "critical", 0.6,
                f"{display(port)} loses packets although ECN works (it sends CNPs for marks): "
                "look for a hole in PFC or too little headroom on the way, not only at ECN"
                + (f"; senders {names(senders, 3)} repeat" if senders else ""),
                [
                    grew(rdma.OUT_OF_SEQUENCE_RX, port, lost, f"< {MIN_LOST}"),
                    *(grew(m, port, g) for m, g in zip(_MARKS, known, strict=True)),
                ],
                affected=[port, *senders],
                explains=[("loss-on-path", cable_of(fabric, port)), ("loss-on-path", port)],
            )
        )  # fmt: skip
    missing = () if judged else ("packets out of order, marks and CNPs of one port",)
    return verdict(rule, findings, judged=judged, missing=missing)


RULE: Final = Rule(
    id="loss-despite-marks",
    section="flow_control",
    title="Loss although ECN and CNPs work",
    finds="ports with packets out of order that receive marks and send CNPs, switches unseen",
    quiet_when="nothing is lost, or nothing is marked",
    cannot_tell_when="no port tells packets out of order, marks and CNPs",
    refutes="packets take several paths (adaptive routing), or the link has errors of its own",
    judge=judge,
)
