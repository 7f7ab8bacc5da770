"""`tuner diagnose`, `pause-tree` and `topology`: what the fabric looks like and suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer

from tuner.cli.concern import (
    CablesOption,
    HostOption,
    JobOption,
    JobsOption,
    LinkOption,
    ended,
    judged,
    listed,
)
from tuner.cli.options import FOUND, Answer, Format, Since, Source, TunerAddress, look, reporting
from tuner.cli.suggest import as_text

if TYPE_CHECKING:
    from rich.tree import Tree

    from collectors.model.entities import Link, Wire
    from collectors.model.facts import Neighbour
    from tuner.diagnosis.flow import PriorityFlow
    from tuner.diagnosis.pause_tree import Branch, PauseTree

EXPLAINED = 20
"""Causes that are shown in full, the most urgent; all other findings get a line each."""


def diagnose(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    host: HostOption = "",
    link: LinkOption = "",
    job: JobOption = "",
    jobs: JobsOption = None,
    cables: CablesOption = None,
    answer: Answer = Format.table,
) -> None:
    """Name what is wrong, without advice; also what could not be judged and why.

    Exit codes: 0 nothing above information, 3 findings, 1 error, 2 usage.
    """
    from tuner.advice.document import finding_document
    from tuner.cli import show
    from tuner.diagnosis.registry import RULES

    with reporting():
        window, named = look(tuner, source, since)
        result, chosen = judged(
            RULES, window, host=host, link=link, job=job, jobs=jobs, cables=cables
        )
    if answer is Format.table:
        causes = [finding for finding in chosen if not finding.explained_by][:EXPLAINED]
        for finding in causes:
            show.console().print(show.explanation(finding, ()))
        others = [finding for finding in chosen if finding not in causes]
        if others:
            show.console().print(show.findings_table(others))
        if not chosen:
            show.console().print("nothing found")
        for line in show.cannot_tell(result.verdicts, len(result.verdicts)):
            show.console().print(line)
    else:
        document = {
            "schema": "fabric-tuner/diagnose/1",
            "source": named,
            "findings": [finding_document(finding) for finding in chosen],
            "rules": [
                {"rule": v.rule, "outcome": v.outcome, "missing": list(v.missing)}
                for v in result.verdicts
            ],
        }
        print(as_text(document, answer))
    raise ended(chosen)


def pause_tree(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    answer: Answer = Format.table,
) -> None:
    """Show who stalls whom by PFC, from the roots down to the victims, for each priority.

    Exit codes: 0 nothing is paused, 3 something is, 1 error, 2 usage.
    """
    from tuner.cli import show
    from tuner.diagnosis.flow import pfc_flows
    from tuner.diagnosis.pause_tree import pause_trees
    from tuner.fabric.graph import build_fabric

    with reporting():
        window, _ = look(tuner, source, since)
        fabric = build_fabric(window)
        flows = pfc_flows(window, fabric)
    trees = pause_trees(flows)
    if answer is not Format.table:
        print(as_text({"schema": "fabric-tuner/pause-tree/1", "flows": _plain(flows)}, answer))
    elif not trees:
        print("nothing is paused" if flows else "no PFC counters are known")
    for tree in trees if answer is Format.table else ():
        show.console().print(rich_tree(tree))
    raise typer.Exit(FOUND if trees else 0)


def topology(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    jobs: JobsOption = None,
    cables: CablesOption = None,
    answer: Answer = Format.table,
) -> None:
    """Show cables, which eye saw them, conflicts and holes in what is known, and jobs."""
    from collectors.model.entities import display
    from tuner.cli import show
    from tuner.fabric.graph import build_fabric, resolved
    from tuner.fabric.holes import holes_of
    from tuner.fabric.jobs import jobs_of, read_host_lists

    with reporting():
        window, _ = look(tuner, source, since)
        planned = listed(window, cables)
        fabric = build_fabric(window, planned)
        lists = read_host_lists(jobs) if jobs is not None else None
    seen = seen_by(resolved(window, planned))
    rows = [
        {"a": display(cable.a), "b": display(cable.b), "seen_by": seen.get(cable, "")}
        for cable in sorted(fabric.links(), key=str)
    ]
    loose = [display(port) for port in fabric.ports() if fabric.peer(fabric.attached(port)) is None]
    conflicts = [str(conflict) for conflict in fabric.conflicts]
    holes = holes_of(window, fabric)
    jobs_seen = jobs_of(window, fabric, lists)
    if answer is not Format.table:
        document = {
            "schema": "fabric-tuner/topology/1",
            "links": rows,
            "ports_without_known_cable": loose,
            "conflicts": conflicts,
            "holes": [
                {"kind": hole.kind, "place": display(hole.place), "what": hole.text}
                for hole in holes
            ],
            "jobs": [
                {
                    "job": job.name,
                    "hosts": list(job.hosts),
                    "ports": [display(port) for port in job.ports],
                    "queue_pairs": len(job.queue_pairs),
                    "dscps": list(job.dscps),
                    "known_by": job.how,
                }
                for job in jobs_seen.values()
            ],
        }
        print(as_text(document, answer))
        return
    from rich.table import Table

    table = Table("one end", "other end", "seen by", title=f"{len(rows)} cables", box=None)
    for row in rows:
        table.add_row(*map(show.plain, (row["a"], row["b"], row["seen_by"])))
    show.console().print(table)
    job_lines = [
        f"{job.name}: {len(job.hosts)} hosts, {len(job.ports)} ports, "
        f"{len(job.queue_pairs)} queue pairs, DSCP {', '.join(map(str, job.dscps)) or 'unknown'} "
        f"({job.how})"
        for job in jobs_seen.values()
    ]
    for title, lines in (
        ("conflicts", conflicts),
        ("holes", [str(hole) for hole in holes]),
        ("jobs", job_lines),
    ):
        if lines:
            show.console().print(show.plain("\n  ".join([f"{title}:", *lines])))


def rich_tree(tree: PauseTree) -> Tree:
    """Return the trees of a priority for the terminal."""
    from rich.tree import Tree

    from tuner.cli.show import plain

    def grow(branch: Tree, below: Iterable[Branch]) -> None:
        for one in below:
            grow(branch.add(plain(f"{one.text}  paused {one.share:.1%}")), one.below)

    shown = Tree(f"[bold]priority {tree.priority}")
    for root in tree.roots:
        grow(shown.add(plain(f"{root.text}  score {root.share:.2f}")), root.below)
    for circle in tree.circles:
        shown.add(plain(f"circle: {circle}", style="bold red"))
    return shown


def seen_by(neighbours: Iterable[Neighbour]) -> dict[Link, str]:
    """Return how the ends of each cable are known: `lldp, both ends`, `topology file, one end`."""
    from collectors.model.entities import link

    hows: dict[Link, dict[str, set[Wire]]] = {}
    for claim in neighbours:
        ends = hows.setdefault(link(claim.local, claim.remote), {})
        ends.setdefault(claim.how, set()).add(claim.local)
    return {
        cable: "; ".join(
            f"{how}, {'both ends' if len(by) == 2 else 'one end'}" for how, by in sorted(of.items())
        )
        for cable, of in hows.items()
    }


def _plain(flows: Iterable[PriorityFlow]) -> list[dict[str, Any]]:
    return [
        {
            "priority": flow.priority,
            "stalled": {str(wire): share for wire, share in flow.graph.stalled.items()},
            "roots": [
                {
                    "place": str(root.wire),
                    "kind": root.kind,
                    "score": root.score,
                    "victims": [str(victim) for victim in root.victims],
                }
                for root in flow.graph.roots
            ],
            "edges": [
                {"waiting": str(e.waiting), "behind": str(e.behind), "weight": e.weight}
                for e in flow.graph.edges
            ],
            "cycles": [[str(wire) for wire in cycle] for cycle in flow.graph.cycles],
        }
        for flow in flows
    ]


COMMANDS: tuple[Callable[..., None], ...] = (diagnose, pause_tree, topology)
