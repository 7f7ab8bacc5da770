"""One HTTP request to a switch's management interface, read-only by intent.

No redirect is followed, because credentials would follow it. The deadline is of the whole
exchange, not of each packet; an answer over the size limit is refused.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Final

from collectors.model.errors import ConfigInvalid, Denied, Malformed, NotSupported, Unavailable
from collectors.targets.secret import Secret
from collectors.targets.tls import Tls

_CHUNK: Final = 1 << 16
_DENIED: Final = {401, 403}
_NOT_THERE: Final = {404, 405, 501}


@dataclass(frozen=True, slots=True)
class Dial:
    """Where and how to ask. tls None is plain HTTP. timeout_s: of the whole exchange."""

    name: str
    address: str
    port: int
    tls: Tls | None
    user: str = ""
    password: Secret | None = None
    timeout_s: float = 20.0
    max_bytes: int = 32 << 20


def fetch_text(
    dial: Dial, method: str, path: str, *, body: bytes | None = None, accept: str, sends: str = ""
) -> str:
    """Return the text of an answer with status 200.

    sends: content type of the body. Raises Unavailable, Denied, NotSupported, Malformed,
    ConfigInvalid, each with the name of the target and no secret.
    """
    until = time.monotonic() + dial.timeout_s
    what = f"{method} {path.partition('?')[0]}"
    connection = _connect(dial)
    headers = {"Accept": accept, "Accept-Encoding": "identity"}
    if sends:
        headers["Content-Type"] = sends
    cut = threading.Timer(dial.timeout_s, _cut)
    cut.daemon = True
    try:
        connection.connect()  # apart from the request, whose frames hold the password
        cut.args = (connection.sock,)
        cut.start()
        connection.request(method, path, body, headers | _login(dial))
        answer = connection.getresponse()
        if answer.status != 200:
            raise _refused(dial, what, answer.status, answer.reason)
        return _body(dial, what, answer, until)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise Unavailable(dial.name, what, f"TLS: {why}") from error
    except (TimeoutError, OSError) as error:
        slow = isinstance(error, TimeoutError) or time.monotonic() >= until
        why = f"no whole answer in {dial.timeout_s:g} s" if slow else error.strerror or str(error)
        raise Unavailable(dial.name, what, why) from error
    except http.client.HTTPException as error:
        if time.monotonic() >= until:
            why = f"no whole answer in {dial.timeout_s:g} s"
            raise Unavailable(dial.name, what, why) from error
        raise Malformed(dial.name, what, f"not HTTP: {type(error).__name__}") from error
    finally:
        cut.cancel()
        connection.close()


def _cut(connected: socket.socket) -> None:
    """End both directions; whoever reads or writes there, for however long, is done at once."""
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _connect(dial: Dial) -> http.client.HTTPConnection:
    tls = dial.tls
    if tls is None:
        return http.client.HTTPConnection(dial.address, dial.port, timeout=dial.timeout_s)
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(filter(None, (tls.ca, tls.cert, tls.key)))
        raise ConfigInvalid(dial.name, f"load {files}", str(error)) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.trust_first:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if not tls.server_name:
        return http.client.HTTPSConnection(
            dial.address, dial.port, timeout=dial.timeout_s, context=context
        )
    return _Named(dial, context, tls.server_name)


class _Named(http.client.HTTPSConnection):
    """A connection to an address whose certificate carries another name."""

    def __init__(self, dial: Dial, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(dial.address, dial.port, timeout=dial.timeout_s, context=context)
        self._named = (context, server_name)

    def connect(self) -> None:
        """Connect, and check the certificate against the name."""
        http.client.HTTPConnection.connect(self)
        context, server_name = self._named
        self.sock = context.wrap_socket(self.sock, server_hostname=server_name)


def _login(dial: Dial) -> dict[str, str]:
    if not dial.user:
        return {}
    password = dial.password.reveal() if dial.password else ""
    token = base64.b64encode(f"{dial.user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def _refused(
    dial: Dial, what: str, status: int, reason: str
) -> Denied | NotSupported | Unavailable:
    """Return a status as an error; the body is not quoted: it may echo what was sent."""
    if status in _DENIED:
        return Denied(dial.name, what, f"HTTP {status}; check user, password and their rights")
    if status in _NOT_THERE:
        return NotSupported(dial.name, what, f"HTTP {status}; is the API switched on?")
    return Unavailable(dial.name, what, f"HTTP {status} {reason}"[:100])


def _body(dial: Dial, what: str, answer: http.client.HTTPResponse, until: float) -> str:
    parts, size = [], 0
    while part := answer.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > dial.max_bytes:
            raise Malformed(dial.name, what, f"the answer is larger than {dial.max_bytes} bytes")
    if time.monotonic() >= until:
        raise TimeoutError
    if answer.length:
        raise Malformed(dial.name, what, "the answer ends too early")
    return b"".join(parts).decode("utf-8", "replace")
