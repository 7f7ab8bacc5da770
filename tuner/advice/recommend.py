"""From a diagnosis to the changes that help, causes before symptoms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.entities import Entity
from tuner.advice.cure import Cure
from tuner.advice.cures import (
    balance,
    capacity,
    configuration,
    congestion,
    deadlock,
    gid,
    host,
    infiniband,
    link,
    queue,
    watchdog,
)
from tuner.advice.recommendation import Recommendation
from tuner.diagnosis.finding import Diagnosis
from tuner.diagnosis.view import FabricView, Telemetry

CURES: Final[Mapping[str, Cure]] = MappingProxyType(
    {
        **{rule: configuration.align(names) for rule, names in configuration.SETTINGS.items()},
        **congestion.CURES,
        **balance.CURES,
        "link-down": link.repair,
        "loss-on-path": link.repair,
        "lossy-cable": link.repair,
        "link-errors": link.repair,
        "fec-errors": link.repair,
        "gid-choice": gid.choose,
        "slow-receiver": host.look_at,
        "pause-storm": watchdog.end_storm,
        "pcie-link": host.look_at,
        "pfc-deadlock": deadlock.break_circle,
        "watchdog-fired": watchdog.act_later,
        "nic-buffer-overflow": host.stop_overflow,
        "unequal-capacity": capacity.weigh,
        "ack-timeouts": host.outlast_timeouts,
        "slow-link": link.speed_up,
        "mtu-mismatch": host.align_mtu,
        "not-ect": host.set_ect,
        "receiver-not-ready": host.post_receives,
        "path-marks": queue.relieve,
        "queue-drops": queue.lengthen,
        "ib-bad-cable": infiniband.repair,
        "ib-cabling": infiniband.replug,
        "ib-slow-receiver": infiniband.look_at_host,
        "ib-oversubscribed-link": infiniband.spread,
        "ib-routing-hot-spot": infiniband.spread,
        "ib-hoq-discards": infiniband.outlast,
        "ib-vl-starvation": infiniband.feed,
        "ib-congestion-control": infiniband.control,
    }
)
"""Rule id -> cure. A finding without one is reported and left to people."""


def recommend(
    diagnosis: Diagnosis, telemetry: Telemetry, fabric: FabricView
) -> tuple[Recommendation, ...]:
    """Return recommendations in the order of the findings; one for each knob and place.

    What another finding explains gets none: its cause is cured instead.
    """
    made: list[Recommendation] = []
    for finding in diagnosis.findings:
        cure = CURES.get(finding.rule)
        if cure is None or finding.explained_by or finding.severity == "info":
            continue
        made += _cured(cure(finding, telemetry, fabric))
    return tuple(once_each(made))


def once_each(recommendations: Iterable[Recommendation]) -> list[Recommendation]:
    """Return recommendations less the places at which an earlier one sets the same knob."""
    made: list[Recommendation] = []
    settled: set[tuple[str, Entity]] = set()
    for one in recommendations:
        left = one.without(settled)
        if left is not None:
            settled |= {(part.knob, place) for part in left.parts for place in part.places}
            made.append(left)
    return made


def _cured(recommendations: Iterable[Recommendation]) -> list[Recommendation]:
    return [rec for rec in recommendations if rec.current is None or rec.current != rec.proposed]
