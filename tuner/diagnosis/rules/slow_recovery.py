"""After congestion the rate comes back too slowly: small additive increase (R23)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.entities import Port, display
from collectors.model.facts import Setting
from collectors.model.units import quantity
from tuner.diagnosis.finding import Evidence, Verdict
from tuner.diagnosis.load import loads
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

SLOW_S: Final = 0.5  # to regain half of the line rate by additive increase
MIN_CNPS: Final = 10
ROOM: Final = 0.7  # of line rate: a sender above it has recovered
_AI: Final = "dcqcn_ai_bps"
_TIMER: Final = "dcqcn_increase_timer_s"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compute how long half of the line rate takes, and see who was slowed down and has room."""
    increases, timers = telemetry.setting_all(_AI), telemetry.setting_all(_TIMER)
    known = loads(telemetry, fabric)
    findings = []
    judged = False
    for port, increase in increases.items():
        timer = timers.get(port)
        wire = fabric.attached(port) if isinstance(port, Port) else None
        speed = known.speeds.get(wire) if wire is not None else None
        if timer is None or speed is None or not isinstance(port, Port) or wire is None:
            continue
        judged = True
        step = _number(increase)
        needed = speed / 2 / step * _number(timer) if step > 0 else float("inf")
        handled = telemetry.growth(rdma.CNP_HANDLED.name, port)
        slowed = handled is not None and handled.total >= MIN_CNPS
        if needed < SLOW_S or handled is None or not slowed:
            continue
        load = known.tx.get(wire, 1.0)
        findings.append(
            found(
                rule,
                port,
                "warning" if load < ROOM else "info",
                0.7,
                f"{display(port)} regains half of {quantity(speed, 'bps')} in {needed:.1f} s: its "
                f"rate grows by {quantity(step, 'bps')} each "
                f"{quantity(_number(timer), 'seconds')}, after CNPs it stays slow",
                [
                    Evidence(_AI, port, _number(increase), "bps", f"half in {SLOW_S} s"),
                    Evidence(_TIMER, port, _number(timer), "seconds"),
                    grew(rdma.CNP_HANDLED, port, handled, f"< {MIN_CNPS}"),
                    *([known.evidence(wire)] if wire in known.tx else []),
                ],
                affected=[port],
            )
        )
    missing = () if judged else ("additive increase and timer of a port, and its speed",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _number(setting: Setting) -> float:
    return float(setting.value) if isinstance(setting.value, (int, float)) else 0.0


RULE: Final = Rule(
    id="slow-recovery",
    section="control_loop",
    title="Rate comes back too slowly",
    finds=f"ports that got CNPs and need {SLOW_S} s or more for half of their line rate by "
    "additive increase alone",
    quiet_when="increase suits the speed, or no CNPs arrive",
    cannot_tell_when="additive increase, its timer or the speed are not known",
    refutes="the flows end before they recover, so that nobody waits",
    judge=judge,
    answers=("R23",),
)
