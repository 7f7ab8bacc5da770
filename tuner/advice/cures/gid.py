"""Cure of a job that uses a GID which cannot reach its peers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.entities import Host, Port, display
from tuner.advice.cure import recommend_change
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.host.gid_choice import best
from tuner.diagnosis.view import FabricView, Telemetry

VARIABLES: Final = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")


def choose(finding: Finding, telemetry: Telemetry, _fabric: FabricView) -> Iterable[Recommendation]:
    """Let jobs use the RoCE v2 GID of a routed address; nothing where the port has none.

    RoCE v1 has no IP header: it is not routed, and carries neither DSCP nor traffic class.
    """
    port = finding.subject
    good = best(telemetry.gids(port)) if isinstance(port, Port) else None
    if not isinstance(port, Port) or good is None:
        return
    for item in finding.evidence:
        if item.name not in VARIABLES or not str(item.value).isdecimal():
            continue
        index = int(item.value)
        known = {gid.index: gid for gid in telemetry.gids(port)}
        was = known.get(index)
        what = "does not exist" if was is None else f"is {was.type} {was.gid}"
        yield recommend_change(
            finding, "job_gid_index", Host(port.device.host), index, good.index,
            f"let jobs on {display(port)} use GID {good.index} ({good.type}, {good.gid}): {index} "
            f"{what}",
            [
                Effect(
                    "peers that the job reaches", "ratio", 0.0 if was is None else None, 1.0, 1.0,
                    "GID table", "its peers have RoCE v2 GIDs of the same kind of address",
                )
            ],
            confidence=finding.confidence, risk="low",
        )  # fmt: skip
