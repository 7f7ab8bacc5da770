"""What both ends of a cable must be set to alike: speed, FEC, 802.3x pause, PFC as announced.

PFC priorities and MTU have rules of their own (`pfc-mismatch`, `mtu-mismatch`), which the audit
runs, too. A further setting is one row of `PAIRS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from collectors.model.entities import Link, Wire, display, link
from collectors.model.facts import Setting
from tuner.diagnosis.finding import Finding, Severity, Verdict
from tuner.diagnosis.host.roce_port import shown
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry


@dataclass(frozen=True)
class Pair:
    """A setting of the near end and what of the far end must equal it.

    open: values that go with any other. why: what happens where they differ.
    """

    near: str
    far: str
    severity: Severity
    why: str
    open: frozenset[str | int] = frozenset()


PAIRS: Final = (
    Pair("speed_bps", "speed_bps", "critical", "the link stays down or slower", frozenset({0})),
    Pair("fec", "fec", "critical", "the link stays down", frozenset({"auto"})),
    Pair(
        "pause_rx_enabled", "pause_tx_enabled", "warning",
        "802.3x pause is sent that nobody obeys, or obeyed beside PFC",
    ),
    Pair(
        "peer_pfc_priorities", "pfc_priorities", "warning",
        "DCBX told another set of lossless priorities than the peer uses",
    ),
)  # fmt: skip


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Hold each row of the table against every cable."""
    findings: list[Finding] = []
    missing: list[str] = []
    for pair in PAIRS:
        compared, differing = _compare(pair, telemetry, fabric)
        findings += [_finding(rule, pair, cable, ends) for cable, ends in differing.items()]
        if not compared:
            missing.append(f"{pair.near} and the peer's {pair.far} of a cable")
    return verdict(rule, findings, judged=len(missing) < len(PAIRS), missing=missing)


def _compare(
    pair: Pair, telemetry: Telemetry, fabric: FabricView
) -> tuple[int, dict[Link, tuple[Setting, Setting]]]:
    others = telemetry.setting_all(pair.far)
    compared = 0
    differing: dict[Link, tuple[Setting, Setting]] = {}
    for near, setting in telemetry.setting_all(pair.near).items():
        far = fabric.peer(near) if isinstance(near, Wire) else None
        if not isinstance(near, Wire) or far is None or far not in others:
            continue
        compared += 1
        other = others[far]
        if setting.value != other.value and not {setting.value, other.value} & pair.open:
            differing.setdefault(link(near, far), (setting, other))
    return compared, differing


def _finding(rule: Rule, pair: Pair, cable: Link, ends: Iterable[Setting]) -> Finding:
    evidence = [shown(end.entity, end) for end in ends]
    words = ", ".join(f"{display(item.entity)} {item.name} {item.value}" for item in evidence)
    text = f"the ends of a cable differ: {words}: {pair.why}"
    return found(rule, cable, pair.severity, 0.9, text, evidence, affected=[cable.a, cable.b])


RULE: Final = Rule(
    id="ends-differ",
    section="config",
    title="Ends of a cable are set differently",
    finds="cables whose ends differ in speed, FEC or 802.3x pause, or in PFC as DCBX announced it",
    quiet_when="both ends agree in all of these that are known",
    cannot_tell_when="none of these settings is known at both ends of a cable",
    refutes="one of the two readings is older than a change that is under way",
    judge=judge,
)
