"""`tuner serve`: receive what agents send, keep it, hand it out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import made_by, reporting


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", help="YAML file; other options override it")
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="address for agents; default 0.0.0.0:9837")
    ] = "",
    data: Annotated[
        str, typer.Option(metavar="DIR", help="folder of the store; default /var/lib/fabric-tuner")
    ] = "",
    retention: Annotated[
        str, typer.Option(metavar="SPAN", help="how long data stays on disk; default 24h")
    ] = "",
    metrics: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="address of own /metrics, or `off`; default :9838"),
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="check the configuration and end")] = False,
) -> None:
    """Receive telemetry from agents until SIGTERM. Restarts lose nothing that was acknowledged."""
    import msgspec

    from collectors.model.errors import ConfigInvalid
    from tuner.server.config import Kept, Metrics, read_config

    with reporting():
        chosen = read_config(config)
        if listen:
            chosen = msgspec.structs.replace(chosen, listen=listen)
        if data:
            chosen = msgspec.structs.replace(chosen, data=data)
        if retention:
            kept = Kept(retention, chosen.retention.max_bytes)
            chosen = msgspec.structs.replace(chosen, retention=kept)
        if metrics:
            host, _, port = metrics.rpartition(":")
            if metrics != "off" and not (port.isdigit() and int(port) < 65536):
                raise ConfigInvalid(metrics, "--metrics", "must be HOST:PORT or `off`")
            own = None if metrics == "off" else Metrics(host or "0.0.0.0", int(port))  # noqa: S104
            chosen = msgspec.structs.replace(chosen, metrics=own)
        _ = chosen.disk, chosen.memory  # wrong spans are usage errors, before anything starts
        if check:
            print(f"{config or 'defaults'}: ok, listen on {chosen.listen}, store in {chosen.data}")
            return
        from tuner.server.run import run

        run(chosen, made_by())


COMMANDS = (serve,)
