"""A tier whose buffers pause before the others: its alpha is smaller (R47)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from collectors.model.entities import Interface, Slot, Switch, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.lossless import usual_lossless
from tuner.diagnosis.pause_roots import PauseRoot, pause_roots
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry

ODD: Final = 0.5  # of the alpha that most switches have
_NAMES: Final = ("buffer_alpha", "buffer_alpha_exponent", "pause_threshold_bytes")


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find switches that stop their peers with a smaller share of buffer than most have."""
    shares = {name: least for name in _NAMES if (least := _least(telemetry, name))}
    stopping = _stopping(telemetry, fabric)
    findings: list[Finding] = []
    judged = False
    for name, by_switch in shares.items():
        counted = Counter(value for value, _ in by_switch.values())
        usual, times = counted.most_common(1)[0]
        judged = judged or len(by_switch) > 1
        if len(by_switch) < 3 or 2 * times <= len(by_switch):
            continue
        for switch, (value, slot) in by_switch.items():
            roots = stopping.get(switch)
            if value <= ODD * usual and roots:
                findings.append(_finding(rule, name, switch, slot, value, usual, roots))
    missing = () if judged else ("buffer alpha of the lossless priority of several switches",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _least(telemetry: Telemetry, name: str) -> dict[Switch, tuple[float, Slot]]:
    """Return the smallest share of a lossless priority at each switch, and where it is."""
    lossless = usual_lossless(telemetry)
    told = [
        (float(2**value if name.endswith("exponent") else value), slot, slot.parent.switch)
        for value, slots in telemetry.alike(name).items()
        if isinstance(value, (int, float))
        for slot in slots
        if isinstance(slot, Slot) and slot.index in lossless and isinstance(slot.parent, Interface)
    ]
    least: dict[Switch, tuple[float, Slot]] = {}
    for share, slot, switch in told:
        if switch not in least or share < least[switch][0]:
            least[switch] = share, slot
    return least


def _stopping(telemetry: Telemetry, fabric: FabricView) -> dict[Switch, list[PauseRoot]]:
    """Return by switch the pause roots of which some victim waits for that switch."""
    found_: dict[Switch, list[PauseRoot]] = {}
    for root in pause_roots(telemetry, fabric):
        for switch in {
            far.switch for v in root.victims if isinstance(far := fabric.peer(v), Interface)
        }:
            found_.setdefault(switch, []).append(root)
    return found_


def _finding(
    rule: Rule,
    name: str,
    switch: Switch,
    slot: Slot,
    value: float,
    usual: float,
    roots: list[PauseRoot],
) -> Finding:
    worst = roots[0]
    return found(
        rule,
        switch,
        worst.severity,
        0.8,
        f"{display(switch)} stops its peers at {value:g} of the free buffer where most switches "
        f"allow {usual:g}: {names(worst.victims)} wait up to {worst.share:.0%} of the time",
        [Evidence(name, slot, value, "", f"{usual:g} as most switches"), *worst.evidence],
        affected=worst.victims,
        explains=[
            (effect, root.wire)
            for root in roots
            for effect in ("pause-root", "incast", "pfc-before-ecn", "oversubscription")
        ],
    )


RULE: Final = Rule(
    id="unequal-alpha",
    section="config",
    title="Buffer share smaller than elsewhere",
    finds=f"switches that stop their peers and whose lossless groups have {ODD:.0%} or less of the "
    "buffer share (alpha, or static threshold) that most switches have",
    quiet_when="shares are alike, or the lesser switch does not stop anybody",
    cannot_tell_when="buffer shares of fewer than two switches are known",
    refutes="that switch's chip has so much more buffer that the smaller share is as large",
    judge=judge,
    answers=("R47",),
)
