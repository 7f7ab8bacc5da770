"""From `suggest.json` to changes of the lab: the lab's hands, which know nothing but that file.

On a real fabric these hands are an engineer's. Scopes are canonical strings of the product; the
lab's host hN hangs on the switch's port pN.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from collectors.model.entities import (
    Entity,
    Interface,
    Link,
    Netdev,
    Port,
    Slot,
    host_of,
    parse_entity,
)
from collectors.model.errors import Malformed
from simlab.rxe.scenario import Change, Flow, ScenarioError

SCHEMA = "fabric-tuner/suggest/"


def changes(document: str, flows: Iterable[Flow]) -> list[Change]:
    """Return the changes of the lab that the recommendations of a `suggest.json` come down to.

    Raises ScenarioError where the file is no such document, or asks for what the lab has not.
    """
    try:
        answer = json.loads(document)
        if not str(answer["schema"]).startswith(SCHEMA):
            raise ScenarioError(f"suggest.json: schema is {answer['schema']}, not {SCHEMA}*")
        recommendations = list(answer["recommendations"])
        flows = list(flows)
        made = [change for rec in recommendations for change in _change(rec, flows)]
    except (json.JSONDecodeError, KeyError, TypeError, Malformed) as error:
        raise ScenarioError(f"suggest.json: cannot be read: {error!r}") from error
    return list({(change.knob, change.target): change for change in made}.values())


def _change(rec: Mapping[str, Any], flows: list[Flow]) -> list[Change]:
    scope = parse_entity(rec["scope"]["entity"])
    value = rec["proposed"]
    match rec["knob"]:
        case "link_repair":
            return [Change("port.loss_ratio", _port(scope), 0.0)]
        case "queue_rate_bps":
            return [Change("port.rate_bps", _port(scope), int(value))]
        case "queue_limit_bytes":
            return [Change("port.queue_bytes", _port(scope), int(value))]
        case "mtu_bytes" if isinstance(scope, Interface):
            return [Change("port.mtu", _port(scope), int(value))]
        case "mtu_bytes":
            return [Change("host.mtu", _host(scope), int(value))]
        case "roce_ecn_codepoint":
            sent = [flow for flow in flows if flow.sender == _host(scope)]
            return [
                Change("flow.tclass", flow.name, (flow.traffic.tclass & ~3) | int(value))
                for flow in sent
            ]
        case "receive_queue_depth":
            received = [flow for flow in flows if flow.receiver == _host(scope)]
            return [Change("flow.recv_buffers", flow.name, int(value)) for flow in received]
        case other:
            raise ScenarioError(f"suggest.json: the lab has no knob {other!r}")


def _port(scope: Entity) -> str:
    """Return the switch port that a queue, interface, cable or host port is about."""
    match scope:
        case Slot(parent=Interface(name=name)) | Interface(name=name):
            return name
        case Link(a, b):
            return _port(a if isinstance(a, Interface) else b)
        case Port() | Netdev():
            return "p" + _host(scope).removeprefix("h")
        case _:
            raise ScenarioError(f"suggest.json: {scope} is no port of the lab's switch")


def _host(scope: Entity) -> str:
    host = host_of(scope)
    if host is None:
        raise ScenarioError(f"suggest.json: {scope} is no host of the lab")
    return host
