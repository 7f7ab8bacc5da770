"""YAML from outside, read into plain values: every fault in it is one typed error.

PyYAML lets the errors of Python through where a scalar does not fit its tag (`2001-99-99`,
`!!int zz`), recurses on nested text, and keeps the last of a key that stands twice.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from collectors.model.errors import ConfigInvalid

_UNFIT: Final = (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError)
_SHOWN: Final = 40  # characters of a wrong scalar


def parse_yaml(text: str, file: str) -> Any:
    """Return the plain values of a YAML text, None for an empty one.

    Keys stay as written: `on:` is no boolean. Raises ConfigInvalid naming the file and, where
    it is known, the line.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506  a SafeLoader by descent
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        raise ConfigInvalid(where, "parse", error.problem or _one_line(error)) from error
    except yaml.YAMLError as error:
        raise ConfigInvalid(file, "parse", _one_line(error)) from error
    except RecursionError:
        raise ConfigInvalid(file, "parse", "it is nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """SafeLoader that names the place of a scalar that its tag does not fit."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _UNFIT as error:
            kind = node.tag.rpartition(":")[2]
            shown = node.value[:_SHOWN] if isinstance(node, yaml.ScalarNode) else "the value"
            raise yaml.MarkedYAMLError(
                problem=f"{shown!r} is no {kind}", problem_mark=node.start_mark
            ) from error


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[object] = set()
    for key, _ in node.value:
        name = str(key.value)
        if name in seen:
            raise yaml.MarkedYAMLError(
                problem=f"key {name!r} stands twice", problem_mark=key.start_mark
            )
        seen.add(name)
        if key.tag == "tag:yaml.org,2002:bool":  # YAML 1.1 reads the key `on:` as `true:`
            key.tag = "tag:yaml.org,2002:str"
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
