"""A RoCE MTU below 4096: more packets, more headers, more interrupts for the same bytes."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import rdma
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port
from tuner.diagnosis.rule import HostRule, found
from tuner.diagnosis.view import HostTelemetry

BEST: Final = 4096
FAST_BYTES_PER_SECOND: Final = 25e9 / 8


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find fast RoCE ports whose interface leaves no room for packets of 4096 bytes."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        size = roce.settings.get("rdma_mtu_bytes")
        if size is None or not isinstance(size.value, int):
            return None
        if size.value >= BEST:
            return []
        rate = telemetry.latest(rdma.RATE.name, roce.port)
        if rate is None or rate.value < FAST_BYTES_PER_SECOND:
            return []
        mtu = roce.qos.get("mtu_bytes")
        of = f" (interface MTU {mtu.value})" if mtu is not None else ""
        summary = (
            f"{roce} sends RoCE packets of {size.value} bytes only{of}; {BEST} fit where the "
            "interface MTU is 4200 or more"
        )
        evidence = [*roce.evidence("rdma_mtu_bytes"), *roce.evidence("mtu_bytes")]
        return [found(rule, roce.port, "warning", 0.8, summary, evidence, affected=[roce.port])]

    return each_port(rule, telemetry, judge_port, "RDMA MTU of the port")


RULE: Final = HostRule(
    id="roce-mtu",
    section="config",
    title="Small RoCE MTU",
    finds=f"ports of 25 Gb/s and more with an RDMA MTU below {BEST}",
    quiet_when=f"the RDMA MTU is {BEST}, or the port is slow",
    cannot_tell_when="the MTU of the port is unknown",
    refutes="a path that cannot carry larger frames, for example over the internet",
    judge=judge,
    answers=("R40",),
)
FIX: Final = "ip link set dev IF mtu 9000 on hosts and a larger frame size on every switch between"
