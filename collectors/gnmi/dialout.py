"""Receives gNMI that devices send of their own accord, where they cannot be reached from here.

SONiC (`gnmi.sonic.gNMIDialOut`), others after the same draft (`gnmi.gNMIDialOut`) and Arista
(`gnmireverse.gNMIReverse`) have one RPC alike: Publish, a stream of SubscribeResponse. What comes
back is empty. The device is named by the target in the prefix, else by its address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import grpc

from collectors.gnmi.decoder import Decoder
from collectors.gnmi.messages import DecodeError, SealedResponse, gnmi
from collectors.gnmi.vendors import VENDORS
from collectors.model.reading import Clock, Pass
from collectors.targets.pushed import (
    Exporter,
    Exporters,
    Note,
    Options,
    open_server,
    peer_of,
)

NAME: Final = "gnmi_dialout"
_MANY: Final = ("gnmi.sonic.gNMIDialOut", "gnmi.gNMIDialOut")  # answer with a stream
_ONE: Final = ("gnmireverse.gNMIReverse",)  # answers once


class DialOutReceiver:
    """A gRPC server and what came by it. exporters: the inventory; empty takes everybody."""

    name = NAME

    def __init__(
        self, clock: Clock, options: Options, exporters: tuple[Exporter, ...] = ()
    ) -> None:
        self._clock = clock
        self._exporters = Exporters(
            NAME, clock, options, exporters, lambda row, note: _decoder(row, note, options)
        )
        self._server, self.port = open_server(options, NAME)
        self._server.add_generic_rpc_handlers(tuple(self._handlers()))
        self._server.start()

    def _handlers(self) -> Iterator[Any]:
        read: Any = SealedResponse.FromString
        for service in _MANY:
            many = grpc.stream_stream_rpc_method_handler(self._publish, read, bytes)
            yield grpc.method_handlers_generic_handler(service, {"Publish": many})
        for service in _ONE:
            one = grpc.stream_unary_rpc_method_handler(self._publish_once, read, bytes)
            yield grpc.method_handlers_generic_handler(service, {"Publish": one})

    def close(self) -> None:
        """Stop listening, streams included."""
        self._server.stop(0).wait(5)

    def read(self, clock: Clock) -> Pass:
        """Return what has come since the last pass."""
        return self._exporters.collect(clock, Decoder.readings)

    def _publish(self, responses: Any, context: Any) -> Iterator[bytes]:
        self._consume(responses, context)
        return iter(())

    def _publish_once(self, responses: Any, context: Any) -> bytes:
        self._consume(responses, context)
        return b""  # google.protobuf.Empty

    def _consume(self, responses: Any, context: Any) -> None:
        self._exporters.authorize(context)
        peer = peer_of(context)
        for response in responses:
            if response.WhichOneof("response") != "update":
                continue
            received = self._clock()
            with self._exporters.lock:
                state = self._exporters.find(_target(response.update.prefix), peer)
                if state is not None:
                    state.heard_ns = received.mono_ns
                    state.decoder.take(response.update, received)


def _target(prefix: bytes) -> str:
    """Return the target that a prefix names; '' where the prefix is malformed."""
    try:
        name: str = gnmi.Path.FromString(prefix).target
    except DecodeError:
        return ""
    return name


def _decoder(row: Exporter, note: Note, options: Options) -> Decoder:
    vendor = VENDORS.get(row.platform, VENDORS["openconfig"])
    return Decoder(row.switch, vendor, row.wants, note, max_series=options.max_series)
