"""DCQCN half on: CNPs are sent but not obeyed, or obeyed but not sent, in the class of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, data_classes, each_kind, roce_ports
from tuner.diagnosis.rule import HostRule, found
from tuner.diagnosis.view import HostTelemetry

FLEET: Final = 3  # hosts that must agree before it is called a choice
_SIDES: Final = {"dcqcn_rp_enabled": "reaction point", "dcqcn_np_enabled": "notification point"}


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Look at both sides of DCQCN in the priorities that RoCE data uses."""
    on_purpose = _nowhere_on(telemetry)

    def judge_port(roce: RocePort) -> list[Finding] | None:
        priorities = _used(telemetry, roce)
        known = {name: roce.settings[name] for name in _SIDES if name in roce.settings}
        if not priorities or not known:
            return None
        for name, setting in known.items():
            bits = setting.value if isinstance(setting.value, tuple) else ()
            off = sorted(p for p in priorities if p < len(bits) and not bits[p])
            if off:
                finding = _finding(rule, roce, name, off)
                return [replace(finding, severity="info") if on_purpose else finding]
        return []

    return each_kind(rule, telemetry, judge_port, "DCQCN enable bits and the class of the data")


def _nowhere_on(telemetry: HostTelemetry) -> bool:
    """Tell whether no reaction point of several hosts is on: a fabric that does without."""
    known = {
        roce.port.device.host: setting.value
        for roce in roce_ports(telemetry)
        if (setting := roce.settings.get("dcqcn_rp_enabled")) is not None
    }
    off = all(isinstance(bits, tuple) and not any(bits) for bits in known.values())
    return len(known) >= FLEET and off


def _finding(rule: HostRule, roce: RocePort, name: str, off: list[int]) -> Finding:
    return found(
        rule,
        roce.port,
        "critical",
        0.85,
        f"the {_SIDES[name]} of {roce} is off for priority {', '.join(map(str, off))}, which "
        "carries RoCE data",
        [*roce.evidence(name), *roce.evidence("pfc_priorities")],
        affected=[roce.port],
        explains=[
            (effect, roce.port) for effect in ("cnp-feedback", "pause-root", "incast", "path-marks")
        ],
    )


def _used(telemetry: HostTelemetry, roce: RocePort) -> frozenset[int]:
    """Return the priorities of RoCE data: by its class, else the lossless ones."""
    classes = data_classes(telemetry, roce)
    by_class = {roce.priority_of_dscp(data.dscp) for data in classes} - {None}
    return frozenset(p for p in by_class if p is not None) or roce.lossless or frozenset()


RULE: Final = HostRule(
    id="reaction-off",
    section="config",
    title="DCQCN off in the class of the data",
    finds="priorities of RoCE data for which the host sends no CNPs or obeys none",
    quiet_when="both sides are on for every priority that carries RoCE data",
    cannot_tell_when="the driver tells no enable bits (upstream mlx5 does not)",
    refutes="the fabric runs another congestion control on purpose",
    judge=judge,
    answers=("R4", "R21"),
)
FIX: Final = (
    "echo 1 > /sys/class/net/IF/ecn/roce_rp/enable/PRIO and .../roce_np/enable/PRIO; lasting: "
    "mstconfig ROCE_CC_PRIO_MASK"
)
