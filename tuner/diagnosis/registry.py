"""Every rule, in no particular order: `diagnose` orders findings. A new rule is one line here."""

from typing import Final

from tuner.diagnosis.host import link_down, link_errors
from tuner.diagnosis.host.checks import CONFIGURATION
from tuner.diagnosis.rule import AnyRule
from tuner.diagnosis.rules import (
    cnp_feedback,
    counters_disagree,
    ecmp_imbalance,
    ib_bad_cable,
    ib_cabling,
    ib_congestion_control,
    ib_credit_loss,
    ib_hoq_discards,
    ib_oversubscribed_link,
    ib_routing_hot_spot,
    ib_slow_receiver,
    ib_vl_starvation,
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
    ib_bad_cable.RULE,
    ib_cabling.RULE,
    ib_congestion_control.RULE,
    ib_credit_loss.RULE,
    ib_hoq_discards.RULE,
    ib_oversubscribed_link.RULE,
    ib_routing_hot_spot.RULE,
    ib_slow_receiver.RULE,
    ib_vl_starvation.RULE,
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
