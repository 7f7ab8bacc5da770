"""An egress queue overflows (R12, R13 where the class is known)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Interface, display
from tuner.diagnosis.finding import Evidence, Verdict
from tuner.diagnosis.place import hurt_ports, interface_of
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_PACKETS: Final = 10
MIN_SHARE: Final = 5e-4
CRITICAL_SHARE: Final = 1e-2


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find queues that drop a share of what they are given."""
    findings = []
    counted = telemetry.counted(interface.QUEUE_DROPS.name)
    for queue, drops in telemetry.growing(interface.QUEUE_DROPS.name, MIN_PACKETS).items():
        sent = telemetry.growth(interface.QUEUE_TX_PACKETS.name, queue)
        offered = drops.total + (sent.total if sent else 0)
        if drops.total < MIN_SHARE * offered:
            continue
        share = drops.total / offered
        place: Entity = interface_of(queue) or queue
        evidence = [grew(interface.QUEUE_DROPS, queue, drops, f"> {MIN_SHARE:.2%} of packets")]
        if sent is not None:
            evidence.append(grew(interface.QUEUE_TX_PACKETS, queue, sent))
        limit = telemetry.settings(queue).get("queue_limit_bytes")
        if limit is not None:
            evidence.append(Evidence(limit.name, queue, float(limit.value), "bytes"))  # type: ignore[arg-type]
        findings.append(
            found(
                rule,
                place,
                "critical" if share > CRITICAL_SHARE else "warning",
                0.85,
                f"the egress queue of {display(place)} overflows: it drops {share:.2%} of "
                "what it is given",
                evidence,
                explains=_losses(telemetry, fabric, place),
            )
        )
    return verdict(
        rule,
        findings,
        judged=counted,
        missing=() if counted else ("drop counters of switch queues",),
    )


def _losses(telemetry: Telemetry, fabric: FabricView, place: Entity) -> list[tuple[str, Entity]]:
    """Return the losses that drops explain: of the host there, of anybody behind an uplink."""
    far = fabric.peer(place) if isinstance(place, Interface) else None
    hurt: list[Entity] = [place]
    if isinstance(far, Interface):
        hurt += hurt_ports(telemetry, fabric)
    return [
        (name, entity)
        for entity in hurt
        for name in ("loss-on-path", "ack-timeouts", "retransmission-collapse")
    ]


RULE: Final = Rule(
    id="queue-drops",
    section="flow_control",
    title="Egress queue overflows",
    finds="switch queues that drop packets",
    quiet_when=f"under {MIN_PACKETS} packets or {MIN_SHARE:.2%} are dropped",
    cannot_tell_when="no switch queue's drop counter was read twice",
    refutes="the drops are of another class than the RDMA traffic's",
    judge=judge,
    answers=("R12",),
)
