"""A gNMI server on a simulated switch: Capabilities, Get, Set, Subscribe in all modes, faults."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio
from gnmi_pb import gnmi_pb2 as gnmi
from gnmi_pb import gnmi_pb2_grpc

from simlab.switches.gnmi_face import GnmiFace, matches, pack

ENCODINGS: Final = {name: gnmi.Encoding.Value(name) for name in ("JSON", "PROTO", "JSON_IETF")}
Keys = tuple[bytes, bytes, bytes | None]
_CHUNK: Final = 500  # updates in one notification
ONCE, POLL, STREAM = (gnmi.SubscriptionList.Mode.Value(name) for name in ("ONCE", "POLL", "STREAM"))
SAMPLE = gnmi.SubscriptionMode.Value("SAMPLE")


def _set_value(value: Any) -> Any:
    """Return what a Set carries; pygnmi sends bare words as JSON, as some devices accept."""
    raw = value.json_ietf_val or value.json_val
    try:
        return json.loads(raw) if raw else value.string_val
    except ValueError:
        return raw.decode()


@dataclass
class GnmiFaults:
    """silent_after: notifications after which a stream says nothing more, -1 for never.

    no_get, no_poll: not implemented. busy: Subscribe is refused so many times. user: name and
    password that a caller must bring, in metadata or as Basic authorization. wrong_types:
    values come as words. epoch: time stamps of 1970. on_change_only: SAMPLE is refused.
    one_message: everything in one notification, however large. delay_s: before every answer.
    """

    silent_after: int = -1
    no_get: bool = False
    no_poll: bool = False
    busy: int = 0
    user: tuple[str, str] | None = None
    basic_only: bool = False
    wrong_types: bool = False
    epoch: bool = False
    on_change_only: bool = False
    one_message: bool = False
    delay_s: float = 0.0


@dataclass
class GnmiTarget(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """One server. least_interval_s: samples come no faster."""

    face: GnmiFace
    faults: GnmiFaults = field(default_factory=GnmiFaults)
    models: tuple[str, ...] = ("openconfig-interfaces", "openconfig-qos", "openconfig-lldp")
    encodings: tuple[str, ...] = ("JSON", "PROTO", "JSON_IETF")
    least_interval_s: float = 0.05
    streams: int = 0
    calls: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _server: Any = None

    async def listen(
        self, address: str = "127.0.0.1", port: int = 0, tls: Keys | None = None
    ) -> int:
        """Serve; tls is key, certificate and, for mTLS, the CA of clients. Return the port."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        gnmi_pb2_grpc.add_gNMIServicer_to_server(self, self._server)
        where = f"{address}:{port}"
        if tls is None:
            bound: int = self._server.add_insecure_port(where)
        else:
            key, certificate, client_ca = tls
            credentials = grpc.ssl_server_credentials(
                [(key, certificate)], client_ca, require_client_auth=client_ca is not None
            )
            bound = self._server.add_secure_port(where, credentials)
        await self._server.start()
        return bound

    async def close(self) -> None:
        """Stop at once."""
        if self._server is not None:
            await self._server.stop(0)

    async def _admit(self, context: Any) -> None:
        metadata = dict(context.invocation_metadata() or ())
        await asyncio.sleep(self.faults.delay_s)
        if self.faults.user is None:
            return
        user, password = self.faults.user
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        plain = (metadata.get("username"), metadata.get("password")) == (user, password)
        if (plain and not self.faults.basic_only) or metadata.get(
            "authorization"
        ) == f"Basic {token}":
            return
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "authentication failed")

    async def Capabilities(self, _request: Any, context: Any) -> Any:  # noqa: N802
        """Say which models and encodings there are."""
        self.calls.append("capabilities")
        await self._admit(context)
        return gnmi.CapabilityResponse(
            supported_models=[gnmi.ModelData(name=name, version="1.0.0") for name in self.models],
            supported_encodings=[ENCODINGS[name] for name in self.encodings],
            gNMI_version="0.10.0",
        )

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return everything below the paths."""
        self.calls.append("get")
        await self._admit(context)
        if self.faults.no_get:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Get is not supported")
        if request.encoding not in {ENCODINGS[name] for name in self.encodings}:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such encoding here")
        wanted = [self._whole(request.prefix, path) for path in request.path]
        return gnmi.GetResponse(notification=list(self._notifications(wanted, request.encoding)))

    async def Set(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Change leaves; only what is no counter can be set."""
        self.calls.append("set")
        await self._admit(context)
        results = []
        for update in [*request.replace, *request.update]:
            path = self._whole(request.prefix, update.path)
            for text in list(self.face.extra):
                if matches(path, pack(text)):
                    self.face.extra[text] = _set_value(update.val)
            results.append(gnmi.UpdateResult(path=update.path, op=gnmi.UpdateResult.UPDATE))
        return gnmi.SetResponse(response=results, timestamp=time.time_ns())

    async def Subscribe(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Stream, once or poll."""
        self.calls.append("subscribe")
        await self._admit(context)
        first = await anext(aiter(requests))
        asked = first.subscribe
        if self.faults.busy > 0:
            self.faults.busy -= 1
            await context.abort(grpc.StatusCode.CANCELLED, "System is busy")
        if self.faults.no_poll and asked.mode == POLL:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "POLL is not supported")
        samples = any(row.mode == SAMPLE for row in asked.subscription)
        if self.faults.on_change_only and samples and asked.mode == STREAM:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "only ON_CHANGE")
        wanted = [self._whole(asked.prefix, row.path) for row in asked.subscription]
        self.streams += 1
        try:
            async for response in self._respond(requests, asked, wanted):
                yield response
        finally:
            self.streams -= 1

    async def _respond(self, requests: Any, asked: Any, wanted: list[Any]) -> AsyncIterator[Any]:
        sent = 0
        interval_s = min((row.sample_interval / 1e9 for row in asked.subscription), default=0)
        samples = any(row.mode == SAMPLE for row in asked.subscription)
        for response in self._synced(wanted, asked.encoding):
            yield response
        if asked.mode == ONCE:
            return
        if asked.mode == POLL:
            async for request in requests:
                self.calls.append("poll")
                answers = self._synced(wanted, asked.encoding) if request.HasField("poll") else ()
                for response in answers:
                    yield response
            return
        while True:
            if samples:
                await asyncio.sleep(max(interval_s, self.least_interval_s))
            else:
                await self.changed.wait()
                self.changed.clear()
            if 0 <= self.faults.silent_after <= sent:
                await asyncio.Event().wait()
            sent += 1
            for notification in self._notifications(wanted, asked.encoding):
                yield gnmi.SubscribeResponse(update=notification)

    def _synced(self, wanted: list[Any], encoding: int) -> Iterator[Any]:
        """Yield everything as it is now, and that this was all."""
        for notification in self._notifications(wanted, encoding):
            yield gnmi.SubscribeResponse(update=notification)
        yield gnmi.SubscribeResponse(sync_response=True)

    @staticmethod
    def _whole(prefix: Any, path: Any) -> Any:
        return gnmi.Path(elem=[*prefix.elem, *path.elem])

    def _notifications(self, wanted: list[Any], encoding: int) -> list[Any]:
        now = 1 if self.faults.epoch else time.time_ns()
        updates = [
            gnmi.Update(path=path, val=self._typed(value, encoding))
            for path, value in self.face.select(wanted)
        ]
        size = len(updates) or 1 if self.faults.one_message else _CHUNK
        return [
            gnmi.Notification(timestamp=now, update=updates[at : at + size])
            for at in range(0, len(updates) or 1, size)
        ]

    def _typed(self, value: Any, encoding: int) -> Any:
        if self.faults.wrong_types and isinstance(value, int):
            value = "not a number"
        if isinstance(value, dict):
            return gnmi.TypedValue(json_ietf_val=json.dumps(value).encode())
        if encoding == ENCODINGS["PROTO"]:
            if isinstance(value, int):
                return gnmi.TypedValue(uint_val=value)
            return gnmi.TypedValue(string_val=str(value))
        if encoding == ENCODINGS["JSON_IETF"] and isinstance(value, int):
            value = str(value)  # RFC 7951: 64-bit numbers are strings
        raw = json.dumps(value).encode()
        if encoding == ENCODINGS["JSON_IETF"]:
            return gnmi.TypedValue(json_ietf_val=raw)
        return gnmi.TypedValue(json_val=raw)
