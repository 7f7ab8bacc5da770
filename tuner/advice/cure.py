"""The form of a cure: from one finding to the changes that help, with predicted effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from collectors.model.catalogue import rdma
from collectors.model.entities import Entity, Port, display
from collectors.model.facts import Value
from tuner.advice.knobs import KNOBS
from tuner.advice.recommendation import Effect, Recommendation, Risk
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

Cure: TypeAlias = Callable[[Finding, Telemetry, FabricView], Iterable[Recommendation]]

_RESENT = (rdma.OUT_OF_SEQUENCE_RX, rdma.DUPLICATE_RX)
RETRANSMISSIONS = "retransmissions per second"
GOODPUT = "goodput of the affected flows, relative to now"


def recommend_change(
    finding: Finding,
    knob_name: str,
    scope: Entity,
    current: Value | None,
    proposed: Value,
    summary: str,
    effects: Iterable[Effect],
    *,
    confidence: float,
    risk: Risk,
    missing: Iterable[str] = (),
) -> Recommendation:
    """Return the recommendation of a knob's change because of a finding."""
    knob = KNOBS[knob_name]
    words = {"place": display(scope), "value": proposed, "current": "its former value"}
    if current is not None:
        words["current"] = current
    return Recommendation(
        knob.name,
        scope,
        current,
        proposed,
        knob.unit,
        summary,
        (finding.id,),
        finding.evidence,
        tuple(effects),
        confidence,
        risk,
        knob.disruption,
        knob.how.format(**words),
        knob.undo.format(**words),
        tuple(missing),
    )


def end_of_loss(telemetry: Telemetry, ports: Iterable[Entity]) -> list[Effect]:
    """Predict what the end of all loss does to the ports that suffer from it.

    Go-back-N (IBTA 9.7.5.2) throws away what follows a lost packet: of the packets that a
    responder receives, those out of order and the duplicates carried nothing. Without loss they
    carry data, which bounds the gain from below; timeouts waited for come on top.
    """
    received = wasted = rate = 0.0
    for port in ports:
        if not isinstance(port, Port):
            continue
        rx = telemetry.growth(rdma.RX_PACKETS.name, port)
        resent = [telemetry.growth(metric.name, port) for metric in _RESENT]
        if rx is None:
            continue
        received += rx.total
        for growth in resent:
            if growth is not None:
                wasted += growth.total
                rate += growth.rate
    if not received:
        return [
            Effect(
                RETRANSMISSIONS, "packets", None, 0.0, 0.0, "go-back-N accounting",
                "the size of the loss is unknown here: no RDMA packet counters of these ports",
            )
        ]  # fmt: skip
    share = min(wasted / received, 0.95)
    return [
        Effect(
            RETRANSMISSIONS, "packets", rate, 0.0, 0.1 * rate,
            "go-back-N accounting", "nothing else loses packets on these paths",
        ),
        Effect(
            GOODPUT, "ratio", 1.0, 1 / (1 - share), 10.0,
            "go-back-N accounting",
            "lower bound: packets received in vain now carry data; upper bound: time spent "
            "waiting for timeouts is not visible in counters",
        ),
    ]  # fmt: skip
