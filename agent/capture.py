"""`fabric-agent capture FILE`: what a capture says of RoCE traffic. Heavy imports inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agent.terminal import console, fail, plain

if TYPE_CHECKING:
    from collectors.capture.flows import Flow, FlowTable


def show(
    file: Annotated[Path, typer.Argument(help="pcap or pcapng; ERSPAN is unwrapped.")],
    top: Annotated[int, typer.Option(help="Flows to show, the largest first.")] = 20,
    icrc: Annotated[int, typer.Option(help="Check the ICRC of so many packets.")] = 1000,
    form: Annotated[
        Literal["table", "json"], typer.Option("--format", help="How to print it.")
    ] = "table",
) -> None:
    """Show the flows of a capture: marks, CNPs, NAKs and retransmissions by queue pair.

    Exit 1 where the file cannot be read or has no RoCEv2 packet.
    """
    from collectors.capture.flows import FlowTable
    from collectors.capture.pcap import read_frames
    from collectors.capture.roce import decode, icrc_errors
    from collectors.model.errors import FabricError

    table = FlowTable()
    frames_seen = wrong = checked = 0
    try:
        for frames in read_frames(file):
            packets = decode(frames)
            table.add(packets)
            frames_seen += len(frames)
            if checked < icrc:
                bad, done = icrc_errors(frames, packets, icrc - checked)
                wrong, checked = wrong + bad, checked + done
            typer.echo(f"\r{frames_seen} frames", nl=False, err=True)
    except FabricError as error:
        raise fail(error) from error
    typer.echo("", err=True)
    if form == "json":
        import msgspec

        content = {
            "frames": frames_seen,
            "roce_packets": table.packets,
            "icrc_checked": checked,
            "icrc_wrong": wrong,
            "flows": table.flows()[:top],
        }
        print(msgspec.json.encode(content).decode())
    else:
        _print(table, frames_seen, wrong, checked, top)
    if not table.packets:
        raise typer.Exit(1)


def _print(table: FlowTable, frames: int, wrong: int, checked: int, top: int) -> None:
    from rich.table import Table

    flows = table.flows()
    out = console()
    out.print(
        f"{frames} frames, {table.packets} RoCEv2 packets, {len(flows)} flows; "
        f"ICRC wrong in {wrong} of {checked} checked"
    )
    names = ("from", "to", "port", "QP", "packets", "MB", "CE", "CNP", "NAK", "RNR", "resent")
    shown = Table(*names)
    for column in shown.columns[2:]:
        column.justify = "right"
    for flow in flows[:top]:
        shown.add_row(*map(plain, _row(flow)))
    out.print(shown)


def _row(flow: Flow) -> tuple[str, ...]:
    return (
        flow.source,
        flow.destination,
        str(flow.source_port),
        f"{flow.destination_qp:#x}",
        str(flow.packets),
        f"{flow.bytes / 1e6:.1f}",
        f"{flow.ce_ratio:.1%}",
        str(flow.cnp),
        str(flow.nak),
        str(flow.rnr),
        str(flow.resent),
    )
