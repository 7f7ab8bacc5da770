"""JSON-RPC 2.0 as EOS and NX-OS speak it: one call, one result or a typed error."""

from __future__ import annotations

import json
from typing import Any, Final

from collectors.model.errors import Denied, Malformed, NotSupported

_ID: Final = 1


def pack_call(method: str, params: dict[str, Any]) -> bytes:
    """Return a request."""
    call = {"jsonrpc": "2.0", "method": method, "params": params, "id": _ID}
    return json.dumps(call).encode()


def parse_result(text: str, name: str, what: str) -> Any:
    """Return the result of an answer.

    Raises Malformed for text that is none, Denied or NotSupported where the device refuses.
    """
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(name, what, "the answer is not JSON") from error
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if not isinstance(answer, dict):
        raise Malformed(name, what, "the answer is no JSON-RPC object")
    refusal = answer.get("error")
    if refusal is not None:
        said = str(refusal.get("message", "")) if isinstance(refusal, dict) else str(refusal)
        kind = Denied if "privilege" in said or "permission" in said.lower() else NotSupported
        raise kind(name, what, f"the switch refuses: {said.splitlines()[0][:160] if said else '?'}")
    if answer.get("id") != _ID or "result" not in answer:
        raise Malformed(name, what, "neither result nor error in the answer")
    return answer["result"]
