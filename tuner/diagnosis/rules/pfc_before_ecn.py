"""PFC fires where ECN should have: marking off, or thresholds the wrong way round (R1, R2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Interface, Slot, Switch, display, queue, wire_of
from collectors.model.facts import Setting, Value
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.load import loads
from tuner.diagnosis.pause_roots import PauseRoot, marks_enough, pause_roots
from tuner.diagnosis.place import egress_settings, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, growths, verdict
from tuner.diagnosis.view import FabricView, Telemetry

ENABLED: Final = "ecn_enabled"
MIN_LOAD: Final = 0.3  # of line rate: a queue that hardly carries anything need not mark
_OWN: Final = ("xoff_bytes", "reserved_buffer_bytes")  # of each group, off the shared buffer
_REACTION: Final = "dcqcn_rp_enabled"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Ask of each congested egress that pauses its peers whether it marks and is set to."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings: list[Finding] = []
    missing: set[str] = set()
    if not flows:
        missing.add("PFC pause time or frames of a priority")
    without = _is_without(telemetry)
    for root in pause_roots(telemetry, fabric):
        if root.kind == "congested_egress" and not without:
            finding = _judge_egress(rule, telemetry, fabric, root, missing)
            if finding is not None:
                findings.append(finding)
    findings += _off(rule, telemetry, fabric, {finding.subject for finding in findings})
    judged = bool(flows) and not missing
    return verdict(rule, findings, judged=judged, missing=sorted(missing))


def _is_without(telemetry: Telemetry) -> bool:
    """Tell whether no queue marks and no host reacts: a fabric that relies on PFC on purpose."""
    marking, reacting = telemetry.alike(ENABLED), telemetry.alike(_REACTION)
    told = bool(marking) and bool(reacting)
    return told and not any(_any(value) for value in (*marking, *reacting))


def _judge_egress(
    rule: Rule, telemetry: Telemetry, fabric: FabricView, root: PauseRoot, missing: set[str]
) -> Finding | None:
    settings = egress_settings(telemetry, root.wire, root.priority)
    enabled = settings.get("ecn_enabled")
    marking = marks_enough(telemetry, root.wire, fabric)
    if marking is None and enabled is None:
        missing.add(f"ECN marks or ECN setting of {display(root.wire)}")
        return None
    off = enabled is not None and not enabled.value
    high = None if off else _kmin_is_above(telemetry, fabric, root)
    if not off and (marking or high is False or (marking is None and high is None)):
        return None
    evidence = list(root.evidence)
    for name in ("ecn_enabled", "kmin_bytes", "kmax_bytes", "pmax_ratio"):
        setting = settings.get(name)
        if setting is not None:
            evidence.append(Evidence(name, setting.entity, str(setting.value), note=setting.where))
    marks = [(interface.QUEUE_ECN_MARKED, queue(root.wire, index)) for index in range(8)]
    evidence += growths(telemetry, marks, "grows before PFC")
    why = "has ECN off" if off else "hardly marks although ECN is on: Kmin is above the PFC point"
    return found(
        rule,
        root.wire,
        "critical" if off and root.severity != "info" else root.severity,
        root.confidence(0.95 if off else 0.8),
        f"the full egress {display(root.wire)} {why}, so PFC stops its peers "
        f"{root.share:.0%} of the time instead of DCQCN slowing the senders",
        evidence,
        affected=root.victims,
        explains=[("pause-root", root.wire), ("incast", root.wire)],
    )


def _kmin_is_above(telemetry: Telemetry, fabric: FabricView, root: PauseRoot) -> bool | None:
    """Tell whether PFC stops the peers before the queue is as long as Kmin; None where unknown.

    With m ports of a switch sending to one egress, each pauses at alpha of the free shared buffer
    F, that is when m·alpha·F/(1 + m·alpha) bytes wait (Zhu et al., SIGCOMM'15, section 4).
    """
    wire = root.wire
    kmin = _number(egress_settings(telemetry, wire, root.priority).get("kmin_bytes"))
    if not isinstance(wire, Interface) or kmin is None:
        return None
    pool = _number(telemetry.settings(wire.switch).get("pool_size_bytes"))
    groups = [
        telemetry.settings(Slot(end, "priority_group", root.priority))
        for end in _ends_of(telemetry, wire.switch)
    ]
    alphas = [a for group in groups if (a := _number(group.get("buffer_alpha"))) is not None]
    if pool is None or not alphas:
        return None
    taken = sum(_number(group.get(name)) or 0.0 for group in groups for name in _OWN)
    peers = [fabric.peer(victim) for victim in root.victims]
    here = [p for p in peers if isinstance(p, Interface) and p.switch == wire.switch]
    share = min(alphas) * max(1, len(here))
    return kmin > share / (1 + share) * max(0.0, pool - taken)


def _ends_of(telemetry: Telemetry, switch: Switch) -> list[Interface]:
    """Return the interfaces of a switch of which a priority group is known."""
    slots = telemetry.setting_all("buffer_alpha")
    ends = (slot.parent for slot in slots if isinstance(slot, Slot))
    return list(dict.fromkeys(e for e in ends if isinstance(e, Interface) and e.switch == switch))


def _number(setting: Setting | None) -> float | None:
    known = setting is not None and isinstance(setting.value, (int, float))
    return float(setting.value) if setting is not None and known else None  # type: ignore[arg-type]


def _off(
    rule: Rule, telemetry: Telemetry, fabric: FabricView, known: set[Entity]
) -> Iterable[Finding]:
    """Yield queues in use that do not mark although others of their number do, or DCQCN waits."""
    if all(telemetry.alike(ENABLED)):
        return
    settings = telemetry.setting_all(ENABLED)
    on = Counter(slot.index for slot, s in settings.items() if isinstance(slot, Slot) and s.value)
    reacting = any(map(_any, telemetry.alike(_REACTION)))
    busy = loads(telemetry, fabric).tx
    for slot, setting in settings.items():
        wire = wire_of(slot)
        if setting.value or not isinstance(slot, Slot) or wire is None or wire in known:
            continue
        alone = on[slot.index] > 0
        if busy.get(wire, 0.0) < MIN_LOAD or not (alone or reacting):
            continue
        others = "other queues like it mark" if alone else "the hosts wait for marks to slow down"
        yield found(
            rule,
            wire,
            "warning",
            0.85 if alone else 0.75,
            f"ECN is off at the egress {display(wire)}, which is in use, while {others}: a queue "
            "that fills up there ends in pauses or drops",
            [
                Evidence(ENABLED, slot, str(setting.value), "", "on", note=setting.where),
                loads(telemetry, fabric).evidence(wire, "tx", f"< {MIN_LOAD:.0%} of line rate"),
            ],
            affected=[wire],
            explains=[(name, wire) for name in ("pause-root", "incast", "queue-drops")],
        )


def _any(value: Value) -> bool:
    return any(value) if isinstance(value, tuple) else bool(value)


RULE: Final = Rule(
    id="pfc-before-ecn",
    section="config",
    title="PFC fires before ECN",
    finds="congested egresses that pause their peers while they mark nothing, or next to nothing; "
    "egresses in use with ECN off where others have it on",
    quiet_when="every egress that pauses its peers marks, too, and ECN is on where traffic passes",
    cannot_tell_when="neither pauses nor, at the congested egress, marks or ECN settings are known",
    refutes="the traffic of the paused priority is not ECN-capable (then it leaves without ECT)",
    judge=judge,
    answers=("R1", "R2"),
)
