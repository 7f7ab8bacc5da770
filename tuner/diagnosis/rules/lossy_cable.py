"""A cable that swallows packets: one end sends more than the other receives (R17, R18, R31)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import ethernet, interface, rdma, switch
from collectors.model.entities import Entity, Interface, Port, Wire, display, link, wire_of
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.load import loads, swapped_switches
from tuner.diagnosis.place import loss_signs
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_PACKETS: Final = 20  # fewer may be under way when the ends are read
FLIGHT_S: Final = 10e-6  # on 2 km of fibre: sent, and not received when both ends are read
MIN_SHARE: Final = 1e-4  # of the packets sent; a healthy cable loses none
CRITICAL_SHARE: Final = 1e-3
DEAD: Final = 0.99
_TX: Final = (interface.TX_PACKETS, switch.TX_UNICAST, rdma.TX_PACKETS)
_RX: Final = (interface.RX_PACKETS, switch.RX_UNICAST, rdma.RX_PACKETS)
_ERRORS: Final = (interface.RX_CRC_ERRORS, interface.RX_ERRORS, ethernet.SYMBOL_ERRORS)
_TAKEN: Final = (ethernet.PHY_RX_DISCARDS, rdma.RX_DISCARDS)  # arrived, and dropped by the host


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Hold the packets sent at one end of each cable against those received at the other."""
    sent, received = _counts(telemetry, fabric, _TX), _counts(telemetry, fabric, _RX)
    rx, tx = ({w: count[2].total for w, count in of.items()} for of in (received, sent))
    swapped = loads(telemetry, fabric).swapped | swapped_switches(rx, tx, fabric, MIN_PACKETS)
    unhurt = _nobody_hurt(telemetry, fabric)
    findings: dict[Entity, Finding] = {}
    compared = 0
    for near in sent:
        far = fabric.peer(near)
        if far is None or far not in received:
            continue
        if any(isinstance(end, Interface) and end.switch in swapped for end in (near, far)):
            continue
        compared += 1
        share = _missing(telemetry, far, sent[near], received[far])
        if share is not None and (share >= DEAD or not unhurt or _errors(telemetry, far)):
            cable = link(near, far)
            known = findings.get(cable)
            made = _finding(rule, telemetry, fabric, near, far, sent[near], received[far], share)
            if known is None or made.confidence > known.confidence:
                findings[cable] = made
    missing = () if compared else ("packets sent at one end of a cable and received at the other",)
    return verdict(rule, findings.values(), judged=compared > 0, missing=missing)


def _counts(
    telemetry: Telemetry, fabric: FabricView, metrics: tuple[Metric, ...]
) -> dict[Wire, tuple[Metric, Entity, Growing]]:
    found_: dict[Wire, tuple[Metric, Entity, Growing]] = {}
    for metric in metrics:
        for entity, growth in telemetry.growth_all(metric.name).items():
            wire = fabric.attached(entity) if isinstance(entity, Port) else wire_of(entity)
            if wire is not None and (wire not in found_ or growth.total > found_[wire][2].total):
                found_[wire] = metric, entity, growth
    return found_


def _missing(
    telemetry: Telemetry,
    far: Wire,
    sent: tuple[Metric, Entity, Growing],
    received: tuple[Metric, Entity, Growing],
) -> float | None:
    """Return the share of packets that vanished, None where counts can be of the same packets.

    The ends are read at other moments: what may pass in between is no loss. A host that counts
    RDMA only says nothing of other traffic to it unless it misses packets, too.
    """
    tx, rx = sent[2], received[2]
    if tx.resets or rx.resets or tx.total <= 0 or tx.seconds <= 0:
        return None
    apart = (abs(tx.first_at_ns - rx.first_at_ns) + abs(tx.last_at_ns - rx.last_at_ns)) / 1e9
    taken = 0.0
    for metric in _TAKEN:
        growth = telemetry.growth(metric.name, received[1])
        taken = max(taken, growth.total if growth is not None else 0.0)
    lost = tx.total - rx.total - taken - (2 * apart + FLIGHT_S) * tx.rate
    share = lost / tx.total
    if lost < MIN_PACKETS or share < MIN_SHARE:
        return None
    if isinstance(received[1], Port) and not _errors(telemetry, far):
        responder, requester = loss_signs(telemetry, received[1])
        if responder + requester < 1 and share < DEAD:
            return None
    return min(share, 1.0)


def _nobody_hurt(telemetry: Telemetry, fabric: FabricView) -> bool:
    """Tell whether ports count signs of loss and none of them has any."""
    counted = bool(telemetry.growth_all(rdma.OUT_OF_SEQUENCE_RX.name))
    return counted and not any(sum(loss_signs(telemetry, port)) for port in fabric.ports())


def _errors(telemetry: Telemetry, far: Wire) -> list[Evidence]:
    grown = [(metric, telemetry.growth(metric.name, far)) for metric in _ERRORS]
    return [grew(metric, far, growth, "0") for metric, growth in grown if growth and growth.total]


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    fabric: FabricView,
    near: Wire,
    far: Wire,
    sent: tuple[Metric, Entity, Growing],
    received: tuple[Metric, Entity, Growing],
    share: float,
) -> Finding:
    cable = link(near, far)
    errors = _errors(telemetry, far)
    between = isinstance(near, Interface) and isinstance(far, Interface)
    hurt = [port for port in fabric.ports() if between and sum(loss_signs(telemetry, port)) > 0]
    effects: list[Entity] = [cable, *hurt]
    return found(
        rule,
        cable,
        "critical" if share >= CRITICAL_SHARE else "warning",
        0.95 if errors else 0.85 if between else 0.75,
        f"{share:.2%} of the packets from {display(near)} never reach {display(far)}"
        + ("" if share < DEAD else ": the link is dead in that direction"),
        [grew(*sent, "= received at the other end"), grew(*received), *errors],
        affected=[near, far, *hurt],
        explains=[
            (name, place)
            for place in effects
            for name in (
                "loss-on-path", "ack-timeouts", "retransmission-collapse", "reordering", "ack-loss",
                "link-errors", "fec-errors",
            )
        ],
    )  # fmt: skip


RULE: Final = Rule(
    id="lossy-cable",
    section="link",
    title="Cable loses packets",
    finds="cables of which one end sends more packets than the other receives; the member of an "
    "ECMP group that fails silently is one of them",
    quiet_when="counts of both ends agree within what may have passed between the readings",
    cannot_tell_when="packets of no cable are counted at both ends",
    refutes="the receiving end does not count a kind of packet that the sending end counts",
    judge=judge,
    answers=("R17", "R18", "R31"),
)
