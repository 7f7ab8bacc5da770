"""802.3x pause on a RoCE interface: it stops every class, and PFC beside it does not work."""

from __future__ import annotations

from typing import Final

from collectors.model.catalogue import interface
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_kind
from tuner.diagnosis.rule import HostRule, found, growths
from tuner.diagnosis.view import HostTelemetry

_SIDES: Final = ("pause_rx_enabled", "pause_tx_enabled")
_PAUSES: Final = (interface.PAUSE_RX_FRAMES, interface.PAUSE_TX_FRAMES)


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find interfaces with 802.3x pause on; frames that were counted make it worse."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        sides = [roce.qos[name] for name in _SIDES if name in roce.qos]
        on = [setting for setting in sides if setting.value is True]
        if not on:
            return [] if sides else None
        evidence = [item for setting in on for item in roce.evidence(setting.name)]
        pauses = [(metric, roce.netdev) for metric in _PAUSES]
        evidence += growths(telemetry, pauses, "0", grown=True)
        both = bool(roce.lossless)
        beside = " beside PFC" if both else ""
        return [
            found(
                rule,
                roce.netdev,
                "critical" if both or len(evidence) > len(on) else "warning",
                0.9,
                f"802.3x pause is on{beside} at {roce}: one slow class stops all of them",
                [*evidence, *roce.evidence("pfc_priorities")],
                affected=[roce.port],
            )
        ]

    return each_kind(rule, telemetry, judge_port, "pause settings of its interface")


RULE: Final = HostRule(
    id="pause-with-roce",
    section="config",
    title="802.3x pause together with RoCE",
    finds="RoCE interfaces that send or obey 802.3x pause",
    quiet_when="both directions of 802.3x pause are off",
    cannot_tell_when="the driver tells no pause settings",
    refutes="a lab that uses global pause on purpose, without PFC, on both ends",
    judge=judge,
    answers=("R35",),
)
FIX: Final = "ethtool -A IF autoneg off rx off tx off, and the same on the switch; then use PFC"
