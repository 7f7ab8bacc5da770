"""A cable that swallows packets: one end sends more than the other receives (R17, R18, R31)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from collectors.model.catalogue import ethernet, interface, rdma, switch
from collectors.model.entities import Entity, Interface, Port, Switch, Wire, display, link
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.load import loads, swapped_switches
from tuner.diagnosis.place import hurt_ports, loss_signs
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry
from tuner.diagnosis.wires import Wires, at, numbered_wires

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
    wires = numbered_wires(telemetry, fabric)
    sent, received = _Counts(telemetry, wires, _TX), _Counts(telemetry, wires, _RX)
    swapped = loads(telemetry, fabric).swapped
    swapped |= swapped_switches(wires, received.total, sent.total, MIN_PACKETS)
    hurt = hurt_ports(telemetry, fabric)
    unhurt = telemetry.counted(rdma.OUT_OF_SEQUENCE_RX.name) and not hurt
    compared, suspects = _compare(wires, sent, received, swapped)
    findings: dict[Entity, Finding] = {}
    for number in suspects:
        near, far = wires[number], wires[int(wires.far[number])]
        tx, rx = sent.at(number), received.at(int(wires.far[number]))
        share = _missing(telemetry, far, tx, rx)
        if share is not None and (share >= DEAD or not unhurt or _errors(telemetry, far)):
            cable = link(near, far)
            known = findings.get(cable)
            made = _finding(rule, telemetry, near, far, tx, rx, share, hurt)
            if known is None or made.confidence > known.confidence:
                findings[cable] = made
    missing = () if compared else ("packets sent at one end of a cable and received at the other",)
    return verdict(rule, findings.values(), judged=compared > 0, missing=missing)


class _Counts:
    """Packets by wire, of several counters the one that counted most.

    total, rate, first_at_ns, last_at_ns: by number of the wire, NaN where nothing is counted.
    order: in which the wires come.
    """

    def __init__(self, telemetry: Telemetry, wires: Wires, metrics: tuple[Metric, ...]) -> None:
        self._telemetry = telemetry
        self._metrics = metrics
        tables = [telemetry.growth_table(metric.name) for metric in metrics]
        self._entity = np.concatenate([table.number for table in tables])
        self._metric = np.repeat(np.arange(len(tables)), [len(table.number) for table in tables])
        totals = np.concatenate([table.total for table in tables])
        wire = wires.plugged(self._entity)
        self.total, self._place = wires.highest(wire, totals)
        self.order = wires.firsts(wire, np.arange(len(wire), dtype=np.float64))
        self.rate, self.first_at_ns, self.last_at_ns = (
            at(self._place, np.concatenate([getattr(table, name) for table in tables]))
            for name in ("rate", "first_at_ns", "last_at_ns")
        )

    def at(self, number: int) -> tuple[Metric, Entity, Growing]:
        """Return what counted most at a wire that is counted."""
        place = self._place[number]
        metric = self._metrics[self._metric[place]]
        entity = self._telemetry.everything()[self._entity[place]]
        growth = self._telemetry.growth(metric.name, entity)
        if growth is None:
            raise KeyError(entity)
        return metric, entity, growth


def _compare(
    wires: Wires, sent: _Counts, received: _Counts, swapped: frozenset[Switch]
) -> tuple[bool, list[int]]:
    """Return whether any cable can be compared, and the wires from which packets may be lost."""
    tx, rx, odd = sent.total, wires.at_far(received.total), wires.on(swapped)
    known = ~np.isnan(tx + rx) & ~odd & ~np.append(odd, False)[wires.far]
    apart = np.abs(sent.first_at_ns - wires.at_far(received.first_at_ns))
    apart += np.abs(sent.last_at_ns - wires.at_far(received.last_at_ns))
    # Times are rough as floats, by less than FLIGHT_S: `_missing` takes that off, too.
    lost = tx - rx - 2e-9 * apart * sent.rate
    suspects = np.flatnonzero(known & (lost >= np.maximum(MIN_PACKETS, MIN_SHARE * tx)))
    return bool(known.any()), suspects[np.argsort(sent.order[suspects])].tolist()


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


def _errors(telemetry: Telemetry, far: Wire) -> list[Evidence]:
    grown = [(metric, telemetry.growth(metric.name, far)) for metric in _ERRORS]
    return [grew(metric, far, growth, "0") for metric, growth in grown if growth and growth.total]


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    near: Wire,
    far: Wire,
    sent: tuple[Metric, Entity, Growing],
    received: tuple[Metric, Entity, Growing],
    share: float,
    losing: Sequence[Port],
) -> Finding:
    cable = link(near, far)
    errors = _errors(telemetry, far)
    between = isinstance(near, Interface) and isinstance(far, Interface)
    hurt = losing if between else ()
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
