"""Notifications of a Get as one tree, in the JSON of RFC 7951: what configuration parsers read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from collectors.gnmi.values import NotDecoded, parse_value


def parse_tree(notifications: Iterable[Any]) -> dict[str, Any]:
    """Return containers as objects and lists as arrays, from whole trees or from single leaves.

    What cannot be decoded, and what contradicts what came before, is left out.
    """
    root: dict[str, Any] = {}
    for notification in notifications:
        for update in notification.update:
            try:
                value = parse_value(update.val)
            except NotDecoded:
                continue
            _insert(root, [*notification.prefix.elem, *update.path.elem], value)
    return root


def _insert(root: dict[str, Any], elements: list[Any], value: Any) -> None:
    node: Any = root
    for element in elements[:-1]:
        node = _below(node, element)
        if node is None:
            return
    if not elements:
        if isinstance(value, dict):
            _merge(root, value)
        return
    last = elements[-1]
    if isinstance(value, dict):
        below = _below(node, last)
        if below is not None:
            _merge(below, value)
    elif not last.key and isinstance(value, list) and all(isinstance(row, dict) for row in value):
        held = node.setdefault(last.name, [])
        if isinstance(held, list):
            held.extend(value)
    elif not last.key:
        node.setdefault(last.name, value)


def _below(node: dict[str, Any], element: Any) -> dict[str, Any] | None:
    """Return the container or list entry that an element names, made where it is not there."""
    if not element.key:
        held = node.setdefault(element.name, {})
        return held if isinstance(held, dict) else None
    entries = node.setdefault(element.name, [])
    if not isinstance(entries, list):
        return None
    keys = dict(element.key)
    for entry in entries:
        if isinstance(entry, dict) and all(str(entry.get(key)) == keys[key] for key in keys):
            return entry
    entries.append(keys)
    return keys


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        held = into.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            _merge(held, value)
        elif isinstance(held, list) and isinstance(value, list):
            held.extend(value)
        else:
            into.setdefault(name, value)
