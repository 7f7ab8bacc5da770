"""The catalogue of knobs: one vocabulary with the settings, ranges that hold its own defaults."""

import pytest

from collectors.model.catalogue.settings import SETTINGS
from collectors.model.dcqcn import FIRMWARE_KNOBS, FirmwareDcqcn, parameters_of_firmware
from tuner.advice.knobs.catalogue import KNOBS, of_platform
from tuner.advice.knobs.knob import PLATFORMS, filled, named


def test_knobs_that_facts_carry_are_named_as_there():
    renamed = {
        "opensm_cc_marking_rate": "ib_cc_marking_rate", "opensm_cc_threshold": "ib_cc_threshold",
        "opensm_hoq_lifetime": "ib_hoq_life",
    }  # fmt: skip
    for knob in KNOBS.values():
        if knob.setting:
            assert knob.setting == renamed.get(knob.name, knob.name)
            row = SETTINGS[knob.setting]
            assert knob.unit == row.unit or not row.unit, knob.name
            assert bool(knob.places) == bool(row.indexed_by), knob.name
        else:
            assert knob.name not in SETTINGS, f"{knob.name} has a setting and does not say so"


def test_every_dcqcn_register_has_a_knob_whose_range_is_the_registers():
    for register in FIRMWARE_KNOBS:
        knob = KNOBS[f"dcqcn_{register.paper_field}"]
        for end in (register.minimum, register.maximum):
            parameters = parameters_of_firmware(FirmwareDcqcn(**{register.name: end}))
            value = getattr(parameters, register.paper_field)
            assert knob.unfit(0 if value is None else value) == ""
        assert register.mlxconfig in knob.home("mlxconfig").place


@pytest.mark.parametrize("knob", KNOBS.values(), ids=lambda knob: knob.name)
def test_rows_are_whole(knob):
    assert knob.meaning.endswith(".")
    assert knob.on
    assert knob.disruption
    for home in knob.homes:
        assert home.platform in PLATFORMS
    for vendor, value in knob.defaults:
        no_device = vendor == "SIGCOMM'15" or value == "random at each start"
        assert no_device or knob.unfit(value) == "", (vendor, value)
    how, undo = filled(knob, "PLACE", (1, 2) if knob.places else 7, None)
    assert "{" not in how + undo


def test_values_that_do_not_fit_are_named():
    assert KNOBS["kmin_bytes"].unfit(-1) == "-1 is outside 0..1e+09"
    assert "needs 8 places" in KNOBS["pfc_priorities"].unfit(True)
    assert "needs 8 places, has 2" in KNOBS["pfc_priorities"].unfit((True, False))
    assert "is none of" in KNOBS["trust"].unfit("vlan")
    assert "no number" in KNOBS["kmin_bytes"].unfit("much")
    assert KNOBS["pfc_priorities"].unfit((True,) * 8) == ""


def test_maps_are_shown_as_what_they_map():
    places = tuple(3 if dscp == 26 else -1 for dscp in range(64))
    how, undo = filled(KNOBS["dscp_to_priority"], "h1 eth0", places, None)
    assert how == "set dscp_to_priority of h1 eth0 to 26:3"
    assert undo == "set dscp_to_priority of h1 eth0 to its former value again"


def test_a_name_stands_once():
    with pytest.raises(ValueError, match="kmin_bytes stands twice"):
        dict(named((KNOBS["kmin_bytes"],), (KNOBS["kmin_bytes"],)))


def test_no_platform_has_a_firmware_owned_knob_but_the_firmware():
    for platform in ("eos", "nxos", "junos", "sonic", "nvue", "onyx", "nccl", "ucx", "opensm"):
        assert of_platform(platform)
        assert all(KNOBS[name].owner == "operator" for name in of_platform(platform))
