"""RDMA between processes of one host through its NIC: it crosses PCIe twice (R6)."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import priority
from tuner.diagnosis.connections import connections
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port
from tuner.diagnosis.rule import HostRule, found, grew
from tuner.diagnosis.view import HostTelemetry

MIN_FRAMES: Final = 100  # of PFC, sent by the host: then it drains too slowly


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find ports with queue pairs to themselves, and see whether they stop their switch."""
    known = connections(telemetry)
    loops: dict[object, int] = {}
    for one in known:
        if one.src == one.dst:
            loops[one.src] = loops.get(one.src, 0) + 1

    def judge_port(roce: RocePort) -> list[Finding] | None:
        if not known:
            return None
        count = loops.get(roce.port, 0)
        if not count:
            return []
        sent = [
            grew(interface.PFC_TX_FRAMES, slot, growth, f"< {MIN_FRAMES}")
            for slot in (priority(roce.netdev, index) for index in range(8))
            if (growth := telemetry.growth(interface.PFC_TX_FRAMES.name, slot))
            and growth.total >= MIN_FRAMES
        ]
        pausing = ", and it stops its switch" if sent else ""
        return [
            found(
                rule,
                roce.port,
                "warning" if sent else "info",
                0.75 if sent else 0.5,
                f"{count} queue pairs of {roce} lead to {roce.port.device.host} itself: loopback "
                f"takes PCIe twice{pausing}",
                [Evidence("queue pairs to itself", roce.port, float(count), "count", "0"), *sent],
                affected=[roce.port],
                explains=[(n, roce.port) for n in ("slow-receiver", "pause-root")] if sent else [],
            )
        ]

    return each_port(rule, telemetry, judge_port, "queue pairs with the addresses of both ends")


RULE: Final = HostRule(
    id="loopback-traffic",
    section="config",
    title="RDMA loopback through the NIC",
    finds="ports with queue pairs to themselves; a warning where the host stops its switch, too",
    quiet_when="all queue pairs lead to other ports",
    cannot_tell_when="queue pairs are not known with the addresses of both ends",
    refutes="these queue pairs are idle (health checks, control)",
    judge=judge,
    answers=("R6",),
)
FIX: Final = "use shared memory or peer-to-peer copies inside a host (NCCL_SHM_DISABLE unset)"
