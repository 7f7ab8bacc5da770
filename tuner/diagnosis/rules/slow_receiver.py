"""A host that does not drain what it receives: PCIe, memory translation, NUMA (R5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import ethernet, pci
from collectors.model.entities import Entity, Netdev, Wire, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_roots import (
    MIN_SHARE,
    PauseRoot,
    as_port,
    is_storm,
    late,
    marks_enough,
    pause_roots,
)
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

FULL: Final = 0.95  # of line rate: who receives this much is not slow, its sender is too fast
STALLED: Final = 0.10  # of time that the device waits for PCIe
_SIGNS: Final = (
    ethernet.PHY_RX_DISCARDS,
    ethernet.RX_NEAR_FULL,
    ethernet.PCI_BUFFER_OVERFLOW,
    pci.AER_CORRECTABLE,
)


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Take the hosts that stop their switch while their link is not full."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings = [
        _finding(rule, telemetry, fabric, root)
        for root in pause_roots(telemetry, fabric)
        if root.kind == "slow_receiver" and not is_storm(telemetry, root)
    ]
    missing = () if flows else ("PFC pause time or frames of a priority",)
    return verdict(rule, findings, judged=bool(flows), missing=missing)


def _finding(rule: Rule, telemetry: Telemetry, fabric: FabricView, root: PauseRoot) -> Finding:
    own = list(_host_signs(telemetry, fabric, root.wire))
    full = root.load is not None and root.load >= FULL
    carries = "" if root.load is None else f", while its link carries {root.load:.0%}"
    others = [victim for victim in root.victims if victim != root.egress]
    waits = f"; {names(others)} wait behind it" if others else ""
    host = [f"its device waits for PCIe ({names({e.entity for e in own})})"] if own else []
    return found(
        rule,
        root.wire,
        "info" if full else root.severity,
        root.confidence(0.95 if own else 0.9),
        f"{display(root.wire)} does not drain what it receives: it stops its switch "
        f"{root.share:.0%} of the time{carries}{waits}" + "".join(f"; {text}" for text in host),
        [*root.evidence, *own],
        affected=[as_port(fabric, victim) for victim in others],
        explains=[
            ("pause-root", root.wire),
            ("path-marks", root.egress),
            ("incast", root.egress),
            ("marking-saturated", root.egress),
            ("queue-drops", root.egress),
            ("nic-buffer-overflow", root.wire),
            *late(fabric, root.victims),
        ]
        if not full or not marks_enough(telemetry, root.egress, fabric)
        else [("pause-root", root.wire)],
    )


def _host_signs(telemetry: Telemetry, fabric: FabricView, wire: Wire) -> Iterable[Evidence]:
    """Yield what the host's own counters say of why it is slow."""
    port = fabric.port_of(wire) if isinstance(wire, Netdev) else None
    places: list[Entity] = [wire]
    if port is not None:
        places += [port, port.device]
    for place in places:
        for gauge in (ethernet.PCI_STALLED_READ, ethernet.PCI_STALLED_WRITE):
            seen = telemetry.latest(gauge.name, place)
            if seen is not None and seen.value >= STALLED:
                yield Evidence(
                    gauge.name, place, seen.value, gauge.unit, f"< {STALLED:.0%}", seen.at_ns
                )
        for metric in _SIGNS:
            growth = telemetry.growth(metric.name, place)
            if growth is not None and growth.total > 0:
                yield grew(metric, place, growth, "0")


RULE: Final = Rule(
    id="slow-receiver",
    section="flow_control",
    title="Host drains too slowly",
    finds="hosts that stop their switch with PFC although their link is not full",
    quiet_when=f"no host is where pauses of {MIN_SHARE:.0%} of the time or more go back to",
    cannot_tell_when="neither pause time nor PFC frames of any priority are known",
    refutes="the host's PCIe link, memory and receive buffers keep up at line rate",
    judge=judge,
    answers=("R5",),
)
