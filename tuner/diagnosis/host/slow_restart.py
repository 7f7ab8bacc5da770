"""Slow restart holds bursts back: the NIC slows flows down that nobody marked (R46)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port
from tuner.diagnosis.rule import HostRule, found, grew
from tuner.diagnosis.view import HostTelemetry

MIN_CNPS: Final = 100
SHARE: Final = 0.5  # of the CNPs that the port handled


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Hold the CNPs that the NIC makes for itself against all that it handles."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        own = telemetry.growth(rdma.SLOW_RESTART_CNPS.name, roce.port)
        handled = telemetry.growth(rdma.CNP_HANDLED.name, roce.port)
        if own is None or handled is None:
            return None
        if own.total < MIN_CNPS or own.total < SHARE * handled.total:
            return []
        return [
            found(
                rule,
                roce.port,
                "info",
                0.5,
                f"{own.total:.0f} of {handled.total:.0f} CNPs that {roce} handled are its own: "
                "slow restart throttles flows after idle times, not congestion",
                [
                    grew(rdma.SLOW_RESTART_CNPS, roce.port, own, f"< {SHARE:.0%} of the handled"),
                    grew(rdma.CNP_HANDLED, roce.port, handled),
                ],
                affected=[roce.port],
            )
        ]

    own = telemetry.growing(rdma.SLOW_RESTART_CNPS.name, MIN_CNPS)
    missing = "CNPs of slow restart and CNPs handled"
    return each_port(rule, telemetry, judge_port, missing, suspects=own)


RULE: Final = HostRule(
    id="slow-restart",
    section="host",
    title="Slow restart throttles bursts",
    finds=f"ports of whose handled CNPs slow restart made {SHARE:.0%} or more",
    quiet_when="CNPs come from receivers",
    cannot_tell_when="the NIC does not count the CNPs of slow restart",
    refutes="the job sends steadily and never idles",
    judge=judge,
    answers=("R46",),
)
FIX: Final = "mlxreg --set roce_slow_restart_en=0 (ROCE_ACCL) for collectives that come in bursts"
