"""Egresses that wait for each other in a circle: PFC deadlock (R8)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Wire
from tuner.diagnosis.finding import Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_roots import late
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.stall_graph import DEADLOCK
from tuner.diagnosis.view import FabricView, Telemetry

LATELY: Final = 3  # intervals between readings
TRICKLE: Final = 1e-3  # of line rate: a deadlocked egress sends less


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find cycles of the wait-for graph of which no member moves."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    findings = []
    for flow in flows:
        for cycle in flow.graph.cycles:
            sent = [_sends(telemetry, wire) for wire in cycle]
            moving = [
                wire
                for wire, rate in zip(cycle, sent, strict=True)
                if rate is not None
                and (speed := telemetry.latest(interface.SPEED.name, wire)) is not None
                and rate * 8 > TRICKLE * speed.value
            ]
            if moving:
                continue
            findings.append(
                found(
                    rule,
                    cycle[0],
                    "critical",
                    0.9 if None not in sent else 0.75,
                    f"priority {flow.priority} of {names(cycle)} waits in a circle and sends "
                    "nothing: PFC deadlock",
                    [flow.stalls[wire].evidence for wire in cycle],
                    affected=cycle,
                    explains=[
                        (name, wire)
                        for wire in cycle
                        for name in ("pause-root", "watchdog-fired", "queue-drops", "path-marks")
                    ]
                    + late(fabric, flow.graph.stalled),
                )
            )
    missing = () if flows else ("PFC pause time or frames of a priority",)
    return verdict(rule, findings, judged=bool(flows), missing=missing)


def _sends(telemetry: Telemetry, wire: Wire) -> float | None:
    """Return the bytes a second that an egress sends lately: it moved before it got stuck."""
    seen = telemetry.rates(interface.TX_BYTES.name, wire)
    late = list(seen[1])[-LATELY:] if seen is not None else []
    if late:
        return max(late)
    growth = telemetry.growth(interface.TX_BYTES.name, wire)
    return None if growth is None else growth.rate


RULE: Final = Rule(
    id="pfc-deadlock",
    section="flow_control",
    title="PFC deadlock",
    finds=f"circles of egresses that are paused {DEADLOCK:.0%} of the time and send nothing",
    quiet_when="no circle, or one of its members still sends",
    cannot_tell_when="neither pause time nor PFC frames of any priority are known",
    refutes="traffic moves through the circle once its senders are stopped",
    judge=judge,
    answers=("R8",),
)
