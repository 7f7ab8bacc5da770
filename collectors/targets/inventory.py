"""The inventory of switches: one YAML file, typed; secrets by reference, never by value.

Every error is one line that names the file and the path in it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from collectors.model.entities import Switch
from collectors.model.errors import ConfigInvalid
from collectors.targets.tls import Tls
from collectors.user_input.text_file import read_text
from collectors.user_input.yaml_text import parse_yaml

Seconds = Annotated[float, Meta(gt=0, le=86400)]
TcpPort = Annotated[int, Meta(ge=1, le=65535)]
API_OF_PLATFORM: Final = {
    "eos": "eapi", "nxos": "nxapi", "nvue": "nvue", "junos": "junos", "openconfig": "restconf",
}  # fmt: skip
Platform = Literal["eos", "nxos", "junos", "sonic", "nvue", "onyx", "openconfig", "other"]


class CredentialRef(Struct, frozen=True, forbid_unknown_fields=True):
    """Where secrets are: environment variables or files. user is no secret."""

    user: str = ""
    password_env: str = ""
    password_file: str = ""
    community_env: str = ""
    community_file: str = ""
    auth: Literal["", "md5", "sha", "sha256", "sha512"] = "sha256"
    priv: Literal["", "aes", "aes256"] = "aes"
    priv_password_env: str = ""
    priv_password_file: str = ""


class Snmp(Struct, frozen=True, forbid_unknown_fields=True):
    """SNMP of a target. repeats: requests after the first. max_repetitions: rows of a reply."""

    credentials: str
    port: TcpPort = 161
    timeout: Seconds = 2.0
    repeats: Annotated[int, Meta(ge=0, le=10)] = 1
    max_repetitions: Annotated[int, Meta(ge=5, le=500)] = 60
    relearn: Seconds = 600.0


class Gnmi(Struct, frozen=True, forbid_unknown_fields=True):
    """gNMI of a target; tls null is plain text. paths: instead of the platform's own.

    poll: asks by POLL instead of STREAM, for targets that do SAMPLE badly. settings: seconds
    between looks at the OpenConfig configuration, 0 for never.
    """

    credentials: str = ""
    port: TcpPort | None = None
    tls: Tls | None = None
    timeout: Seconds = 10.0
    max_message_bytes: Annotated[int, Meta(ge=1 << 16)] = 64 << 20
    on_change_only: bool = False
    poll: bool = False
    settings: Annotated[float, Meta(ge=0, le=86400)] = 600.0
    gzip: bool = False
    paths: tuple[str, ...] = ()


class SonicDb(Struct, frozen=True, forbid_unknown_fields=True):
    """Redis of a SONiC switch."""

    port: TcpPort = 6379
    credentials: str = ""
    timeout: Seconds = 5.0


class Api(Struct, frozen=True, forbid_unknown_fields=True):
    """The management API that the configuration is read from. protocol: the platform's own.

    tls null is plain HTTP. every: seconds between looks; the configuration seldom changes.
    """

    credentials: str = ""
    protocol: Literal["", "eapi", "nxapi", "nvue", "junos", "restconf"] = ""
    port: TcpPort | None = None
    tls: Tls | None = Tls()
    timeout: Seconds = 20.0
    every: Seconds = 600.0


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """One switch. config: a configuration in a backup folder, read for settings.

    pushes: what it sends to this agent of its own accord, so that its silence there is a gap.

    include, exclude: regular expressions on whole interface names.
    """

    name: str
    address: str
    platform: Platform
    group: str = ""
    interval: Seconds | None = None
    snmp: Snmp | None = None
    gnmi: Gnmi | None = None
    sonic_db: SonicDb | None = None
    config: str = ""
    api: Api | None = None
    pushes: tuple[Literal["otlp", "gnmi_dialout"], ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def switch(self) -> Switch:
        """The entity that its readings carry: the name here, the same over every transport."""
        return Switch(self.name, self.name)


class Inventory(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. interval: of targets and groups that have none; groups: name -> interval."""

    targets: tuple[Target, ...]
    credentials: dict[str, CredentialRef] = {}
    interval: Seconds = 10.0
    groups: dict[str, Seconds] = {}

    def interval_of(self, target: Target) -> float:
        """Return how often to read a target: its own, its group's, the file's."""
        return target.interval or self.groups.get(target.group) or self.interval


def read_inventory(path: Path) -> Inventory:
    """Return the inventory of a file. Raises ConfigInvalid."""
    return parse_inventory(read_text(path, "read inventory"), str(path))


def parse_inventory(text: str, file: str) -> Inventory:
    """Return the inventory of a YAML text. Raises ConfigInvalid."""
    values = parse_yaml(text, file)
    try:
        inventory = msgspec.convert(values, Inventory)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `")
        raise ConfigInvalid(file, where.rstrip("`") or "$", what) from error
    _check(inventory, file)
    return inventory


def _check(inventory: Inventory, file: str) -> None:
    seen: set[str] = set()
    for place, target in enumerate(inventory.targets):
        where = f"$.targets[{place}]"
        if target.name in seen:
            raise ConfigInvalid(file, where, f"the name {target.name!r} stands twice")
        seen.add(target.name)
        ways = (target.snmp, target.gnmi, target.sonic_db, target.config, target.api, target.pushes)
        if not any(ways):
            names = "snmp, gnmi, sonic_db, config, api, pushes"
            raise ConfigInvalid(file, where, f"needs one of {names}")
        if target.api and not target.api.protocol and target.platform not in API_OF_PLATFORM:
            why = f"name the protocol: platform {target.platform} has none of its own"
            raise ConfigInvalid(file, f"{where}.api", why)
        if target.group and target.group not in inventory.groups:
            raise ConfigInvalid(file, f"{where}.group", f"no group {target.group!r} in $.groups")
        for name in (
            target.snmp.credentials if target.snmp else "",
            target.gnmi.credentials if target.gnmi else "",
            target.sonic_db.credentials if target.sonic_db else "",
            target.api.credentials if target.api else "",
        ):
            if name and name not in inventory.credentials:
                raise ConfigInvalid(file, where, f"no credentials {name!r} in $.credentials")
        for pattern in (*target.include, *target.exclude):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigInvalid(file, where, f"{pattern!r}: {error}") from error
