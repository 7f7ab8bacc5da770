"""Congestion feedback that breaks off: marked but no CNP, CNP ignored, CNP lost (R4, R20, R21)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.entities import Entity, Port, display
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_MARKED: Final = 1000
MIN_CNPS: Final = 100
SILENT: Final = 1e-4  # CNPs sent for each packet received marked; moderation alone leaves more
LOST: Final = 0.5  # of the CNPs sent, that no reaction point has seen


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Follow the feedback: marked at the receiver, CNP sent, CNP handled or ignored at senders."""
    if only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    if not any(telemetry.counted(metric.name) for metric in (rdma.CNP_TX, rdma.CNP_HANDLED)):
        return verdict(rule, (), judged=False, missing=["CNP counters of a NIC"])
    findings = [*_silent(rule, telemetry, fabric), *_ignored(rule, telemetry)]
    lost = _lost(rule, telemetry, fabric)
    return verdict(rule, [*findings, *lost], judged=True)


def _silent(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Iterable[Finding]:
    for port, marked in telemetry.growing(rdma.CE_MARKED_RX.name, MIN_MARKED).items():
        cnps = telemetry.growth(rdma.CNP_TX.name, port)
        if cnps is None or cnps.total > SILENT * marked.total:
            continue
        yield found(
            rule,
            port,
            "critical",
            0.9,
            f"{display(port)} receives marked packets and sends no CNP: its notification point is "
            "off, so no sender slows down",
            [
                grew(rdma.CE_MARKED_RX, port, marked, f">= {MIN_MARKED}"),
                grew(rdma.CNP_TX, port, cnps, f"> {SILENT:g} of the marked"),
            ],
            affected=[port],
            explains=_behind(fabric, port),
        )


def _ignored(rule: Rule, telemetry: Telemetry) -> Iterable[Finding]:
    for port, ignored in telemetry.growing(rdma.CNP_IGNORED.name, MIN_CNPS).items():
        obeyed = telemetry.growth(rdma.CNP_HANDLED.name, port)
        if obeyed is not None and ignored.total < obeyed.total:
            continue
        evidence = [grew(rdma.CNP_IGNORED, port, ignored, f"< {MIN_CNPS}")]
        if obeyed is not None:
            evidence.append(grew(rdma.CNP_HANDLED, port, obeyed))
        yield found(
            rule,
            port,
            "critical",
            0.85,
            f"{display(port)} ignores the CNPs that it gets: its reaction point is off on that "
            "priority",
            evidence,
            affected=[port],
        )


def _lost(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Iterable[Finding]:
    """Compare all CNPs sent with all that arrived; only where every port counts both."""
    if sum(growth.total for growth in telemetry.growing(rdma.CNP_TX.name).values()) < MIN_MARKED:
        return
    sent = telemetry.growth_all(rdma.CNP_TX.name)
    handled = telemetry.growth_all(rdma.CNP_HANDLED.name)
    ports = fabric.ports()
    if not ports or any(port not in sent or port not in handled for port in ports):
        return
    ignored = telemetry.growth_all(rdma.CNP_IGNORED.name)
    internal = telemetry.growth_all(rdma.SLOW_RESTART_CNPS.name)
    total_sent = sum(sent[port].total for port in ports)
    arrived = sum(
        handled[port].total
        + (ignored[port].total if port in ignored else 0)
        - (internal[port].total if port in internal else 0)
        for port in ports
    )
    if total_sent < MIN_MARKED or arrived > (1 - LOST) * total_sent:
        return
    senders = sorted(ports, key=lambda port: -sent[port].total)[:4]
    yield found(
        rule,
        senders[0],
        "warning",
        0.6,
        f"of {total_sent:.0f} CNPs sent (most by {names(senders, 2)}) senders saw {arrived:.0f}: "
        "they are lost or stuck in a queue on the way",
        [
            *(grew(rdma.CNP_TX, port, sent[port]) for port in senders),
            *(grew(rdma.CNP_HANDLED, port, handled[port]) for port in senders),
        ],
        affected=senders,
    )


def _behind(fabric: FabricView, port: Entity) -> list[tuple[str, Entity]]:
    """Return the symptoms that senders which never slow down cause at the egress to the port."""
    far = fabric.peer(fabric.attached(port)) if isinstance(port, Port) else None
    return [] if far is None else [("pause-root", far), ("path-marks", far), ("queue-drops", far)]


RULE: Final = Rule(
    id="cnp-feedback",
    section="config",
    title="Congestion feedback breaks off",
    finds="receivers that send no CNP, senders that ignore CNPs, CNPs that get lost between",
    quiet_when="marks lead to CNPs, and CNPs to reaction",
    cannot_tell_when="no NIC counts CNPs",
    refutes="the algorithm that runs is not DCQCN (then CNPs mean nothing)",
    judge=judge,
    answers=("R4", "R20", "R21"),
)
