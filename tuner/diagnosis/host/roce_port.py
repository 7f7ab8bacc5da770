"""The RoCE ports of a host as its configuration rules see them."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from collectors.model.catalogue import rdma
from collectors.model.entities import Device, Entity, Netdev, Port, display, priority
from collectors.model.entities import QueuePair as QueuePairEntity
from collectors.model.facts import Scalar, Setting
from collectors.model.metric import Metric
from collectors.model.roce import dscp_of_tclass
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.once import once
from tuner.diagnosis.rule import HostRule, beside_the_point, verdict
from tuner.diagnosis.view import HostTelemetry

SOFTWARE: Final = frozenset({"rxe", "siw"})  # no PFC, no congestion control, no PCIe
MISSING: Final = "state and link layer of an RDMA port"


class RocePort(msgspec.Struct, frozen=True, gc=False):
    """A RoCE port in hardware. settings: of the port. qos: of its network interface.

    kind: equal only for ports that are set alike and whose jobs are.
    """

    port: Port
    netdev: Netdev
    driver: str
    settings: Mapping[str, Setting]
    qos: Mapping[str, Setting]
    kind: Hashable

    @property
    def lossless(self) -> frozenset[int] | None:
        """Priorities with PFC, None where that is unknown."""
        enabled = self.qos.get("pfc_priorities")
        if enabled is None or not isinstance(enabled.value, tuple):
            return None
        return _priorities(enabled.value)

    def priority_of_dscp(self, dscp: int) -> int | None:
        """Return the priority that the interface gives to a DSCP, None where it is unknown.

        An interface that trusts the VLAN tag gives all untagged RoCE priority 0.
        """
        trust, table = self.qos.get("trust"), self.qos.get("dscp_to_priority")
        if trust is None:
            return None
        if trust.value != "dscp":
            return 0
        if table is None or not isinstance(table.value, tuple) or not 0 <= dscp < 64:
            return None
        priority = table.value[dscp]
        return None if not isinstance(priority, int) else max(priority, 0)

    def evidence(self, name: str) -> list[Evidence]:
        """Return a setting as evidence, nothing where it is unknown."""
        for entity, settings in ((self.netdev, self.qos), (self.port, self.settings)):
            setting = settings.get(name)
            if setting is not None:
                return [shown(entity, setting)]
        return []

    def __str__(self) -> str:
        return f"{display(self.port)} ({self.netdev.name})"


@lru_cache
def _priorities(states: tuple[Scalar, ...]) -> frozenset[int]:
    return frozenset(p for p, on in enumerate(states) if on)


def shown(entity: Entity, setting: Setting) -> Evidence:
    """Return a setting as evidence; a tuple as the places that are on, or as it is."""
    value = setting.value
    if isinstance(value, tuple) and all(isinstance(item, bool) for item in value):
        text = ",".join(str(place) for place, on in enumerate(value) if on) or "none"
    elif isinstance(value, tuple) and setting.name == "dscp_to_priority":
        text = " ".join(f"{dscp}:{p}" for dscp, p in enumerate(value) if p != -1) or "none"
    elif isinstance(value, tuple):
        text = " ".join(str(item) for item in value)
    else:
        text = str(value)
    return Evidence(setting.name, entity, text, note=setting.where)


def all_ports(telemetry: HostTelemetry) -> Sequence[Port]:
    """Return every RDMA port whose state was read."""

    def ports() -> list[Port]:
        seen = dict.fromkeys(telemetry.entities(rdma.STATE.name))
        return [entity for entity in seen if isinstance(entity, Port)]

    return once(telemetry, "RDMA ports", ports)


def roce_ports(telemetry: HostTelemetry) -> Sequence[RocePort]:
    """Return the RoCE ports in hardware that have a network interface."""
    return once(telemetry, "RoCE ports", lambda: _roce_ports(telemetry))


def _roce_ports(telemetry: HostTelemetry) -> list[RocePort]:
    found = []
    variables = _variables(telemetry)
    for port in all_ports(telemetry):
        attributes = telemetry.attributes(port)
        layer, name = attributes.get("link_layer"), attributes.get("netdev")
        driver = attributes.get("driver") or telemetry.attributes(port.device).get("driver")
        kind = "" if driver is None else str(driver.value)
        if layer is None or layer.value != "Ethernet" or name is None or kind in SOFTWARE:
            continue
        netdev = Netdev(port.device.host, str(name.value))
        settings, qos = telemetry.settings(port), telemetry.settings(netdev)
        of_jobs = variables.get(port.device, ()) if variables else ()
        jobs = tuple((name, value) for name, value, _ in of_jobs)
        alike = kind, telemetry.likeness(port), telemetry.likeness(netdev), jobs
        found.append(RocePort(port, netdev, kind, settings, qos, alike))
    return found


def each_port(
    rule: HostRule,
    telemetry: HostTelemetry,
    judge_port: Callable[[RocePort], Sequence[Finding] | None],
    *missing: str,
    suspects: Container[Entity] | None = None,
) -> Verdict:
    """Judge every RoCE port of its own; the frame of rules about ports.

    judge_port: returns the findings of a port, None where it cannot be judged. missing: what no
    port may lack. suspects: of no other port anything can be found. Not applicable where no RDMA
    port is RoCE in hardware.
    """
    ports = roce_ports(telemetry)
    if not ports and all_ports(telemetry):
        return beside_the_point(rule)
    judged = any(judge_port(roce) is not None for roce in ports)
    doubtful = [roce for roce in ports if suspects is None or roce.port in suspects]
    findings = [finding for roce in doubtful for finding in judge_port(roce) or ()]
    return verdict(
        rule, findings, judged=judged, missing=() if judged else unread(telemetry, *missing)
    )


def each_kind(
    rule: HostRule,
    telemetry: HostTelemetry,
    judge_port: Callable[[RocePort], Sequence[Finding] | None],
    *missing: str,
) -> Verdict:
    """Do the same for rules that look at settings: of ports that are set alike at one of them.

    Where something is found at that one the others are judged, too.
    """
    kinds: dict[Hashable, Sequence[Finding] | None] = {}
    suspects: set[Port] = set()
    for roce in roce_ports(telemetry):
        if roce.kind not in kinds:
            kinds[roce.kind] = judge_port(roce)
        if kinds[roce.kind]:
            suspects.add(roce.port)
    if kinds and all(findings is None for findings in kinds.values()):
        return verdict(rule, (), judged=False, missing=missing)
    return each_port(rule, telemetry, judge_port, *missing, suspects=suspects)


def lossless_bytes(
    telemetry: HostTelemetry, of_priority: Metric, of_rdma: Metric
) -> Sequence[tuple[RocePort, float, float]]:
    """Return (port, bytes in its lossless priorities, bytes of RDMA) where both are counted.

    To tell which ports are worth a closer look: read of all ports at once.
    """
    return once(
        telemetry,
        ("lossless bytes", of_priority.name, of_rdma.name),
        lambda: list(_lossless_bytes(telemetry, of_priority, of_rdma)),
    )


def _lossless_bytes(
    telemetry: HostTelemetry, of_priority: Metric, of_rdma: Metric
) -> Iterator[tuple[RocePort, float, float]]:
    ports = [(roce, kept) for roce in roce_ports(telemetry) if (kept := roce.lossless)]
    slots = [priority(roce.netdev, index) for roce, kept in ports for index in kept]
    in_slots = iter(telemetry.totals(of_priority.name, slots))
    carried = telemetry.totals(of_rdma.name, [roce.port for roce, _ in ports])
    for (roce, kept), sent in zip(ports, carried, strict=True):
        known = [total for _ in kept if (total := next(in_slots)) is not None]
        if known and sent is not None:
            yield roce, sum(known), sent


def unread(telemetry: HostTelemetry, *missing: str) -> tuple[str, ...]:
    """Return what a rule about RDMA ports lacks: the ports themselves only where none was read."""
    return missing if roce_ports(telemetry) else (MISSING, *missing)


@dataclass(frozen=True)
class DataClass:
    """A DSCP that RoCE data of a port carries, and what gives it."""

    dscp: int
    text: str
    evidence: Evidence


_JOB_TCLASS: Final = ("NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS")


def data_classes(telemetry: HostTelemetry, roce: RocePort) -> list[DataClass]:
    """Return the classes of RoCE data as far as they are known: forced, by job, by default."""
    found: list[DataClass] = []
    forced = roce.settings.get("forced_tclass")
    for setting in (forced, roce.settings.get("rdma_cm_tclass")):
        if setting is not None and isinstance(setting.value, int) and 0 < setting.value < 256:
            text = f"traffic class {setting.value}"
            dscp = dscp_of_tclass(setting.value)
            found.append(DataClass(dscp, text, shown(roce.port, setting)))
    device = roce.settings.get("roce_dscp")
    if device is not None and isinstance(device.value, int):
        text = f"DSCP {device.value}"
        found.append(DataClass(device.value, text, shown(roce.port, device)))
    if forced is None:
        for name, value, evidence in job_variables(telemetry, roce.port):
            if name in _JOB_TCLASS and value.isdecimal() and int(value) < 256:
                found.append(DataClass(dscp_of_tclass(int(value)), f"{name}={value}", evidence))
    return found


def job_variables(telemetry: HostTelemetry, port: Port) -> Sequence[tuple[str, str, Evidence]]:
    """Return (name, value, evidence) of the environment of jobs that hold queue pairs here."""
    return _variables(telemetry).get(port.device, ())


def _variables(telemetry: HostTelemetry) -> Mapping[Device, Sequence[tuple[str, str, Evidence]]]:
    return once(telemetry, "job variables", lambda: _job_variables(telemetry))


def _job_variables(
    telemetry: HostTelemetry,
) -> dict[Device, tuple[tuple[str, str, Evidence], ...]]:
    found: dict[Device, dict[tuple[str, str], Evidence]] = {}
    known = telemetry.setting_all("job_environment")
    for fact in telemetry.queue_pairs() if known else ():
        pair = QueuePairEntity(fact.device, fact.local_qpn)
        setting = known.get(pair)
        if setting is None or not isinstance(setting.value, tuple):
            continue
        of_device = found.setdefault(fact.device, {})
        for entry in setting.value:
            name, _, value = str(entry).partition("=")
            of_device.setdefault((name, value), Evidence(name, pair, value, note=setting.where))
    return {
        device: tuple((*variable, evidence) for variable, evidence in of_device.items())
        for device, of_device in found.items()
    }
