"""The one door to the gNMI messages: two copies of gnmi.proto in one process do not get along.

`SealedResponse` reads the same bytes as `gnmi.SubscribeResponse`, but leaves every path of an
update, and the prefix, as the bytes that came: on the wire a message and a byte string are the
same (protobuf encoding, length-delimited). Devices send the same few thousand paths for ever;
whoever remembers where one leads need not have it built as a tree of messages each time.
"""

from __future__ import annotations

from typing import Any, Final

from gnmi_pb import gnmi_pb2 as gnmi
from gnmi_pb.gnmi_pb2_grpc import gNMIStub
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

__all__ = ["DecodeError", "SealedResponse", "gNMIStub", "gnmi", "seal"]

_PACKAGE: Final = "fabric.gnmi.sealed"
_SEALED: Final = {"Notification.prefix", "Update.path"}  # bytes here, Path in gnmi.proto
# message -> the fields of gnmi.proto that the decoder reads, with the message of ours they hold
_OWN: Final[dict[str, dict[str, str | None]]] = {
    "Update": {"path": None, "val": None},
    "Notification": {"timestamp": None, "prefix": None, "update": "Update", "delete": None},
    "SubscribeResponse": {"update": "Notification", "sync_response": None, "error": None},
}


def _sealed_response() -> Any:
    """Return the class of SealedResponse, made of gnmi.proto's own descriptors."""
    file = descriptor_pb2.FileDescriptorProto(
        name="fabric/gnmi/sealed.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[gnmi.DESCRIPTOR.name],
    )
    for name, fields in _OWN.items():
        whole = descriptor_pb2.DescriptorProto()
        getattr(gnmi, name).DESCRIPTOR.CopyToProto(whole)
        own = file.message_type.add(name=name, oneof_decl=whole.oneof_decl)
        for field in whole.field:
            if field.name not in fields:
                continue
            if f"{name}.{field.name}" in _SEALED:
                field.type = field.TYPE_BYTES
                field.ClearField("type_name")
            elif fields[field.name]:
                field.type_name = f".{_PACKAGE}.{fields[field.name]}"
            own.field.append(field)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.SubscribeResponse")
    return message_factory.GetMessageClass(found)


SealedResponse: Final[Any] = _sealed_response()


def seal(notification: Any) -> Any:
    """Return a Notification of gnmi.proto with its paths as bytes, as the decoder takes it."""
    whole = gnmi.SubscribeResponse(update=notification)
    return SealedResponse.FromString(whole.SerializeToString()).update
