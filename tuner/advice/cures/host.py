"""Cures of hosts: traffic that leaves without ECT, too few receives, a wrong MTU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import rdma, rdma_errors
from collectors.model.entities import (
    Device,
    Host,
    Netdev,
    Port,
    display,
    host_of,
)
from tuner.advice.cure import GOODPUT, end_of_loss, end_of_pauses, fair_share, recommend_change
from tuner.advice.cures.configuration import aligned
from tuner.advice.norm import rate_bps
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

ECT0: Final = 2
RECEIVES: Final = 256
TIMEOUT_CODE: Final = 20  # 4.096 us x 2^20, NCCL's own since 2.23


def set_ect(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Let the senders mark their packets ECN-capable, so that the queue marks instead of drops.

    Those that are set otherwise, be they the subject or affected; where no setting tells, the
    affected after the first, who receives, unless they are known to be ECN-capable.
    """
    codepoints = {
        place: setting.value
        for place in dict.fromkeys((finding.subject, *finding.affected))
        if (setting := telemetry.settings(place).get("roce_ecn_codepoint")) is not None
    }
    told = [place for place, value in codepoints.items() if not value]
    receiver = next((place for place in finding.affected if place not in told), finding.subject)
    unread = [place for place in finding.affected[1:] if place not in codepoints]
    if not told and len(finding.affected) == 1 and receiver not in codepoints:
        unread = [receiver]
    known = told or len(finding.affected) > 1
    for sender in told or unread:
        missing = () if known else ("which hosts send to this receiver",)
        yield recommend_change(
            finding,
            "roce_ecn_codepoint",
            sender,
            codepoints.get(sender),
            ECT0,
            f"send RDMA traffic of {display(sender)} with ECT(0)",
            [
                *fair_share(telemetry, fabric, receiver, sender),
                *end_of_loss(telemetry, fabric, finding.affected),
            ],
            confidence=finding.confidence if known else min(finding.confidence, 0.6),
            risk="low",
            missing=missing if sender in codepoints else (*missing, "the sender's ECN codepoint"),
        )


def post_receives(
    finding: Finding, telemetry: Telemetry, _fabric: FabricView
) -> Iterable[Recommendation]:
    """Let the receiver's application post more receives."""
    rate = sum(
        growth.rate
        for port in (finding.subject, *finding.affected)
        for metric in (rdma_errors.RNR_NAK_TX, rdma_errors.OUT_OF_BUFFER)
        if (growth := telemetry.growth(metric.name, port)) is not None
    )
    effects = [
        Effect(
            "receiver-not-ready answers per second", "packets", rate, 0.0, 0.1 * rate,
            "a receive is posted for every request in flight",
            f"at most {RECEIVES} requests are in flight for each queue pair",
        ),
        Effect(
            GOODPUT, "ratio", 1.0, 1.2, 10.0, "time spent in RNR back-off",
            "each not-ready answer costs the sender its RNR timer (0.01 to 655 ms, IBTA table 45)",
        ),
    ]  # fmt: skip
    yield recommend_change(
        finding,
        "receive_queue_depth",
        finding.subject,
        None,
        RECEIVES,
        f"post more receives on {display(finding.subject)}",
        effects,
        confidence=finding.confidence,
        risk="low",
        missing=["the number of receives that the application posts now"],
    )


def align_mtu(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Give the end that differs from most others their MTU."""
    ends = [item for item in finding.evidence if item.name in ("mtu_bytes", "rdma_mtu_bytes")]
    if not ends:
        return
    name = ends[0].name
    counted: Counter[int] = Counter()
    for value, places in telemetry.alike(name).items():
        if isinstance(value, (int, float)):
            counted[int(value)] += len(places)
    usual = counted.most_common(1)
    wanted = usual[0][0] if usual else max(int(float(end.value)) for end in ends)
    for end in ends:
        if int(float(end.value)) == wanted:
            continue
        yield recommend_change(
            finding,
            "mtu_bytes",
            end.entity,
            int(float(end.value)),
            wanted,
            f"set the MTU of {display(end.entity)} to {wanted}, as most others have",
            end_of_loss(telemetry, fabric, [p for p in finding.affected if isinstance(p, Port)]),
            confidence=finding.confidence,
            risk="medium",
        )


def look_at(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Find out why a host drains slowly or pauses for good, and keep jobs off it meanwhile."""
    place = finding.subject
    if isinstance(place, Port | Device):
        place = Host(place.host if isinstance(place, Device) else place.device.host)
    yield recommend_change(
        finding,
        "host_repair",
        place,
        "drains slowly",
        "drains at line rate",
        f"find out what slows down {display(place)}; keep jobs off it meanwhile",
        [*end_of_pauses(finding), *_drain(finding, telemetry, fabric)],
        confidence=finding.confidence,
        risk="low",
    )


def _drain(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> list[Effect]:
    """Predict what the host receives once it drains: between now and its link's rate."""
    place = finding.subject
    port = fabric.port_of(place) if isinstance(place, Netdev) else place
    taken = telemetry.growth(rdma.RX_BYTES.name, port) if port is not None else None
    line = rate_bps(telemetry, place)
    if taken is None or not line or not taken.rate:
        return []
    room = max(1.0, line / (taken.rate * 8))
    return [
        Effect(
            GOODPUT, "ratio", 1.0, 1.0, room, "rate of the receiver's link",
            "its senders have more to send, and nothing else holds them up",
        )
    ]  # fmt: skip


def stop_overflow(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Let the NIC pause its peer instead of dropping, and find out why it has to.

    PFC alone turns drops into pauses: a buffer that overflows belongs to a host that drains too
    slowly.
    """
    yield from aligned(finding, telemetry, fabric, ("pfc_priorities",))
    yield from look_at(finding, telemetry, fabric)


def outlast_timeouts(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Give queue pairs a timeout that outlasts pauses and queues."""
    hosts = dict.fromkeys(
        Host(name)
        for place in (finding.subject, *finding.affected)
        if (name := host_of(place)) is not None
    )
    if not hosts:
        return
    first, *others = hosts
    yield recommend_change(
        finding,
        "qp_timeout_code",
        first,
        None,
        TIMEOUT_CODE,
        f"an ACK timeout of 4.3 s for the queue pairs of {display(first)}",
        end_of_loss(telemetry, fabric, finding.affected),
        confidence=min(finding.confidence, 0.7),
        risk="low",
        missing=["the timeout that the job sets now"],
        also=others,
    )
