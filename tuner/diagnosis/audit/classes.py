"""Whether a DSCP means the same class from NIC to switch: data lossless, CNPs not (T5).

Follows each DSCP that hosts use through the NIC's table and the table of the switch port that
the NIC hangs on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from collectors.model.entities import Entity, Interface, Port, Switch, display
from collectors.model.facts import Setting
from tuner.diagnosis.finding import Evidence, Finding, Severity, Verdict
from tuner.diagnosis.host.roce_port import RocePort, data_classes, roce_ports, unread
from tuner.diagnosis.lossless import pfc_of
from tuner.diagnosis.place import far_end, names
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, HostTelemetry, Telemetry

_TRUSTS_DSCP: Final = ("dscp", "both")


@dataclass
class _Case:
    """One disagreement of a switch about one DSCP."""

    severity: Severity
    text: str
    evidence: dict[Evidence, None] = field(default_factory=dict)
    ports: list[Port] = field(default_factory=list)


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare NIC and switch for each DSCP of data and CNPs; one finding a switch and kind."""
    pfc = pfc_of(telemetry)
    cases: dict[tuple[Switch, str], _Case] = {}
    compared = 0
    for roce in roce_ports(telemetry):
        interface = far_end(fabric, roce.port)
        if interface is None:
            continue
        lossless = pfc.get(interface)
        for what, dscp, evidence in _used(telemetry, roce):
            seen = _switch_class(telemetry, interface, dscp)
            if seen is None or lossless is None:
                continue
            compared += 1
            at_switch, setting = seen
            at_host = roce.priority_of_dscp(dscp)
            for severity, text in _wrong(what, dscp, at_host, at_switch, lossless):
                case = cases.setdefault((interface.switch, text), _Case(severity, text))
                case.ports.append(roce.port)
                if len(case.ports) == 1:
                    on = ",".join(map(str, sorted(lossless))) or "none"
                    case.evidence |= dict.fromkeys((
                        evidence,
                        *roce.evidence("dscp_to_priority"),
                        Evidence(setting.name, setting.entity, at_switch, note=setting.where),
                        Evidence("pfc_priorities", interface, on),
                    ))  # fmt: skip
    findings = [_finding(rule, switch, case) for (switch, _), case in cases.items()]
    missing = () if compared else unread(telemetry, "DSCP table and PFC of its switch port")
    return verdict(rule, findings, judged=compared > 0, missing=missing)


def _used(telemetry: HostTelemetry, roce: RocePort) -> Iterator[tuple[str, int, Evidence]]:
    for data in data_classes(telemetry, roce):
        yield "data", data.dscp, data.evidence
    cnp = roce.settings.get("cnp_dscp")
    if cnp is not None and isinstance(cnp.value, int) and 0 <= cnp.value < 64:
        yield "CNPs", cnp.value, Evidence(cnp.name, roce.port, cnp.value, note=cnp.where)


def _switch_class(
    telemetry: HostTelemetry, interface: Interface, dscp: int
) -> tuple[int, Setting] | None:
    """Return the class that a switch port gives to a DSCP and what says so."""
    own, whole = telemetry.settings(interface), telemetry.settings(interface.switch)
    trust = own.get("trust") or whole.get("trust")
    if trust is not None and trust.value not in _TRUSTS_DSCP:
        return 0, trust
    table = _table(own, whole)
    if table is None or not isinstance(table.value, tuple) or dscp >= len(table.value):
        return None
    given = table.value[dscp]
    return (max(given, 0), table) if isinstance(given, int) else None


def _table(own: Mapping[str, Setting], whole: Mapping[str, Setting]) -> Setting | None:
    name = "dscp_to_traffic_class"
    return own.get(name) or whole.get(name)


def _wrong(
    what: str, dscp: int, at_host: int | None, at_switch: int, lossless: frozenset[int]
) -> Iterator[tuple[Severity, str]]:
    """Yield (severity, text) of what is wrong with one DSCP."""
    if what == "data" and lossless and at_switch not in lossless:
        kept = ", ".join(map(str, sorted(lossless)))
        yield "critical", f"puts data of DSCP {dscp} into class {at_switch}, lossless is {kept}"
    elif what == "CNPs" and at_switch in lossless:
        yield "warning", f"puts CNPs (DSCP {dscp}) into class {at_switch}, which is lossless"
    if at_host is not None and at_host != at_switch:
        yield (
            "critical" if what == "data" else "warning",
            f"puts {what} of DSCP {dscp} into class {at_switch}, its hosts into {at_host}",
        )


def _finding(rule: Rule, switch: Switch, case: _Case) -> Finding:
    affected: list[Entity] = list(case.ports)
    return found(
        rule, switch, case.severity, 0.9,
        f"{display(switch)} {case.text} (ports of {names(case.ports, 3)})",
        list(case.evidence), affected=affected,
    )  # fmt: skip


RULE: Final = Rule(
    id="classes-differ",
    section="config",
    title="A DSCP changes its class between NIC and switch",
    finds="switches that give data or CNPs another class than the NICs, data a lossy one or CNPs "
    "a lossless one",
    quiet_when="every DSCP in use has the same class on both ends, and the right kind",
    cannot_tell_when="no NIC's DSCP is known together with its switch port's table and PFC",
    refutes="the switch rewrites DSCP or class further on, or the traffic is tagged and trusted so",
    judge=judge,
)
