"""Packets are lost on the way between hosts (R10, R12, R16, R31 where nothing else tells more)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectors.model.catalogue import interface, ip, rdma
from collectors.model.entities import Entity, Port, Wire, display
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.place import cable_of, hurt_ports, loss_signs
from tuner.diagnosis.rule import Rule, both_counted, found, growths, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_EVENTS: Final = 5  # fewer are chance: a route change, a restart of a job
MIN_SHARE: Final = 2e-4  # of packets received or sent
CRITICAL_SHARE: Final = 1e-2
DOUBT: Final = 5e-3  # by which two counts of the same packets may differ
_RESPONDER: Final = (rdma.OUT_OF_SEQUENCE_RX,)
_REQUESTER: Final = (rdma.SEQUENCE_NAK_RX, rdma.ACK_TIMEOUTS, rdma.IMPLIED_NAK_RX)


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find the hosts whose links explain the loss that responders and requesters see."""
    hurt_rx: dict[Port, float] = {}
    hurt_tx: dict[Port, float] = {}
    for port in hurt_ports(telemetry, fabric):
        responder, requester = loss_signs(telemetry, port)
        rx = telemetry.growth(rdma.RX_PACKETS.name, port)
        tx = telemetry.growth(rdma.TX_PACKETS.name, port)
        if rx is None or tx is None:
            continue
        if responder >= MIN_EVENTS and responder > MIN_SHARE * rx.total:
            hurt_rx[port] = responder / max(rx.total, 1)
        if requester >= MIN_EVENTS and requester > MIN_SHARE * tx.total:
            hurt_tx[port] = requester / max(tx.total, 1)
    places = _places(telemetry, fabric, hurt_rx, hurt_tx)
    findings = [
        _finding(rule, telemetry, fabric, port, toward, sure, hurt_rx, hurt_tx)
        for port, toward, sure in places
    ]
    judged = both_counted(telemetry, rdma.RX_PACKETS, rdma.TX_PACKETS)
    missing = () if judged else ("RDMA packet counters of a port",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _places(
    telemetry: Telemetry,
    fabric: FabricView,
    hurt_rx: dict[Port, float],
    hurt_tx: dict[Port, float],
) -> Sequence[tuple[Port, bool, float]]:
    """Return (port, loss is on the way to it, confidence) for the least places that explain all."""
    if len(hurt_rx) == 1 and len(hurt_tx) > 1:
        return [(next(iter(hurt_rx)), True, 0.85)]
    if len(hurt_tx) == 1 and len(hurt_rx) > 1:
        return [(next(iter(hurt_tx)), False, 0.85)]
    if len(hurt_rx) == 1 and len(hurt_tx) == 1:
        receiver, sender = next(iter(hurt_rx)), next(iter(hurt_tx))
        after_receiver = _vanishing_to(telemetry, fabric, receiver)
        if _vanishing(telemetry, fabric, sender) > after_receiver + DOUBT:
            return [(sender, False, 0.75)]
        return [(receiver, True, 0.7)]
    both = sorted(set(hurt_rx) & set(hurt_tx), key=lambda p: -(hurt_rx[p] + hurt_tx[p]))
    if both and len(hurt_rx) > 1:
        return [(both[0], True, 0.6)]  # a cable that loses both ways hurts everybody it talks to
    return [(port, True, 0.5) for port in hurt_rx] or [(port, False, 0.5) for port in hurt_tx]


def _vanishing(telemetry: Telemetry, fabric: FabricView, sender: Port) -> float:
    """Return the share of a host's packets that never reached the switch."""
    wire = fabric.attached(sender)
    return _lost_between(telemetry, wire, fabric.peer(wire))


def _vanishing_to(telemetry: Telemetry, fabric: FabricView, receiver: Port) -> float:
    """Return the share of the switch's packets that never reached the host."""
    wire = fabric.attached(receiver)
    return _lost_between(telemetry, fabric.peer(wire), wire)


def _lost_between(telemetry: Telemetry, near: Wire | None, far: Wire | None) -> float:
    """Return the share of packets sent at one end of a cable that the other end never saw.

    The two ends are read at other moments, so totals err where traffic is steady and rates where
    it comes and goes; what is lost shows in both, hence the smaller. IP counts behind whatever
    loses packets after the interface has counted them.
    """
    if near is None or far is None:
        return 0.0
    tx = telemetry.growth(interface.TX_PACKETS.name, near)
    shares = []
    for metric in (interface.RX_PACKETS, ip.IP_RX):
        rx = telemetry.growth(metric.name, far)
        if tx is not None and rx is not None and tx.total and tx.rate:
            shares.append(min(1 - rx.total / tx.total, 1 - rx.rate / tx.rate))
    return max([0.0, *shares])


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    fabric: FabricView,
    port: Port,
    toward: bool,
    confidence: float,
    hurt_rx: dict[Port, float],
    hurt_tx: dict[Port, float],
) -> Finding:
    share = max([*hurt_rx.values(), *hurt_tx.values()], default=0.0)
    counters = [
        (metric, where)
        for hurt, metrics in ((hurt_rx, _RESPONDER), (hurt_tx, _REQUESTER))
        for where in hurt
        for metric in metrics
    ]
    evidence = list(growths(telemetry, counters, f"> {MIN_SHARE:g} of packets", grown=True))
    subject: Entity = cable_of(fabric, port)
    direction = "to" if toward else "from"
    what, signs = "packets are lost", "arrive out of order or are asked for again"
    if all(item.name == rdma.ACK_TIMEOUTS.name for item in evidence):
        what, signs = "requests are lost or held up", "run into their timeout, without a gap"
    return found(
        rule,
        subject,
        "critical" if share > CRITICAL_SHARE else "warning",
        confidence,
        f"{what} on the way {direction} {display(port)} ({share:.2%} of its packets {signs})",
        evidence,
        affected=[*hurt_rx, *(p for p in hurt_tx if p not in hurt_rx)],
        explains=[("retransmission-collapse", hurt) for hurt in (*hurt_rx, *hurt_tx)],
    )


RULE: Final = Rule(
    id="loss-on-path",
    section="link",
    title="Loss and retransmission on a path",
    finds="responders that receive out of order and requesters that are asked to send again",
    quiet_when=f"both stay under {MIN_EVENTS} events or {MIN_SHARE:g} of the packets",
    cannot_tell_when="no RDMA packet counters were read twice",
    refutes="adaptive routing or spraying is on (reordering, not loss); queue drops at the same "
    "place (congestion, not the cable)",
    judge=judge,
    answers=("R16", "R31"),
)
