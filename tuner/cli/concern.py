"""Which findings concern a host, an end of a cable or a job."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collectors.model.entities import Entity, Link, display, host_of, wire_of
from collectors.model.errors import ConfigInvalid
from tuner.cli.options import FOUND

if TYPE_CHECKING:
    from collectors.model.facts import Neighbour
    from tuner.diagnosis.finding import Diagnosis, Finding
    from tuner.diagnosis.rule import AnyRule
    from tuner.fabric.graph import Fabric
    from tuner.store.window import Window

HostOption = Annotated[str, typer.Option("--host", help="only what concerns this host")]
LinkOption = Annotated[
    str, typer.Option("--link", help="only what concerns this end: `leaf1 Ethernet1/1`, `h2 eth0`")
]
JobOption = Annotated[
    str, typer.Option("--job", help="only what concerns this job, or all jobs that begin so")
]
JobsOption = Annotated[
    Path | None,
    typer.Option(
        "--jobs", metavar="FILE", help="host lists of jobs: Slurm's form, YAML, or kubectl's JSON"
    ),
]


CablesOption = Annotated[
    Path | None,
    typer.Option(
        "--cables",
        metavar="FILE",
        help="cables as planned: `leaf1 Ethernet1 h1 eth0` a line, Graphviz, topology's JSON, "
        "SONiC's minigraph or config_db.json, or a Containerlab file",
    ),
]


def fabric_of(window: Window, cables: Path | None) -> Fabric:
    """Return the fabric of a window and of a topology file. Raises Unavailable, Malformed."""
    from tuner.fabric.graph import build_fabric

    return build_fabric(window, listed(window, cables))


def listed(window: Window, cables: Path | None) -> list[Neighbour]:
    """Return the claims of a topology file, none without one. Raises as `fabric_of`."""
    if cables is None:
        return []
    from tuner.fabric.cables import claims, read_cables

    return claims(read_cables(cables), window.known_entities())


@dataclass(frozen=True)
class Concern:
    """What a user asks about; empty texts ask about everything. ports: ends of a job's cables."""

    host: str = ""
    link: str = ""
    hosts: frozenset[str] | None = None
    ends: frozenset[Entity] = frozenset()

    def covers(self, finding: Finding) -> bool:
        """Tell whether a finding is about what was asked for, or hurts it."""
        parts = [part for e in (finding.subject, *finding.affected) for part in _parts(e)]
        if self.host and not any(host_of(part) == self.host for part in parts):
            return False
        if self.link and not any(display(part) == self.link for part in parts):
            return False
        return self.hosts is None or any(
            host_of(part) in self.hosts or part in self.ends for part in parts
        )


def judged(
    rules: Sequence[AnyRule],
    window: Window,
    *,
    host: str,
    link: str,
    job: str,
    jobs: Path | None,
    cables: Path | None,
) -> tuple[Diagnosis, list[Finding]]:
    """Return what rules say of a window, and which findings concern what was asked for.

    Raises as `fabric_of` and `concern_of`.
    """
    from tuner.diagnosis.diagnose import diagnose

    fabric = fabric_of(window, cables)
    concern = concern_of(window, fabric, host, link, job, jobs)
    result = diagnose(window, fabric, rules)
    return result, [finding for finding in result.findings if concern.covers(finding)]


def ended(findings: Iterable[Finding]) -> typer.Exit:
    """Return the exit of a command that found something, or nothing above information."""
    return typer.Exit(FOUND if any(f.severity != "info" for f in findings) else 0)


def concern_of(
    window: Window, fabric: Fabric, host: str, link: str, job: str, lists: Path | None
) -> Concern:
    """Return what the options ask for.

    Raises ConfigInvalid where there is no such host, end of a cable or job: a typing mistake
    must not read as health.
    """
    if host or link:
        entities = [*window.known_entities(), *fabric.wires]
        _must_be_known("--host", host, {name for e in entities if (name := host_of(e))})
        ends = {display(end) for e in entities if (end := wire_of(e)) is not None}
        _must_be_known("--link", link, ends)
    if not job:
        return Concern(host, link)
    from tuner.fabric.jobs import jobs_of, read_host_lists

    known = jobs_of(window, fabric, read_host_lists(lists) if lists is not None else None)
    chosen = [known[job]] if job in known else [j for n, j in known.items() if n.startswith(job)]
    if not chosen:
        there = ", ".join(list(known)[:8]) or "none; --jobs FILE names their hosts"
        raise ConfigInvalid(job, "--job", f"no such job; known: {there}")
    hosts = frozenset(name for one in chosen for name in one.hosts)
    far = [fabric.peer(fabric.attached(port)) for one in chosen for port in one.ports]
    return Concern(host, link, hosts, frozenset(end for end in far if end is not None))


def _must_be_known(option: str, name: str, known: set[str]) -> None:
    if name and name not in known:
        near = difflib.get_close_matches(name, known, 4) or sorted(known)[:4]
        more = f" and {len(known) - len(near)} more" if len(known) > len(near) else ""
        there = f"{', '.join(near)}{more}" if known else "none is known"
        raise ConfigInvalid(name, option, f"nothing here is called so; there are {there}")


def _parts(place: Entity) -> list[Entity]:
    if isinstance(place, Link):
        return [place.a, place.b]
    wire = wire_of(place)
    return [place] if wire is None else [wire]
