"""Every knob, by name. To add one, add a row to the file of its area."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tuner.advice.knobs import (
    classes,
    dcqcn,
    infiniband,
    jobs,
    lossless,
    nic,
    paths,
    queues,
)
from tuner.advice.knobs.knob import Knob, named

KNOBS: Final[Mapping[str, Knob]] = MappingProxyType(
    dict(
        named(
            dcqcn.KNOBS,
            queues.KNOBS,
            lossless.KNOBS,
            classes.KNOBS,
            paths.KNOBS,
            jobs.KNOBS,
            nic.KNOBS,
            infiniband.KNOBS,
        )
    )
)


def of_platform(platform: str) -> frozenset[str]:
    """Return the names of the knobs that a platform has."""
    return frozenset(name for name, knob in KNOBS.items() if knob.home(platform) is not None)
