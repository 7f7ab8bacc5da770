"""Junos REST API: the RPC get-configuration, answered in Junos' own text form."""

from __future__ import annotations

from typing import Final

from collectors.configapi.http import Dial, fetch_text

PORT: Final = 3443
PATH: Final = "/rpc/get-configuration"


def fetch_junos(dial: Dial) -> str:
    """Return the committed configuration. Raises FabricError."""
    return fetch_text(dial, "GET", PATH, accept="text/plain")
