"""Where a window comes from: a recording or store folder, a running tuner, or a time series
database. All make the same `Window`, and no command needs to know.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectors.model.errors import ConfigInvalid, Denied, FabricError, Malformed, Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.segment import SUFFIX, segments
from tuner.store.fill import Progress, Refused, fill, fill_from_segments
from tuner.store.memory import FOREVER_NS, MemoryStore

if TYPE_CHECKING:
    import grpc

    from collectors.wire.telemetry_pb2_grpc import TelemetryStub
    from tuner.store.window import Window

LOG: Final = logging.getLogger(__name__)
DEFAULT_TUNER: Final = "127.0.0.1:9837"
DEFAULT_SPAN_NS: Final = 300 * 10**9
_UNITS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_KINDS: Final = "dir=PATH or prometheus=URL"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a TLS client: authority to trust; own certificate and key where asked for one."""

    ca: str
    cert: str = ""
    key: str = ""


def open_window(
    source: str = "",
    tuner: str = "",
    since: str = "",
    *,
    tls: Tls | None = None,
    progress: Progress | None = None,
) -> tuple[Window, str]:
    """Return a window and the name of where it came from.

    source: `dir=PATH`, `prometheus=URL`, or '' to ask the tuner at `tuner` (host:port, '' for
    this host's). since: how far to look back, as `90s` or `10m`; '' is all of a folder, five
    minutes of a tuner or database. In X
    """
    span_ns = parse_span(since) if since else None
    if source:
        kind, _, rest = source.partition("=")
        if kind == "prometheus" and rest:
            return _read_database(rest, span_ns or DEFAULT_SPAN_NS, progress), source
        if kind != "dir" or not rest:
            raise ConfigInvalid(source, "--source", f"must be {_KINDS}")
        store = _read_folder(Path(rest), progress)
        until_ns = store.newest_ns
        since_ns = 0 if span_ns is None else until_ns - span_ns
        return store.window(max(since_ns, 0), until_ns), source
    target = tuner or DEFAULT_TUNER
    until_ns = time.time_ns()
    since_ns = until_ns - (span_ns or DEFAULT_SPAN_NS)
    items = fetch(target, pb.Span(since_ns=max(since_ns, 0)), tls)
    store = _memory(items, progress)
    # An agent whose clock is ahead is not to be missed.
    return store.window(max(since_ns, 0), FOREVER_NS, until_ns), f"tuner={target}"


def parse_span(text: str) -> int:
    """Return a span like `90s`, `10m`, `1.5h` in nanoseconds. Raises ConfigInvalid."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if match is None or not float(match[1]):
        raise ConfigInvalid(text, "span of time", "must be a number with ms, s, m, h or d: 10m")
    return round(float(match[1]) * _UNITS[match[2]])


def fetch(target: str, span: pb.Span, tls: Tls | None = None) -> Iterator[pb.Item]:
    """Yield what a running tuner holds of a span. Raises Unavailable, Denied, ConfigInvalid."""
    with _asking(target, tls, "fetch") as stub:
        yield from stub.Fetch(span)


def fetch_status(target: str, tls: Tls | None = None) -> pb.StatusReply:
    """Return what a running tuner knows of its agents. Raises as `fetch`."""
    with _asking(target, tls, "status") as stub:
        reply: pb.StatusReply = stub.Status(pb.StatusRequest(), timeout=20)
        return reply


@contextmanager
def _asking(target: str, tls: Tls | None, what: str) -> Iterator[TelemetryStub]:
    """Open a channel; turn gRPC's errors into ours."""
    import grpc

    from collectors.wire.telemetry_pb2_grpc import TelemetryStub

    if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\s]+):\d{1,5}", target):
        raise ConfigInvalid(target, "--tuner", "must be HOST:PORT")
    # A proxy for the web is none for the tuner.
    options = (("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0))
    with (
        grpc.secure_channel(target, _credentials(tls), options=options)
        if tls
        else grpc.insecure_channel(target, options=options)
    ) as channel:
        try:
            yield TelemetryStub(channel)
        except grpc.RpcError as error:
            raise _translate(error, target, what) from error


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    import grpc

    def read(path: str) -> bytes | None:
        try:
            return Path(path).read_bytes() if path else None
        except OSError as error:
            raise ConfigInvalid(path, "read TLS file", error.strerror or str(error)) from error

    return grpc.ssl_channel_credentials(read(tls.ca), read(tls.key), read(tls.cert))


def _translate(error: grpc.RpcError, target: str, what: str) -> FabricError:
    import grpc

    code, details = error.code(), (error.details() or "").splitlines()
    text = details[0] if details else str(code)
    if code is grpc.StatusCode.UNAVAILABLE:
        reason = text.rsplit(": ", 1)[-1]  # gRPC names each layer on the way down
        why = f"cannot be reached ({reason}); is `tuner serve` running there?"
        return Unavailable(f"tuner {target}", what, why)
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
        return Denied(f"tuner {target}", what, text)
    return Unavailable(f"tuner {target}", what, f"{code.name}: {text}")


def _read_database(url: str, span_ns: int, progress: Progress | None) -> Window:
    from tuner.store.prometheus import fetch_items

    until_ns = time.time_ns() // 10**6 * 10**6  # a database counts milliseconds
    since_ns = until_ns - span_ns
    store = _memory(fetch_items(url, since_ns, until_ns), progress)
    return store.window(since_ns, until_ns)


def _read_folder(folder: Path, progress: Progress | None) -> MemoryStore:
    paths = segments(folder)
    if not paths:
        why = f"no recording here (no *{SUFFIX})" if folder.is_dir() else "there is no such folder"
        raise ConfigInvalid(f"dir={folder}", "--source", why)
    store = MemoryStore()
    with _refusals() as refused:
        fill_from_segments(store, paths, refused, progress=progress)
    if not store.agents:
        raise Malformed(f"dir={folder}", "replay", "nothing in it can be read")
    return store


def _memory(items: Iterator[pb.Item], progress: Progress | None) -> MemoryStore:
    store = MemoryStore()
    with _refusals() as refused:
        fill(store, items, refused, progress=progress)
    return store


@contextmanager
def _refusals() -> Iterator[Refused]:
    """Give what takes refused items; tell of them at the end, once for each sender and kind."""
    refused: dict[str, list[Malformed]] = {}
    yield lambda error: refused.setdefault(error.subject.partition("/")[0], []).append(error)
    for errors in refused.values():
        more = f", and {len(errors) - 1} more like it" if len(errors) > 1 else ""
        LOG.warning("%s; left out%s", errors[0], more)
