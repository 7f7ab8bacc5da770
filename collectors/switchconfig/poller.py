"""Reads a switch's configuration file again whenever it has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from collectors.model.entities import Switch
from collectors.model.errors import Unavailable
from collectors.model.reading import Clock, Pass
from collectors.switchconfig.read import read_configuration


class ConfigFile:
    """One file of a backup folder."""

    def __init__(self, switch: Switch, platform: str, file: Path) -> None:
        self._switch = switch
        self._platform = platform
        self._file = file
        self._seen: tuple[int, int] | None = None

    @property
    def subject(self) -> Switch:
        """The switch that the file is of."""
        return self._switch

    async def poll(self, clock: Clock) -> Pass:
        """Return the facts where the file has changed. Raises FabricError."""
        del clock
        try:
            state = self._file.stat()
        except OSError as error:
            why = error.strerror or str(error)
            raise Unavailable(str(self._file), "configuration", why) from error
        seen = (state.st_mtime_ns, state.st_size)
        if seen == self._seen:
            return Pass()
        facts = await asyncio.to_thread(
            read_configuration, self._platform, self._file, self._switch
        )
        self._seen = seen
        return Pass(gaps=facts.gaps, facts=facts)
