"""The root of a pause tree: slow receiver, NIC storm or congested egress (R3, R5, R7, R36)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Netdev, Wire, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import PriorityFlow, busy, ecn_marks, pfc_flows
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.stall_graph import Root
from tuner.diagnosis.view import FabricView, Telemetry

MIN_SHARE: Final = 0.01  # of time, at the root: less is what PFC is there for
CRITICAL_SHARE: Final = 0.10
STORM_SHARE: Final = 0.90
MIN_BLAME: Final = 0.10  # of all blame of the priority: smaller roots are contributors


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find where the blame of each priority's pauses comes to rest."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings = []
    for flow in flows:
        total = sum(root.score for root in flow.graph.roots)
        for root in flow.graph.roots:
            worst = max(flow.graph.stalled[victim] for victim in root.victims)
            if worst >= MIN_SHARE and root.score >= MIN_BLAME * total:
                findings.append(_finding(rule, telemetry, fabric, flow, root, total))
    missing = () if flows else ("PFC pause time or frames of a priority",)
    return verdict(rule, findings, judged=bool(flows), missing=missing)


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    fabric: FabricView,
    flow: PriorityFlow,
    root: Root,
    total: float,
) -> Finding:
    victims = sorted(root.victims, key=lambda wire: -flow.stalls[wire].share)
    worst = flow.stalls[victims[0]]
    share = max(flow.stalls[victim].share for victim in victims)
    sure = min(0.5 + 0.4 * root.score / total, 0.9) if total else 0.5
    if not worst.exact:
        sure -= 0.2
    evidence = [flow.stalls[victim].evidence for victim in victims[:8]]
    evidence += _loads(telemetry, root.wire)
    ports = [_as_port(fabric, victim) for victim in victims]
    return found(
        rule,
        root.wire,
        "critical" if share >= CRITICAL_SHARE else "warning",
        sure,
        f"{_what(telemetry, flow, root)}: priority {flow.priority} of {names(victims)} is paused "
        f"up to {share:.0%} of the time",
        evidence,
        affected=ports,
        explains=[("path-marks", root.wire)],
    )


def _what(telemetry: Telemetry, flow: PriorityFlow, root: Root) -> str:
    where = display(root.wire)
    if root.kind == "slow_receiver":
        share = max(flow.stalls[victim].share for victim in root.victims)
        rx = telemetry.growth(interface.RX_BYTES.name, root.wire)
        if share >= STORM_SHARE and (rx is None or rx.total == 0):
            return f"{where} pauses its switch without end and receives nothing (pause storm)"
        return f"{where} does not drain what it receives (slow receiver)"
    if root.kind == "congested_egress":
        marks = ecn_marks(telemetry, root.wire)
        marking = " and does not mark" if marks == 0 else ""
        return f"the egress {where} is full{marking}"
    return f"something behind {where}, of which there is no telemetry, stops its peers"


def _loads(telemetry: Telemetry, wire: Wire) -> list[Evidence]:
    load = busy(telemetry).get(wire)
    if load is None:
        return []
    return [
        Evidence(
            interface.TX_BYTES.name,
            wire,
            load,
            "ratio",
            "share of line rate",
            telemetry.since_ns,
            telemetry.until_ns,
        )
    ]


def _as_port(fabric: FabricView, wire: Wire) -> Wire:
    port = fabric.port_of(wire) if isinstance(wire, Netdev) else None
    return wire if port is None else port


RULE: Final = Rule(
    id="pause-root",
    section="flow_control",
    title="Root of a pause tree",
    finds="slow receivers, pausing NICs and full egresses on which the blame of PFC pauses rests",
    quiet_when=f"no priority is paused {MIN_SHARE:.0%} of the time",
    cannot_tell_when="neither pause time nor PFC frames of any priority are known",
    refutes="the root's own egress is idle, or its peer counts no pauses (counters swapped)",
    judge=judge,
)
