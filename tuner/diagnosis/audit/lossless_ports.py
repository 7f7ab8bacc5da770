"""What a switch port needs beside PFC: marking on the lossless queue, a watchdog, headroom.

One row of `NEEDS` a requirement; one finding a switch and requirement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from collectors.model.entities import Entity, Interface, Slot, Switch, display, queue
from collectors.model.facts import Setting
from collectors.model.roce import PAUSE_QUANTUM_BITS
from tuner.diagnosis.finding import Evidence, Finding, Severity, Verdict
from tuner.diagnosis.lossless import pfc_of
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.models.headroom import CABLE_S_PER_M, RESPONSE_QUANTA

_SHORTEST_M: Final = 1.0  # where nobody says how long the cable is: a lower bound

Judged: TypeAlias = tuple[bool, Evidence] | None
"""Whether a port has what it needs, and what shows it; None where it is unknown."""


@dataclass(frozen=True)
class Need:
    """A requirement of a port with PFC. ask: of (telemetry, interface, priority)."""

    what: str
    severity: Severity
    why: str
    ask: Callable[[Telemetry, Interface, int], Judged]


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Ask each requirement of each switch port for each of its lossless priorities."""
    ports = {wire: on for wire, on in pfc_of(telemetry).items() if isinstance(wire, Interface)}
    if not ports and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings: list[Finding] = []
    missing: list[str] = []
    for need in NEEDS:
        judged, lacking = 0, dict[Switch, dict[Interface, Evidence]]()
        for wire, priorities in ports.items():
            for priority in priorities:
                answer = need.ask(telemetry, wire, priority)
                judged += answer is not None
                if answer is not None and not answer[0]:
                    lacking.setdefault(wire.switch, {})[wire] = answer[1]
        findings += [_finding(rule, need, switch, of) for switch, of in lacking.items()]
        if not judged and ports:
            missing.append(f"{need.what} of a switch port with PFC")
    if not ports:
        missing.append("PFC priorities of a switch port")
    return verdict(
        rule, findings, judged=len(missing) < len(NEEDS) and bool(ports), missing=missing
    )


def _finding(
    rule: Rule, need: Need, switch: Switch, lacking: Mapping[Interface, Evidence]
) -> Finding:
    places: list[Entity] = list(lacking)
    return found(
        rule, switch, need.severity, 0.85,
        f"{display(switch)} has PFC without {need.what} on {len(places)} ports "
        f"({names(places, 3)}): {need.why}",
        list(lacking.values())[:8], affected=places,
    )  # fmt: skip


def _marking(telemetry: Telemetry, interface: Interface, priority: int) -> Judged:
    queues = telemetry.settings(interface).get("priority_to_queue")
    number = priority
    if queues is not None and isinstance(queues.value, tuple) and priority < len(queues.value):
        number = int(queues.value[priority])
    if not 0 <= number < 8:
        number = priority
    slot = queue(interface, number)
    return _switched_on(telemetry.settings(slot), "ecn_enabled", slot)


def _watchdog(telemetry: Telemetry, interface: Interface, _priority: int) -> Judged:
    own = _switched_on(telemetry.settings(interface), "pfc_watchdog_enabled", interface)
    whole = telemetry.settings(interface.switch)
    return own or _switched_on(whole, "pfc_watchdog_enabled", interface.switch)


def _switched_on(settings: Mapping[str, Setting], name: str, place: Entity) -> Judged:
    setting = settings.get(name)
    if setting is None:
        return None
    return bool(setting.value), Evidence(
        name, place, str(setting.value), "", "on", 0, 0, setting.where
    )


def _headroom(telemetry: Telemetry, interface: Interface, priority: int) -> Judged:
    slot = Slot(interface, "priority_group", priority)
    group, own = telemetry.settings(slot), telemetry.settings(interface)
    xoff, speed = _number(group, "xoff_bytes"), _number(own, "speed_bps")
    if not xoff or not speed:  # 0: from a shared pool
        return None
    metres = _number(own, "pfc_cable_length_metres") or _SHORTEST_M
    mtu = _number(own, "mtu_bytes") or 1500
    needed = _least_headroom(speed, metres, mtu)
    threshold = f">= {needed:,.0f} ({metres:g} m at {speed / 1e9:g} Gbit/s, MTU {mtu:g})"
    return xoff >= needed, Evidence("xoff_bytes", slot, xoff, "bytes", threshold)


def _least_headroom(speed_bps: float, metres: float, mtu_bytes: float) -> float:
    """Return bytes that arrive after a pause at least: a frame each way, cable, peer's response.

    The response is SONiC's figure for the speed (tuner/models/headroom.py), 0 where none is known.
    """
    response = RESPONSE_QUANTA.get(round(speed_bps / 1e9), 0) * PAUSE_QUANTUM_BITS / 8
    return 2 * mtu_bytes + 2 * metres * CABLE_S_PER_M * speed_bps / 8 + response


def _number(settings: Mapping[str, Setting], name: str) -> float | None:
    setting = settings.get(name)
    return (
        setting.value if setting is not None and isinstance(setting.value, (int, float)) else None
    )


NEEDS: Final = (
    Need("ECN marking", "critical", "PFC is all that slows senders down", _marking),
    Need("a watchdog", "warning", "one stuck NIC can stop the fabric", _watchdog),
    Need("enough headroom", "critical", "the lossless priority drops while it pauses", _headroom),
)

RULE: Final = Rule(
    id="lossless-ports",
    section="config",
    title="Switch ports with PFC lack what PFC needs",
    finds="switches with ports that have PFC without ECN, without watchdog or with too little "
    "headroom for speed, MTU and cable",
    quiet_when="every port with PFC has all three as far as known",
    cannot_tell_when="no switch port's PFC is known, or none of the three beside it",
    refutes="the queue is marked elsewhere (fabric-wide profile), or headroom is a shared pool",
    judge=judge,
)
