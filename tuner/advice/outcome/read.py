"""Which kind of measurement a text is: one row a format."""

from __future__ import annotations

from typing import Final

from collectors.model.errors import ConfigInvalid
from tuner.advice.outcome import dcgm, nccl_inspector, nccl_tests
from tuner.advice.outcome.measured import Measured

_FORMATS: Final = (
    (nccl_tests.looks_like, nccl_tests.parse),
    (nccl_inspector.looks_like, nccl_inspector.parse),
    (dcgm.looks_like, dcgm.parse),
)


def parse_measured(text: str, where: str) -> Measured:
    """Return what a measurement says. Raises ConfigInvalid for a text of no known format,
    Malformed for one that breaks its own.
    """
    for looks_like, parse in _FORMATS:
        if looks_like(text):
            return parse(text, where)
    raise ConfigInvalid(
        where, "--measured", "is neither nccl-tests output, an NCCL inspector log nor a DCGM scrape"
    )
