"""NVUE REST (Cumulus Linux, NVOS): the applied revision as one JSON tree."""

from __future__ import annotations

from collectors.configapi.http import Dial, fetch_text

PORT = 8765
PATH = "/nvue_v1/?rev=applied&filled=false"


def fetch_nvue(dial: Dial) -> str:
    """Return the applied configuration, in JSON. Raises FabricError."""
    return fetch_text(dial, "GET", PATH, accept="application/json")
