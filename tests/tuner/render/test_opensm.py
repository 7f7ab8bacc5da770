"""opensm.conf: what is set, what stays, and that a real OpenSM understands it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from simlab.ib.fabrics import two_tier
from simlab.ib.lab import IbLab
from tests.tuner.render.states import step
from tuner.advice.cures.infiniband import ROUTING, SUBNET_MANAGER
from tuner.advice.knobs.catalogue import KNOBS
from tuner.render.opensm import (
    OPTIONS,
    control_table,
    diff_opensm,
    merge_opensm,
    opensm_lines,
    render_opensm,
)


def recommended(knob, proposed, summary="because"):
    return replace(step(1, SUBNET_MANAGER, knob, None, proposed), summary=summary)


EVERY = [
    recommended("opensm_routing_engine", ROUTING),
    recommended("opensm_adaptive_routing", "ar_updn"),
    recommended("opensm_qos", "TRUE"),
    recommended("opensm_congestion_control", "TRUE"),
    recommended("opensm_cc_threshold", 8),
    recommended("opensm_cc_marking_rate", 31),
    recommended("opensm_hoq_lifetime", 20),
    recommended("opensm_vl_arbitration", "qos_high_limit 4, weight 64 for lane 3 in qos_vlarb_low"),
]


def test_every_option_belongs_to_a_knob_and_every_such_knob_has_options():
    assert set(OPTIONS) == {name for name in KNOBS if name.startswith("opensm_")}
    assert {r.knob for r in EVERY} == set(OPTIONS)


def test_the_first_recommendation_wins_an_option():
    both = [recommended("opensm_hoq_lifetime", 19), recommended("opensm_hoq_lifetime", 16)]
    assert opensm_lines(both)["leaf_head_of_queue_lifetime"][0] == "0x13"


def test_other_lines_stay_as_they_are():
    current = "# head\nsm_priority 5\nrouting_engine minhop\n\nlog_flags 0x3\n"
    after = merge_opensm(current, EVERY[:1])
    assert after == current.replace("routing_engine minhop", f"routing_engine {ROUTING}")
    assert diff_opensm(current, [], "f") == ""
    assert merge_opensm(after, EVERY[:1]) == after


def test_nothing_for_the_subnet_manager_is_nothing():
    assert render_opensm([recommended("link_repair", "repaired")]) == ""


def test_control_table_grows_with_the_square():
    table = control_table()
    assert len(table) == 128
    assert table[0] == 0
    assert table[95] == round(7 / 0.408)
    assert list(table) == sorted(table)
    assert max(table) < 1 << 14


@pytest.mark.lab_ib
def test_a_real_opensm_takes_every_option():
    if shutil.which("opensm") is None and not Path("/usr/sbin/opensm").exists():
        pytest.skip("opensm is not installed: apt install opensm ibsim-utils")
    with IbLab(two_tier(2, 2, 2), opensm_options=render_opensm(EVERY)) as lab:
        said = (lab.folder / "opensm" / "osm.log").read_text(errors="replace")
        said += (lab.folder / "opensm.log").read_text(errors="replace")
    assert "SUBNET UP" in said
    for wrong in ("Unrecognized", "unrecognized", "Invalid", "invalid", "ignoring"):
        assert wrong not in said
