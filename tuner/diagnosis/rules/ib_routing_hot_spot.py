"""Static routing sends more flows through one link than through its like (R51)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import infiniband as rows
from collectors.model.entities import Interface, display
from tuner.diagnosis.credits import credit_waits, is_elsewhere
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry

RATIO: Final = 1.5  # of the mean of its like
SHOWN: Final = 6


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the flows of ports between the same two tiers; all-to-all traffic, all adapters."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    groups: dict[tuple[float, float], dict[Interface, float]] = {}
    for entity, seen in telemetry.latest_all(rows.ROUTE_LOAD.name).items():
        far = fabric.peer(entity) if isinstance(entity, Interface) else None
        if not isinstance(entity, Interface) or not isinstance(far, Interface):
            continue
        tiers = (_tier(telemetry, entity), _tier(telemetry, far))
        if tiers[0] is not None and tiers[1] is not None:
            groups.setdefault((tiers[0], tiers[1]), {})[entity] = seen.value
    roots = {root.wire for root in credit_waits(telemetry, fabric).blamed()}
    findings = []
    for members in groups.values():
        mean = sum(members.values()) / len(members)
        above = {wire: flows for wire, flows in members.items() if flows > RATIO * mean > 0}
        hot = [wire for wire in above if wire in roots]
        findings += [_hot(rule, wire, above[wire], mean) for wire in hot]
        if above and not hot:
            findings.append(_uneven(rule, above, mean))
    return verdict(
        rule,
        findings,
        judged=bool(groups),
        missing=() if groups else ("forwarding tables and tiers of the switches",),
    )


def _tier(telemetry: Telemetry, interface: Interface) -> float | None:
    known = telemetry.attributes(interface.switch).get("ib_tier")
    return float(known.value) if known and isinstance(known.value, (int, float)) else None


def _evidence(flows: dict[Interface, float], mean: float) -> list[Evidence]:
    worst = sorted(flows.items(), key=lambda item: (-item[1], str(item[0])))[:SHOWN]
    return [
        *(
            Evidence(rows.ROUTE_LOAD.name, wire, count, "count", f"< {RATIO:g} x mean of its like")
            for wire, count in worst
        ),
        Evidence(rows.ROUTE_LOAD.name, worst[0][0], round(mean, 1), "count", note="mean"),
    ]


def _hot(rule: Rule, wire: Interface, flows: float, mean: float) -> Finding:
    return found(
        rule,
        wire,
        "warning",
        0.85,
        f"static routing sends {flows / mean:.1f} times as many flows through {display(wire)} as "
        "through its like, and ports wait for it",
        _evidence({wire: flows}, mean),
        affected=[wire],
        explains=[("ib-oversubscribed-link", wire)],
    )


def _uneven(rule: Rule, above: dict[Interface, float], mean: float) -> Finding:
    """Return one finding for a whole tier: no traffic suffers from it in this window."""
    worst = max(above, key=lambda wire: (above[wire], str(wire)))
    return found(
        rule,
        worst,
        "info",
        0.6,
        f"static routing is uneven: {len(above)} links of a tier have over {RATIO:g} times the "
        f"mean flows, {display(worst)} {above[worst] / mean:.1f} times; nothing waits for them now",
        _evidence(above, mean),
        affected=above,
    )


RULE: Final = Rule(
    id="ib-routing-hot-spot",
    section="balance",
    title="Hot spot of static routing",
    finds=f"links between switches with more than {RATIO:g} times the flows of their like",
    quiet_when=f"no link's flows exceed {RATIO:g} times the mean of the links between its tiers",
    cannot_tell_when="forwarding tables were not read, or no switch has a tier",
    refutes="adaptive routing is on: packets then leave by other ports than the tables say",
    judge=judge,
    answers=("R51",),
)
