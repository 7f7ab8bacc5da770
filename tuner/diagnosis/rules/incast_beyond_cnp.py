"""So many flows to one egress that one CNP per interval and flow cannot slow them enough (R26)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.units import quantity
from tuner.diagnosis.control_loop import Loop, loops
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MANY: Final = 80  # DCQCN+ (ICNP 2018) measured queues that no longer settle from 80 to 160 flows
FULL: Final = 0.8
SATURATED: Final = 0.5  # of the packets marked


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find egresses with more flows than CNPs can rule, of which most packets are marked."""
    known = [loop for loop in loops(telemetry, fabric) if loop.senders]
    findings = [finding for loop in known if (finding := _judge(rule, telemetry, loop)) is not None]
    missing = () if known else ("marks of an egress to a host and the queue pairs towards it",)
    return verdict(rule, findings, judged=bool(known), missing=missing)


def _judge(rule: Rule, telemetry: Telemetry, loop: Loop) -> Finding | None:
    if loop.flows < MANY or loop.load < FULL or loop.marked < SATURATED:
        return None
    interval = loop.parameters.cnp_interval_s if loop.parameters else None
    sent = telemetry.growth(rdma.CNP_TX.name, loop.receiver)
    return found(
        rule,
        loop.wire,
        "warning",
        0.75,
        f"{loop.flows} flows of {len(loop.senders)} hosts send to {loop}: {loop.marked:.0%} of "
        "the packets are marked, and each flow gets at most one CNP"
        + ("" if interval is None else f" in {quantity(interval, 'seconds')}"),
        [
            Evidence("flows", loop.wire, float(loop.flows), "count", f"< {MANY}"),
            Evidence("marked share", loop.wire, loop.marked, "ratio", f"< {SATURATED:.0%}"),
            *([] if sent is None else [grew(rdma.CNP_TX, loop.receiver, sent)]),
            *loop.evidence("dcqcn_cnp_interval_s", "dcqcn_ai_bps"),
        ],
        affected=[loop.receiver, *loop.senders],
        explains=[
            (name, loop.wire)
            for name in ("path-marks", "incast", "pause-root", "marking-saturated")
        ],
    )


RULE: Final = Rule(
    id="incast-beyond-cnp",
    section="flow_control",
    title="Incast that CNPs cannot rule",
    finds=f"full egresses with {MANY} or more flows of which {SATURATED:.0%} of packets are marked",
    quiet_when="fewer flows send there, or marks hold them",
    cannot_tell_when="no egress marks, or queue pairs are not known",
    refutes="most of these queue pairs are idle",
    judge=judge,
    answers=("R26",),
)
