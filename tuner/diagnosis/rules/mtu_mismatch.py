"""The two ends of a cable, or one host among its peers, have another MTU (R40)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectors.model.entities import Entity, Link, Netdev, Port, display
from collectors.model.facts import Setting, Value
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.place import cable_of, unequal_ends, unusual, usual_of
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MTU: Final = "mtu_bytes"
RDMA_MTU: Final = "rdma_mtu_bytes"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the MTU of both ends of each cable, then each host with its peers."""
    mtus = telemetry.setting_all(MTU)
    unequal, compared = unequal_ends(telemetry, fabric, MTU)
    findings: dict[Entity, Finding] = {
        cable: _ends(rule, fabric, cable, [mtus[end] for end in ends])
        for cable, ends in unequal.items()
    }
    usual, odd = unusual(telemetry, RDMA_MTU)
    of_hosts = _usual_of_hosts(telemetry) if odd else None
    for setting in odd:
        port = setting.entity
        if not isinstance(port, Port):
            continue
        if cable_of(fabric, port) in findings or _same_interface_mtu(fabric, port, mtus, of_hosts):
            continue
        findings[port] = found(
            rule,
            port,
            "warning",
            0.8,
            f"{display(port)} has an RDMA MTU of {setting.value}, most others {usual}",
            [_evidence(setting, f"most have {usual}")],
            affected=[port],
        )
    judged = compared or usual is not None
    missing = () if judged else ("MTU of both ends of a cable",)
    return verdict(rule, findings.values(), judged=judged, missing=missing)


def _usual_of_hosts(telemetry: Telemetry) -> Value | None:
    return usual_of(
        {
            value: [entity for entity in entities if isinstance(entity, Netdev)]
            for value, entities in telemetry.alike(MTU).items()
        }
    )


def _same_interface_mtu(
    fabric: FabricView, port: Port, mtus: Mapping[Entity, Setting], usual: Value | None
) -> bool:
    """Tell whether the MTU of a RoCE port's interface is the usual one of hosts.

    A RoCE port's MTU follows its interface's; another one is then only an older reading.
    """
    netdev = fabric.netdev_of(port)
    own = mtus.get(netdev) if netdev is not None else None
    return own is not None and own.value == usual


def _ends(rule: Rule, fabric: FabricView, cable: Link, ends: list[Setting]) -> Finding:
    small, large = sorted(ends, key=lambda setting: int(setting.value))  # type: ignore[arg-type]
    ports = [fabric.port_of(end) if isinstance(end, Netdev) else None for end in (cable.a, cable.b)]
    return found(
        rule,
        cable,
        "critical",
        0.95,
        f"{display(small.entity)} has an MTU of {small.value}, its other end "
        f"{display(large.entity)} {large.value}: larger packets vanish",
        [_evidence(small, "equal at both ends"), _evidence(large, "equal at both ends")],
        affected=[port for port in ports if port is not None],
        explains=[
            (name, cable)
            for name in (
                "loss-on-path",
                "queue-drops",
                "lossy-cable",
                "link-errors",
                "ack-timeouts",
            )
        ],
    )


def _evidence(setting: Setting, threshold: str) -> Evidence:
    return Evidence(
        setting.name, setting.entity, str(setting.value), "bytes", threshold, note=setting.where
    )


RULE: Final = Rule(
    id="mtu-mismatch",
    section="config",
    title="MTU differs",
    finds="cables whose ends have another MTU, ports whose RDMA MTU differs from most others",
    quiet_when="both ends agree, and each port with the majority",
    cannot_tell_when="the MTU of no cable is known at both ends and of fewer than three ports",
    refutes="all traffic of the port is smaller than the lesser MTU",
    judge=judge,
    answers=("R40",),
)
