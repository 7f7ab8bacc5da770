"""The form of a cure: from one finding to the changes that help, with predicted effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Entity, Port, Wire, display, queue
from collectors.model.facts import Value
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.knobs.knob import filled
from tuner.advice.recommendation import Effect, Part, Recommendation, Risk
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

Cure: TypeAlias = Callable[[Finding, Telemetry, FabricView], Iterable[Recommendation]]

_RESENT = (rdma.OUT_OF_SEQUENCE_RX, rdma.DUPLICATE_RX)
RETRANSMISSIONS: Final = "retransmissions/s"
GOODPUT: Final = "goodput of affected flows"
PAUSED: Final = "share of time that peers are paused"
_UNKNOWN_GAIN: Final = 10.0


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
    also: Iterable[Entity] = (),
) -> Recommendation:
    """Return the recommendation of a knob's change because of a finding."""
    knob = KNOBS[knob_name]
    others = tuple(also)
    how, undo = filled(knob, in_words((scope, *others)), proposed, current)
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
        how,
        undo,
        tuple(missing),
        others,
    )


def recommend_together(
    finding: Finding,
    name: str,
    parts: Sequence[Part],
    summary: str,
    effects: Iterable[Effect],
    *,
    confidence: float,
    risk: Risk,
    missing: Iterable[str] = (),
    optional: bool = False,
) -> Recommendation:
    """Return the recommendation of a joint change: parts that help only all together."""
    first = parts[0]
    made = recommend_change(
        finding, first.knob, first.places[0], first.current, first.proposed, summary, effects,
        confidence=confidence, risk=risk, missing=missing,
    )  # fmt: skip
    return replace(made, joint=tuple(parts), optional=optional, name=name).of(parts)


def in_words(places: Sequence[Entity]) -> str:
    """Return places in words: the first, and how many more."""
    return display(places[0]) + (f" and {len(places) - 1} more" if len(places) > 1 else "")


def part_of(
    knob_name: str, places: Sequence[Entity], current: Value | None, proposed: Value
) -> Part:
    """Return a part of a joint change."""
    knob = KNOBS[knob_name]
    how, undo = filled(knob, in_words(places), proposed, current)
    return Part(knob.name, tuple(places), current, proposed, knob.unit, how, undo, knob.disruption)


def end_of_loss(
    telemetry: Telemetry, fabric: FabricView, affected: Iterable[Entity]
) -> list[Effect]:
    """Predict what the end of all loss does to the ports that suffer from it.

    Go-back-N (IBTA 9.7.5.2) throws away what follows a lost packet: of the packets that a
    responder receives, those out of order and the duplicates carried nothing. Without loss they
    carry data, which bounds the gain from below. Time spent waiting for timeouts comes on top; the
    rate of the receiver's link bounds it from above.
    """
    ports = list(affected)
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
    low = 1 / (1 - share)
    room = _room(telemetry, fabric, ports)
    high = _UNKNOWN_GAIN if room is None else room
    bound = "the rate of the receiver's link" if room else "a guess, no link rate is known"
    return [
        Effect(
            RETRANSMISSIONS, "packets", rate, 0.0, 0.1 * rate,
            "go-back-N accounting", "nothing else loses packets on these paths",
        ),
        Effect(
            GOODPUT, "ratio", 1.0, low, max(low, high),
            "go-back-N accounting",
            "lower bound: packets received in vain carry data; upper bound, as counters do not "
            f"show the time lost in timeouts: {bound}",
        ),
    ]  # fmt: skip


def end_of_pauses(finding: Finding) -> list[Effect]:
    """Predict that pauses shown as evidence get fewer; how many is for the simulation to say."""
    shares = [
        float(item.value) / ((item.until_ns - item.since_ns) / 1e9)
        for item in finding.evidence
        if item.unit == "seconds"
        and isinstance(item.value, (int, float))
        and item.until_ns > item.since_ns
    ]
    before = min(1.0, max(shares)) if shares else None
    return [
        Effect(
            PAUSED, "ratio", before, 0.0, 1.0 if before is None else before,
            "PFC accounting", "the senders react to marks; nothing else pauses them",
        )
    ]  # fmt: skip


def fair_share(
    telemetry: Telemetry, fabric: FabricView, receiver: Entity, sender: Entity
) -> list[Effect]:
    """Predict what a sender gets once the queue treats it like the others: an even share.

    Those that put at least a twentieth of the egress rate on the wire are taken to be the
    others. Go-back-N and start-up cost some of the share, hence the interval.
    """
    far = fabric.peer(fabric.attached(receiver)) if isinstance(receiver, Port) else None
    capacity = None if far is None else _rate(telemetry, far)
    if capacity is None or not isinstance(sender, Port):
        return []
    rates: dict[Port, float] = {}
    for port in fabric.ports():
        growth = telemetry.growth(interface.TX_BYTES.name, fabric.attached(port))
        if growth is not None and port != receiver:
            rates[port] = growth.rate * 8
    if sender not in rates:
        return []
    others = sum(1 for port, rate in rates.items() if port != sender and rate > capacity / 20)
    share = capacity / (others + 1)
    return [
        Effect(
            f"goodput of {display(sender)}", "bps", None, 0.5 * share, share,
            "even share of the egress rate",
            f"{others} other senders keep the egress towards {display(receiver)} full",
        )
    ]  # fmt: skip


def _room(telemetry: Telemetry, fabric: FabricView, ports: Iterable[Entity]) -> float | None:
    """Return by how much the busiest of the receivers could receive more, None where unknown."""
    best: tuple[float, float] | None = None
    for port in ports:
        if not isinstance(port, Port):
            continue
        wire = fabric.attached(port)
        far = fabric.peer(wire)
        growth = telemetry.growth(interface.RX_BYTES.name, wire)
        capacity = None if far is None else _rate(telemetry, far)
        if growth is not None and growth.rate > 0 and capacity is not None:
            best = max(best or (0.0, 0.0), (growth.rate * 8, capacity))
    return None if best is None else best[1] / best[0]


def _rate(telemetry: Telemetry, wire: Wire) -> float | None:
    """Return the rate that an interface sends at: what its queue is shaped to, else its speed."""
    shaped = telemetry.settings(queue(wire, 0)).get("queue_rate_bps")
    if shaped is not None and isinstance(shaped.value, (int, float)):
        return float(shaped.value)
    speed = telemetry.latest(interface.SPEED.name, wire)
    return speed.value if speed is not None and speed.value > 0 else None
