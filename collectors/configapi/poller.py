"""Fetches a switch's configuration over its API now and then, and reads it for settings."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from collectors.configapi import eapi, junos, nvue, nxapi, restconf
from collectors.configapi.http import Dial
from collectors.model.entities import Switch
from collectors.model.errors import FabricError
from collectors.model.reading import Clock, Pass
from collectors.switchconfig.read import parse_configuration


@dataclass(frozen=True, slots=True)
class Api:
    """A protocol. platform: whose parser reads the answer. where: what settings name as source."""

    fetch: Callable[[Dial], str]
    port: int
    platform: str
    where: str


APIS: Final[dict[str, Api]] = {
    "eapi": Api(eapi.fetch_eapi, eapi.PORT, "eos", "eapi running-config"),
    "nxapi": Api(nxapi.fetch_nxapi, nxapi.PORT, "nxos", "nx-api running-config"),
    "nvue": Api(nvue.fetch_nvue, nvue.PORT, "nvue", "nvue applied"),
    "junos": Api(junos.fetch_junos, junos.PORT, "junos", "junos get-configuration"),
    "restconf": Api(restconf.fetch_restconf, restconf.PORT, "openconfig", "restconf"),
}
_RETRY_S: Final = 60.0


class ConfigApi:
    """One switch. every_s: between fetches; a failure is tried again after a minute."""

    def __init__(self, switch: Switch, api: Api, dial: Dial, every_s: float = 600.0) -> None:
        self._switch = switch
        self._api = api
        self._dial = dial
        self._every_s = every_s
        self._due_ns = 0
        self._error: FabricError | None = None
        self._seen = b""

    @property
    def subject(self) -> Switch:
        """The switch that is asked."""
        return self._switch

    async def poll(self, clock: Clock) -> Pass:
        """Return the facts where the configuration has changed. Raises FabricError."""
        now_ns = clock().mono_ns
        if now_ns < self._due_ns:
            if self._error is not None:
                raise self._error
            return Pass()
        try:
            text = await asyncio.to_thread(self._api.fetch, self._dial)
            digest = hashlib.sha256(text.encode()).digest()
            changed = digest != self._seen
            facts = (
                parse_configuration(self._api.platform, text, self._switch, self._api.where)
                if changed
                else None
            )
        except FabricError as error:
            self._error = error
            self._due_ns = now_ns + int(min(self._every_s, _RETRY_S) * 1e9)
            raise
        self._error, self._seen = None, digest
        self._due_ns = now_ns + int(self._every_s * 1e9)
        return Pass(gaps=facts.gaps if facts else (), facts=facts)
