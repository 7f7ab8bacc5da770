"""`tuner serve`: gRPC server, store, metrics and systemd put together; a clean stop on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import grpc

from collectors.model.errors import ConfigInvalid, FabricError, Unavailable
from collectors.wire.telemetry_pb2_grpc import add_TelemetryServicer_to_server
from tuner.server.config import Config, Tls
from tuner.server.ingest import Committer
from tuner.server.metrics import Meter
from tuner.server.notify import notify, watchdog_seconds
from tuner.server.service import Telemetry
from tuner.store.store import Store

LOG: Final = logging.getLogger("tuner")
_HOUSEKEEPING_S: Final = 5.0
_PORT_MAX: Final = 65535
_GRACE_S: Final = 5.0
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # else a second tuner would silently share the port
    ("grpc.max_receive_message_length", 64 << 20),  # facts of ten thousands of queue pairs
    ("grpc.keepalive_time_ms", 20_000),  # finds agents that died without a word
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)


def run(config: Config, software: str) -> None:
    """Serve until SIGTERM or SIGINT. Raises FabricError where it cannot start."""
    logging.basicConfig(
        stream=sys.stderr,
        level=config.log_level.upper(),
        format="%(levelname)s %(name)s: %(message)s",
    )
    asyncio.run(serve(config, software))


async def serve(config: Config, software: str) -> None:
    """Serve until SIGTERM or SIGINT. Raises FabricError where it cannot start."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    gc.disable()  # the window that is read back is millions of objects, and none is garbage
    store = Store(Path(config.data), config.disk, config.memory, time.time_ns)
    gc.freeze()
    gc.enable()
    try:
        await _serve(config, store, software, stop)
    finally:
        store.close()


async def _serve(config: Config, store: Store, software: str, stop: asyncio.Event) -> None:
    meter = Meter(
        store,
        time.time_ns,
        lambda: service.connected,
        lambda: committer.trouble,
        lambda: service.over_limit,
    )
    committer = Committer(store, meter.committed)
    service = Telemetry(store, committer, time.time_ns, software, config.limits)
    server = grpc.aio.server(options=_OPTIONS)
    add_TelemetryServicer_to_server(service, server)
    port = _listen(server, config.listen, config.tls)
    with _metrics(config, meter):
        await server.start()
        host = config.listen.rpartition(":")[0]
        how = "with TLS" if config.tls else "in clear"
        LOG.info("listening on %s:%d %s, store in %s", host, port, how, config.data)
        committing = asyncio.create_task(committer.run())
        housekeeping = asyncio.create_task(_keep_house(store, committer, service))
        notify(f"READY=1\nSTATUS=listening on {host}:{port}")
        await asyncio.wait(
            [committing, housekeeping, waiting := asyncio.create_task(stop.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        notify("STOPPING=1")
        LOG.info("stopping")
        waiting.cancel()
        service.stop()
        await server.stop(_GRACE_S)
        committer.stop()
        housekeeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await housekeeping
        await committing


async def _keep_house(store: Store, committer: Committer, service: Telemetry) -> None:
    """Forget what is too old, and tell systemd that the loop turns."""
    limit = watchdog_seconds()
    pause = min(_HOUSEKEEPING_S, limit / 3) if limit else _HOUSEKEEPING_S
    due = 0.0
    while True:
        notify(f"WATCHDOG=1\nSTATUS={len(service.connected)} agents connected")
        if time.monotonic() >= due:
            due = time.monotonic() + _HOUSEKEEPING_S
            newest_ns = min(time.time_ns(), store.memory.newest_ns)
            store.memory.evict(newest_ns - store.limits.age_ns)
            try:
                await committer.in_thread(store.expire)
            except FabricError as error:
                LOG.warning("%s", error)
        await asyncio.sleep(pause)


def _listen(server: grpc.aio.Server, address: str, tls: Tls | None) -> int:
    host, _, port = address.rpartition(":")
    if not host or not re.fullmatch(r"\d{1,5}", port) or int(port) > _PORT_MAX:
        raise ConfigInvalid(address, "listen", "must be HOST:PORT")
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, _credentials(tls))
    except RuntimeError as error:
        raise Unavailable(
            address, "listen", "the port is in use or the address is not this host's"
        ) from error


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    def read(path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise ConfigInvalid(path, "read TLS file", error.strerror or str(error)) from error

    authority = read(tls.client_ca) if tls.client_ca else None
    return grpc.ssl_server_credentials(
        [(read(tls.key), read(tls.cert))], authority, require_client_auth=authority is not None
    )


@contextlib.contextmanager
def _metrics(config: Config, meter: Meter) -> Any:
    if config.metrics is None:
        yield
        return
    from prometheus_client import start_http_server

    address, port = config.metrics.address, config.metrics.port
    try:
        listener, _ = start_http_server(port, address, meter.registry)
    except OSError as error:
        raise Unavailable(
            f"{address}:{port}", "serve metrics", error.strerror or str(error)
        ) from error
    LOG.info("metrics on %s:%d", address, listener.server_port)
    try:
        yield
    finally:
        listener.shutdown()
        listener.server_close()
