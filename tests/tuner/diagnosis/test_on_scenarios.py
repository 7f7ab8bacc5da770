"""Causes among their symptoms: diagnoses of drawn fabrics by seeds that no rule was set by."""

import pytest

from simlab.scenarios.observe import record
from simlab.scenarios.registry import draw
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES
from tuner.fabric.graph import build_fabric
from tuner.store.sources import open_window


def diagnosed(family, seed, folder):
    one = draw(family, seed)
    record(one, folder)
    window, _ = open_window(f"dir={folder}")
    return one, diagnose(window, build_fabric(window), RULES).findings


@pytest.mark.parametrize(
    "family",
    [
        "config-without-ect",  # by the setting: no NIC counts packets by ECN field
        "config-pfc-off-host",  # loss shows at its partners
        "config-mtu-switch",
        "flow-deadlock",  # its egresses moved before they got stuck
        "flow-pause-storm",  # who waits for it times out
        "host-short-timeout",  # nothing is lost, so that no answer is
        "link-slow-fabric",  # slower than its like between the same tiers
        "config-kmin-too-high",  # by alpha and pool
    ],
)
def test_the_cause_comes_before_what_follows_from_it(family, tmp_path):
    one, findings = diagnosed(family, 77, tmp_path / "r")
    [truth] = one.truths
    assert findings[0].rule in truth.causes
    assert findings[0].subject in truth.places


@pytest.mark.parametrize(
    ("family", "rule"),
    [
        ("healthy-controlled-incast", "path-marks"),  # marks do what they are for
        ("healthy-ring-one-qp", "ecmp-imbalance"),  # uneven, but nobody waits
        ("healthy-without-dcqcn", "reaction-off"),  # off everywhere is a choice
    ],
)
def test_what_hurts_nobody_is_information(family, rule, tmp_path):
    _, findings = diagnosed(family, 77, tmp_path / "r")
    assert [finding.severity for finding in findings if finding.rule == rule]
    assert {finding.severity for finding in findings} == {"info"}
