"""The GID that jobs use: RoCE v2 with an address that is routed, else peers are not reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectors.model.facts import Gid
from tuner.diagnosis.address import IPV4_BYTES, packed
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.host.roce_port import RocePort, each_port, job_variables
from tuner.diagnosis.rule import HostRule, found
from tuner.diagnosis.view import HostTelemetry

ROUTED: Final = "RoCE v2"
_USABLE: Final = 1000
_INDEX_VARIABLES: Final = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")


def score(gid: Gid) -> int:
    """Return how good a GID is for a job: RoCE v2 over an address that is not link-local.

    1000 for RoCE v2, 200 more for IPv4, 100 more for global IPv6; 0 where it is link-local.
    """
    address = packed(gid.gid) if ":" in gid.gid else None
    if address is None or not any(address):
        return 0
    version = _USABLE if gid.type == ROUTED else 0
    return version + (200 if len(address) == IPV4_BYTES else 100)


def best(gids: Sequence[Gid]) -> Gid | None:
    """Return the GID that a job should use, None where no RoCE v2 one will do."""
    ranked = sorted(gids, key=lambda gid: (-score(gid), gid.index))
    return ranked[0] if ranked and score(ranked[0]) >= _USABLE else None


def judge(rule: HostRule, telemetry: HostTelemetry) -> Verdict:
    """Find ports without a usable GID, and jobs that chose one that is not."""

    def judge_port(roce: RocePort) -> list[Finding] | None:
        gids = telemetry.gids(roce.port)
        return _chosen(rule, telemetry, roce, gids) if gids else None

    return each_port(rule, telemetry, judge_port, "GID table")


def _chosen(
    rule: HostRule, telemetry: HostTelemetry, roce: RocePort, gids: Sequence[Gid]
) -> list[Finding]:
    port, variables = roce.port, job_variables(telemetry, roce.port)
    usable = (gid for gid in gids if gid.type == ROUTED and score(gid) >= _USABLE)
    good = best(gids) if variables else next(usable, None)
    if good is None:
        seen = [Evidence(f"gid {gid.index}", port, f"{gid.gid} {gid.type}") for gid in gids[:4]]
        summary = f"{roce} has no RoCE v2 GID with a routed address: jobs cannot reach peers"
        return [found(rule, port, "critical", 0.9, summary, seen, affected=[port])]
    by_index = {str(gid.index): gid for gid in gids} if variables else {}
    for name, value, evidence in variables:
        if name not in _INDEX_VARIABLES or not value.isdecimal():
            continue
        chosen = by_index.get(value)
        if chosen is None or score(chosen) < _USABLE:
            what = "does not exist" if chosen is None else f"is {chosen.gid} {chosen.type}"
            summary = (
                f"a job on {roce} uses {name}={value}, which {what}; GID {good.index} "
                f"({good.gid}) is RoCE v2 and routed"
            )
            return [found(rule, port, "critical", 0.9, summary, [evidence], affected=[port])]
    return []


RULE: Final = HostRule(
    id="gid-choice",
    section="config",
    title="GID that will not do",
    finds="RoCE ports without a routed RoCE v2 GID, jobs that chose another",
    quiet_when="a routed RoCE v2 GID exists and jobs use it",
    cannot_tell_when="the GID table was not read",
    refutes="all peers are on one link and the job means to use link-local addresses",
    judge=judge,
)
FIX: Final = (
    "give the interface an IPv4 or global IPv6 address; leave NCCL_IB_GID_INDEX unset (NCCL 2.21 "
    "and newer choose by themselves) or set it to the index named"
)
