"""Arista eAPI: JSON-RPC 2.0 over POST /command-api, method runCmds, answers as text."""

from __future__ import annotations

from typing import Final

from collectors.configapi.http import Dial, fetch_text
from collectors.configapi.jsonrpc import pack_call, parse_result
from collectors.model.errors import Malformed

PORT: Final = 443
COMMANDS: Final = ("enable", "show running-config")


def fetch_eapi(dial: Dial) -> str:
    """Return the running-config. Raises FabricError."""
    call = pack_call("runCmds", {"version": 1, "cmds": list(COMMANDS), "format": "text"})
    text = fetch_text(
        dial, "POST", "/command-api", body=call, accept="application/json",
        sends="application/json",
    )  # fmt: skip
    result = parse_result(text, dial.name, "eapi")
    if not isinstance(result, list) or len(result) != len(COMMANDS):
        raise Malformed(dial.name, "eapi", "not one answer for each command")
    shown = result[-1].get("output") if isinstance(result[-1], dict) else None
    if not isinstance(shown, str):
        raise Malformed(dial.name, "eapi", "no text in the answer")
    return shown
