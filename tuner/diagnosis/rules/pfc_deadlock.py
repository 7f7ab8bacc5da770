"""Egresses that wait for each other in a circle: PFC deadlock (R8)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from tuner.diagnosis.finding import Verdict
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_roots import late
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.stall_graph import DEADLOCK
from tuner.diagnosis.view import FabricView, Telemetry

TRICKLE: Final = 1e-3  # of line rate: a deadlocked egress sends less


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find cycles of the wait-for graph of which no member moves."""
    flows = pfc_flows(telemetry, fabric)
    if not flows and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    speeds = telemetry.latest_all(interface.SPEED.name)
    findings = []
    for flow in flows:
        for cycle in flow.graph.cycles:
            sent = [telemetry.growth(interface.TX_BYTES.name, wire) for wire in cycle]
            moving = [
                wire
                for wire, growth in zip(cycle, sent, strict=True)
                if growth is not None
                and wire in speeds
                and growth.rate * 8 > TRICKLE * speeds[wire].value
            ]
            if moving:
                continue
            findings.append(
                found(
                    rule,
                    cycle[0],
                    "critical",
                    0.9 if all(growth is not None for growth in sent) else 0.75,
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
