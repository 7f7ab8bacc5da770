"""RESTCONF (RFC 8040): OpenConfig QoS and interfaces, configuration only, as one JSON object."""

from __future__ import annotations

import json
from typing import Any, Final

from collectors.configapi.http import Dial, fetch_text
from collectors.model.errors import Malformed, NotSupported

PORT: Final = 443
RESOURCES: Final = ("openconfig-interfaces:interfaces", "openconfig-qos:qos")


def fetch_restconf(dial: Dial) -> str:
    """Return both resources; one that is not there is left out.

    Raises FabricError, NotSupported where neither is there.
    """
    tree: dict[str, Any] = {}
    missing: NotSupported | None = None
    for resource in RESOURCES:
        path = f"/restconf/data/{resource}?content=config"
        try:
            text = fetch_text(dial, "GET", path, accept="application/yang-data+json")
        except NotSupported as error:
            missing = error
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Malformed(dial.name, f"GET {resource}", "the answer is not JSON") from error
        if not isinstance(found, dict):
            raise Malformed(dial.name, f"GET {resource}", "the answer is not a JSON object")
        tree |= found
    if missing is not None and not tree:
        raise missing
    return json.dumps(tree)
