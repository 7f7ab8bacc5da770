"""The rules that need one host only, each with what to do about it: what `doctor` runs."""

from typing import Final

from tuner.diagnosis.host import (
    adaptive_retransmission_off,
    cnp_class,
    cts_class,
    fec_errors,
    frozen_counters,
    gid_choice,
    link_down,
    link_errors,
    loopback_traffic,
    lossy_traffic,
    pause_with_roce,
    pcie_link,
    pfc_priority,
    queue_pair_budget,
    reaction_off,
    roce_mtu,
    shared_class,
    slow_restart,
    traffic_class,
)
from tuner.diagnosis.rule import HostRule

CONFIGURATION: Final[tuple[HostRule, ...]] = (
    adaptive_retransmission_off.RULE,
    cnp_class.RULE,
    cts_class.RULE,
    frozen_counters.RULE,
    gid_choice.RULE,
    loopback_traffic.RULE,
    pause_with_roce.RULE,
    pcie_link.RULE,
    pfc_priority.RULE,
    reaction_off.RULE,
    roce_mtu.RULE,
    shared_class.RULE,
    slow_restart.RULE,
    traffic_class.RULE,
)
"""Rules of a host's configuration; the tuner runs them, too."""

CHECKS: Final[tuple[tuple[HostRule, str], ...]] = (
    (link_down.RULE, "check cable, optics and the switch port"),
    (link_errors.RULE, "clean or replace cable and optics of that port"),
    (fec_errors.RULE, fec_errors.FIX),
    (traffic_class.RULE, traffic_class.FIX),
    (lossy_traffic.RULE, lossy_traffic.FIX),
    (pfc_priority.RULE, pfc_priority.FIX),
    (pause_with_roce.RULE, pause_with_roce.FIX),
    (cnp_class.RULE, cnp_class.FIX),
    (reaction_off.RULE, reaction_off.FIX),
    (gid_choice.RULE, gid_choice.FIX),
    (roce_mtu.RULE, roce_mtu.FIX),
    (pcie_link.RULE, pcie_link.FIX),
    (shared_class.RULE, shared_class.FIX),
    (loopback_traffic.RULE, loopback_traffic.FIX),
    (adaptive_retransmission_off.RULE, adaptive_retransmission_off.FIX),
    (slow_restart.RULE, slow_restart.FIX),
    (cts_class.RULE, cts_class.FIX),
    (frozen_counters.RULE, frozen_counters.FIX),
    (queue_pair_budget.RULE, queue_pair_budget.FIX),
)
"""(rule, fix) in the order in which to look."""
