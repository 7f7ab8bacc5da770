"""The reference: a gRPC server that takes samples with labels, one message each, as remote write.

Run as a process; prints its port, keeps the newest value of each series in a dictionary, and
answers each message. It stores nothing on disk and checks nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

METHOD = "/bench.Labelled/Write"


def write_request() -> Any:
    """Return the message class: repeated series of name-value labels, value and time."""
    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, str]) -> None:
        made = file.message_type.add(name=name)
        for number, (field, kind, type_name) in enumerate(fields, 1):
            label = kinds.LABEL_REPEATED if type_name else kinds.LABEL_OPTIONAL
            made.field.add(
                name=field, number=number, type=kind, label=label, type_name=type_name or None
            )

    message("Label", ("name", kinds.TYPE_STRING, ""), ("value", kinds.TYPE_STRING, ""))
    message(
        "Sample",
        ("labels", kinds.TYPE_MESSAGE, ".bench.Label"),
        ("value", kinds.TYPE_DOUBLE, ""),
        ("at_ms", kinds.TYPE_INT64, ""),
    )
    message("Write", ("samples", kinds.TYPE_MESSAGE, ".bench.Sample"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Write"))


async def serve() -> None:
    """Serve until killed."""
    request = write_request()
    newest: dict[tuple[tuple[str, str], ...], tuple[float, int]] = {}

    async def write(items: Any, context: Any) -> None:
        async for item in items:
            for sample in item.samples:
                key = tuple((label.name, label.value) for label in sample.labels)
                newest[key] = (sample.value, sample.at_ms)
            await context.write(b"")

    handler = grpc.stream_stream_rpc_method_handler(
        write, request_deserializer=request.FromString, response_serializer=lambda data: data
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Labelled", {"Write": handler}),)
    )
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve())
