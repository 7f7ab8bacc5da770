"""`tuner diagnose`, `pause-tree` and `topology`: what the fabric looks like and suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.options import Answer, Format, Since, Source, TunerAddress, look, reporting
from tuner.cli.suggest import as_text

if TYPE_CHECKING:
    from rich.tree import Tree

    from collectors.model.entities import Entity, Wire
    from tuner.diagnosis.finding import Finding
    from tuner.diagnosis.flow import PriorityFlow
    from tuner.diagnosis.pause_tree import Branch, PauseTree
    from tuner.store.window import Window

FOUND = 3
"""Exit code: there is a finding above information."""

HostOption = Annotated[str, typer.Option("--host", help="only what concerns this host")]
LinkOption = Annotated[
    str, typer.Option("--link", help="only what concerns this end: `leaf1 Ethernet1/1`, `h2 eth0`")
]


def diagnose(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    host: HostOption = "",
    link: LinkOption = "",
    answer: Answer = Format.table,
) -> None:
    """Name what is wrong, without advice; also what could not be judged and why.

    Exit codes: 0 nothing above information, 3 findings, 1 error, 2 usage.
    """
    from tuner.advice.document import finding_document
    from tuner.cli import show
    from tuner.diagnosis.diagnose import diagnose as run_rules
    from tuner.diagnosis.registry import RULES
    from tuner.fabric.graph import build_fabric

    with reporting():
        window, named = look(tuner, source, since)
        result = run_rules(window, build_fabric(window), RULES)
    chosen = [f for f in result.findings if concerns(f, host, link)]
    if answer is Format.table:
        for finding in chosen:
            show.console().print(show.explanation(finding, ()))
        if not chosen:
            show.console().print("nothing found")
        for verdict in result.verdicts:
            if verdict.outcome == "cannot_tell":
                print(f"cannot tell {verdict.rule}: needs {'; '.join(verdict.missing)}")
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
    raise typer.Exit(FOUND if any(f.severity != "info" for f in chosen) else 0)


def pause_tree(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    answer: Answer = Format.table,
) -> None:
    """Show who stalls whom by PFC, from the roots down to the victims, for each priority."""
    from tuner.cli import show
    from tuner.diagnosis.flow import pfc_flows
    from tuner.diagnosis.pause_tree import pause_trees
    from tuner.fabric.graph import build_fabric

    with reporting():
        window, _ = look(tuner, source, since)
        fabric = build_fabric(window)
        flows = pfc_flows(window, fabric)
    if answer is not Format.table:
        print(as_text({"schema": "fabric-tuner/pause-tree/1", "flows": _plain(flows)}, answer))
        return
    if not any(flow.graph.stalled for flow in flows):
        print("nothing is paused" if flows else "no PFC counters are known")
        return
    for tree in pause_trees(flows):
        show.console().print(rich_tree(tree))


def topology(
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    answer: Answer = Format.table,
) -> None:
    """Show cables, which eye saw them, and where sources contradict each other."""
    from collectors.model.entities import display
    from tuner.cli import show
    from tuner.fabric.graph import build_fabric

    with reporting():
        window, _ = look(tuner, source, since)
        fabric = build_fabric(window)
    rows = [
        {"a": display(link.a), "b": display(link.b), "seen_by": seen_by(window, link.a, link.b)}
        for link in sorted(fabric.links(), key=str)
    ]
    loose = [display(port) for port in fabric.ports() if fabric.peer(fabric.attached(port)) is None]
    conflicts = [str(conflict) for conflict in fabric.conflicts]
    if answer is not Format.table:
        document = {
            "schema": "fabric-tuner/topology/1",
            "links": rows,
            "ports_without_known_cable": loose,
            "conflicts": conflicts,
        }
        print(as_text(document, answer))
        return
    from rich.table import Table

    table = Table("one end", "other end", "seen by", title=f"{len(rows)} cables", box=None)
    for row in rows:
        table.add_row(*map(show.plain, (row["a"], row["b"], row["seen_by"])))
    show.console().print(table)
    for title, lines in (("ports without a known cable", loose), ("conflicts", conflicts)):
        if lines:
            print(f"{title}:", *lines, sep="\n  ")


def concerns(finding: Finding, host: str, link: str) -> bool:
    """Tell whether a finding is about, or hurts, a host or an end of a cable."""
    from collectors.model.entities import display, host_of

    places = [finding.subject, *finding.affected]
    if host and not any(host_of(part) == host for place in places for part in _parts(place)):
        return False
    return not link or any(display(part) == link for place in places for part in _parts(place))


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


def seen_by(window: Window, a: Wire, b: Wire) -> str:
    """Return how the ends of a cable are known: `lldp both ends`, `topology file`..."""
    hows = {(n.how, n.local == a) for n in window.neighbours() if {n.local, n.remote} == {a, b}}
    words = []
    for how in sorted({how for how, _ in hows}):
        ends = len({side for known, side in hows if known == how})
        words.append(f"{how}, {'both ends' if ends == 2 else 'one end'}")
    return "; ".join(words)


def _parts(place: Entity) -> list[Entity]:
    from collectors.model.entities import Link, wire_of

    if isinstance(place, Link):
        return [place.a, place.b]
    wire = wire_of(place)
    return [place] if wire is None else [wire]


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
