"""A queue on the way to a receiver marks: incast or an egress that is too slow (R3)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface, ip, rdma
from collectors.model.entities import Entity, Port, Wire, display
from tuner.diagnosis.finding import Evidence, Severity, Verdict
from tuner.diagnosis.flow import ecn_marks
from tuner.diagnosis.pause_roots import pause_roots
from tuner.diagnosis.place import ecn_received, egress_to, far_end
from tuner.diagnosis.rule import Rule, found, grew, growths, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_PACKETS: Final = 50
MIN_SHARE: Final = 0.02
CRITICAL_SHARE: Final = 0.5
OWN: Final = 0.1  # of the marks that arrive: an egress that gives fewer is not where it is full


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find receivers of which a share of packets carries congestion experienced."""
    findings = []
    marked: set[Entity] = {*telemetry.growing(rdma.CE_MARKED_RX.name, MIN_PACKETS)}
    marked |= telemetry.growing(ip.IP_CE_RX.name, MIN_PACKETS).keys()
    for port in fabric.ports() if marked else ():
        near = port in marked or fabric.netdev_of(port) in marked
        seen = _marked(telemetry, fabric, port) if near else None
        if seen is None:
            continue
        share, packets, evidence = seen
        if packets < MIN_PACKETS or share < MIN_SHARE:
            continue
        subject: Wire = far_end(fabric, port) or fabric.attached(port)
        queue = egress_to(fabric, telemetry, port)
        if queue is not None:
            at_queue = ((interface.QUEUE_ECN_MARKED, queue), (interface.QUEUE_DROPS, queue))
            evidence += growths(telemetry, at_queue)
        severity: Severity = "critical" if share > CRITICAL_SHARE else "warning"
        if _holds(telemetry, fabric, port):
            severity = "info"
        own = ecn_marks(telemetry, fabric).get(subject)
        elsewhere = own is not None and own < OWN * packets
        if elsewhere:
            severity = "info"  # whatever is congested lies before, and has findings of its own
        findings.append(
            found(
                rule,
                subject,
                severity,
                0.85 if queue is not None else 0.7,
                f"the {'way' if elsewhere else 'egress'} towards {display(port)} is congested: "
                f"{share:.1%} of the packets that arrive there are marked",
                evidence,
                affected=[port],
            )
        )
    judged = any(_marked(telemetry, fabric, port) is not None for port in fabric.ports())
    missing = () if judged else ("packets received by ECN field, of a NIC or its interface",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _holds(telemetry: Telemetry, fabric: FabricView, port: Port) -> bool:
    """Tell whether marking does what it is for: CNPs are sent, and nobody is paused or dropped."""
    sent = telemetry.growth(rdma.CNP_TX.name, port)
    egress = far_end(fabric, port)
    if sent is None or sent.total <= 0 or egress is None:
        return False
    queue = egress_to(fabric, telemetry, port)
    drops = telemetry.growth(interface.QUEUE_DROPS.name, queue) if queue is not None else None
    if drops is not None and drops.total > 0:
        return False
    return all(root.wire != egress for root in pause_roots(telemetry, fabric))


def _marked(
    telemetry: Telemetry, fabric: FabricView, port: Port
) -> tuple[float, float, list[Evidence]] | None:
    """Return (share marked, packets marked, evidence), None where nothing counts marks."""
    hardware = telemetry.growth(rdma.CE_MARKED_RX.name, port)
    received = telemetry.growth(rdma.RX_PACKETS.name, port)
    wanted = f"> {MIN_SHARE:.0%} of packets"
    if hardware is not None and received is not None:
        share = hardware.total / max(received.total, 1)
        return share, hardware.total, [grew(rdma.CE_MARKED_RX, port, hardware, wanted)]
    kernel = ecn_received(telemetry, fabric, port)
    if kernel is None:
        return None
    growth = telemetry.growth(ip.IP_CE_RX.name, kernel.where)
    evidence = [] if growth is None else [grew(ip.IP_CE_RX, kernel.where, growth, wanted)]
    return kernel.ce / max(kernel.total, 1), kernel.ce, evidence


RULE: Final = Rule(
    id="path-marks",
    section="flow_control",
    title="Congested egress marks packets",
    finds="receivers of which packets arrive with congestion experienced",
    quiet_when=f"under {MIN_PACKETS} packets or {MIN_SHARE:.0%} of them are marked",
    cannot_tell_when="neither NIC nor interface counts packets by ECN field",
    refutes="the egress queue's own mark counter stands still (somebody else marks)",
    judge=judge,
)
