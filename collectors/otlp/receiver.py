"""Receives OTLP metrics over gRPC, where switches push what they do not let others ask for.

The exporter is named by the resource attribute `host.name`.
"""

from __future__ import annotations

from typing import Any, Final

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as messages
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

from collectors.model.reading import Clock, Pass
from collectors.otlp.decoder import Decoder
from collectors.targets.pushed import Exporter, Exporters, Options, open_server, peer_of

NAME: Final = "otlp"
_NAMES: Final = ("host.name", "net.host.name", "service.instance.id")


class OtlpReceiver(MetricsServiceServicer):
    """A gRPC server and what came by it. exporters: the inventory; empty takes everybody."""

    name = NAME

    def __init__(
        self, clock: Clock, options: Options, exporters: tuple[Exporter, ...] = ()
    ) -> None:
        self._clock = clock
        self._exporters = Exporters(
            NAME,
            clock,
            options,
            exporters,
            lambda row, note: Decoder(row.switch, row.wants, note, options.max_series),
        )
        self._server, self.port = open_server(options, NAME)
        add_MetricsServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self._server.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.stop(1).wait(5)

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  name of the RPC
        """Take one export; data points that cannot be used are counted in the answer."""
        self._exporters.authorize(context)
        received = self._clock()
        refused = 0
        with self._exporters.lock:
            for resource in request.resource_metrics:
                labels = {row.key: row.value.string_value for row in resource.resource.attributes}
                named = next((labels[key] for key in _NAMES if labels.get(key)), "")
                state = self._exporters.find(named, peer_of(context))
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
        return self._exporters.collect(clock, Decoder.readings)


def _size(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind in ("gauge", "sum") else 0
