from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Item(_message.Message):
    __slots__ = ("hello", "schema", "batch", "facts")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    schema: Schema
    batch: Batch
    facts: Facts
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., facts: _Optional[_Union[Facts, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("wire_version", "agent", "epoch", "boot_id", "software")
    WIRE_VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    wire_version: int
    agent: str
    epoch: str
    boot_id: str
    software: str
    def __init__(self, wire_version: _Optional[int] = ..., agent: _Optional[str] = ..., epoch: _Optional[str] = ..., boot_id: _Optional[str] = ..., software: _Optional[str] = ...) -> None: ...

class Entity(_message.Message):
    __slots__ = ("id", "label", "incarnation")
    ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    label: str
    incarnation: str
    def __init__(self, id: _Optional[str] = ..., label: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("metric", "kind", "via", "width", "saturates", "is_float", "scale_numerator", "scale_denominator")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        COUNTER: _ClassVar[Column.Kind]
        GAUGE: _ClassVar[Column.Kind]
        STATE: _ClassVar[Column.Kind]
    COUNTER: Column.Kind
    GAUGE: Column.Kind
    STATE: Column.Kind
    METRIC_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SATURATES_FIELD_NUMBER: _ClassVar[int]
    IS_FLOAT_FIELD_NUMBER: _ClassVar[int]
    SCALE_NUMERATOR_FIELD_NUMBER: _ClassVar[int]
    SCALE_DENOMINATOR_FIELD_NUMBER: _ClassVar[int]
    metric: str
    kind: Column.Kind
    via: str
    width: int
    saturates: bool
    is_float: bool
    scale_numerator: int
    scale_denominator: int
    def __init__(self, metric: _Optional[str] = ..., kind: _Optional[_Union[Column.Kind, str]] = ..., via: _Optional[str] = ..., width: _Optional[int] = ..., saturates: _Optional[bool] = ..., is_float: _Optional[bool] = ..., scale_numerator: _Optional[int] = ..., scale_denominator: _Optional[int] = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("id", "entities", "columns")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    entities: _containers.RepeatedCompositeFieldContainer[Entity]
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    def __init__(self, id: _Optional[bytes] = ..., entities: _Optional[_Iterable[_Union[Entity, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("agent", "epoch", "seq", "collector", "schema", "at_ns", "mono_ns", "at_offset_ns", "mono_offset_ns", "present", "ints", "floats", "boot_id")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    MONO_NS_FIELD_NUMBER: _ClassVar[int]
    AT_OFFSET_NS_FIELD_NUMBER: _ClassVar[int]
    MONO_OFFSET_NS_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    INTS_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    epoch: str
    seq: int
    collector: str
    schema: bytes
    at_ns: int
    mono_ns: int
    at_offset_ns: _containers.RepeatedScalarFieldContainer[int]
    mono_offset_ns: _containers.RepeatedScalarFieldContainer[int]
    present: bytes
    ints: _containers.RepeatedScalarFieldContainer[int]
    floats: _containers.RepeatedScalarFieldContainer[float]
    boot_id: str
    def __init__(self, agent: _Optional[str] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., collector: _Optional[str] = ..., schema: _Optional[bytes] = ..., at_ns: _Optional[int] = ..., mono_ns: _Optional[int] = ..., at_offset_ns: _Optional[_Iterable[int]] = ..., mono_offset_ns: _Optional[_Iterable[int]] = ..., present: _Optional[bytes] = ..., ints: _Optional[_Iterable[int]] = ..., floats: _Optional[_Iterable[float]] = ..., boot_id: _Optional[str] = ...) -> None: ...

class Facts(_message.Message):
    __slots__ = ("agent", "epoch", "seq", "collector", "at_ns", "json")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    agent: str
    epoch: str
    seq: int
    collector: str
    at_ns: int
    json: bytes
    def __init__(self, agent: _Optional[str] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., collector: _Optional[str] = ..., at_ns: _Optional[int] = ..., json: _Optional[bytes] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("epoch", "acknowledged", "refused", "permanent", "refused_seq")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_SEQ_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    acknowledged: int
    refused: str
    permanent: bool
    refused_seq: int
    def __init__(self, epoch: _Optional[str] = ..., acknowledged: _Optional[int] = ..., refused: _Optional[str] = ..., permanent: _Optional[bool] = ..., refused_seq: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("since_ns", "until_ns", "agents")
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    since_ns: int
    until_ns: int
    agents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, since_ns: _Optional[int] = ..., until_ns: _Optional[int] = ..., agents: _Optional[_Iterable[str]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("agent", "connected", "epoch", "acknowledged", "last_batch_at_ns", "batches", "duplicates", "values", "missing", "ports", "software")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_AT_NS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    connected: bool
    epoch: str
    acknowledged: int
    last_batch_at_ns: int
    batches: int
    duplicates: int
    values: int
    missing: int
    ports: int
    software: str
    def __init__(self, agent: _Optional[str] = ..., connected: _Optional[bool] = ..., epoch: _Optional[str] = ..., acknowledged: _Optional[int] = ..., last_batch_at_ns: _Optional[int] = ..., batches: _Optional[int] = ..., duplicates: _Optional[int] = ..., values: _Optional[int] = ..., missing: _Optional[int] = ..., ports: _Optional[int] = ..., software: _Optional[str] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("agents", "now_ns", "software", "trouble")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    NOW_NS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentStatus]
    now_ns: int
    software: str
    trouble: str
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentStatus, _Mapping]]] = ..., now_ns: _Optional[int] = ..., software: _Optional[str] = ..., trouble: _Optional[str] = ...) -> None: ...
