"""What `tuner audit` asks: all checks of configuration, of one host and end to end."""

from typing import Final

from tuner.diagnosis.audit import classes, drift, ends, hash_tiers, jobs, lossless_ports
from tuner.diagnosis.host.checks import CONFIGURATION
from tuner.diagnosis.rule import AnyRule
from tuner.diagnosis.rules import mtu_mismatch, pfc_mismatch

_NEEDS_COUNTERS: Final = ("frozen-counters",)

AUDIT: Final[tuple[AnyRule, ...]] = (
    *(rule for rule in CONFIGURATION if rule.id not in _NEEDS_COUNTERS),
    mtu_mismatch.RULE,
    pfc_mismatch.RULE,
    ends.RULE,
    classes.RULE,
    lossless_ports.RULE,
    hash_tiers.RULE,
    drift.RULE,
    jobs.RULE,
)
