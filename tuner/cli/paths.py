"""`tuner paths A B`: which way the traffic of two hosts takes, for each queue pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collectors.model.printable import printable
from tuner.cli.concern import CablesOption, fabric_of
from tuner.cli.options import Answer, Format, Since, Source, TunerAddress, fail, look, reporting
from tuner.cli.suggest import as_text

if TYPE_CHECKING:
    from collectors.model.entities import Port
    from collectors.model.facts import QueuePairFact
    from tuner.fabric.graph import Fabric
    from tuner.fabric.routes import Hop, Path
    from tuner.store.window import Window

_MOST_PAIRS = 64
_MOST_NAMES = 6


def paths(
    a: Annotated[str, typer.Argument(help="a host, or one of its ports: `h1`, `h1 mlx5_0`")],
    b: Annotated[str, typer.Argument(help="the other one")],
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    cables: CablesOption = None,
    answer: Answer = Format.table,
) -> None:
    """Show the path of each queue pair from A to B, switch by switch.

    Where a switch's hash fields, seed and algorithm are known, the member is predicted by the
    published function; devices may order bits and members otherwise. Else all candidates are
    shown, and why. Without known queue pairs: the candidates of each rail.
    """
    with reporting():
        window, _ = look(tuner, source, since)
        fabric = fabric_of(window, cables)
    ends = {text: _ports(fabric, text) for text in (a, b)}
    for text, found in ends.items():
        if not found:
            known = ", ".join(list(dict.fromkeys(p.device.host for p in fabric.ports()))[:8])
            fail(f"{printable(text)}: no RDMA port of that name; hosts: {known or 'none'}")
    rows = list(_rows(window, fabric, ends[a], ends[b]))
    if answer is Format.table:
        _show(rows, a, b)
        return
    print(
        as_text({"schema": "fabric-tuner/paths/1", "paths": [_plain(*row) for row in rows]}, answer)
    )


def _ports(fabric: Fabric, text: str) -> list[Port]:
    from collectors.model.entities import display

    ports = [port for port in fabric.ports() if port.device.host == text]
    if ports:
        return ports
    return [
        port
        for port in fabric.ports()
        if text in (display(port), display(port.device), display(fabric.attached(port)))
    ]


def _rows(
    window: Window, fabric: Fabric, begins: list[Port], ends: list[Port]
) -> Iterator[tuple[QueuePairFact | None, Path]]:
    """Yield (queue pair, its path); without queue pairs, the paths of the pairs of ports."""
    from tuner.fabric.routes import Router, flow_of

    router = Router(fabric)
    by_address = {
        gid.gid.lower().removeprefix("::ffff:"): port for port in ends for gid in window.gids(port)
    }
    mine = {(port.device, port.number): port for port in begins}
    count = 0
    for pair in window.queue_pairs():
        begin = mine.get((pair.device, pair.port))
        end = by_address.get(pair.remote_address.lower().removeprefix("::ffff:"))
        if begin is None or end is None:
            continue
        count += 1
        flow = flow_of(pair)
        yield pair, router.path(fabric.attached(begin), fabric.attached(end), flow, window)
    if count:
        return
    names = {port.device.name for port in begins} & {port.device.name for port in ends} - {""}
    for begin in begins:
        for end in ends:
            if names and begin.device.name != end.device.name:
                continue  # rails keep to themselves
            yield None, router.path(fabric.attached(begin), fabric.attached(end), None, window)


def _show(rows: list[tuple[QueuePairFact | None, Path]], a: str, b: str) -> None:
    from rich.table import Table

    from collectors.model.entities import display
    from tuner.cli import show

    rows = [row for row in rows if row[1].hops]
    if not rows:
        print(f"no way from {a} to {b} is known: no cables to switches between them")
        return
    table = Table(title=f"Paths from {a} to {b}", title_justify="left", expand=True)
    table.add_column("queue pair", ratio=1)
    table.add_column("way", ratio=3)
    table.add_column("how", no_wrap=True)
    reasons: dict[str, None] = {}
    for pair, path in rows[:_MOST_PAIRS]:
        who = f"{display(path.begin)} → {display(path.end)}"
        if pair is not None:
            port = "?" if pair.udp_source_port is None else pair.udp_source_port
            who = f"{display(path.begin)} qp {pair.local_qpn} sport {port}"
        table.add_row(
            show.plain(who),
            show.plain("\n".join(_words(hop) for hop in path.hops)),
            "predicted" if any(hop.how == "predicted" for hop in path.hops) and path.whole
            else "only one" if path.whole else "candidates",
        )  # fmt: skip
        reasons |= {f"{_at(hop)}: {hop.why}": None for hop in path.hops if hop.why}
    console = show.console()
    console.print(table)
    if len(rows) > _MOST_PAIRS:
        console.print(f"and {len(rows) - _MOST_PAIRS} more; --format json has all")
    for reason in list(reasons)[:16]:
        console.print(show.plain(reason, style="dim"))


def _at(hop: Hop) -> str:
    from collectors.model.entities import display

    first = display(hop.switches[0])
    return first if len(hop.switches) == 1 else f"one of {len(hop.switches)}, as {first},"


def _words(hop: Hop) -> str:
    names = list(dict.fromkeys(wire.name for wire in hop.out))
    if len(hop.out) == 1:
        return f"{_at(hop)} {names[0]}"
    more = f"... {len(hop.out)} ways in all" if len(hop.out) > _MOST_NAMES else ""
    return f"{_at(hop)} by one of {', '.join(names[:_MOST_NAMES])}{more}"


def _plain(pair: QueuePairFact | None, path: Path) -> dict[str, Any]:
    from collectors.model.entities import display

    return {
        "from": display(path.begin),
        "to": display(path.end),
        "queue_pair": None if pair is None else pair.local_qpn,
        "udp_source_port": None if pair is None else pair.udp_source_port,
        "whole": path.whole,
        "hops": [
            {
                "switches": [display(switch) for switch in hop.switches],
                "out": [display(wire) for wire in hop.out],
                "how": hop.how,
                "why": hop.why,
            }
            for hop in path.hops
        ],
    }


COMMANDS: tuple[Callable[..., None], ...] = (paths,)
