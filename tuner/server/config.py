"""The tuner's configuration: one YAML file, typed, unknown keys refused."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from collectors.model.errors import ConfigInvalid
from collectors.user_input.text_file import read_text
from collectors.user_input.yaml_text import parse_yaml
from tuner.store.disk import Retention
from tuner.store.sources import parse_span
from tuner.store.store import Limits

Bytes = Annotated[int, Meta(ge=1 << 20)]
METRICS_PORT = 9838


class Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """How long and how much: age as `24h`, bytes. The oldest goes first."""

    age: str
    max_bytes: Bytes


class Tls(Struct, frozen=True, forbid_unknown_fields=True):
    """Files for TLS; with client_ca, agents must show a certificate of it."""

    cert: str
    key: str
    client_ca: str = ""


class Metrics(Struct, frozen=True, forbid_unknown_fields=True):
    """The tuner's own /metrics."""

    address: str = "0.0.0.0"  # noqa: S104  a scrape comes from another host
    port: Annotated[int, Meta(ge=0, le=65535)] = METRICS_PORT


class Peers(Struct, frozen=True, forbid_unknown_fields=True):
    """How much agents may ask of the tuner's memory.

    agents: names known at a time; one is forgotten when its data is older than the retention.
    schemas: of one agent, in use within the last two hours.
    """

    agents: Annotated[int, Meta(ge=1)] = 20_000
    schemas: Annotated[int, Meta(ge=1)] = 10_000


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file.

    listen: HOST:PORT for agents and for `tuner --tuner`. data: folder of the store. retention:
    on disk. window: in memory. limits: of peers. tls: null serves in clear. metrics: null turns
    them off.
    """

    listen: str = "0.0.0.0:9837"
    data: str = "/var/lib/fabric-tuner"
    retention: Kept = Kept("24h", 20 << 30)
    window: Kept = Kept("15m", 2 << 30)
    limits: Peers = Peers()
    tls: Tls | None = None
    metrics: Metrics | None = Metrics()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def disk(self) -> Retention:
        """Retention on disk. Raises ConfigInvalid."""
        return Retention(parse_span(self.retention.age), self.retention.max_bytes)

    @property
    def memory(self) -> Limits:
        """Limits of the window in memory. Raises ConfigInvalid."""
        return Limits(parse_span(self.window.age), self.window.max_bytes)


def read_config(path: Path | None) -> Config:
    """Return the configuration of a file, the defaults without one. Raises ConfigInvalid."""
    if path is None:
        return Config()
    return parse_config(read_text(path, "read configuration"), str(path))


def parse_config(text: str, file: str) -> Config:
    """Return the configuration of a YAML text. Raises ConfigInvalid naming `file` and path."""
    values = parse_yaml(text, file)
    try:
        config = msgspec.convert({} if values is None else values, Config)
    except msgspec.ValidationError as error:
        raise ConfigInvalid(file, "check configuration", str(error)) from error
    for name, kept in (("retention", config.retention), ("window", config.window)):
        try:
            parse_span(kept.age)
        except ConfigInvalid as error:
            raise ConfigInvalid(file, f"check $.{name}.age", error.why) from error
    return config
