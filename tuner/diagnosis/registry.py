"""Every rule, in no particular order: `diagnose` orders findings. A new rule is one line here."""

from typing import Final

from tuner.diagnosis.host import link_down, link_errors
from tuner.diagnosis.host.checks import CONFIGURATION
from tuner.diagnosis.rule import AnyRule
from tuner.diagnosis.rules import (
    cnp_feedback,
    counters_disagree,
    ecmp_imbalance,
    loss_on_path,
    mtu_mismatch,
    not_ect,
    path_marks,
    pause_root,
    pfc_before_ecn,
    pfc_deadlock,
    pfc_mismatch,
    queue_drops,
    receiver_not_ready,
    slow_link,
)

RULES: Final[tuple[AnyRule, ...]] = (
    *CONFIGURATION,
    cnp_feedback.RULE,
    counters_disagree.RULE,
    ecmp_imbalance.RULE,
    link_down.RULE,
    link_errors.RULE,
    loss_on_path.RULE,
    mtu_mismatch.RULE,
    not_ect.RULE,
    path_marks.RULE,
    pause_root.RULE,
    pfc_before_ecn.RULE,
    pfc_deadlock.RULE,
    pfc_mismatch.RULE,
    queue_drops.RULE,
    receiver_not_ready.RULE,
    slow_link.RULE,
)
