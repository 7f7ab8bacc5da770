"""Cisco NX-API: JSON-RPC over POST /ins, method cli_ascii, so that the answer is the CLI's text."""

from __future__ import annotations

from typing import Final

from collectors.configapi.http import Dial, fetch_text
from collectors.configapi.jsonrpc import pack_call, parse_result
from collectors.model.errors import Malformed

PORT: Final = 443
COMMAND: Final = "show running-config"


def fetch_nxapi(dial: Dial) -> str:
    """Return the running-config. Raises FabricError."""
    call = pack_call("cli_ascii", {"cmd": COMMAND, "version": 1})
    text = fetch_text(
        dial, "POST", "/ins", body=call, accept="application/json",
        sends="application/json-rpc",
    )  # fmt: skip
    result = parse_result(text, dial.name, "nx-api")
    shown = result.get("msg") if isinstance(result, dict) else None
    if not isinstance(shown, str):
        raise Malformed(dial.name, "nx-api", "no text in the answer")
    return shown
