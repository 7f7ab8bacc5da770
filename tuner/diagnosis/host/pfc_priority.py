"""PFC on a priority that nothing maps to: the lossless class protects no traffic."""

from __future__ import annotations

from typing import Final

from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_kind
from tuner.diagnosis.rule import HostRule, found
from tuner.diagnosis.view import HostTelemetry


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Hold the priorities with PFC against those that any DSCP maps to."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        lossless, trust = roce.lossless, roce.qos.get("trust")
        table = roce.qos.get("dscp_to_priority")
        if lossless is None or trust is None or table is None:
            return None
        if trust.value != "dscp" or not isinstance(table.value, tuple):
            return []
        mapped = {priority for priority in table.value if isinstance(priority, int)}
        unused = sorted(lossless - mapped)
        if not unused:
            return []
        return [
            found(
                rule,
                roce.netdev,
                "critical" if not lossless & mapped else "warning",
                0.85,
                f"PFC of {roce} is on for priority {', '.join(map(str, unused))}, which no DSCP "
                "maps to",
                [*roce.evidence("pfc_priorities"), *roce.evidence("dscp_to_priority")],
                affected=[roce.port],
            )
        ]

    return each_kind(rule, telemetry, judge_port, "PFC and DSCP table of its interface")


RULE: Final = HostRule(
    id="pfc-priority",
    section="config",
    title="PFC on the wrong priority",
    finds="priorities with PFC that no DSCP maps to, where the interface trusts DSCP",
    quiet_when="each lossless priority has a DSCP, or the interface trusts the VLAN tag",
    cannot_tell_when="PFC, trust or the DSCP table is unknown",
    refutes="traffic of that priority comes with a VLAN tag",
    judge=judge,
    answers=("R34",),
)
FIX: Final = (
    "move PFC to the priority of the RoCE class (dcb pfc set dev IF prio-pfc all:off PRIO:on; on "
    "mlx5 the link goes down for a moment) or map its DSCP there, as on the switch"
)
