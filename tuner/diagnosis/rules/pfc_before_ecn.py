"""PFC fires where ECN should have: marking off, or thresholds the wrong way round (R1, R2)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Slot, Wire, display, wire_of
from collectors.model.facts import Setting
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import PriorityFlow, ecn_marks, pfc_flows
from tuner.diagnosis.place import only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.stall_graph import Root
from tuner.diagnosis.view import FabricView, Telemetry

MIN_SHARE: Final = 0.01
FEW_MARKS: Final = 0.01  # marked packets for each packet sent: less is as good as none


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Ask of each congested egress that pauses its peers whether it marks and is set to."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings: list[Finding] = []
    missing: set[str] = set()
    if not flows:
        missing.add("PFC pause time or frames of a priority")
    for flow in flows:
        for root in flow.graph.roots:
            worst = max(flow.graph.stalled[victim] for victim in root.victims)
            if root.kind != "congested_egress" or worst < MIN_SHARE:
                continue
            finding = _judge_egress(rule, telemetry, flow, root, missing)
            if finding is not None:
                findings.append(finding)
    judged = bool(flows) and not missing
    return verdict(rule, findings, judged=judged, missing=sorted(missing))


def _judge_egress(
    rule: Rule, telemetry: Telemetry, flow: PriorityFlow, root: Root, missing: set[str]
) -> Finding | None:
    enabled = _setting(telemetry, root.wire, "ecn_enabled", flow.priority)
    marks = ecn_marks(telemetry, root.wire)
    sent = telemetry.growth(interface.TX_PACKETS.name, root.wire)
    if marks is None and enabled is None:
        missing.add(f"ECN marks or ECN setting of {display(root.wire)}")
        return None
    seldom = marks is not None and (sent is None or marks < FEW_MARKS * sent.total)
    off = enabled is not None and not enabled.value
    if not off and not seldom:
        return None
    evidence = [flow.stalls[victim].evidence for victim in root.victims[:6]]
    for name in ("ecn_enabled", "kmin_bytes", "kmax_bytes", "pmax_ratio"):
        setting = _setting(telemetry, root.wire, name, flow.priority)
        if setting is not None:
            evidence.append(Evidence(name, setting.entity, str(setting.value), note=setting.where))
    for entity, growth in telemetry.growth_all(interface.QUEUE_ECN_MARKED.name).items():
        if wire_of(entity) == root.wire:
            evidence.append(grew(interface.QUEUE_ECN_MARKED, entity, growth, "grows before PFC"))
    why = "has ECN off" if off else "hardly marks although ECN is on: Kmin is above the PFC point"
    return found(
        rule,
        root.wire,
        "critical" if off else "warning",
        0.9 if off else 0.75,
        f"the full egress {display(root.wire)} {why}, so PFC stops its peers instead of DCQCN "
        "slowing the senders",
        evidence,
        affected=root.victims,
        explains=[("pause-root", root.wire)],
    )


def _setting(telemetry: Telemetry, wire: Wire, name: str, index: int) -> Setting | None:
    """Return a setting of the queue of a priority; queue and priority have mostly one number."""
    fallback: Setting | None = None
    for entity, setting in telemetry.setting_all(name).items():
        if not _is_queue_of(entity, wire):
            continue
        if isinstance(entity, Slot) and entity.index == index:
            return setting
        fallback = setting
    return fallback


def _is_queue_of(entity: Entity, wire: Wire) -> bool:
    return entity == wire or (isinstance(entity, Slot) and entity.parent == wire)


RULE: Final = Rule(
    id="pfc-before-ecn",
    section="config",
    title="PFC fires before ECN",
    finds="congested egresses that pause their peers while they mark nothing, or next to nothing",
    quiet_when="every egress that pauses its peers marks, too",
    cannot_tell_when="neither pauses nor, at the congested egress, marks or ECN settings are known",
    refutes="the traffic of the paused priority is not ECN-capable (then it leaves without ECT)",
    judge=judge,
)
