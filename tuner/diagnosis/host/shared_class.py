"""Other traffic shares the lossless priority of RoCE: elephants and training in one class (R48)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import ethernet, rdma
from collectors.model.entities import priority
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port, lossless_bytes
from tuner.diagnosis.rule import HostRule, found, grew
from tuner.diagnosis.view import HostTelemetry

MIN_SHARE: Final = 0.2  # of the priority's bytes, that are not RDMA
HEADERS: Final = 1.1  # priority counters include headers that the port's data counters may not
MIN_BYTES: Final = 10**8
NEARLY: Final = 0.999  # of a limit: worth a closer look
_SIDES: Final = (
    (ethernet.PRIORITY_TX_BYTES, rdma.TX_BYTES),
    (ethernet.PRIORITY_RX_BYTES, rdma.RX_BYTES),
)


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Hold the bytes of the lossless priorities against the port's RDMA bytes."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        lossless = roce.lossless
        if not lossless:
            return None if lossless is None else []
        judged = False
        for of_priority, of_rdma in _SIDES:
            slots = [priority(roce.netdev, index) for index in sorted(lossless)]
            grown = [(s, g) for s in slots if (g := telemetry.growth(of_priority.name, s))]
            carried = telemetry.growth(of_rdma.name, roce.port)
            if not grown or carried is None:
                continue
            judged = True
            total = sum(growth.total for _, growth in grown)
            other = total - HEADERS * carried.total
            if total < MIN_BYTES or other < MIN_SHARE * total:
                continue
            evidence = [grew(of_priority, s, g, f"<= {HEADERS} times RDMA") for s, g in grown]
            return [
                found(
                    rule,
                    roce.port,
                    "warning",
                    0.7,
                    f"{other / total:.0%} of the bytes in the lossless priority of {roce} are not "
                    "RDMA: other traffic shares its queue and its pauses",
                    [*evidence, grew(of_rdma, roce.port, carried)],
                    affected=[roce.port],
                )
            ]
        return [] if judged else None

    suspects = {
        roce.port
        for of_priority, of_rdma in _SIDES
        for roce, total, carried in lossless_bytes(telemetry, of_priority, of_rdma)
        if total - HEADERS * carried >= NEARLY * MIN_SHARE * total
    }
    missing = "bytes by priority and RDMA bytes of the port"
    return each_port(rule, telemetry, judge_port, missing, suspects=suspects)


RULE: Final = HostRule(
    id="shared-class",
    section="config",
    title="Lossless priority shared",
    finds=f"ports of whose bytes in lossless priorities {MIN_SHARE:.0%} or more are not RDMA",
    quiet_when="RDMA has its priorities to itself",
    cannot_tell_when="bytes by priority or RDMA bytes of the port are not counted",
    refutes="the port's data counter leaves out functions (VFs, containers) that send RDMA, too",
    judge=judge,
    answers=("R48",),
)
FIX: Final = "give storage and TCP a DSCP and priority of their own, with ETS shares"
