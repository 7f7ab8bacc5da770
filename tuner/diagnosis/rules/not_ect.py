"""RoCE traffic leaves without ECT: a queue that would mark it drops it instead (R1, R39)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface, ip, rdma
from collectors.model.entities import Port, display
from tuner.diagnosis.connections import senders_by_receiver
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.place import cable_of, ecn_received, egress_to, far_end, names, senders_to
from tuner.diagnosis.rule import Rule, found, grew, growths, verdict
from tuner.diagnosis.view import FabricView, Telemetry

CODEPOINT: Final = "roce_ecn_codepoint"
_EFFECTS: Final = (
    "pfc-before-ecn", "incast", "pause-root", "queue-drops", "path-marks", "marking-saturated",
)  # fmt: skip
MIN_PACKETS: Final = 200  # at a receiver of data
MIN_ANSWERS: Final = 10  # at a sender, which hears little more than acknowledgements
MIN_SHARE: Final = 0.10
UNHEARD: Final = -1.0  # share of a port that hears too few answers to tell


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find receivers of packets that cannot be marked, and who sends them."""
    shares: dict[Port, float] = {}
    receivers: list[Port] = []
    findings: list[Finding] = []
    missing: set[str] = set()
    if not fabric.ports():
        missing.add("RDMA ports")
    for port in fabric.ports():
        seen = ecn_received(telemetry, fabric, port)
        if seen is None:
            missing.add("packets received by ECN field at a port's interface")
            continue
        shares[port] = seen.not_ect / seen.total if seen.total >= MIN_ANSWERS else UNHEARD
        if seen.total >= MIN_PACKETS and shares[port] >= MIN_SHARE:
            receivers.append(port)
    if receivers and not _marking_somewhere(telemetry):
        missing.add("ECN settings of the switch queues")
    odd = _without_codepoint(telemetry)
    findings += [_set_so(rule, telemetry, fabric, port) for port in odd]
    for receiver in _data_receivers(telemetry, receivers):
        finding = _judge_receiver(rule, telemetry, fabric, receiver, shares)
        if finding is not None:
            findings.append(finding)
    judged = bool(odd) or (bool(shares) and not (receivers and missing))
    return verdict(rule, findings, judged=judged, missing=sorted(missing))


def _without_codepoint(telemetry: Telemetry) -> list[Port]:
    """Return the ports that are set to send without ECT where most others are not."""
    known = {
        port: setting.value
        for port, setting in telemetry.setting_all(CODEPOINT).items()
        if isinstance(port, Port) and isinstance(setting.value, int)
    }
    capable = sum(1 for value in known.values() if value)
    return [port for port, value in known.items() if not value] if 2 * capable > len(known) else []


def _set_so(rule: Rule, telemetry: Telemetry, fabric: FabricView, port: Port) -> Finding:
    setting = telemetry.settings(port)[CODEPOINT]
    receivers = [
        receiver for receiver, senders in senders_by_receiver(telemetry).items() if port in senders
    ]
    ends = [end for receiver in receivers if (end := far_end(fabric, receiver)) is not None]
    return found(
        rule,
        port,
        "critical",
        0.9,
        f"{display(port)} sends RoCE data without ECT, most others with: queues that mark the "
        f"others let it grow until they pause or drop, and it never slows down",
        [Evidence(CODEPOINT, port, str(setting.value), note=setting.where)],
        affected=[port, *receivers],
        explains=[(effect, end) for end in ends for effect in _EFFECTS],
    )


def _judge_receiver(
    rule: Rule,
    telemetry: Telemetry,
    fabric: FabricView,
    receiver: Port,
    shares: dict[Port, float],
) -> Finding | None:
    queue = egress_to(fabric, telemetry, receiver)
    netdev = fabric.netdev_of(receiver)
    if queue is None or netdev is None:
        return None
    enabled = telemetry.settings(queue).get("ecn_enabled")
    if enabled is None or not enabled.value:
        return None
    # Who hears answers that are not ECN-capable either is who sends that way.
    suspects = [p for p in shares if p != receiver and shares[p] >= MIN_SHARE]
    losing = senders_to(telemetry, fabric, receiver)
    hurt = [p for p in losing if p in suspects]
    # Who loses so much that it hears next to nothing is no less suspect.
    senders = hurt or suspects or [p for p in losing if shares.get(p) == UNHEARD]
    drops = telemetry.growth(interface.QUEUE_DROPS.name, queue)
    dropped = drops is not None and drops.total > 0
    evidence = [Evidence("ecn_enabled", queue, str(enabled.value), note=enabled.where)]
    heard = ((ip.IP_NOT_ECT_RX, netdev), (ip.IP_ECT0_RX, netdev))
    evidence += growths(telemetry, heard, f"not ECT > {MIN_SHARE:.0%}")
    if drops is not None:
        evidence.append(grew(interface.QUEUE_DROPS, queue, drops, "> 0"))
    who = names(senders) if senders else "its senders"
    what = "drops them when it fills up" if dropped else "can only drop them"
    cable = cable_of(fabric, receiver)
    return found(
        rule,
        senders[0] if len(senders) == 1 else receiver,
        "critical" if dropped else "warning",
        0.9 if dropped and senders else 0.7,
        f"{shares[receiver]:.0%} of the packets to {display(receiver)} leave {who} without ECT: "
        f"the queue that marks the others {what}",
        evidence,
        affected=[receiver, *senders],
        explains=[
            ("loss-on-path", cable),
            *(("loss-on-path", cable_of(fabric, sender)) for sender in senders),
            ("queue-drops", queue.parent),
            ("path-marks", queue.parent),  # the others react to their marks, as they should
        ],
    )


def _data_receivers(telemetry: Telemetry, receivers: list[Port]) -> list[Port]:
    """Return the ports that receive more than acknowledgements: bytes tell, else packet counts."""
    heavy = []
    for port in receivers:
        rx = telemetry.growth(rdma.RX_PACKETS.name, port)
        tx = telemetry.growth(rdma.TX_PACKETS.name, port)
        if rx is None or tx is None or rx.total >= tx.total:
            heavy.append(port)
    return heavy


def _marking_somewhere(telemetry: Telemetry) -> bool:
    return bool(telemetry.setting_all("ecn_enabled"))


RULE: Final = Rule(
    id="not-ect",
    section="config",
    title="RDMA traffic without ECT",
    finds="RDMA packets that arrive without ECT through a queue that has ECN on",
    quiet_when=f"under {MIN_SHARE:.0%} of the packets, or the queue has no ECN",
    cannot_tell_when="packets are not counted by ECN field, or the queue's settings are unknown",
    refutes="the packets without ECT are not RDMA traffic",
    judge=judge,
    answers=("R1", "R39"),
)
