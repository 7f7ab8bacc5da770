"""Marks slow the senders down so far that the egress is no longer full (R22)."""

from __future__ import annotations

from typing import Final

from collectors.model.units import quantity
from tuner.diagnosis.control_loop import Loop, loops
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.load import loads
from tuner.diagnosis.pause_roots import MIN_SHARE, pause_roots
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry

ROOM: Final = 0.85  # of line rate: a congested egress should carry more
MIN_LOAD: Final = 0.1  # an egress with less is not in use
MARKED: Final = 0.003
LOW_KMIN_S: Final = 2e-6  # of line rate: a queue this short marks single packets of two senders
SHORT_CNP_S: Final = 4e-6  # shortest interval between CNPs of a flow that vendors advise
SHORT_CUT_S: Final = 4e-6  # of cuts


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find egresses that mark and have room, and the setting that slows their senders too far."""
    known = [loop for loop in loops(telemetry, fabric) if loop.ecn or loop.parameters]
    busy = loads(telemetry, fabric)
    held = {root.wire for root in pause_roots(telemetry, fabric) if root.share >= MIN_SHARE}
    findings = []
    for loop in known:
        if loop.wire in held or not MIN_LOAD <= loop.load < ROOM or loop.marked < MARKED:
            continue
        full = [p for p in loop.senders if busy.tx.get(fabric.attached(p), 0.0) >= ROOM]
        reasons = _reasons(loop)
        if reasons and not full:
            findings.append(_finding(rule, loop, reasons, busy.evidence(loop.wire)))
    missing = () if known else ("marks of an egress to a host, thresholds or DCQCN settings",)
    return verdict(rule, findings, judged=bool(known), missing=missing)


def _reasons(loop: Loop) -> list[tuple[str, list[Evidence]]]:
    reasons = []
    if loop.ecn is not None and loop.ecn.kmin_bytes * 8 / loop.speed_bps < LOW_KMIN_S:
        text = f"Kmin of {quantity(loop.ecn.kmin_bytes, 'bytes')} is too low for its speed"
        reasons.append((text, loop.evidence("kmin_bytes")))
    parameters = loop.parameters
    if parameters is not None and parameters.cnp_interval_s < SHORT_CNP_S:
        text = f"CNPs of a flow come every {quantity(parameters.cnp_interval_s, 'seconds')}"
        reasons.append((text, loop.evidence("dcqcn_cnp_interval_s")))
    if parameters is not None and parameters.cut_window_s < SHORT_CUT_S:
        text = f"senders cut their rate every {quantity(parameters.cut_window_s, 'seconds')}"
        reasons.append((text, loop.evidence("dcqcn_cut_window_s")))
    return reasons


def _finding(
    rule: Rule, loop: Loop, reasons: list[tuple[str, list[Evidence]]], load: Evidence
) -> Finding:
    shallow = (
        loop.watermark is not None
        and loop.ecn is not None
        and loop.watermark <= 2 * loop.ecn.kmax_bytes
    )
    return found(
        rule,
        loop.wire,
        "warning",
        0.8 if shallow else 0.7,
        f"{loop} marks {loop.marked:.0%} of its packets and carries only {loop.load:.0%} of its "
        f"rate: {'; '.join(text for text, _ in reasons)}",
        [
            load,
            Evidence("marked share", loop.wire, loop.marked, "ratio", f"< {MARKED:.1%} with room"),
            *(item for _, evidence in reasons for item in evidence),
        ],
        affected=[loop.receiver, *loop.senders],
        explains=[("path-marks", loop.wire), ("unstable-loop", loop.wire)],
    )


RULE: Final = Rule(
    id="over-throttling",
    section="control_loop",
    title="Senders slowed down too far",
    finds=f"egresses that mark while they carry under {ROOM:.0%} of their rate, where Kmin is "
    f"under {LOW_KMIN_S * 1e6:g} us of line rate, or CNPs or cuts come faster than every "
    f"{SHORT_CNP_S * 1e6:g} us",
    quiet_when="the egress is full, hardly marks, or its settings are in the usual range",
    cannot_tell_when="no egress marks, or neither thresholds nor DCQCN parameters are known",
    refutes="the senders have no more to send (bursts of an application)",
    judge=judge,
    answers=("R22",),
)
