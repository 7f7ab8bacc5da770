"""All uplinks of a switch are full: more traffic between switches than there is room (R43)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import display
from tuner.diagnosis.credits import is_infiniband
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import marked_share
from tuner.diagnosis.load import loads
from tuner.diagnosis.pause_roots import FEW_MARKS, WARNING_SHARE, pause_roots
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.tiers import capacity_down, uplinks
from tuner.diagnosis.view import FabricView, Telemetry

FULL: Final = 0.85  # of line rate, each of them
MIN_RATIO: Final = 1.05  # hosts' capacity over uplinks': at 1 full uplinks are full hosts
EVEN: Final = 0.8  # emptiest over fullest: else it is balance, not capacity


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find switches all of whose uplinks are full in one direction and hold traffic up."""
    if is_infiniband(telemetry):
        return beside_the_point(rule)
    known = loads(telemetry, fabric)
    below = capacity_down(telemetry, fabric)
    roots = {root.wire: root.share for root in pause_roots(telemetry, fabric)}
    received = _marked_at_receivers(telemetry)
    findings: list[Finding] = []
    judged = False
    for switch, wires in uplinks(telemetry, fabric).items():
        capacity = sum(known.speeds[wire] for wire in wires)
        hosts = below.get(switch, 0.0)
        if judged and hosts < MIN_RATIO * capacity:
            continue
        sides = []
        for tx in (True, False):
            ends = [wire if tx else fabric.peer(wire) for wire in wires]
            group = {end: known.tx[end] for end in ends if end is not None and end in known.tx}
            if group and len(group) == len(wires):
                sides.append(group)
        judged = judged or bool(sides)
        for group in sides:
            least, most = min(group.values()), max(group.values())
            if least < FULL or least < EVEN * most or hosts < MIN_RATIO * capacity:
                continue
            held = max((roots.get(wire, 0.0) for wire in group), default=0.0)
            marks = max(
                (marked_share(telemetry, wire, fabric) or 0.0 for wire in group), default=0.0
            )
            marks = max(marks, received)
            if marks < FEW_MARKS and not held:
                continue
            findings.append(
                found(
                    rule,
                    switch,
                    "warning" if held >= WARNING_SHARE or marks >= 10 * FEW_MARKS else "info",
                    0.8,
                    f"all {len(wires)} uplinks of {display(switch)} are full: its hosts can send "
                    f"{hosts / capacity:.1f} times what they carry",
                    [
                        Evidence("hosts over uplinks", switch, hosts / capacity, "ratio", "<= 1"),
                        *(known.evidence(wire) for wire in list(group)[:6]),
                    ],
                    affected=list(group),
                    explains=[
                        (name, wire)
                        for wire in group
                        for name in ("pause-root", "path-marks", "queue-drops", "marking-saturated")
                    ],
                )
            )
            break
    missing = () if judged else ("bytes and speed of all uplinks of a switch",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _marked_at_receivers(telemetry: Telemetry) -> float:
    """Return the largest share of packets that a NIC receives marked; 0 where switches count."""
    if telemetry.growth_all(interface.QUEUE_ECN_MARKED.name):
        return 0.0
    packets = telemetry.growth_all(rdma.RX_PACKETS.name)
    marked = telemetry.growth_all(rdma.CE_MARKED_RX.name)
    shares = [m.total / max(packets[p].total, 1) for p, m in marked.items() if p in packets]
    return max(shares, default=0.0)


RULE: Final = Rule(
    id="oversubscription",
    section="placement",
    title="Uplinks oversubscribed",
    finds=f"switches whose uplinks are all {FULL:.0%} full while they mark or stop their hosts, "
    "and whose hosts can send more than that",
    quiet_when="an uplink has room, or hosts and uplinks have the same capacity",
    cannot_tell_when="bytes or speed of the uplinks are not known",
    refutes="the traffic between switches could stay within them (then placement is at fault)",
    judge=judge,
    answers=("R43",),
)
