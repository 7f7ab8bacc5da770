"""Short pauses that come again at one interval: a pulsing tenant or a periodic job (R58)."""

from __future__ import annotations

from typing import Final

import numpy as np

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, display
from collectors.model.units import quantity
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_STEPS: Final = 24  # readings: fewer show no period
CORRELATED: Final = 0.6  # autocorrelation at the period
LOW: Final = 0.10  # of time: more is no low-rate pulse but a pause tree
MIN_SECONDS: Final = 1e-4  # of pause in the span
_MOST: Final = 64  # egresses looked at, those that wait longest


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Look for a period in the pause time of each egress from reading to reading."""
    del fabric
    paused = telemetry.growing(interface.PFC_RX_PAUSE.name, MIN_SECONDS)
    waiting = {e: g for e, g in paused.items() if g.samples > MIN_STEPS}
    longest = sorted(waiting, key=lambda e: (-waiting[e].total, str(e)))[:_MOST]
    findings = []
    judged = bool(waiting) or any(
        (growth := telemetry.growth(interface.PFC_RX_PAUSE.name, slot)) is not None
        and growth.samples > MIN_STEPS
        for slot in telemetry.entities(interface.PFC_RX_PAUSE.name)
    )
    for slot in longest:
        growth = waiting[slot]
        steps = telemetry.rates(interface.PFC_RX_PAUSE.name, slot)
        if steps is None or growth.seconds <= 0 or growth.total > LOW * growth.seconds:
            continue
        period = _period(np.fromiter(steps[1], np.float64))
        if period is not None:
            findings.append(_finding(rule, slot, growth, period))
    missing = () if judged else (f"{MIN_STEPS} readings of the pause time of an egress",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _period(shares: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int | None:
    """Return the steps after which the series repeats itself, None where it does not."""
    count = len(shares)
    centred = shares - shares.mean()
    power = float(centred @ centred)
    if count < MIN_STEPS or power <= 0:
        return None
    alike = [
        float(centred[lag:] @ centred[:-lag]) / power * count / (count - lag)
        for lag in range(2, count // 3)
    ]
    best = int(np.argmax(alike)) if alike else 0
    return best + 2 if alike and alike[best] >= CORRELATED else None


def _finding(rule: Rule, slot: Entity, growth: Growing, period: int) -> Finding:
    seconds = period * growth.seconds / max(growth.samples - 1, 1)
    return found(
        rule,
        slot,
        "info",
        0.4,
        f"{display(slot)} is paused again and again every {quantity(seconds, 'seconds')}, "
        f"{growth.rate:.1%} of the time: somebody sends in pulses",
        [grew(interface.PFC_RX_PAUSE, slot, growth, f"no period (correlation < {CORRELATED})")],
        affected=[slot],
    )


RULE: Final = Rule(
    id="periodic-pauses",
    section="placement",
    title="Periodic pauses",
    finds="egresses with little pause time that comes again at one interval",
    quiet_when="pauses come at no interval, or there are none",
    cannot_tell_when=f"no pause time was read more than {MIN_STEPS} times",
    refutes="the interval is that of the job's own steps",
    judge=judge,
    answers=("R58",),
)
