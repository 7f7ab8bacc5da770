"""How answers are held against the truth: ours, and those of the simplest rule of thumb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.model.catalogue import ethernet, interface, rdma, rdma_errors
from collectors.model.entities import Entity, wire_of
from simlab.scenarios.draw import Draw, Truth
from tuner.diagnosis.finding import Diagnosis, Finding
from tuner.store.window import Window

LARGEST = (
    interface.PFC_RX_FRAMES, interface.PFC_TX_FRAMES, interface.RX_CRC_ERRORS,
    interface.RX_ERRORS, interface.RX_DROPS, interface.TX_DROPS, interface.QUEUE_DROPS,
    ethernet.PHY_RX_DISCARDS, rdma.RX_ERRORS, rdma.SYMBOL_ERRORS, rdma.TX_WAIT,
    rdma.OUT_OF_SEQUENCE_RX, rdma.SEQUENCE_NAK_RX, rdma.ACK_TIMEOUTS, rdma_errors.RNR_NAK_RX,
)  # fmt: skip
CONFIDENT = 0.9


@dataclass(frozen=True)
class Answer:
    """What was said of a draw, and how right it is.

    first, three: the first finding is a planted fault; all planted faults are among the first
    three. stated: confidence of the first finding. alarm: something above info was found.
    """

    first: bool
    three: bool
    alarm: bool
    stated: float | None
    got: tuple[str, ...]


def names_fault(finding: Finding, truth: Truth) -> bool:
    """Tell whether a finding names the cause and the place of a fault."""
    return finding.rule in truth.causes and finding.subject in truth.places


def answer(draw: Draw, diagnosis: Diagnosis) -> Answer:
    """Hold a diagnosis against the truth of its draw."""
    findings = [finding for finding in diagnosis.findings if finding.severity != "info"]
    head = findings[:3]
    first = bool(head) and any(names_fault(head[0], truth) for truth in draw.truths)
    three = all(any(names_fault(one, truth) for one in head) for truth in draw.truths)
    got = tuple(
        f"{finding.rule} at {finding.subject} ({finding.confidence:.2f})" for finding in head
    )
    return Answer(first, three, bool(findings), head[0].confidence if head else None, got)


def largest_counter(window: Window) -> Entity | None:
    """Blame the port with the largest pause or error counter."""
    total: dict[Entity, float] = {}
    for metric in LARGEST:
        for entity, growth in window.growth_all(metric.name).items():
            where = wire_of(entity)
            if where is not None:
                total[where] = max(total.get(where, 0.0), growth.total)
    if not total or not max(total.values()):
        return None
    return max(total, key=lambda entity: (total[entity], str(entity)))


def baseline_hits(draw: Draw, window: Window) -> bool:
    """Tell whether that port is a right place; the rule of thumb is not asked for a cause."""
    blamed = largest_counter(window)
    return blamed is not None and any(blamed in truth.places for truth in draw.truths)


def calibration(answers: Sequence[tuple[Draw, Answer]]) -> list[tuple[str, int, float, float]]:
    """Return (band, answers, mean stated, share right) of first findings on faulty draws."""
    rows = []
    for low, high in ((0.0, 0.5), (0.5, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.01)):
        inside = [a for _, a in answers if a.stated is not None and low <= a.stated < high]
        if inside:
            stated = sum(a.stated or 0.0 for a in inside) / len(inside)
            right = sum(a.first for a in inside) / len(inside)
            rows.append((f"{low:.1f}-{min(high, 1.0):.1f}", len(inside), stated, right))
    return rows
