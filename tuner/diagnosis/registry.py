"""Every rule, in no particular order: `diagnose` orders findings. A new rule is one line here."""

from typing import Final

from tuner.diagnosis.host import link_down
from tuner.diagnosis.rule import AnyRule
from tuner.diagnosis.rules import (
    loss_on_path,
    mtu_mismatch,
    not_ect,
    path_marks,
    pause_root,
    pfc_before_ecn,
    pfc_deadlock,
    queue_drops,
    receiver_not_ready,
    slow_link,
)

RULES: Final[tuple[AnyRule, ...]] = (
    link_down.RULE,
    loss_on_path.RULE,
    mtu_mismatch.RULE,
    not_ect.RULE,
    path_marks.RULE,
    pause_root.RULE,
    pfc_before_ecn.RULE,
    pfc_deadlock.RULE,
    queue_drops.RULE,
    receiver_not_ready.RULE,
    slow_link.RULE,
)
