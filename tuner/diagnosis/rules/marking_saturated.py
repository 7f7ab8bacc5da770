"""The queue parks at Kmax: what its flows need in marks is more than Pmax gives (R25)."""

from __future__ import annotations

from typing import Final

from tuner.diagnosis.control_loop import Loop, loops
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.models.dcqcn_fixed_point import most_flows_before_saturation

FULL: Final = 0.8  # of line rate: below it the queue is not parked
LOW_PMAX: Final = 0.05  # published values for training fabrics are 0.07 and more
FEW_FLOWS: Final = 32  # a fabric must hold so many at one egress
ABOVE: Final = 1.5  # marked share over Pmax: on the slope it never exceeds Pmax


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Hold the share of marked packets against Pmax, and the flows against what Pmax can hold."""
    found_ = loops(telemetry, fabric)
    known = [loop for loop in found_ if loop.ecn is not None and loop.parameters is not None]
    findings = [finding for loop in known if (finding := _judge(rule, loop)) is not None]
    missing = () if known else ("marks of an egress to a host, its thresholds and DCQCN settings",)
    return verdict(rule, findings, judged=bool(known), missing=missing)


def _judge(rule: Rule, loop: Loop) -> Finding | None:
    ecn, parameters = loop.ecn, loop.parameters
    if ecn is None or parameters is None or ecn.pmax_ratio >= 1 or loop.load < FULL:
        return None
    if loop.marked < min(ABOVE * ecn.pmax_ratio, 0.9):
        return None
    flows = max(loop.flows, 1)
    holds = most_flows_before_saturation(parameters, ecn.pmax_ratio, loop.speed_bps)
    if flows <= holds:
        return None
    low = ecn.pmax_ratio < LOW_PMAX and holds < FEW_FLOWS
    return found(
        rule,
        loop.wire,
        "warning" if low else "info",
        0.8 if low else 0.5,
        f"{flows} flows to {loop} need more marks than Pmax {ecn.pmax_ratio:.1%} gives (it holds "
        f"{holds}): {loop.marked:.0%} of the packets are marked and the queue stays at Kmax",
        [
            *loop.evidence("pmax_ratio", "kmin_bytes", "kmax_bytes"),
            Evidence("marked share", loop.wire, loop.marked, "ratio", f"<= {ecn.pmax_ratio:g}"),
            Evidence("flows", loop.wire, float(flows), "count", f"<= {holds} by the fixed point"),
        ],
        affected=[loop.receiver, *loop.senders],
        explains=[(name, loop.wire) for name in ("path-marks", "incast", "pause-root")]
        if low
        else [],
    )


RULE: Final = Rule(
    id="marking-saturated",
    section="control_loop",
    title="Pmax too low for the flows",
    finds="full egresses whose packets are marked far more often than Pmax, with more flows than "
    "the exact fixed point of DCQCN has below Pmax",
    quiet_when="the marked share stays on the slope, or Pmax is 1",
    cannot_tell_when="marks, thresholds or the senders' DCQCN parameters are not known",
    refutes="the flows do not run DCQCN, or most of them are idle",
    judge=judge,
    answers=("R25",),
)
