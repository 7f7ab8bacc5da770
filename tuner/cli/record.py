"""`tuner record`: save a span of what a tuner holds as a folder, to replay and to send away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import TunerAddress, fail, new_folder, reporting
from tuner.cli.tls import CaFile, CertFile, KeyFile, tls_of


def record(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="new folder to write")],
    tuner: TunerAddress = "",
    since: Annotated[str, typer.Option(metavar="SPAN", help="how far to look back")] = "10m",
    agent: Annotated[list[str] | None, typer.Option(help="only this agent; repeatable")] = None,
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="stable pseudonyms for names, addresses, GUIDs")
    ] = False,
    ca: CaFile = "",
    cert: CertFile = "",
    key: KeyFile = "",
) -> None:
    """Record from a running tuner; replay with `tuner suggest --source dir=DIR`."""
    import time

    from collectors.wire import telemetry_pb2 as pb
    from collectors.wire.pseudonyms import Pseudonyms
    from collectors.wire.recording import RecordingWriter
    from tuner.cli.progress import counting
    from tuner.store.sources import DEFAULT_TUNER, fetch, parse_span

    with reporting():
        new_folder(out, "--out")
        since_ns = time.time_ns() - parse_span(since)
        items = fetch(
            tuner or DEFAULT_TUNER, pb.Span(since_ns=since_ns, agents=agent or []),
            tls_of(ca, cert, key),
        )  # fmt: skip
        first = next(items, None)  # an unreachable tuner leaves no folder behind
        if first is None:
            of = f" of {', '.join(agent)}" if agent else ""
            fail(f"nothing{of} in the last {since}: nothing recorded")
        writer = RecordingWriter(out, Pseudonyms() if anonymise else None)
        with counting("recording") as count:
            writer.append(first)
            for number, item in enumerate(items, 2):
                writer.append(item)
                count(number)
        writer.close()
        print(f"{out}: {writer.items} items recorded{', anonymised' if anonymise else ''}")


COMMANDS = (record,)
