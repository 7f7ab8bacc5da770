"""DCQCN's registers and published parameter sets, against the tables of their vendors."""

from dataclasses import replace

import pytest

from collectors.model import dcqcn
from collectors.model.dcqcn import (
    DcqcnParameters,
    DcqcnRangeError,
    FirmwareDcqcn,
    check_firmware,
    firmware_of_parameters,
    parameters_of_firmware,
    profile,
)

# mlxconfig's nv_roce_cc_ecn (mstflint) and NVIDIA's DCQCN pages: least, most, default.
SEVENTEEN_BITS, FIFTEEN_BITS, TEN_BITS, FIVE_BITS = (2**bits - 1 for bits in (17, 15, 10, 5))
REGISTERS = {
    "dce_tcp_g": (1, TEN_BITS, 1019),
    "dce_tcp_rtt": (1, SEVENTEEN_BITS, 1),
    "initial_alpha_value": (1, TEN_BITS, 1023),
    "rpg_gd": (10, 11, 11),
    "rate_reduce_monitor_period": (1, SEVENTEEN_BITS, 4),
    "rpg_min_dec_fac": (1, 100, 50),
    "rpg_min_rate": (1, SEVENTEEN_BITS, 1),
    "rpg_max_rate": (0, SEVENTEEN_BITS, 0),
    "rpg_time_reset": (1, SEVENTEEN_BITS, 300),
    "rpg_byte_reset": (0, FIFTEEN_BITS, 32767),
    "rpg_threshold": (1, FIVE_BITS, 1),
    "rpg_ai_rate": (1, SEVENTEEN_BITS, 5),
    "rpg_hai_rate": (1, SEVENTEEN_BITS, 50),
    "clamp_tgt_rate": (0, 1, 0),
    "clamp_tgt_rate_after_time_inc": (0, 1, 1),
    "rate_to_set_on_first_cnp": (0, SEVENTEEN_BITS, 0),
    "min_time_between_cnps": (0, SEVENTEEN_BITS, None),
}
WIDE = ("rpg_min_rate", "rpg_max_rate", "rpg_byte_reset", "rpg_ai_rate", "rpg_hai_rate",
        "rate_to_set_on_first_cnp")  # fmt: skip


def fits(name: str, value: int, *, wide: bool) -> bool:
    try:
        check_firmware(FirmwareDcqcn(**{name: value}), wide_fields=wide)
    except DcqcnRangeError:
        return False
    return True


def test_registers_have_the_ranges_and_defaults_of_the_tables():
    told = {one.name: (one.minimum, one.maximum, one.default) for one in dcqcn.FIRMWARE_KNOBS}
    assert told == REGISTERS
    own = FirmwareDcqcn()
    assert {name: getattr(own, name) for name in REGISTERS} == {
        name: 4 if default is None else default for name, (_, _, default) in REGISTERS.items()
    }


@pytest.mark.parametrize("name", REGISTERS)
def test_a_register_takes_its_least_and_its_most(name):
    least, most, _ = REGISTERS[name]
    asked = (least - 1, least, most, most + 1)
    assert [fits(name, value, wide=False) for value in asked] == [False, True, True, False]
    with pytest.raises(DcqcnRangeError, match=name):
        check_firmware(FirmwareDcqcn(**{name: most + 1}))
    largest = 2**32 - 1 if name in WIDE else most
    assert [fits(name, value, wide=True) for value in (largest, largest + 1)] == [True, False]


def test_wide_fields_are_read_whatever_the_device_takes():
    wide = FirmwareDcqcn(rpg_byte_reset=10_000_000)
    assert parameters_of_firmware(wide).byte_counter_bytes == 10e6
    with pytest.raises(DcqcnRangeError, match="rpg_byte_reset"):
        firmware_of_parameters(DcqcnParameters())
    assert firmware_of_parameters(DcqcnParameters(), wide_fields=True).rpg_byte_reset == 10_000_000


def test_the_firmware_s_defaults_in_base_units():
    """g is inverted: 1019 of 1024 is kept (DOC-2790); the cut is alpha/2 and half at most."""
    own = dcqcn.NVIDIA_FIRMWARE
    assert own.g == pytest.approx(5 / 1024)
    times = (own.alpha_period_s, own.cut_window_s, own.increase_timer_s, own.cnp_interval_s)
    assert times == pytest.approx((1e-6, 4e-6, 300e-6, 4e-6))
    assert (own.byte_counter_bytes, own.recovery_stages) == (32767, 1)
    assert (own.ai_bps, own.hai_bps, own.min_rate_bps) == (5e6, 50e6, 1e6)
    assert (own.initial_alpha, own.cut_gain, own.min_decrease_ratio) == (1023 / 1024, 0.5, 0.5)
    assert (own.max_rate_bps, own.first_cnp_rate_bps) == (None, None)
    assert (own.clamp_target, own.clamp_target_after_timer) == (False, True)


def test_rates_that_are_on_come_back_and_an_alpha_of_one_is_the_largest_register():
    firmware = FirmwareDcqcn(rpg_max_rate=7, rate_to_set_on_first_cnp=9, rpg_byte_reset=0)
    own = parameters_of_firmware(firmware)
    assert (own.max_rate_bps, own.first_cnp_rate_bps, own.byte_counter_bytes) == (7e6, 9e6, None)
    assert firmware_of_parameters(own) == firmware
    tiny = DcqcnParameters(
        byte_counter_bytes=0.1, max_rate_bps=1.0, first_cnp_rate_bps=1.0, initial_alpha=1.0,
    )  # fmt: skip
    made = firmware_of_parameters(tiny)
    assert (made.rpg_byte_reset, made.rpg_max_rate, made.rate_to_set_on_first_cnp) == (1, 1, 1)
    assert (made.rpg_min_rate, made.rpg_min_dec_fac, made.initial_alpha_value) == (1, 1, 1023)
    with pytest.raises(DcqcnRangeError, match="rpg_gd"):
        firmware_of_parameters(DcqcnParameters(cut_gain=0.75))
    assert firmware_of_parameters(replace(tiny, min_decrease_ratio=0.9)).rpg_min_dec_fac == 90
    assert (
        firmware_of_parameters(DcqcnParameters(byte_counter_bytes=None, cut_gain=1.0)).rpg_gd == 10
    )


def told(name: str, line_bps: float) -> tuple:
    """Return the rows of the vendors' table: times in µs, counters, rates in Mb/s, g and alpha."""
    own = profile(name, line_bps)
    times = (own.alpha_period_s, own.cut_window_s, own.increase_timer_s, own.cnp_interval_s)
    rates = (own.ai_bps, own.hai_bps, own.min_rate_bps)
    return (
        tuple(round(time * 1e6, 6) for time in times), own.byte_counter_bytes, own.recovery_stages,
        tuple(round(rate / 1e6, 6) for rate in rates), own.g, own.initial_alpha,
    )  # fmt: skip


def test_published_sets_are_those_of_their_sources():
    """run.py and the sources of the simulators at 100 Gbit/s; Paraleon's tuning.py; the paper."""
    assert told("hpcc", 100e9) == ((1, 4, 300, 0), None, 1, (20, 200, 1000), 1 / 256, 1.0)
    assert (profile("hpcc", 25e9).ai_bps, profile("hpcc", 25e9).hai_bps) == (5e6, 50e6)
    assert (profile("conweave", 25e9).ai_bps, profile("conweave", 25e9).hai_bps) == (10e6, 25e6)
    assert told("conweave", 100e9) == ((1, 4, 300, 0), None, 1, (40, 100, 100), 1 / 256, 1.0)
    assert told("simai", 400e9) == ((1, 4, 900, 0), None, 1, (50, 100, 100), 1 / 256, 1.0)
    assert told("paper", 40e9) == ((55, 50, 55, 50), 10e6, 5, (40, 200, 0), 1 / 256, 1.0)
    assert told("ns3_rdma", 40e9) == ((55, 50, 60, 50), 300e6, 5, (40, 200, 100), 1 / 256, 1.0)
    expert = told("paraleon_expert", 100e9)
    assert expert == ((1, 80, 300, 96), 32767, 1, (50, 150, 1), 5 / 1024, 1023 / 1024)
    for name in ("hpcc", "conweave", "simai"):
        own = profile(name, 100e9)
        assert (own.cut_gain, own.min_decrease_ratio, own.clamp_target) == (0.5, 0.0, False)
    assert profile("ns3_rdma", 40e9).clamp_target


def test_amd_s_recommendation_is_kept_in_its_own_units():
    assert dict(dcqcn.AMD_POLLARA) == {
        "alpha-update-interval": 1, "alpha-update-g": 512, "initial-alpha-value": 64,
        "rate-reduce-monitor-period": 1, "rate-increase-byte-count": 431068,
        "rate-increase-threshold": 1, "ai-rate": 160, "hai-rate": 300,
        "token-bucket-size": 800000, "cnp-dscp": 46,
    }  # fmt: skip


def test_rates_scale_together():
    faster = DcqcnParameters().scaled_rates(10)
    assert (faster.ai_bps, faster.hai_bps) == (400e6, 2e9)
