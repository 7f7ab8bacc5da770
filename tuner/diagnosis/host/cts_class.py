"""Clear-to-send messages of a collective queue behind the data they are to start (R49)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port, job_variables
from tuner.diagnosis.rule import HostRule, found, grew
from tuner.diagnosis.view import HostTelemetry

_DATA: Final = "NCCL_IB_TC"
_CONTROL: Final = "NCCL_IB_FIFO_TC"
MIN_CNPS: Final = 100  # with fewer there is no queue on the way to wait in


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find jobs that give their data a class and their control messages the same."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        variables = {
            name: (value, item) for name, value, item in job_variables(telemetry, roce.port)
        }
        slowed = telemetry.growth(rdma.CNP_HANDLED.name, roce.port) if variables else None
        if slowed is None:
            return None
        if _DATA not in variables or slowed.total < MIN_CNPS:
            return []
        data, evidence = variables[_DATA]
        control = variables.get(_CONTROL)
        if control is not None and control[0] != data:
            return []
        return [
            found(
                rule,
                roce.port,
                "info",
                0.4,
                f"a job on {roce} sends clear-to-send messages in the class of its data "
                f"({_DATA}={data}, {_CONTROL} {'unset' if control is None else 'the same'}): under "
                "congestion they wait behind it",
                [
                    evidence,
                    *([] if control is None else [control[1]]),
                    grew(rdma.CNP_HANDLED, roce.port, slowed, f"< {MIN_CNPS}"),
                ],
                affected=[roce.port],
            )
        ]

    slow = telemetry.growing(rdma.CNP_HANDLED.name, MIN_CNPS)
    return each_port(rule, telemetry, judge_port, "environment of a job", suspects=slow)


RULE: Final = HostRule(
    id="cts-class",
    section="host",
    title="Control messages in the class of the data",
    finds=f"jobs on ports that get CNPs with {_DATA} set and {_CONTROL} unset or the same",
    quiet_when="control messages have a class of their own, the job sets no class, or there is no "
    "congestion",
    cannot_tell_when="no job's environment is known, or CNPs are not counted",
    refutes="queues are short, so that there is nothing to wait behind",
    judge=judge,
    answers=("R49",),
)
FIX: Final = "set NCCL_IB_FIFO_TC to a class with strict priority (NCCL 2.22 and newer)"
