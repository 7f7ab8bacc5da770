"""Symbol, checksum and ICRC errors: cable, optics or a device that corrupts (R31, R33)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import ethernet, interface, rdma
from collectors.model.entities import Entity, display
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import HostRule, found, grew, verdict
from tuner.diagnosis.view import HostTelemetry

# Events per hour that are no longer chance. Symbol errors: 120/h is 1e-12 at 25 Gbit/s a lane
# (IBTA; the threshold that fleets page on); a healthy Ethernet link loses no frame in hours.
_LIMITS: Final[tuple[tuple[Metric, float], ...]] = (
    (rdma.SYMBOL_ERRORS, 120),
    (rdma.RX_ERRORS, 10),
    (rdma.LOCAL_INTEGRITY, 1),
    (rdma.ICRC_ERRORS, 10),
    (interface.RX_CRC_ERRORS, 10),
    (interface.RX_ERRORS, 10),
    (ethernet.SYMBOL_ERRORS, 120),
)
_EFFECTS: Final = (
    "loss-on-path", "lossy-cable", "fec-errors", "ack-timeouts", "retransmission-collapse",
)  # fmt: skip
MIN_EVENTS: Final = 5
CRITICAL: Final = 100  # times the limit


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find ports and interfaces whose error counters grow faster than chance."""
    worst: dict[Entity, tuple[float, list[Evidence]]] = {}
    judged = False
    for metric, limit in _LIMITS:
        judged = judged or telemetry.counted(metric.name)
        grown = telemetry.growing(metric.name, MIN_EVENTS, or_saturated=True)
        for entity, growth in grown.items():
            hourly = growth.rate * 3600
            pegged = growth.saturated and growth.total == 0
            if not pegged and (growth.total < MIN_EVENTS or hourly < limit):
                continue
            times, evidence = worst.get(entity, (0.0, []))
            evidence.append(grew(metric, entity, growth, f"< {limit:g}/h"))
            worst[entity] = (max(times, 1.0 if pegged else hourly / limit), evidence)
    findings = [_finding(rule, entity, *seen) for entity, seen in worst.items()]
    missing = () if judged else ("error counters of a port, read twice",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _finding(rule: HostRule, entity: Entity, times: float, evidence: list[Evidence]) -> Finding:
    corrupt = evidence[0].name == rdma.ICRC_ERRORS.name and len(evidence) == 1
    what = (
        "receives packets that were corrupted or rewritten on the way (wrong ICRC)"
        if corrupt
        else "receives damaged packets: cable, optics or connector"
    )
    return found(
        rule,
        entity,
        "critical" if times >= CRITICAL else "warning",
        0.6 if corrupt else 0.85,
        f"{display(entity)} {what}",
        evidence,
        affected=[entity],
        explains=[] if corrupt else [(name, entity) for name in _EFFECTS],
    )


RULE: Final = HostRule(
    id="link-errors",
    section="link",
    title="Link errors",
    finds="ports whose symbol, checksum or ICRC errors grow faster than chance",
    quiet_when=f"fewer than {MIN_EVENTS} events, or under the hourly limit of the counter",
    cannot_tell_when="no error counter was read twice",
    refutes="the counter belongs to a port that is not cabled or was being re-cabled",
    judge=judge,
    answers=("R31",),
)
