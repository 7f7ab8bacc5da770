"""What receivers of pushed telemetry share: a gRPC server, who may push, who has fallen silent.

An exporter is a switch of the inventory: by the name that it gives, which survives a collector in
between, else by the address that it sends from.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import unquote

import grpc

from collectors.model.entities import Switch
from collectors.model.errors import Unavailable
from collectors.model.reading import Clock, GapLog, Pass, Reading
from collectors.targets.fleet import AGE, UP
from collectors.targets.secret import Secret
from collectors.targets.tls import read_pem

_SILENT_ROUNDS: Final = 3
_CODE = grpc.StatusCode
D = TypeVar("D")
Wants = Callable[[str], bool]
Note = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files. client_ca: exporters must show a certificate that it signed."""

    cert: str
    key: str
    client_ca: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """token: exporters must send `authorization: Bearer TOKEN`. interval_s: between passes.

    max_message_bytes: of one message, unpacked. streams: at the same time. max_exporters,
    max_series: memory is bounded.
    """

    address: str = "0.0.0.0"  # noqa: S104  exporters send from other machines
    port: int = 0
    tls: ServerTls | None = None
    token: Secret | None = None
    interval_s: float = 10.0
    max_message_bytes: int = 16 << 20
    streams: int = 512
    max_exporters: int = 1024
    max_series: int = 100_000


@dataclass(frozen=True, slots=True)
class Exporter:
    """A switch of the inventory that may push. expected: its silence is a gap."""

    switch: Switch
    address: str
    wants: Wants
    platform: str = "other"
    expected: bool = False


@dataclass
class Heard(Generic[D]):
    """An exporter that was heard or is expected: its decoder, and gaps until the next pass."""

    decoder: D
    gaps: list[tuple[str, str]] = field(default_factory=list)
    heard_ns: int | None = None


class Exporters(Generic[D]):
    """Who pushes here. known: the inventory; empty takes everybody. Take `lock` around it all.

    make: returns the decoder of an exporter, which notes its gaps by the function given.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        options: Options,
        known: tuple[Exporter, ...],
        make: Callable[[Exporter, Note], D],
    ) -> None:
        self._name = name
        self._options = options
        self._known = known
        self._make = make
        self._began_ns = clock().mono_ns
        self._heard: dict[Switch, Heard[D]] = {}
        self._strangers = GapLog(name)
        self.lock = threading.Lock()
        for exporter in known:
            if exporter.expected:
                self._state(exporter)

    def find(self, named: str, peer: str) -> Heard[D] | None:
        """Return the exporter of this name or address; None, and a gap, for a stranger."""
        if not self._known:
            who = named or peer
            return self._state(Exporter(Switch(who, who), peer, lambda _: True))
        for row in self._known:
            if named and named in (row.switch.name, row.address):
                return self._state(row)
        for row in self._known:
            if row.address == peer:
                return self._state(row)
        self._strangers.add(named or peer, self._name, "unknown exporter", f"from {peer}")
        return None

    def _state(self, exporter: Exporter) -> Heard[D] | None:
        state = self._heard.get(exporter.switch)
        if state is None:
            if len(self._heard) >= self._options.max_exporters:
                self._strangers.add(exporter.switch, self._name, "too many exporters")
                return None
            noted: list[tuple[str, str]] = []

            def note(what: str, reason: str) -> None:
                if len(noted) < self._options.max_series:
                    noted.append((what, reason))

            state = self._heard[exporter.switch] = Heard(self._make(exporter, note), noted)
        return state

    def collect(self, clock: Clock, readings_of: Callable[[D], Iterable[Reading]]) -> Pass:
        """Return what has come since the last pass."""
        now = clock()
        gaps = GapLog(self._name)
        readings: list[Reading] = []
        with self.lock:
            for switch, state in self._heard.items():
                for what, reason in state.gaps:
                    gaps.add(switch, what, reason)
                state.gaps.clear()
                readings.extend(readings_of(state.decoder))
                silent_s = (now.mono_ns - (state.heard_ns or self._began_ns)) / 1e9
                is_up = silent_s < self._options.interval_s * _SILENT_ROUNDS
                if not is_up:
                    gaps.add(switch, self._name, "silent", f"nothing for {silent_s:.0f} s")
                up = int(is_up and state.heard_ns is not None)
                readings.append(Reading(switch, {UP: up, AGE: silent_s}, now))
            strangers, self._strangers = self._strangers, GapLog(self._name)
        return Pass(tuple(readings), (*gaps.gaps(), *strangers.gaps()))

    def authorize(self, context: Any) -> None:
        """End the call of an exporter that does not bring the token."""
        token = self._options.token
        if token is None:
            return
        sent = dict(context.invocation_metadata()).get("authorization", "")
        scheme, _, word = sent.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            word.encode(), token.reveal().encode()
        ):
            with self.lock:
                self._strangers.add(peer_of(context), self._name, "denied")
            context.abort(_CODE.UNAUTHENTICATED, "bearer token needed")


def open_server(options: Options, what: str) -> tuple[Any, int]:
    """Return a gRPC server that does not run yet, and the port that it is bound to.

    Raises Unavailable where the address cannot be bound, ConfigInvalid for TLS files.
    """
    server = grpc.server(
        ThreadPoolExecutor(options.streams, what),
        options=[
            ("grpc.max_receive_message_length", options.max_message_bytes),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 10_000),
        ],
        maximum_concurrent_rpcs=options.streams,
    )
    host = f"[{options.address}]" if ":" in options.address else options.address
    where = f"{host}:{options.port}"
    try:
        if options.tls is None:
            return server, int(server.add_insecure_port(where))
        return server, int(server.add_secure_port(where, _credentials(options.tls, what)))
    except RuntimeError as error:
        why = "the address cannot be bound; is another receiver there?"
        raise Unavailable(where, what, why) from error


def peer_of(context: Any) -> str:
    """Return the address of gRPC's `ipv4:10.0.0.1:4317` or `ipv6:%5B::1%5D:4317`."""
    return unquote(context.peer().partition(":")[2]).rpartition(":")[0].strip("[]")


def _credentials(tls: ServerTls, what: str) -> Any:
    where = f"$.{what}.tls"
    ca = read_pem(tls.client_ca, where) if tls.client_ca else None
    pair = read_pem(tls.key, where), read_pem(tls.cert, where)
    return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)
