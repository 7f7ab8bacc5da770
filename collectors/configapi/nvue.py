"""NVUE REST (Cumulus Linux, NVOS): the applied revision as one JSON tree."""

from __future__ import annotations

from typing import Final

from collectors.configapi.http import Dial, fetch_text

PORT: Final = 8765
PATH: Final = "/nvue_v1/?rev=applied&filled=false"


def fetch_nvue(dial: Dial) -> str:
    """Return the applied configuration, in JSON. Raises FabricError."""
    return fetch_text(dial, "GET", PATH, accept="application/json")
