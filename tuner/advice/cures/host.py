"""Cures of hosts: traffic that leaves without ECT, too few receives, a wrong MTU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import rdma_errors
from collectors.model.entities import Port, display
from tuner.advice.cure import GOODPUT, end_of_loss, fair_share, recommend_change
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

ECT0: Final = 2
RECEIVES: Final = 256


def set_ect(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Let the senders mark their packets ECN-capable, so that the queue marks instead of drops."""
    receiver, *senders = finding.affected
    for sender in senders or [receiver]:
        yield recommend_change(
            finding,
            "roce_ecn_codepoint",
            sender,
            0,
            ECT0,
            f"send RDMA traffic of {display(sender)} with ECT(0)",
            [
                *fair_share(telemetry, fabric, receiver, sender),
                *end_of_loss(telemetry, fabric, finding.affected),
            ],
            confidence=finding.confidence if senders else min(finding.confidence, 0.6),
            risk="low",
            missing=() if senders else ("which hosts send to this receiver",),
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
    usual = Counter(
        int(setting.value)
        for setting in telemetry.setting_all(name).values()
        if isinstance(setting.value, (int, float))
    ).most_common(1)
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
