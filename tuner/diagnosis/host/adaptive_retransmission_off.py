"""Many timeouts and no adaptive retransmission: loss waits for the full ACK timer (R45)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port
from tuner.diagnosis.rule import HostRule, found, grew
from tuner.diagnosis.view import HostTelemetry

MIN_TIMEOUTS: Final = 20


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Hold timeouts against adaptive retransmissions, where the NIC counts both."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        timeouts = telemetry.growth(rdma.ACK_TIMEOUTS.name, roce.port)
        adaptive = telemetry.growth(rdma.ADAPTIVE_RETRANS.name, roce.port)
        if timeouts is None or adaptive is None:
            return None
        if timeouts.total < MIN_TIMEOUTS or adaptive.total > 0:
            return []
        return [
            found(
                rule,
                roce.port,
                "info",
                0.5,
                f"{roce} timed out {timeouts.total:.0f} times and never retransmitted adaptively: "
                "the feature is off",
                [
                    grew(rdma.ACK_TIMEOUTS, roce.port, timeouts, f"< {MIN_TIMEOUTS}"),
                    grew(rdma.ADAPTIVE_RETRANS, roce.port, adaptive, "> 0"),
                ],
                affected=[roce.port],
            )
        ]

    late = telemetry.growing(rdma.ACK_TIMEOUTS.name, MIN_TIMEOUTS)
    missing = "ACK timeouts and adaptive retransmissions"
    return each_port(rule, telemetry, judge_port, missing, suspects=late)


RULE: Final = HostRule(
    id="adaptive-retransmission-off",
    section="host",
    title="Adaptive retransmission off",
    finds=f"ports with {MIN_TIMEOUTS} or more ACK timeouts and no adaptive retransmission",
    quiet_when="there are fewer timeouts, or adaptive retransmission works",
    cannot_tell_when="the NIC does not count adaptive retransmissions",
    refutes="the queue pairs were made with a timeout shorter than the adaptive one",
    judge=judge,
    answers=("R45",),
)
FIX: Final = "mlxreg --set roce_adp_retrans_en=1 (ROCE_ACCL): it finds loss before the ACK timer"
