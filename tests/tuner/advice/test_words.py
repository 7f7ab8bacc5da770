"""Numbers for people: their units, and predictions that tell something."""

import math

import pytest

from collectors.model.entities import Host
from collectors.model.units import quantity
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.knobs.knob import filled, shown
from tuner.advice.recommendation import Effect
from tuner.advice.words import effect, observed, predictions, value
from tuner.diagnosis.finding import Evidence


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (4e-6, "seconds", "4 µs"),
        (0.0003, "seconds", "300 µs"),
        (0.01184, "seconds", "11.84 ms"),
        (2.5, "seconds", "2.5 s"),
        (0.0, "seconds", "0 s"),
        (math.inf, "seconds", "never"),
        (80e6, "bps", "80 Mbit/s"),
        (4e11, "bps", "400 Gbit/s"),
        (298_000, "bytes", "298 KB"),
        (9000, "bytes", "9,000 bytes"),
        (1_048_576, "bytes", "1.049 MB"),
        (0.0, "bytes", "0 bytes"),
        (0.2, "ratio", "20%"),
        (1234567, "packets", "1,234,567 packets"),
        (3, "count", "3"),
        (0.39, "seconds/s", "39% of the time"),
        (1.25e9, "bytes/s", "1.25 GB/s"),
        (17, "packets/s", "17 packets/s"),
        (12.6, "packets", "13 packets"),
        (2.454, "packets", "2.5 packets"),
        (0.2454, "packets/s", "0.25 packets/s"),
        (0, "ecn_codepoint", "not ECT"),
        (2, "ecn_codepoint", "ECT(0)"),
    ],
)
def test_units_of_people(number, unit, text):
    assert quantity(number, unit) == text


def test_what_undo_says_keeps_all_digits():
    assert shown(1_048_576, "bytes") == "1.048576 MB"
    assert shown(80000000.0, "bps") == "80 Mbit/s"
    assert shown(80000000.0) == "80000000"
    _, undo = filled(KNOBS["dcqcn_cut_window_s"], "h1", 1.5e-5, 4e-6)
    assert undo.endswith("to 4 µs again")
    how, _ = filled(KNOBS["mtu_bytes"], "h1 eth0", 9000, 1500)
    assert "mtu 9000)" in how  # a command takes no unit


def test_a_codepoint_has_its_name_for_people_and_its_number_for_commands():
    how, undo = filled(KNOBS["roce_ecn_codepoint"], "h1", 2, 0)
    assert "to 2 (ECT(0): " in how
    assert undo.endswith("to not ECT again")
    assert shown(None, "ecn_codepoint") == "unknown"


def test_a_setting_seen_as_text_has_its_unit():
    assert observed(Evidence("dcqcn_cut_window_s", Host("h1"), "1e-06")) == "1 µs"
    assert observed(Evidence("mtu_bytes", Host("h1"), "9000")) == "9,000 bytes"
    assert observed(Evidence("trust", Host("h1"), "dscp")) == "dscp"
    assert observed(Evidence("mtu_bytes", Host("h1"), "9000 or more")) == "9000 or more"
    assert observed(Evidence("x", Host("h1"), 0.39, "ratio")) == "39%"


def test_values_that_are_no_numbers_stay_as_they_are():
    assert value(True, "bool") == "True"
    assert value((False, False, False, True), "bool") == "3"


def predicted(unit, before, low, high):
    return effect(Effect("x", unit, before, low, high, "m", "a"))


def test_shares_are_percent_and_factors_are_factors():
    assert predicted("ratio", 0.39, 0.04, 0.09) == "x: 39% → 4% to 9%"
    assert predicted("ratio", 1.0, 1.0, 1.08) == "x: ×1.00 to 1.08"
    assert predicted("ratio", 0.4, 0.0, 0.4) == "x: 40% → less; by how much is not known"
    assert predicted("ratio", None, 0.0, 1.0) == "x: less; by how much is not known"
    assert predicted("seconds", 0.01184, 0.01184, 0.01184) == "x: 11.84 ms, unchanged"
    assert predicted("bps", None, 1e9, 2e9) == "x: 1 to 2 Gbit/s"
    assert predicted("bps", None, 8e8, 2e9) == "x: 800 Mbit/s to 2 Gbit/s"
    assert predicted("packets", 2.454, 0.0, 0.2454) == "x: 2.5 packets → 0 to 0.25 packets"


def test_that_nothing_stays_nothing_is_no_prediction():
    nothing = Effect("retransmissions/s", "packets", None, 0.0, 0.0, "m", "a")
    none_now = Effect("retransmissions/s", "packets", 0.0, 0.0, 0.0, "m", "a")
    some = Effect("job time", "seconds", 2.0, 1.0, 1.0, "m", "a")
    assert predictions([nothing, some, none_now]) == ["job time: 2 s → 1 s"]
