"""Configurations of any platform as facts, from a file of a backup folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from collectors.codec.sonic_config import parse_config_db, parse_config_json
from collectors.model.entities import Switch
from collectors.model.errors import NotSupported, Unavailable
from collectors.model.facts import Attribute, Facts, Gap
from collectors.switchconfig.blocks import Reader
from collectors.switchconfig.eos import parse_eos
from collectors.switchconfig.junos import parse_junos
from collectors.switchconfig.nvue import parse_nvue
from collectors.switchconfig.nxos import parse_nxos
from collectors.switchconfig.onyx import parse_onyx
from collectors.switchconfig.openconfig import parse_openconfig

NAME: Final = "switch_config"
_PARSERS: Final[dict[str, Callable[[str, Switch, str], Reader]]] = {
    "eos": parse_eos,
    "nxos": parse_nxos,
    "junos": parse_junos,
    "nvue": parse_nvue,
    "onyx": parse_onyx,
    "openconfig": parse_openconfig,
}
PLATFORMS: Final = (*_PARSERS, "sonic")


def parse_configuration(platform: str, text: str, switch: Switch, where: str) -> Facts:
    """Return the facts of a configuration; what could not be understood is in its gaps.

    Raises NotSupported for a platform without a parser, Malformed for text that is none.
    """
    if platform == "sonic":
        facts, odd = parse_config_db(parse_config_json(text, where), switch, where)
        return _with_gaps(facts, switch, odd, platform)
    parser = _PARSERS.get(platform)
    if parser is None:
        raise NotSupported(where, "configuration", f"no parser for platform {platform!r}")
    reader = parser(text, switch, where)
    facts = Facts(tuple(reader.settings), tuple(reader.attributes))
    return _with_gaps(facts, switch, reader.odd, platform)


def _with_gaps(facts: Facts, switch: Switch, odd: list[tuple[str, str]], platform: str) -> Facts:
    gaps = tuple(Gap(str(switch), NAME, what, why) for what, why in odd)
    last = {(row.entity, row.name): row for row in facts.settings}  # a later line wins
    attributes = (*facts.attributes, Attribute(switch, "config_language", platform))
    return Facts(tuple(last.values()), attributes, neighbours=facts.neighbours, gaps=gaps)


def read_configuration(platform: str, file: Path, switch: Switch) -> Facts:
    """Return the facts of a file. Raises Unavailable, Malformed, NotSupported."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Unavailable(str(file), "configuration", str(error.strerror)) from error
    return parse_configuration(platform, text, switch, file.name)
