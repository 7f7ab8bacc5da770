"""The one place where an entity becomes Prometheus labels. Label sets are frozen: queries join
on them, and a new label breaks every `sum by`, so identity goes on info series only.
"""

from __future__ import annotations

from collectors.model.entities import (
    Device,
    Entity,
    Host,
    Interface,
    Link,
    Netdev,
    Port,
    QueuePair,
    Slot,
    Switch,
    display,
)


def labels(entity: Entity, own_host: str) -> dict[str, str]:
    """Return the labels of an entity as the agent of `own_host` serves it.

    What belongs to the agent's own host carries no host label (the scrape's `instance` says
    it); what belongs to another host does. Slots have their parent's labels and their own kind.
    """
    return {name: clean(value) for name, value in _labels(entity, own_host).items()}


def clean(text: str) -> str:
    """Return text that can be written as UTF-8, whatever bytes it came from."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _labels(entity: Entity, own_host: str) -> dict[str, str]:
    match entity:
        case Host(name):
            return _host(name, own_host)
        case Device(host):
            return {**_host(host, own_host), "device": _device(entity)}
        case Port(device, number):
            return {**_labels(device, own_host), "port": str(number)}
        case QueuePair(device, number):
            return {**_labels(device, own_host), "qp": str(number)}
        case Netdev(host, name):
            return {**_host(host, own_host), "netdev": name}
        case Switch(key, name):
            return {"switch": name or key}
        case Interface(switch, name):
            return {"switch": switch.name or switch.key, "interface": name}
        case Slot(parent, kind, index):
            return {**_labels(parent, own_host), kind: str(index)}
        case Link(a, b):
            return {"a": display(a), "b": display(b)}


def _host(name: str, own_host: str) -> dict[str, str]:
    return {} if name == own_host else {"host": name}


def _device(device: Device) -> str:
    return device.name or device.key
