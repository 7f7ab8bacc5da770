"""A PCIe link below what the device can do, and too slow for its port or not."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from collectors.model.catalogue import rdma
from collectors.model.entities import display
from collectors.model.facts import Setting
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import all_ports, shown, unread
from tuner.diagnosis.rule import HostRule, found, verdict
from tuner.diagnosis.view import HostTelemetry

_NAMES: Final = (
    "pcie_speed_gtps",
    "pcie_speed_max_gtps",
    "pcie_width_lanes",
    "pcie_width_max_lanes",
)
_OLD_GTPS: Final = 5.0  # up to here 8b/10b, then 128b/130b
_PACKET_OVERHEAD: Final = 0.9  # payload share of 256-byte packets, roughly


def payload_bps(gtps: float, lanes: int) -> float:
    """Return what a PCIe link carries one way, without the headers of its packets."""
    coding = 0.8 if gtps <= _OLD_GTPS else 128 / 130
    return gtps * 1e9 * lanes * coding * _PACKET_OVERHEAD


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Hold speed and width against the device's own maximum and the rate of its port."""
    findings: list[Finding] = []
    judged = False
    well: set[Hashable] = set()  # what devices at their best are set like
    for port in all_ports(telemetry):
        alike = telemetry.likeness(port.device)
        if alike in well:
            continue
        settings = telemetry.settings(port.device)
        now, most, lanes, most_lanes = (_number(settings, name) for name in _NAMES)
        if now is None or lanes is None or most is None or most_lanes is None:
            continue
        judged = True
        if now >= most and lanes >= most_lanes:
            well.add(alike)
            continue
        rate = telemetry.latest(rdma.RATE.name, port)
        carries = payload_bps(now, int(lanes))
        short = rate is not None and carries < rate.value * 8
        note = f", too little for its {rate.value * 8e-9:g} Gb/s" if rate and short else ""
        findings.append(
            found(
                rule,
                port.device,
                "critical" if short else "warning",
                0.9 if short else 0.7,
                f"PCIe of {display(port.device)} runs at {now:g} GT/s x{lanes:g} of {most:g} GT/s "
                f"x{most_lanes:g}: about {carries * 1e-9:.0f} Gb/s{note}",
                [shown(port.device, settings[name]) for name in _NAMES],
                affected=[port],
                explains=[(name, port) for name in ("slow-receiver", "pause-root")]
                if short
                else [],
            )
        )
    missing = () if judged else unread(telemetry, "PCIe speed and width of a device")
    return verdict(rule, {f.subject: f for f in findings}.values(), judged=judged, missing=missing)


def _number(settings: Mapping[str, Setting], name: str) -> float | None:
    setting = settings.get(name)
    value = None if setting is None else setting.value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


RULE: Final = HostRule(
    id="pcie-link",
    section="host",
    title="PCIe link degraded",
    finds="RDMA devices whose PCIe link is slower or narrower than they can do",
    quiet_when="speed and width are the device's maximum",
    cannot_tell_when="the device is no PCIe device or tells no speed and width",
    refutes="the slot is built for no more, and the port needs no more",
    judge=judge,
    answers=("R5",),
)
FIX: Final = (
    "reseat the card or move it to a slot of its own generation and width; look for aer errors in "
    "the kernel log and at bifurcation in the firmware set-up"
)
