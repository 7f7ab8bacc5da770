"""The cure of DCQCN parameters that lie outside everything published: back onto known ground."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.dcqcn import profile
from collectors.model.entities import Port
from collectors.model.facts import Value
from tuner.advice.cure import end_of_pauses, recommend_change
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.knobs.knob import shown
from tuner.advice.norm import rate_bps, runs_dcqcn
from tuner.advice.recommendation import Recommendation
from tuner.advice.search.candidate import Axis
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

BELOW, ABOVE = 0.99, 1.01  # registers round
DCQCN_AXES: Final = (
    Axis("cut_window_s", 1e-6, 128e-6),
    Axis("increase_timer_s", 50e-6, 1.5e-3),
    Axis("g", 1 / 1024, 1 / 16),
    Axis("initial_alpha", 1 / 16, 1.0),
    Axis("ai_bps", 5e6, 10e9),
    Axis("hai_bps", 25e6, 10e9),
)
"""Spans of all published sets (presets, AMD, Spirent; ns3-rdma's 1.5 ms timer is the longest)."""


def unpublished(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Bring what lies outside everything published back: DCQCN to HPCC's set for the speed."""
    for axis in DCQCN_AXES:
        name = f"dcqcn_{axis.name}"
        groups: dict[tuple[Value, float], list[Port]] = {}
        for port in fabric.ports():
            setting = telemetry.settings(port).get(name)
            now = None if setting is None else setting.value
            if not runs_dcqcn(telemetry, port) or not isinstance(now, (int, float)):
                continue
            if axis.low * BELOW <= now <= axis.high * ABOVE:
                continue
            line = rate_bps(telemetry, fabric.attached(port)) or 100e9
            groups.setdefault((now, getattr(profile("hpcc", line), axis.name)), []).append(port)
        unit = KNOBS[name].unit
        for (now, value), ports in groups.items():
            yield recommend_change(
                finding,
                name,
                ports[0],
                now,
                value,
                f"{name} is outside {shown(axis.low, unit)} to {shown(axis.high, unit)}, which "
                f"all that is published lies in ({len(ports)} NICs)",
                end_of_pauses(finding),
                confidence=finding.confidence,
                risk="low",
                also=ports[1:],
            )
