"""More senders than one egress can take, marks or not: sustained incast or start bursts (R3)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Netdev, display, wire_of
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_roots import (
    WARNING_SHARE,
    PauseRoot,
    as_port,
    marks_enough,
    pause_roots,
)
from tuner.diagnosis.place import only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.stall_graph import BUSY
from tuner.diagnosis.view import FabricView, Telemetry


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Take the full egresses to hosts that pause their peers although they mark."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    missing = set() if flows else {"PFC pause time or frames of a priority"}
    findings = []
    for root in pause_roots(telemetry, fabric):
        if root.kind != "congested_egress" or not isinstance(fabric.peer(root.wire), Netdev):
            continue
        marking = marks_enough(telemetry, root.wire, fabric, received=True)
        if marking is None:
            missing.add(f"ECN marks of {display(root.wire)}")
        elif marking:
            findings.append(_finding(rule, telemetry, fabric, root))
    return verdict(rule, findings, judged=bool(flows) and not missing, missing=sorted(missing))


def _finding(rule: Rule, telemetry: Telemetry, fabric: FabricView, root: PauseRoot) -> Finding:
    sustained = root.load is not None and root.load >= BUSY
    senders = [wire for wire in root.victims if isinstance(wire, Netdev)]
    what = "for as long as it lasts" if sustained else "in bursts: flows start at line rate"
    receiver = fabric.peer(root.wire)
    return found(
        rule,
        root.wire,
        root.severity,
        root.confidence(0.85),
        f"{len(senders) or 'several'} hosts send more than {display(root.wire)} can take {what}: "
        f"it marks, and still PFC stops them {root.share:.0%} of the time",
        [*root.evidence, *_marks(telemetry, root.wire)],
        affected=[as_port(fabric, wire) for wire in (receiver, *root.victims) if wire is not None],
        explains=[("pause-root", root.wire), ("path-marks", root.wire)],
    )


def _marks(telemetry: Telemetry, wire: Entity) -> list[Evidence]:
    return [
        grew(interface.QUEUE_ECN_MARKED, slot, growth)
        for slot, growth in telemetry.growth_all(interface.QUEUE_ECN_MARKED.name).items()
        if growth.total > 0 and wire_of(slot) == wire
    ]


RULE: Final = Rule(
    id="incast",
    section="flow_control",
    title="Incast that DCQCN does not hold",
    finds="full egresses to hosts that mark and whose senders PFC stops all the same; a warning "
    f"from {WARNING_SHARE:.0%} of the time",
    quiet_when="no egress to a host is where pauses go back to, or it does not mark (another rule)",
    cannot_tell_when="pauses are unknown, or the full egress does not count marks",
    refutes="few hosts send at that time, or the marks are of another queue than the pauses",
    judge=judge,
    answers=("R3",),
)
