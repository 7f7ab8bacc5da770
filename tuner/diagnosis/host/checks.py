"""The rules that need one host only, each with what to do about it: what `doctor` runs."""

from typing import Final

from tuner.diagnosis.host import (
    cnp_class,
    fec_errors,
    frozen_counters,
    gid_choice,
    link_down,
    link_errors,
    pause_with_roce,
    pcie_link,
    pfc_priority,
    reaction_off,
    roce_mtu,
    traffic_class,
)
from tuner.diagnosis.rule import HostRule

CONFIGURATION: Final[tuple[HostRule, ...]] = (
    cnp_class.RULE,
    frozen_counters.RULE,
    gid_choice.RULE,
    pause_with_roce.RULE,
    pcie_link.RULE,
    pfc_priority.RULE,
    reaction_off.RULE,
    roce_mtu.RULE,
    traffic_class.RULE,
)
"""Rules of a host's configuration; the tuner runs them, too."""

CHECKS: Final[tuple[tuple[HostRule, str], ...]] = (
    (link_down.RULE, "check cable, optics and the switch port"),
    (link_errors.RULE, "clean or replace cable and optics of that port"),
    (fec_errors.RULE, fec_errors.FIX),
    (traffic_class.RULE, traffic_class.FIX),
    (pfc_priority.RULE, pfc_priority.FIX),
    (pause_with_roce.RULE, pause_with_roce.FIX),
    (cnp_class.RULE, cnp_class.FIX),
    (reaction_off.RULE, reaction_off.FIX),
    (gid_choice.RULE, gid_choice.FIX),
    (roce_mtu.RULE, roce_mtu.FIX),
    (pcie_link.RULE, pcie_link.FIX),
    (frozen_counters.RULE, frozen_counters.FIX),
)
"""(rule, fix) in the order in which to look."""
