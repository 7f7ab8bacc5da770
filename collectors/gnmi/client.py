"""One gNMI channel: TLS or not, credentials, capabilities, Get and Subscribe; errors typed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from collectors.gnmi.messages import SealedResponse, gnmi, gNMIStub
from collectors.gnmi.paths import pack_path
from collectors.gnmi.vendors import Vendor
from collectors.model.errors import (
    Denied,
    FabricError,
    NotSupported,
    Unavailable,
)
from collectors.targets.secret import Secret
from collectors.targets.tls import Tls, read_pem

ENCODINGS: Final = {"JSON": 0, "BYTES": 1, "PROTO": 2, "ASCII": 3, "JSON_IETF": 4}
_CODE = grpc.StatusCode
_DENIED: Final = {_CODE.UNAUTHENTICATED, _CODE.PERMISSION_DENIED}
_NEVER: Final = {_CODE.UNIMPLEMENTED, _CODE.INVALID_ARGUMENT, _CODE.NOT_FOUND}


@dataclass(frozen=True, slots=True)
class Dial:
    """Where and how to connect. tls None is plain text. max_message_bytes: of one reply."""

    address: str
    port: int
    tls: Tls | None = None
    user: str = ""
    password: Secret | None = None
    max_message_bytes: int = 64 << 20
    timeout_s: float = 10.0
    keepalive_s: float = 60.0
    gzip: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target says of itself."""

    version: str
    models: tuple[tuple[str, str], ...]
    encodings: tuple[str, ...]


class Client:
    """A channel to one target."""

    def __init__(self, name: str, dial: Dial, vendor: Vendor) -> None:
        self._name = name
        self._dial = dial
        self._vendor = vendor
        self._channel: Any = None
        self._stub: Any = None
        self._subscribe: Any = None

    async def open(self) -> None:
        """Make the channel; nothing is sent yet. Raises ConfigInvalid, Unavailable."""
        dial = self._dial
        where = f"[{dial.address}]" if ":" in dial.address else dial.address
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", dial.max_message_bytes),
            ("grpc.keepalive_time_ms", int(dial.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
        ]
        compression = grpc.Compression.Gzip if dial.gzip else None
        address = f"{where}:{dial.port}"
        if dial.tls is None:
            self._channel = grpc.aio.insecure_channel(address, options, compression)
        else:
            credentials, name = await self._credentials(dial.tls)
            if name:
                options.append(("grpc.ssl_target_name_override", name))
            self._channel = grpc.aio.secure_channel(address, credentials, options, compression)
        self._stub = gNMIStub(self._channel)
        self._subscribe = self._channel.stream_stream(
            "/gnmi.gNMI/Subscribe",
            request_serializer=gnmi.SubscribeRequest.SerializeToString,
            response_deserializer=SealedResponse.FromString,
        )

    async def _credentials(self, tls: Tls) -> tuple[Any, str]:
        def read(path: str) -> bytes | None:
            return read_pem(path, self._name) if path else None

        ca, name = read(tls.ca), tls.server_name
        if tls.trust_first:
            shown = await asyncio.to_thread(self._shown_certificate)
            ca = shown.encode()
            name = name or _common_name(shown) or ""
        return grpc.ssl_channel_credentials(ca, read(tls.key), read(tls.cert)), name

    def _shown_certificate(self) -> str:
        try:
            return ssl.get_server_certificate(
                (self._dial.address, self._dial.port), timeout=self._dial.timeout_s
            )
        except OSError as error:
            raise Unavailable(self._name, "gnmi", f"no TLS handshake: {error}") from error

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        dial = self._dial
        if not dial.user:
            return ()
        password = dial.password.reveal() if dial.password else ""
        found = [("username", dial.user), ("password", password)]
        if self._vendor.login == "basic":
            token = base64.b64encode(f"{dial.user}:{password}".encode()).decode()
            found = [("authorization", f"Basic {token}")]
        return tuple(found)

    async def capabilities(self) -> Capabilities:
        """Return models and encodings. Raises FabricError."""
        try:
            reply = await self._stub.Capabilities(
                gnmi.CapabilityRequest(), timeout=self._dial.timeout_s, metadata=self._metadata()
            )
        except grpc.aio.AioRpcError as error:
            raise self.typed(error, "capabilities") from error
        names = {number: name for name, number in ENCODINGS.items()}
        return Capabilities(
            reply.gNMI_version,
            tuple((model.name, model.version) for model in reply.supported_models),
            tuple(names.get(number, str(number)) for number in reply.supported_encodings),
        )

    async def get(
        self, paths: tuple[str, ...], encoding: str, *, config_only: bool = False
    ) -> list[Any]:
        """Return the notifications of a Get. Raises FabricError."""
        request = gnmi.GetRequest(
            prefix=gnmi.Path(target=self._vendor.target, origin=self._vendor.origin),
            path=[pack_path(path) for path in paths],
            encoding=ENCODINGS[encoding],
            type=1 if config_only else 0,
        )
        try:
            reply = await self._stub.Get(
                request, timeout=self._dial.timeout_s, metadata=self._metadata()
            )
        except grpc.aio.AioRpcError as error:
            raise self.typed(error, "get") from error
        return list(reply.notification)

    async def subscribe(
        self,
        paths: tuple[str, ...],
        encoding: str,
        *,
        mode: str,
        interval_s: float = 0.0,
        sample: bool = True,
    ) -> AsyncIterator[Any]:
        """Yield each SealedResponse: `stream` and `poll` without end, `once` until all is said.

        `poll` asks again every interval_s on one call. Raises FabricError; StopAsyncIteration
        where the target ends the stream.
        """
        modes = {"stream": 0, "once": 1, "poll": 2}
        subscriptions = [
            gnmi.Subscription(
                path=pack_path(path),
                mode=(2 if sample else 1) if mode == "stream" else 0,
                sample_interval=int(interval_s * 1e9) if mode == "stream" and sample else 0,
            )
            for path in paths
        ]
        request = gnmi.SubscribeRequest(
            subscribe=gnmi.SubscriptionList(
                prefix=gnmi.Path(target=self._vendor.target, origin=self._vendor.origin),
                subscription=subscriptions,
                mode=modes[mode],
                encoding=ENCODINGS[encoding],
            )
        )
        call = self._subscribe(
            metadata=self._metadata(),
            timeout=self._dial.timeout_s if mode == "once" else None,
        )
        asking = None
        try:
            await call.write(request)
            if mode == "poll":
                asking = asyncio.create_task(_poll_every(call, interval_s))
            while True:
                response = await call.read()
                if response is grpc.aio.EOF:  # type: ignore[attr-defined]
                    break
                yield response
            code = await call.code()
            if code is not grpc.StatusCode.OK:
                raise self._by_code(code, await call.details() or "", "subscribe")
        except grpc.aio.AioRpcError as error:
            raise self.typed(error, "subscribe") from error
        finally:
            if asking is not None:
                asking.cancel()
            call.cancel()

    def typed(self, error: Any, what: str) -> FabricError:
        """Return a gRPC error as ours."""
        return self._by_code(error.code(), error.details() or "", what)

    def _by_code(self, code: Any, details: str, what: str) -> FabricError:
        text = details.splitlines()[0][:200] if details else code.name
        if self._dial.password and self._dial.password.reveal() in text:
            text = code.name
        kind: Callable[..., FabricError] = Unavailable
        if code in _DENIED:
            kind = Denied
        elif code in _NEVER:
            kind = NotSupported
        elif code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
            text += "; raise max_message_bytes"
        return kind(self._name, f"gnmi {what}", f"{code.name.lower()}: {text}")


async def _poll_every(call: Any, interval_s: float) -> None:
    """Send polls until the call ends; what it ended of is the reader's to say."""
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while True:
            await call.write(gnmi.SubscribeRequest(poll=gnmi.Poll()))
            await asyncio.sleep(interval_s)


def _common_name(pem: str) -> str | None:
    """Return the first DNS name of a certificate, or its common name."""
    from collectors.gnmi.certificate import names_of

    return next(iter(names_of(ssl.PEM_cert_to_DER_cert(pem))), None)
