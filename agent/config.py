"""The agent's configuration: one YAML file, typed, unknown keys refused.

Every error is one line that names the file and the path in it:
`agent.yaml: $.uplink.tuner: Expected `str`, got `int``. Secrets never stand in the file: keys
and passwords are named by the file or environment variable that holds them.
"""

from __future__ import annotations

import difflib
import re
import socket
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from collectors.model.errors import ConfigInvalid
from collectors.targets.secret import Secret, read_secret
from collectors.user_input.text_file import read_text

Seconds = Annotated[float, Meta(gt=0, le=86400)]
TcpPort = Annotated[int, Meta(ge=0, le=65535)]
LogLevel = Literal["debug", "info", "warning", "error"]

METRICS_PORT = 9836
_HOST = re.compile(r"\[[0-9a-fA-F:.%\w]+\]|[^\s:\[\]]+")
_ADDRESS = re.compile(r"[\w.-]+|[0-9a-fA-F.]*:[0-9a-fA-F.]*:[0-9a-fA-F:.]*(%[\w.-]+)?")
SPOOL = "/var/lib/fabric-agent/spool"


class Paths(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the host's file systems are mounted; containers mount the host's elsewhere.

    kernel: UNIX socket of a fake kernel (`simlab hosts serve`) in place of the real one; labs only.
    """

    sysfs: str = "/sys"
    procfs: str = "/proc"
    kernel: str = ""


class Devices(Struct, frozen=True, forbid_unknown_fields=True):
    """Regular expressions on whole RDMA device and interface names.

    include: empty means all. exclude: never touched, not even opened; it wins over include.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class CollectorConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One collector; what is left out is the collector's own default. Seconds."""

    on: bool | None = None
    interval: Seconds | None = None
    deadline: Seconds | None = None
    options: dict[str, object] = field(default_factory=dict)


class MetricsTls(Struct, frozen=True, forbid_unknown_fields=True):
    """Files for HTTPS; with client_ca, clients must show a certificate of it."""

    cert: str
    key: str
    client_ca: str = ""


class BasicAuth(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may scrape: the password is in a file or an environment variable."""

    user: str
    password_file: str = ""
    password_env: str = ""


class Metrics(Struct, frozen=True, forbid_unknown_fields=True):
    """The /metrics listener.

    node_infiniband: also serve the names that node_exporter has; turn it off where
    node_exporter runs in the same scrape job. infiniband_exporter: also serve swept subnets under
    infiniband_switch_* and infiniband_hca_*, as dashboards of other exporters want. stale_after:
    seconds after which values of a collector that stopped answering are no longer served.
    """

    address: str = "0.0.0.0"  # noqa: S104  a scrape comes from another host
    port: TcpPort = METRICS_PORT
    node_infiniband: bool = True
    infiniband_exporter: bool = False
    stale_after: Seconds = 120.0
    tls: MetricsTls | None = None
    basic_auth: BasicAuth | None = None


class UplinkTls(Struct, frozen=True, forbid_unknown_fields=True):
    """Files for TLS to the tuner; cert and key where the tuner asks for a client certificate."""

    ca: str
    cert: str = ""
    key: str = ""


class Uplink(Struct, frozen=True, forbid_unknown_fields=True):
    """The stream to the tuner (host:port) and the spool that bridges its outages.

    max_bytes: of the spool on disk; beyond it the oldest is dropped, and counted.
    """

    tuner: str
    tls: UplinkTls | None = None
    spool: str = SPOOL
    max_bytes: Annotated[int, Meta(ge=1 << 20)] = 256 << 20


class InfiniBand(Struct, frozen=True, forbid_unknown_fields=True):
    """An InfiniBand subnet, swept with management datagrams from one local port.

    device, port: empty and 0 take the first active InfiniBand port. rediscover: longest time
    between discoveries. node_names: an OpenSM node-name-map. groups: optional counters to ask
    for. window, per_device: most datagrams outstanding, in all and at one device. Keys are hex
    numbers in a file or an environment variable; without one, none is sent. congestion, qos,
    routes: also read congestion control, virtual lane tables, forwarding tables.
    """

    name: str = "infiniband"
    device: str = ""
    port: Annotated[int, Meta(ge=0, le=254)] = 0
    interval: Seconds = 30.0
    deadline: Seconds = 25.0
    rediscover: Seconds = 300.0
    discover: Literal["direct", "sa"] = "direct"
    node_names: str = ""
    groups: tuple[Literal["details", "vl", "congestion", "sl", "fec", "flow"], ...] = (
        "details",
        "vl",
        "congestion",
        "fec",
    )
    window: Annotated[int, Meta(ge=1, le=4096)] = 256
    per_device: Annotated[int, Meta(ge=1, le=64)] = 4
    timeout: Annotated[float, Meta(gt=0, le=60)] = 0.5
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    sl: Annotated[int, Meta(ge=0, le=15)] = 0
    pkey_index: Annotated[int, Meta(ge=0, le=65535)] = 0
    m_key_file: str = ""
    m_key_env: str = ""
    cc_key_file: str = ""
    cc_key_env: str = ""
    congestion: bool = True
    qos: bool = True
    routes: bool = True


class Switches(Struct, frozen=True, forbid_unknown_fields=True):
    """Switches to read from here: an inventory file of its own, beside this file or absolute."""

    inventory: str


class Sflow(Struct, frozen=True, forbid_unknown_fields=True):
    """An sFlow receiver; with an inventory of switches, only their datagrams are taken."""

    address: str = "0.0.0.0"  # noqa: S104  exporters send from other machines
    port: TcpPort = 6343
    interval: Seconds = 10.0


class Pushed(Struct, frozen=True, forbid_unknown_fields=True):
    """A gRPC server for switches that push. port null: 4317 for OTLP, 57500 for gNMI dial-out.

    With an inventory of switches, only they are taken. A token is asked for as
    `authorization: Bearer ...`; max_message_bytes: of one message, unpacked.
    """

    address: str = "0.0.0.0"  # noqa: S104  exporters send from other machines
    port: TcpPort | None = None
    interval: Seconds = 10.0
    tls: MetricsTls | None = None
    token_file: str = ""
    token_env: str = ""
    max_message_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 30)] = 16 << 20


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file.

    agent: unique name of this agent; '' takes the host name. interval: for every collector
    that does not set its own. metrics, uplink: null turns them off.
    """

    agent: str = ""
    log_level: LogLevel = "info"
    interval: Seconds | None = None
    paths: Paths = Paths()
    devices: Devices = Devices()
    collectors: dict[str, CollectorConfig] = field(default_factory=dict)
    metrics: Metrics | None = Metrics()
    uplink: Uplink | None = None
    infiniband: tuple[InfiniBand, ...] = ()
    switches: Switches | None = None
    sflow: Sflow | None = None
    otlp: Pushed | None = None
    gnmi_dialout: Pushed | None = None


def read_config(path: Path | None) -> Config:
    """Return the configuration of a file, or the defaults where path is None.

    Raises ConfigInvalid for a file that cannot be read or is wrong.
    """
    if path is None:
        return check_config(Config(), "defaults")
    return parse_config(read_text(path, "read configuration"), str(path))


def parse_config(text: str, file: str) -> Config:
    """Return the configuration of a YAML text. Raises ConfigInvalid naming `file` and path."""
    from collectors.user_input.yaml_text import parse_yaml

    values = parse_yaml(text, file)
    values = {} if values is None else values
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise _invalid(file, error, values) from error
    return check_config(config, file)


def check_config(config: Config, file: str) -> Config:
    """Return the configuration with its defaults resolved, or raise ConfigInvalid.

    Checks what types cannot: regular expressions, addresses, pairs that belong together. It
    opens nothing; files that are named are read when they are used.
    """
    for group in ("include", "exclude"):
        for place, pattern in enumerate(getattr(config.devices, group)):
            try:
                re.compile(pattern)
            except re.error as error:
                at = f"$.devices.{group}[{place}]"
                raise ConfigInvalid(file, at, f"{pattern!r} is no pattern: {error}") from error
    if config.metrics and (auth := config.metrics.basic_auth):
        if not auth.user or ":" in auth.user:
            raise ConfigInvalid(file, "$.metrics.basic_auth.user", "a name without ':' is needed")
        if bool(auth.password_file) == bool(auth.password_env):
            raise ConfigInvalid(
                file, "$.metrics.basic_auth", "set one of password_file and password_env"
            )
    if not config.agent.isprintable():
        raise ConfigInvalid(file, "$.agent", f"{config.agent!r} has control characters")
    if config.uplink:
        _check_uplink(config.uplink, file)
    for name, row in (("otlp", config.otlp), ("gnmi_dialout", config.gnmi_dialout)):
        if row and row.token_file and row.token_env:
            raise ConfigInvalid(file, f"$.{name}", "set one of token_file and token_env")
        if row and not _ADDRESS.fullmatch(row.address):
            why = f"{row.address!r} is no address or host name; the port is `port`"
            raise ConfigInvalid(file, f"$.{name}.address", why)
    return msgspec.structs.replace(config, agent=config.agent or socket.gethostname())


def required_secret(variable: str, file: str, where: str) -> Secret:
    """Return the secret that a file or else an environment variable must hold.

    where: path in the configuration, for errors. Raises ConfigInvalid; never names the secret.
    """
    secret = read_secret("" if file else variable, file, where)
    if not secret:
        raise ConfigInvalid(where, "read secret", f"{file or variable} is empty")
    return secret


def _check_uplink(uplink: Uplink, file: str) -> None:
    host, _, port = uplink.tuner.rpartition(":")
    if (
        not _HOST.fullmatch(host)
        or not port.isascii()
        or not port.isdigit()
        or not 0 < int(port) < 65536
    ):
        raise ConfigInvalid(
            file, "$.uplink.tuner", f"{uplink.tuner!r} is no host:port, e.g. tuner.example:9837"
        )
    if uplink.tls and bool(uplink.tls.cert) != bool(uplink.tls.key):
        raise ConfigInvalid(file, "$.uplink.tls", "cert and key belong together")


def _invalid(file: str, error: msgspec.ValidationError, values: object) -> ConfigInvalid:
    text, _, path = str(error).partition(" - at `")
    path = path.rstrip("`") or "$"
    if "[...]" in path:  # msgspec does not say under which name; find it
        path = path.replace("[...]", f".{_wrong_collector(values)}", 1)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown is None:
        return ConfigInvalid(file, path, text)
    close = difflib.get_close_matches(unknown[1], _keys(Config), 1)
    hint = f"; is {close[0]!r} meant?" if close else ""
    return ConfigInvalid(file, f"{path}.{unknown[1]}", f"unknown key{hint}")


def _wrong_collector(values: object) -> str:
    collectors = values.get("collectors") if isinstance(values, dict) else None
    for name, value in collectors.items() if isinstance(collectors, dict) else ():
        try:
            msgspec.convert(value, CollectorConfig)
        except msgspec.ValidationError:
            return str(name)
    return "*"


def _keys(of: type[Struct]) -> set[str]:
    """Return every key that may stand anywhere in the file."""
    found: set[str] = set()
    waiting: list[object] = [msgspec.inspect.type_info(of)]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, msgspec.inspect.StructType):
            found.update(item.encode_name for item in kind.fields)
            waiting.extend(item.type for item in kind.fields)
        elif isinstance(kind, msgspec.inspect.UnionType):
            waiting.extend(kind.types)
        elif isinstance(kind, msgspec.inspect.DictType):
            waiting.append(kind.value_type)
    return found
