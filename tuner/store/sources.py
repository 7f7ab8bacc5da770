"""Where a window comes from: a folder of segments, or a tuner that is running.

One function for every command, so that a recording answers exactly as the live fabric did.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectors.model.errors import ConfigInvalid, Denied, FabricError, Malformed, Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import key_of
from collectors.wire.segment import read_segment, segments
from tuner.store.memory import MemoryStore
from tuner.store.window import Window

if TYPE_CHECKING:
    import grpc

DEFAULT_TUNER: Final = "127.0.0.1:9837"
DEFAULT_SPAN_S: Final = 300.0
_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_GRACE_NS: Final = 60 * 10**9  # agents' clocks may be ahead of ours


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for TLS to a tuner; cert and key where it asks for a client certificate."""

    ca: Path
    cert: Path | None = None
    key: Path | None = None


def parse_span(text: str) -> float:
    """Return the seconds of `90`, `90s`, `10m`, `2h`, `1d`. Raises ConfigInvalid."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if not found or not float(found[1]):
        raise ConfigInvalid("--since", "read", f"{text!r} is no span of time like 90s, 10m, 2h")
    return float(found[1]) * _SECONDS[found[2]]


def open_window(source: str, tuner: str, since: str, tls: Tls | None = None) -> tuple[Window, str]:
    """Return the window of a source and the source's name.

    source: `dir=PATH`, or '' for the tuner at `tuner` (host:port). since: span before the newest
    data of a folder, before now of a tuner; '' means all of a folder, five minutes of a tuner.
    Raises FabricError.
    """
    if source and tuner:
        raise ConfigInvalid("--source", "read", "give one of --source and --tuner")
    if not source:
        address = tuner or DEFAULT_TUNER
        span = parse_span(since) if since else DEFAULT_SPAN_S
        now = time.time_ns()
        store = load(fetch(address, now - int(span * 1e9), 0, tls))
        return store.window(now - int(span * 1e9), now + _GRACE_NS), f"tuner={address}"
    kind, _, place = source.partition("=")
    if kind != "dir" or not place:
        raise ConfigInvalid("--source", "read", f"{source!r} is not dir=PATH")
    store = load(read_folder(Path(place)))
    if not store.newest_ns:
        raise Unavailable(place, "read recording", "it holds no readings")
    begin = store.newest_ns - int(parse_span(since) * 1e9) if since else 0
    return store.window(begin, store.newest_ns + 1), source


def load(items: Iterable[pb.Item]) -> MemoryStore:
    """Return a store of items; a batch or facts that come twice count once. Raises Malformed."""
    store = MemoryStore()
    seen: set[tuple[str, str, int]] = set()
    for item in items:
        key = key_of(item)
        if key is not None:
            mark = (key.agent, key.epoch, key.seq)
            if mark in seen:
                continue
            seen.add(mark)
        store.add(item)
    return store


def read_folder(folder: Path) -> Iterator[pb.Item]:
    """Yield the items of a recording, store or spool, oldest first. Raises FabricError."""
    if not folder.is_dir():
        raise Unavailable(str(folder), "read recording", "there is no such folder")
    found = segments(folder)
    if not found:
        raise Malformed(str(folder), "read recording", "no segment (*.ftseg) is in this folder")
    for path in found:
        yield from read_segment(path)


def fetch(address: str, since_ns: int, until_ns: int, tls: Tls | None = None) -> Iterator[pb.Item]:
    """Yield what a running tuner holds of a span. Raises Unavailable or Denied."""
    import grpc

    from collectors.wire.telemetry_pb2_grpc import TelemetryStub

    with channel(address, tls) as opened:
        try:
            answer = TelemetryStub(opened).Fetch(
                pb.Span(since_ns=since_ns, until_ns=until_ns), timeout=120
            )
            yield from answer
        except grpc.RpcError as error:
            raise unreachable(address, error) from error


def channel(address: str, tls: Tls | None) -> grpc.Channel:
    """Return a channel to a tuner. Raises Unavailable where a TLS file cannot be read."""
    import grpc

    options = [("grpc.max_receive_message_length", 64 << 20)]
    if tls is None:
        return grpc.insecure_channel(address, options)
    try:
        ca, cert, key = (
            path.read_bytes() if path else None for path in (tls.ca, tls.cert, tls.key)
        )
    except OSError as error:
        raise Unavailable(str(error.filename), "read", error.strerror or str(error)) from error
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert), options)


def unreachable(address: str, error: Exception) -> FabricError:
    """Return our error for a failed call to a tuner."""
    import grpc

    code = getattr(error, "code", lambda: None)()
    details = getattr(error, "details", lambda: "")() or str(code)
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
        return Denied(f"tuner {address}", "ask", details)
    if code is grpc.StatusCode.UNAVAILABLE:
        details = "nothing answers there (is `tuner serve` running, is the address right?)"
    return Unavailable(f"tuner {address}", "ask", details)
