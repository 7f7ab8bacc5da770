"""`tuner status`: who sends, how much, how old."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.options import Answer, Format, TunerAddress, reporting
from tuner.cli.tls import CaFile, CertFile, KeyFile, tls_of

if TYPE_CHECKING:
    from rich.table import Table

    from collectors.wire import telemetry_pb2 as pb

SCHEMA = "fabric-tuner/status/1"


def status(
    tuner: TunerAddress = "",
    answer: Answer = Format.table,
    ca: CaFile = "",
    cert: CertFile = "",
    key: KeyFile = "",
    stale: Annotated[float, typer.Option(help="seconds after which data counts as old")] = 60.0,
) -> None:
    """Show every agent that the tuner knows: connected, ports, age of data, what was lost."""
    from tuner.store.sources import DEFAULT_TUNER, fetch_status

    with reporting():
        reply = fetch_status(tuner or DEFAULT_TUNER, tls_of(ca, cert, key))
    if answer is Format.table:
        from tuner.cli import show

        show.console().print(_table(reply, stale))
        if reply.trouble:
            show.console().print(show.plain(f"cannot store: {reply.trouble}", style="bold red"))
        return
    document = status_document(reply)
    if answer is Format.yaml:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False), end="")
    else:
        print(json.dumps(document, indent=2))


def status_document(reply: pb.StatusReply) -> dict[str, Any]:
    """Return the status as plain data. Ages are null where nothing came yet."""
    return {
        "schema": SCHEMA,
        "now_ns": reply.now_ns,
        "tuner": reply.software,
        "trouble": reply.trouble,
        "agents": [
            {
                "agent": agent.agent,
                "connected": agent.connected,
                "software": agent.software,
                "ports": agent.ports,
                "age_seconds": _age(reply, agent),
                "epoch": agent.epoch,
                "acknowledged": agent.acknowledged,
                "batches": agent.batches,
                "values": agent.values,
                "duplicates": agent.duplicates,
                "missing": agent.missing,
            }
            for agent in reply.agents
        ],
    }


def _age(reply: pb.StatusReply, agent: pb.AgentStatus) -> float | None:
    if not agent.last_batch_at_ns:
        return None
    return max(reply.now_ns - agent.last_batch_at_ns, 0) / 1e9


def _table(reply: pb.StatusReply, stale: float) -> Table:
    from rich.table import Table

    from tuner.cli.show import plain

    table = Table(
        title=plain(f"{len(reply.agents)} agents, {reply.software}"), title_justify="left"
    )
    for name in ("agent", "connected", "ports", "age s", "batches", "values", "again", "missing"):
        table.add_column(name, justify="left" if name in ("agent", "connected") else "right")
    for agent in reply.agents:
        age = _age(reply, agent)
        old = age is None or age > stale
        text = "-" if age is None else f"{age:.1f}"
        table.add_row(
            plain(agent.agent),
            "yes" if agent.connected else "[red]no",
            str(agent.ports),
            f"[yellow]{text}" if old else text,
            str(agent.batches),
            str(agent.values),
            str(agent.duplicates),
            f"[red]{agent.missing}" if agent.missing else "0",
        )
    return table


COMMANDS = (status,)
