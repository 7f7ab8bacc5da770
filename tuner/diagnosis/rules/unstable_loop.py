"""DCQCN oscillates: the loop is unstable for these flows, thresholds and delays (R24)."""

from __future__ import annotations

import math
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import queue
from collectors.model.units import quantity
from tuner.diagnosis.control_loop import Loop, loops
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.models.dcqcn_stability import critical_delay_s

DELAY_S: Final = 5e-6  # of the control loop in one building, propagation only: the least there is
ROOM: Final = 0.95  # of line rate: a loop that keeps the egress full does not swing to empty
MIN_LOAD: Final = 0.3
SWING: Final = 1.0  # watermark over Kmax: the queue overshoots the slope
_MOST_FLOWS: Final = 512


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find egresses whose queue overshoots and empties while the model says it must."""
    known = [
        loop
        for loop in loops(telemetry, fabric)
        if loop.ecn is not None and loop.parameters is not None and loop.watermark is not None
    ]
    findings = [
        finding
        for loop in known
        if (finding := _judge(rule, loop)) is not None and _still_swings(telemetry, loop)
    ]
    missing = () if known else ("watermark, thresholds and DCQCN settings of a marking egress",)
    return verdict(rule, findings, judged=bool(known), missing=missing)


def _still_swings(telemetry: Telemetry, loop: Loop) -> bool:
    """Tell whether the queue overshoots in the newest reading, too, not once as flows start."""
    newest = [
        seen.value
        for index in range(8)
        if (seen := telemetry.latest(interface.QUEUE_WATERMARK.name, queue(loop.wire, index)))
    ]
    return loop.ecn is not None and max(newest, default=0.0) >= SWING * loop.ecn.kmax_bytes


def _judge(rule: Rule, loop: Loop) -> Finding | None:
    ecn, parameters, watermark = loop.ecn, loop.parameters, loop.watermark
    if ecn is None or parameters is None or watermark is None:
        return None
    if not MIN_LOAD <= loop.load < ROOM or watermark < SWING * ecn.kmax_bytes:
        return None
    if not 1 <= loop.flows <= _MOST_FLOWS:
        return None
    try:
        limit = critical_delay_s(parameters, ecn, loop.speed_bps, loop.flows)
    except ValueError:  # no fixed point, hence no loop to judge
        return None
    if not math.isfinite(limit) or limit > DELAY_S:
        return None
    return found(
        rule,
        loop.wire,
        "warning",
        0.6,
        f"the queue of {loop} swings from empty to {quantity(watermark, 'bytes')} while the "
        f"link is {loop.load:.0%} used: for {loop.flows} flows the loop is unstable from "
        f"{quantity(limit, 'seconds')} of delay",
        [
            Evidence(
                interface.QUEUE_WATERMARK.name,
                loop.wire,
                watermark,
                "bytes",
                f"< Kmax {ecn.kmax_bytes:.0f}",
            ),
            *loop.evidence("kmin_bytes", "kmax_bytes", "pmax_ratio", "dcqcn_ai_bps"),
            Evidence("flows", loop.wire, float(loop.flows), "count"),
        ],
        affected=[loop.receiver, *loop.senders],
        explains=[("path-marks", loop.wire)],
    )


RULE: Final = Rule(
    id="unstable-loop",
    section="control_loop",
    title="Congestion control oscillates",
    finds="egresses whose queue overshoots Kmax while the link is not full, where DCQCN's phase "
    f"margin is negative at {DELAY_S * 1e6:g} us",
    quiet_when="the link is full, the queue stays on the slope, or the loop is stable",
    cannot_tell_when="watermark, thresholds or DCQCN parameters are not known",
    refutes="flows start and end all the time, so that the queue follows the load",
    judge=judge,
    answers=("R24",),
)
