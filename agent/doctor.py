"""fabric-agent doctor: what this host can see and why not, and what is set wrong on it.

Reads everything twice, a few seconds apart, and judges with the rules that the tuner runs, as
far as they need one host only. Changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.config import Config
from agent.one_host import OneHost
from agent.schedule import read_clock, reason_of
from agent.sources import Job, host_context, read_rdma_devices
from collectors.codec.netlink import NETLINK_RDMA, parse_replies
from collectors.codec.rdma_netlink import pack_get_system, parse_netns_exclusive
from collectors.host.context import HostContext, NetlinkSocket
from collectors.model.entities import display, parse_entity
from collectors.model.errors import FabricError, Malformed
from collectors.model.facts import Gap
from collectors.model.printable import printable
from collectors.model.reading import Clock, Collector
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.host.checks import CHECKS

VERSION: Final = 1  # of the JSON
_FIX_BY_REASON: Final = {
    "EACCES": "run the agent as root, or open the file to its user",
    "EPERM": "run the agent as root or give its unit CAP_NET_ADMIN",
    "denied": "run the agent as root or give its unit CAP_NET_RAW",
    "Denied": "run the agent as root or give its unit CAP_NET_ADMIN",
    "dangling link": "mount the host's whole /sys into the container",
    "hidden": "give the container /dev/infiniband (--device=/dev/infiniband)",
    "no verbs node": "modprobe ib_uverbs",
    "not visible": "mount -t debugfs none /sys/kernel/debug, and run the agent as root",
    "not in the catalogue": "a counter that this version does not know; report it",
    "virtual function": "read it on the physical function, from the host",
    "NotSupported": "the kernel or driver has no such source; nothing to do",
    "EOPNOTSUPP": "the driver has no such source; nothing to do",
    "not_supported": "the kernel or driver has no such source; nothing to do",
    "overflow": "raise max_bytes or max_seconds of queue_pairs",
}
_NOTHING_WRONG: Final = frozenset(
    {"EOPNOTSUPP", "NotSupported", "not_supported", "virtual function", "unsupported"}
)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a source sees. state: `sees`, `partly`, `blind` or `absent` (nothing to see here)."""

    source: str
    state: str
    why: str = ""
    fix: str = ""
    values: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The whole examination. findings: each with its fix."""

    host: str
    devices: tuple[str, ...]
    sights: tuple[Sight, ...]
    findings: tuple[tuple[Finding, str], ...]
    verdicts: tuple[Verdict, ...]


def examine(
    config: Config,
    planned: Sequence[Job],
    seconds: float,
    clock: Clock = read_clock,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Read twice, judge once. Raises nothing for a source that fails: that is in the report."""
    context = host_context(config)
    host = OneHost()
    built: dict[str, Collector] = {}
    failed: dict[str, Exception] = {}
    of_host = [job for job in planned if job.host]
    _read(of_host, host, built, failed, clock)
    sleep(seconds)
    _read(of_host, host, built, failed, clock)
    for collector in built.values():
        close = getattr(collector, "close", None)
        if close is not None:
            close()
    sights = [*_surroundings(config, context)]
    sights += [_sight(job.name, host, failed.get(job.name)) for job in of_host]
    verdicts = tuple(rule.judge(rule, host) for rule, _ in CHECKS)
    fixes = {rule.id: fix for rule, fix in CHECKS}
    findings = tuple(
        (finding, fixes[finding.rule]) for verdict in verdicts for finding in verdict.findings
    )
    return Report(context.host, read_rdma_devices(context), tuple(sights), findings, verdicts)


def _read(
    jobs: Sequence[Job],
    host: OneHost,
    built: dict[str, Collector],
    failed: dict[str, Exception],
    clock: Clock,
) -> None:
    """Run one pass of each job that has not failed yet; what is built serves the next time."""
    for job in jobs:
        if job.name in failed:
            continue
        try:
            if job.name not in built:
                built[job.name] = job.build()
            host.add(job.name, built[job.name].read(clock))
        except FabricError as error:
            failed[job.name] = error


def _sight(source: str, host: OneHost, error: Exception | None) -> Sight:
    if error is not None:
        reason = reason_of(error)
        state = "absent" if reason == "not_supported" else "blind"
        return Sight(source, state, str(error), _FIX_BY_REASON.get(reason, ""))
    gaps = [gap for gap in host.gaps() if gap.collector == source]
    values = host.values_of(source)
    if not gaps:
        return Sight(source, "sees" if values else "absent", values=values)
    harmless = all(gap.reason in _NOTHING_WRONG for gap in gaps)
    worst = next((gap for gap in gaps if gap.reason not in _NOTHING_WRONG), gaps[0])
    state = "partly" if values else ("absent" if harmless else "blind")
    if values and harmless:
        state = "sees"
    more = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
    why = f"{_subject(worst)} {worst.what}: {worst.reason}{more}"
    fix = _FIX_BY_REASON.get(worst.reason, worst.detail)
    return Sight(source, state, why, fix, values)


def _subject(gap: Gap) -> str:
    try:
        return display(parse_entity(gap.subject))
    except Malformed:
        return gap.subject


def _surroundings(config: Config, context: HostContext) -> list[Sight]:
    """Return what holds for all sources: privilege, mounts, network namespaces."""
    found: list[Sight] = []
    if os.geteuid() != 0:
        fix = "run it as root to see debugfs, PCIe configuration and packet sockets"
        found.append(Sight("privilege", "partly", "this process is not root", fix))
    sysfs = config.paths.sysfs
    if not os.path.isdir(f"{sysfs}/class/infiniband"):  # noqa: PTH112
        fix = "modprobe the driver of the NIC (mlx5_ib, bnxt_re, irdma, rdma_rxe...)"
        found.append(Sight("kernel", "blind", f"no {sysfs}/class/infiniband", fix))
    if context.open_netlink is not None and read_rdma_devices(context):
        found += _namespaces(context.open_netlink)
    return found


def _namespaces(open_netlink: Callable[[int], NetlinkSocket]) -> list[Sight]:
    try:
        with contextlib.closing(open_netlink(NETLINK_RDMA)) as socket:
            answers = socket.request(pack_get_system())
        exclusive = any(parse_replies(answers, parse_netns_exclusive))
    except FabricError as error:
        fix = "modprobe ib_core; in a container use the host's network namespace"
        return [Sight("RDMA netlink", "blind", str(error), fix)]
    if not exclusive:
        return []
    why = "RDMA devices belong to one network namespace each (exclusive mode)"
    fix = "run one agent in each namespace that has devices"
    return [Sight("namespaces", "partly", why, fix)]


def document(report: Report) -> dict[str, Any]:
    """Return the JSON document of a report."""
    return {
        "version": VERSION,
        "host": report.host,
        "devices": list(report.devices),
        "sources": [
            {"source": s.source, "state": s.state, "why": s.why, "fix": s.fix, "values": s.values}
            for s in report.sights
        ],
        "findings": [
            {
                "id": finding.id,
                "rule": finding.rule,
                "severity": finding.severity,
                "subject": str(finding.subject),
                "summary": finding.summary,
                "fix": fix,
                "evidence": [
                    {"name": e.name, "entity": str(e.entity), "value": e.value, "where": e.note}
                    for e in finding.evidence
                ],
            }
            for finding, fix in report.findings
        ],
        "cannot_tell": [
            {"rule": verdict.rule, "missing": list(verdict.missing)}
            for verdict in report.verdicts
            if verdict.outcome == "cannot_tell"
        ],
    }


def show(report: Report) -> None:
    """Print the report for people, within 100 columns."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=min(100, Console().width), highlight=False, emoji=False)
    names = ", ".join(report.devices) or "none"
    console.print(f"[bold]{_shown(report.host)}[/]: RDMA devices: {_shown(names)}\n")
    table = Table("source", "state", "why, and what to do", box=None, pad_edge=False)
    colours = {"sees": "green", "partly": "yellow", "blind": "red", "absent": "dim"}
    for sight in report.sights:
        told = _shown(sight.why)
        if sight.fix and sight.state != "sees":
            told += f"\n[italic]{_shown(sight.fix)}[/]"
        state = f"[{colours[sight.state]}]{sight.state}[/]"
        table.add_row(sight.source, state, told or f"[dim]{sight.values} values[/]")
    console.print(table)
    console.print()
    if not report.devices:
        console.print(
            "[yellow]no RDMA device is visible here[/]: RDMA is not judged, and nothing wrong "
            "says nothing of it"
        )
    if not report.findings:
        judged = [v for v in report.verdicts if v.outcome == "quiet"]
        console.print(f"[green]nothing wrong[/] by the {len(judged)} rules that could be judged")
    for finding, fix in report.findings:
        colour = {"critical": "red", "warning": "yellow"}.get(finding.severity, "cyan")
        console.print(f"[bold {colour}]{finding.severity}[/] {_shown(finding.summary)}")
        for evidence in finding.evidence:
            where = f"  [dim]{_shown(evidence.note)}[/]" if evidence.note else ""
            console.print(f"    {_shown(evidence.name)} = {_shown(str(evidence.value))}{where}")
        console.print(f"    fix: {_shown(fix)}\n")
    for verdict in report.verdicts:
        if verdict.outcome == "cannot_tell":
            console.print(f"[dim]cannot tell {verdict.rule}: {', '.join(verdict.missing)}[/]")


def _shown(text: str) -> str:
    """Return text of a host as markup that shows just that."""
    from rich.markup import escape

    return escape(printable(text, keep="\n"))
