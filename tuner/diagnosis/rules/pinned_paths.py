"""The hash sees too little of a packet, so that all flows of a pair take one path (R29)."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Switch, display
from collectors.model.facts import Setting
from tuner.diagnosis.credits import is_infiniband
from tuner.diagnosis.finding import Evidence, Verdict
from tuner.diagnosis.load import loads
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.tiers import uplinks
from tuner.diagnosis.view import FabricView, Telemetry

MIN_LINKS: Final = 2
MIN_EXCESS: Final = 1.3
MIN_LOAD: Final = 0.3
_FIELDS: Final = "ecmp_hash_fields"
_PORT_WORDS: Final = ("sport", "src_port", "l4", "udp", "source-port", "source_port", "src-port")
_QP: Final = "ecmp_hash_rdma_qp"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find switches with uneven uplinks whose hash does not see the UDP source port."""
    if is_infiniband(telemetry):
        return beside_the_point(rule)
    known = loads(telemetry, fabric)
    fields = telemetry.setting_all(_FIELDS)
    findings = []
    judged = False
    for switch, wires in uplinks(telemetry, fabric).items():
        setting = fields.get(switch)
        group = {wire: known.tx[wire] for wire in wires if wire in known.tx}
        if setting is None or len(group) < MIN_LINKS:
            continue
        judged = True
        mean = sum(group.values()) / len(group)
        most = max(group.values())
        if _sees_ports(telemetry, switch, setting) or most < max(MIN_LOAD, MIN_EXCESS * mean):
            continue
        hot = [wire for wire, load in group.items() if load >= MIN_EXCESS * mean]
        findings.append(
            found(
                rule,
                switch,
                "critical",
                0.9,
                f"the ECMP hash of {display(switch)} does not see the UDP source port: all queue "
                f"pairs of a pair of hosts take one path; {names(hot, 3)} carry up to "
                f"{most / mean:.1f} times the mean",
                [
                    Evidence(_FIELDS, switch, _text(setting), note=setting.where),
                    *(
                        known.evidence(wire)
                        for wire in (*hot[:4], min(group, key=lambda w: group[w]))
                    ),
                ],
                affected=hot,
                explains=[("ecmp-imbalance", switch), ("hash-polarisation", switch)]
                + [
                    (name, wire)
                    for wire in hot
                    for name in ("pause-root", "path-marks", "queue-drops", "pfc-before-ecn")
                ],
            )
        )
    missing = () if judged else ("hash fields and bytes of the uplinks of a switch",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _text(setting: Setting) -> str:
    value = setting.value
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _sees_ports(telemetry: Telemetry, switch: Switch, setting: Setting) -> bool:
    pairs = telemetry.settings(switch).get(_QP)
    if pairs is not None and pairs.value is True:
        return True
    text = _text(setting).lower()
    return any(word in text for word in _PORT_WORDS)


RULE: Final = Rule(
    id="pinned-paths",
    section="balance",
    title="Hash without ports",
    finds="switches with uneven uplinks whose hash sees neither the UDP source port nor the queue "
    "pair, so that paths repeat from run to run",
    quiet_when="the hash sees ports, or the uplinks are even or hardly used",
    cannot_tell_when="the hash fields or the uplinks' bytes of no switch are known",
    refutes="load is balanced by another mechanism than the hash (adaptive, per packet)",
    judge=judge,
    answers=("R29",),
)
