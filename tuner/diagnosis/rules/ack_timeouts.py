"""Timers run out without a gap: tail loss, a silent peer, too short a timeout (R16, R17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.entities import Entity, Port, Wire, display
from tuner.diagnosis.connections import senders_by_receiver
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.load import loads
from tuner.diagnosis.lossless import drops_at_all
from tuner.diagnosis.place import cable_of, names
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_EVENTS: Final = 5
FEW_GAPS: Final = 0.2  # NAKs for each timeout: with more, loss is seen before the timer
PAUSED: Final = 0.2  # of time: a port that waits this long has reason to time out
SILENT: Final = 1e-4  # of line rate: a peer that sends less does not answer


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find requesters with timeouts and without NAKs, and the peer that they have in common."""
    counted = telemetry.counted(rdma.ACK_TIMEOUTS.name)
    late = {
        port: growth
        for port, growth in telemetry.growing(rdma.ACK_TIMEOUTS.name, MIN_EVENTS).items()
        if isinstance(port, Port) and _no_gaps(telemetry, port, growth)
    }
    peer = _silent_peer(telemetry, fabric, late) if late else None
    findings: list[Finding] = []
    if peer is not None:
        findings = [_unreachable(rule, peer, late)]
    elif late:
        paused = _paused(telemetry, fabric)
        lossless = drops_at_all(telemetry) is False
        findings = [
            _late(rule, fabric, port, growth, paused, lossless=lossless)
            for port, growth in late.items()
        ]
    missing = () if counted else ("ACK timeouts of a port",)
    return verdict(rule, findings, judged=counted, missing=missing)


def _no_gaps(telemetry: Telemetry, port: Port, timeouts: Growing) -> bool:
    naks = [telemetry.growth(m.name, port) for m in (rdma.SEQUENCE_NAK_RX, rdma.IMPLIED_NAK_RX)]
    return sum(nak.total for nak in naks if nak is not None) <= FEW_GAPS * timeouts.total


def _silent_peer(
    telemetry: Telemetry, fabric: FabricView, late: Mapping[Port, Growing]
) -> Port | None:
    """Return the one port that all late requesters talk to and that sends nothing, if any."""
    sent = loads(telemetry, fabric).tx
    candidates = [
        receiver
        for receiver, senders in senders_by_receiver(telemetry).items()
        if len(late) > 1 and all(port in senders or port == receiver for port in late)
    ]
    silent = [port for port in candidates if sent.get(fabric.attached(port), 1.0) <= SILENT]
    return silent[0] if len(silent) == 1 else None


def _paused(telemetry: Telemetry, fabric: FabricView) -> Mapping[Wire, float]:
    return {
        wire: stall.share
        for flow in pfc_flows(telemetry, fabric)
        for wire, stall in flow.stalls.items()
        if stall.share >= PAUSED
    }


def _unreachable(rule: Rule, peer: Port, late: Mapping[Port, Growing]) -> Finding:
    return found(
        rule,
        peer,
        "critical",
        0.85,
        f"{display(peer)} does not answer: {names(late)} time out, and it sends nothing",
        [grew(rdma.ACK_TIMEOUTS, port, growth, f"< {MIN_EVENTS}") for port, growth in late.items()],
        affected=late,
        explains=[("loss-on-path", port) for port in (peer, *late)],
    )


def _late(
    rule: Rule,
    fabric: FabricView,
    port: Port,
    growth: Growing,
    paused: Mapping[Wire, float],
    *,
    lossless: bool,
) -> Finding:
    share = paused.get(fabric.attached(port))
    why = (
        "the last packets of a message, or their answers, are lost, or the path is a black hole"
        if share is None
        else f"it is paused {share:.0%} of the time: the timeout is too short for that"
    )
    if lossless and paused:
        most = max(paused.values())
        why = f"no queue drops packets, but pauses hold the way up for up to {most:.0%} of the time"
    elif lossless:
        why = "no queue drops packets: the timeout is shorter than the way there and back"
    effects: list[Entity] = [port, cable_of(fabric, port)]
    return found(
        rule,
        port,
        "warning",
        0.8 if lossless else 0.6 if share is None else 0.7,
        f"requests of {display(port)} time out {growth.total:.0f} times and no gap is seen: {why}",
        [grew(rdma.ACK_TIMEOUTS, port, growth, f"< {MIN_EVENTS}")],
        affected=[port],
        explains=[("loss-on-path", place) for place in effects],
    )


RULE: Final = Rule(
    id="ack-timeouts",
    section="link",
    title="Timeouts without a gap",
    finds="requesters whose timers run out while hardly any sequence error is seen, and the peer "
    "that does not answer them",
    quiet_when=f"under {MIN_EVENTS} timeouts, or sequence errors show where loss is",
    cannot_tell_when="no port counts ACK timeouts",
    refutes="the queue pairs belong to a job that ended, so that nobody was there to answer",
    judge=judge,
    answers=("R16", "R17"),
)
