"""The /metrics listener: plain or TLS, open or behind a password.

prometheus-client writes the exposition; it is imported at the first scrape, because hosts that
are only streamed to the tuner never need it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from agent.config import Metrics, MetricsTls, required_secret
from collectors.model.errors import ConfigInvalid, Unavailable

_log: Final = logging.getLogger("agent.listener")

_FOREVER_S: Final = 3600.0

Render = Callable[[str], tuple[bytes, str]]
"""Accept header -> (body, content type)."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 32

    def server_bind(self) -> None:
        """Bind without asking the name service what this host is called; it may not answer."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = (str(self.server_address[0]), self.server_address[1])
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = 30  # a client that says nothing frees its thread

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  name of the base
        _log.debug("%s %s", self.client_address[0], format % args)


class Listener:
    """Serves what `render` returns at /metrics until it is closed.

    Raises Unavailable where the address cannot be bound (port in use), ConfigInvalid for TLS
    files or secrets that cannot be read.
    """

    def __init__(self, config: Metrics, render: Render) -> None:
        self._authorization = _authorization(config)
        self._render = render
        context = _tls(config.tls) if config.tls else None
        server_class = _Server6 if ":" in config.address else _Server
        try:
            self._server = make_server(
                config.address, config.port, self._answer, server_class, _Handler
            )
        except OSError as error:
            raise Unavailable(
                f"metrics listener {config.address}:{config.port}",
                "bind",
                f"{error.strerror or error}; set metrics.port to a free one",
            ) from error
        if context:
            # The handshake is left to each connection's own thread.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = int(self._server.server_address[1])
        # It sleeps until a connection comes: looking for the end twice a second costs more CPU
        # than serving does.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_FOREVER_S,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        path, method = environ.get("PATH_INFO", "/"), environ.get("REQUEST_METHOD", "GET")
        if not self._allowed(environ.get("HTTP_AUTHORIZATION", "")):
            start(
                "401 Unauthorized",
                [("Content-Type", "text/plain"), ("WWW-Authenticate", 'Basic realm="metrics"')],
            )
            return [b"password needed\n"]
        if method not in ("GET", "HEAD"):
            start("405 Method Not Allowed", [("Content-Type", "text/plain"), ("Allow", "GET")])
            return [b"only GET\n"]
        if path == "/":
            start("200 OK", [("Content-Type", "text/plain")])
            return [b"fabric-agent: metrics are at /metrics\n"]
        if path != "/metrics":
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"metrics are at /metrics\n"]
        body, kind = self._render(environ.get("HTTP_ACCEPT", ""))
        start("200 OK", [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    def _allowed(self, header: str) -> bool:
        if not self._authorization:
            return True
        word, _, given = header.partition(" ")
        try:
            known = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            return False
        return word.lower() == "basic" and hmac.compare_digest(known, self._authorization)


def _authorization(config: Metrics) -> bytes:
    auth = config.basic_auth
    if auth is None:
        return b""
    secret = required_secret(auth.password_env, auth.password_file, "$.metrics.basic_auth")
    return f"{auth.user}:{secret.reveal()}".encode()


def _tls(tls: MetricsTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.cert, tls.key)
        if tls.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(tls.client_ca)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(filter(None, (tls.cert, tls.key, tls.client_ca)))
        raise ConfigInvalid("$.metrics.tls", f"load {files}", str(error)) from error
    return context


class Exposed(Protocol):
    """A custom collector of prometheus-client that writes its many readings itself."""

    def collect(self) -> Iterable[Any]:
        """Yield the families that the library writes."""

    def text(self, *, openmetrics: bool) -> bytes:
        """Return the others, written."""


def prometheus_render(build: Callable[[], Exposed]) -> Render:
    """Return the renderer of a custom collector, which `build` makes at the first scrape."""
    lock = threading.Lock()
    made: list[tuple[Exposed, Any]] = []

    def render(accept: str) -> tuple[bytes, str]:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder

        with lock:
            if not made:
                registry = CollectorRegistry(auto_describe=False)
                exposed = build()
                registry.register(exposed)
                ProcessCollector(registry=registry)
                made.append((exposed, registry))
        exposed, registry = made[0]
        encoder, kind = choose_encoder(accept)
        written = exposed.text(openmetrics="openmetrics" in kind)
        return written + encoder(registry), kind  # OpenMetrics ends with what the library writes

    return render
