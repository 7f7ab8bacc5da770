"""Receives OTLP metrics over gRPC, where switches push what they do not let others ask for.

An exporter is a switch of the inventory: by the resource attribute `host.name`, which survives
a collector in between, else by the address that it sends from.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as messages
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

from collectors.model.catalogue import switch as metrics
from collectors.model.entities import Switch
from collectors.model.errors import ConfigInvalid, Unavailable
from collectors.model.metric import Column, Metric, Source
from collectors.model.reading import Clock, GapLog, Pass, Reading
from collectors.otlp.decoder import Decoder
from collectors.targets.secret import Secret

NAME: Final = "otlp"
PORT: Final = 4317
_SILENT_ROUNDS: Final = 3
_NAMES: Final = ("host.name", "net.host.name", "service.instance.id")
_CODE = grpc.StatusCode


def _column(row: Metric) -> Column:
    return row.column(Source("derived", row.name))


UP: Final = _column(metrics.TARGET_UP)
AGE: Final = _column(metrics.TARGET_AGE)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files. client_ca: exporters must show a certificate that it signed."""

    cert: str
    key: str
    client_ca: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """token: exporters must send `authorization: Bearer TOKEN`. interval_s: between passes.

    max_message_bytes: of one export, unpacked. max_exporters, max_series: memory is bounded.
    """

    address: str = "0.0.0.0"  # noqa: S104  exporters send from other machines
    port: int = PORT
    tls: ServerTls | None = None
    token: Secret | None = None
    interval_s: float = 10.0
    max_message_bytes: int = 16 << 20
    max_exporters: int = 1024
    max_series: int = 100_000


@dataclass(frozen=True, slots=True)
class Exporter:
    """A switch of the inventory that may push. expected: its silence is a gap."""

    switch: Switch
    address: str
    wants: Callable[[str], bool]
    expected: bool = False


@dataclass
class _Heard:
    decoder: Decoder
    gaps: list[tuple[str, str]] = field(default_factory=list)
    heard_ns: int | None = None


class OtlpReceiver(MetricsServiceServicer):
    """A gRPC server and what came by it. exporters: the inventory; empty takes everybody."""

    name = NAME

    def __init__(
        self, clock: Clock, options: Options | None = None, exporters: tuple[Exporter, ...] = ()
    ) -> None:
        self._clock = clock
        self._options = options or Options()
        self._known = exporters
        self._began_ns = clock().mono_ns
        self._lock = threading.Lock()
        self._heard: dict[Switch, _Heard] = {}
        self._strangers = GapLog(NAME)
        for exporter in exporters:
            if exporter.expected:
                self._state(exporter.switch, exporter.wants)
        self._server = self._serve()

    def _serve(self) -> Any:
        options = self._options
        server = grpc.server(
            ThreadPoolExecutor(2, "otlp"),
            options=[
                ("grpc.max_receive_message_length", options.max_message_bytes),
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 10_000),
            ],
            maximum_concurrent_rpcs=64,
        )
        add_MetricsServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        host = f"[{options.address}]" if ":" in options.address else options.address
        where = f"{host}:{options.port}"
        try:
            if options.tls is None:
                self.port: int = server.add_insecure_port(where)
            else:
                self.port = server.add_secure_port(where, _credentials(options.tls))
        except RuntimeError as error:
            why = "the address cannot be bound; is another receiver there?"
            raise Unavailable(where, "otlp", why) from error
        server.start()
        return server

    def close(self) -> None:
        """Stop listening."""
        self._server.stop(1).wait(5)

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  name of the RPC
        """Take one export; data points that cannot be used are counted in the answer."""
        self._authorize(context)
        received = self._clock()
        refused = 0
        with self._lock:
            for resource in request.resource_metrics:
                state = self._exporter(resource.resource, _peer(context.peer()))
                points = [row for scope in resource.scope_metrics for row in scope.metrics]
                if state is None:
                    refused += sum(_size(metric) for metric in points)
                    continue
                state.heard_ns = received.mono_ns
                refused += sum(state.decoder.take(metric, received) for metric in points)
        answer = messages.ExportMetricsServiceResponse()
        if refused:
            answer.partial_success.rejected_data_points = refused
            answer.partial_success.error_message = "see the gaps of the receiving agent"
        return answer

    def read(self, clock: Clock) -> Pass:
        """Return what has come since the last pass."""
        now = clock()
        gaps = GapLog(NAME)
        readings: list[Reading] = []
        with self._lock:
            for switch, state in self._heard.items():
                for what, reason in state.gaps:
                    gaps.add(switch, what, reason)
                state.gaps.clear()
                readings.extend(state.decoder.readings())
                silent_s = (now.mono_ns - (state.heard_ns or self._began_ns)) / 1e9
                is_up = silent_s < self._options.interval_s * _SILENT_ROUNDS
                if not is_up:
                    gaps.add(switch, "otlp", "silent", f"no export for {silent_s:.0f} s")
                up = int(is_up and state.heard_ns is not None)
                readings.append(Reading(switch, {UP: up, AGE: silent_s}, now))
            strangers, self._strangers = self._strangers, GapLog(NAME)
        return Pass(tuple(readings), (*gaps.gaps(), *strangers.gaps()))

    def _authorize(self, context: Any) -> None:
        token = self._options.token
        if token is None:
            return
        sent = dict(context.invocation_metadata()).get("authorization", "")
        scheme, _, word = sent.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            word.encode(), token.reveal().encode()
        ):
            with self._lock:
                self._strangers.add(_peer(context.peer()), "otlp", "denied")
            context.abort(_CODE.UNAUTHENTICATED, "bearer token needed")

    def _exporter(self, resource: Any, peer: str) -> _Heard | None:
        labels = {pair.key: pair.value.string_value for pair in resource.attributes}
        named = next((labels[key] for key in _NAMES if labels.get(key)), "")
        if not self._known:
            return self._state(Switch(named or peer, named or peer), lambda _: True)
        for row in self._known:
            if named and named in (row.switch.name, row.address):
                return self._state(row.switch, row.wants)
        for row in self._known:
            if row.address == peer:
                return self._state(row.switch, row.wants)
        self._strangers.add(named or peer, "otlp", "unknown exporter", f"from {peer}")
        return None

    def _state(self, switch: Switch, wants: Callable[[str], bool]) -> _Heard | None:
        state = self._heard.get(switch)
        if state is None:
            if len(self._heard) >= self._options.max_exporters:
                self._strangers.add(switch, "otlp", "too many exporters")
                return None
            noted: list[tuple[str, str]] = []

            def note(what: str, reason: str) -> None:
                if len(noted) < self._options.max_series:
                    noted.append((what, reason))

            decoder = Decoder(switch, wants, note, self._options.max_series)
            state = self._heard[switch] = _Heard(decoder, noted)
        return state


def _size(metric: Any) -> int:
    data: Mapping[str, Any] = {"gauge": metric.gauge, "sum": metric.sum}
    kind = metric.WhichOneof("data")
    return len(data[kind].data_points) if kind in data else 0


def _peer(text: str) -> str:
    """Return the address of gRPC's `ipv4:10.0.0.1:4317` or `ipv6:%5B::1%5D:4317`."""
    return unquote(text.partition(":")[2]).rpartition(":")[0].strip("[]")


def _credentials(tls: ServerTls) -> Any:
    def read(path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise ConfigInvalid("$.otlp.tls", f"read {path}", str(error.strerror)) from error

    ca = read(tls.client_ca) if tls.client_ca else None
    return grpc.ssl_server_credentials(
        [(read(tls.key), read(tls.cert))], ca, require_client_auth=ca is not None
    )
