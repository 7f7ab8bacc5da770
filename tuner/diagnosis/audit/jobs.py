"""Whether all ranks of a job are set alike: traffic class, GID, queue pairs a connection (T2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from collectors.model.entities import Entity, Host, Port, QueuePair
from collectors.model.facts import Gid
from tuner.diagnosis.finding import Evidence, Finding, Severity, Verdict
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.fabric.jobs import Job, jobs_of

ALIKE: Final[dict[str, Severity]] = {
    "NCCL_IB_TC": "critical",
    "NCCL_IB_FIFO_TC": "warning",
    "NCCL_IB_SL": "warning",
    "NCCL_IB_QPS_PER_CONNECTION": "critical",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "critical",
    "NCCL_IB_TIMEOUT": "warning",
    "NCCL_IB_RETRY_CNT": "warning",
    "UCX_IB_TRAFFIC_CLASS": "critical",
}
"""Variables that all ranks should share. An index of the GID table may differ: its GID counts."""
_GID: Final = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")
_UNSET: Final = "not set"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare variables, GIDs and classes of queue pairs within each job of several hosts."""
    findings: list[Finding] = []
    compared = 0
    for job in jobs_of(telemetry, fabric).values():
        if len(job.hosts) < 2:
            continue
        variables, gids = _variables(telemetry, job)
        compared += bool(variables or gids or job.dscps)
        for name, by_host in variables.items():
            told = {Host(host): by_host.get(Host(host), (_UNSET, None)) for host in job.hosts}
            findings += _differing(rule, job, name, told, ALIKE[name])
        findings += _differing(rule, job, "GID in use", gids, "critical")
        findings += _classes(rule, job)
    missing = () if compared else ("queue pairs of one job on two hosts, with its environment",)
    return verdict(rule, findings, judged=compared > 0, missing=missing)


def _variables(
    telemetry: Telemetry, job: Job
) -> tuple[dict[str, dict[Host, tuple[str, Entity | None]]], dict[Host, tuple[str, Entity | None]]]:
    """Return variable -> host -> (value, where), and host -> (kind of GID, where)."""
    ports = {(port.device, port.number): port for port in job.ports}
    found_variables: dict[str, dict[Host, tuple[str, Entity | None]]] = {}
    gids: dict[Host, tuple[str, Entity | None]] = {}
    for fact in job.queue_pairs:
        pair, host = QueuePair(fact.device, fact.local_qpn), Host(fact.device.host)
        setting = telemetry.settings(pair).get("job_environment")
        if setting is None or not isinstance(setting.value, tuple):
            continue
        for entry in setting.value:
            name, _, value = str(entry).partition("=")
            if name in ALIKE:
                found_variables.setdefault(name, {}).setdefault(host, (value, pair))
            elif name in _GID:
                port = ports.get((fact.device, fact.port))
                kind = None if port is None else _kind(telemetry, port, value)
                if kind is not None:
                    gids.setdefault(host, (kind, port))
    return found_variables, gids


def _kind(telemetry: Telemetry, port: Port, index: str) -> str | None:
    """Return what kind of GID an index means on a port: type and family, not the number."""
    table: dict[str, Gid] = {str(gid.index): gid for gid in telemetry.gids(port)}
    if not table:
        return None
    gid = table.get(index)
    if gid is None:
        return f"index {index}, which does not exist"
    if gid.gid.lower().startswith("fe80"):
        return f"{gid.type}, link-local"
    return f"{gid.type}, {'IPv4' if gid.gid.lower().startswith('::ffff:') else 'IPv6'}"


def _differing(
    rule: Rule, job: Job, name: str, told: dict[Host, tuple[str, Entity | None]],
    severity: Severity,
) -> Iterator[Finding]:  # fmt: skip
    counted = Counter(value for value, _ in told.values())
    if len(counted) < 2:
        return
    usual, times = counted.most_common(1)[0]
    odd = {host: value for host, value in told.items() if value[0] != usual}
    yield found(
        rule, next(iter(odd)), severity, 0.9,
        f"ranks of job {job.name} differ in {name}: {names(odd, 3)} "
        f"{next(iter(odd.values()))[0]}, {times} of {len(told)} {usual}",
        [
            Evidence(name, where or host, value, "", f"most have {usual}")
            for host, (value, where) in odd.items()
        ][:8],
        affected=list(odd),
    )  # fmt: skip


def _classes(rule: Rule, job: Job) -> Iterator[Finding]:
    by_class: dict[int, list[QueuePair]] = {}
    for fact in job.queue_pairs:
        if fact.tclass is not None:
            by_class.setdefault(fact.tclass, []).append(QueuePair(fact.device, fact.local_qpn))
    hosts = {tclass: {pair.device.host for pair in pairs} for tclass, pairs in by_class.items()}
    everywhere = {host for of_class in hosts.values() for host in of_class}
    for tclass, pairs in by_class.items():
        if hosts[tclass] != everywhere and len(hosts[tclass]) * 2 <= len(everywhere):
            places: list[Entity] = [Host(host) for host in sorted(hosts[tclass])]
            yield found(
                rule, places[0], "critical", 0.85,
                f"job {job.name} has queue pairs of traffic class {tclass} on {names(places, 3)} "
                "only",
                [Evidence("tclass", pair, tclass, "", "one for all ranks") for pair in pairs[:4]],
                affected=places,
            )  # fmt: skip


RULE: Final = Rule(
    id="job-settings",
    section="config",
    title="Ranks of a job are set differently",
    finds="jobs whose ranks differ in traffic class, kind of GID, queue pairs or timeouts",
    quiet_when="all ranks of every job of several hosts agree",
    cannot_tell_when="no job is seen on two hosts, or nothing is known of its settings",
    refutes="the ranks that differ have another part in the job on purpose",
    judge=judge,
)
