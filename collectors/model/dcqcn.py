"""DCQCN parameters in two forms: the paper's symbols in base units, and NVIDIA's registers.

The two are not the same numbers in other units: firmware inverts g, counts time in µs and rate
in Mb/s, and its defaults are far from the paper's. Never carry single values across: convert a
whole record. Sources: Zhu et al. SIGCOMM'15 and CoNEXT'16 (symbols), NVIDIA DOCA "DCQCN CC
parameters", DOC-2790 and mstflint's mlxconfig database (registers, ranges, defaults).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

US = 1e-6
MBPS = 1e6
G_UNIT = 1024
BYTE_RESET_MAX_16BIT = 32767


class DcqcnRangeError(ValueError):
    """A parameter does not fit the device's range; the text names it, the value and the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcqcnParameters:
    """One DCQCN configuration (reaction and notification point) in base units.

    Times are seconds, rates bit/s, sizes bytes. None means "off": no byte counter, start at
    line rate, no maximum below line rate. The cut is R·(1 − α·cut_gain), not below
    min_decrease_ratio·R in one event.
    """

    g: float = 1 / 256
    alpha_period_s: float = 55 * US  # τ'
    cut_window_s: float = 50 * US  # τ, at most one cut in it
    increase_timer_s: float = 55 * US  # T
    byte_counter_bytes: float | None = 10e6  # B
    recovery_stages: int = 5  # F
    ai_bps: float = 40 * MBPS
    hai_bps: float = 200 * MBPS
    initial_alpha: float = 1.0
    cut_gain: float = 0.5
    min_decrease_ratio: float = 0.0
    min_rate_bps: float = 0.0
    max_rate_bps: float | None = None
    first_cnp_rate_bps: float | None = None
    clamp_target: bool = True  # R_T := R_C on every CNP
    clamp_target_after_timer: bool = True
    cnp_interval_s: float = 50 * US  # at the notification point, per flow

    def scaled_rates(self, factor: float) -> DcqcnParameters:
        """Return the same parameters with AI and HAI times `factor`, as for a faster port."""
        return replace(self, ai_bps=self.ai_bps * factor, hai_bps=self.hai_bps * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareDcqcn:
    """The registers of a ConnectX-4 or later, in its own units; names as in MLNX_OFED sysfs."""

    dce_tcp_g: int = 1019
    dce_tcp_rtt: int = 1
    initial_alpha_value: int = 1023
    rpg_gd: int = 11
    rate_reduce_monitor_period: int = 4
    rpg_min_dec_fac: int = 50
    rpg_min_rate: int = 1
    rpg_max_rate: int = 0
    rpg_time_reset: int = 300
    rpg_byte_reset: int = 32767
    rpg_threshold: int = 1
    rpg_ai_rate: int = 5
    rpg_hai_rate: int = 50
    clamp_tgt_rate: int = 0
    clamp_tgt_rate_after_time_inc: int = 1
    rate_to_set_on_first_cnp: int = 0
    min_time_between_cnps: int = 4


@dataclass(frozen=True, slots=True)
class FirmwareKnob:
    """One register: how each interface spells it, its unit, range, default and paper symbol."""

    name: str  # MLNX_OFED sysfs, under ecn/roce_rp or ecn/roce_np
    debugfs: str  # upstream mlx5, under cc_params
    mlxconfig: str  # without the _P1 or _P2
    unit: str
    minimum: int
    maximum: int
    default: int | None  # None: differs by model and firmware
    symbol: str
    paper_field: str


_RATE_MAX = 131071
_TIME_MAX = 131071

FIRMWARE_KNOBS: tuple[FirmwareKnob, ...] = (
    FirmwareKnob("dce_tcp_g", "rp_dce_tcp_g", "DCE_TCP_G", "/1024", 1, 1023, 1019, "1−g", "g"),
    FirmwareKnob(
        "dce_tcp_rtt", "rp_dce_tcp_rtt", "DCE_TCP_RTT", "µs", 1, _TIME_MAX, 1, "τ'",
        "alpha_period_s",
    ),
    FirmwareKnob(
        "initial_alpha_value", "rp_initial_alpha_value", "INITIAL_ALPHA_VALUE", "/1024",
        1, 1023, 1023, "α(0)", "initial_alpha",
    ),
    FirmwareKnob("rpg_gd", "rp_gd", "RPG_GD", "log2", 10, 11, 11, "α/2", "cut_gain"),
    FirmwareKnob(
        "rate_reduce_monitor_period", "rp_rate_reduce_monitor_period",
        "RATE_REDUCE_MONITOR_PERIOD", "µs", 1, _TIME_MAX, 4, "τ", "cut_window_s",
    ),
    FirmwareKnob(
        "rpg_min_dec_fac", "rp_min_dec_fac", "RPG_MIN_DEC_FAC", "%", 1, 100, 50, "",
        "min_decrease_ratio",
    ),
    FirmwareKnob(
        "rpg_min_rate", "rp_min_rate", "RPG_MIN_RATE", "Mb/s", 1, _RATE_MAX, 1, "R_min",
        "min_rate_bps",
    ),
    FirmwareKnob(
        "rpg_max_rate", "rp_max_rate", "RPG_MAX_RATE", "Mb/s", 0, _RATE_MAX, 0, "",
        "max_rate_bps",
    ),
    FirmwareKnob(
        "rpg_time_reset", "rp_time_reset", "RPG_TIME_RESET", "µs", 1, _TIME_MAX, 300, "T",
        "increase_timer_s",
    ),
    FirmwareKnob(
        "rpg_byte_reset", "rp_byte_reset", "RPG_BYTE_RESET", "B", 0, BYTE_RESET_MAX_16BIT,
        32767, "B", "byte_counter_bytes",
    ),
    FirmwareKnob(
        "rpg_threshold", "rp_threshold", "RPG_THRESHOLD", "", 1, 31, 1, "F", "recovery_stages"
    ),
    FirmwareKnob(
        "rpg_ai_rate", "rp_ai_rate", "RPG_AI_RATE", "Mb/s", 1, _RATE_MAX, 5, "R_AI", "ai_bps"
    ),
    FirmwareKnob(
        "rpg_hai_rate", "rp_hai_rate", "RPG_HAI_RATE", "Mb/s", 1, _RATE_MAX, 50, "R_HAI",
        "hai_bps",
    ),
    FirmwareKnob(
        "clamp_tgt_rate", "rp_clamp_tgt_rate", "CLAMP_TGT_RATE", "", 0, 1, 0, "",
        "clamp_target",
    ),
    FirmwareKnob(
        "clamp_tgt_rate_after_time_inc", "rp_clamp_tgt_rate_ati",
        "CLAMP_TGT_RATE_AFTER_TIME_INC", "", 0, 1, 1, "", "clamp_target_after_timer",
    ),
    FirmwareKnob(
        "rate_to_set_on_first_cnp", "rp_rate_to_set_on_first_cnp", "RATE_TO_SET_ON_FIRST_CNP",
        "Mb/s", 0, _RATE_MAX, 0, "", "first_cnp_rate_bps",
    ),
    FirmwareKnob(
        "min_time_between_cnps", "np_min_time_between_cnps", "MIN_TIME_BETWEEN_CNPS", "µs",
        0, _TIME_MAX, None, "N", "cnp_interval_s",
    ),
)  # fmt: skip


def check_firmware(firmware: FirmwareDcqcn, *, wide_fields: bool = False) -> None:
    """Raise DcqcnRangeError for the first register out of range.

    `wide_fields` is the firmware capability roce_cc_ecn_32b_rate: 32-bit rates and bytes.
    """
    for knob in FIRMWARE_KNOBS:
        value: int = getattr(firmware, knob.name)
        maximum = knob.maximum
        if wide_fields and knob.unit in {"B", "Mb/s"}:
            maximum = 0xFFFFFFFF
        if not knob.minimum <= value <= maximum:
            raise DcqcnRangeError(
                f"{knob.name} = {value} {knob.unit} is outside {knob.minimum}..{maximum}"
            )


def parameters_of_firmware(firmware: FirmwareDcqcn) -> DcqcnParameters:
    """Return the registers in base units; DcqcnRangeError if one is out of range."""
    check_firmware(firmware, wide_fields=True)
    return DcqcnParameters(
        g=1 - firmware.dce_tcp_g / G_UNIT,
        alpha_period_s=firmware.dce_tcp_rtt * US,
        cut_window_s=firmware.rate_reduce_monitor_period * US,
        increase_timer_s=firmware.rpg_time_reset * US,
        byte_counter_bytes=float(firmware.rpg_byte_reset) if firmware.rpg_byte_reset else None,
        recovery_stages=firmware.rpg_threshold,
        ai_bps=firmware.rpg_ai_rate * MBPS,
        hai_bps=firmware.rpg_hai_rate * MBPS,
        initial_alpha=firmware.initial_alpha_value / G_UNIT,
        cut_gain=G_UNIT / 2**firmware.rpg_gd,
        min_decrease_ratio=firmware.rpg_min_dec_fac / 100,
        min_rate_bps=firmware.rpg_min_rate * MBPS,
        max_rate_bps=firmware.rpg_max_rate * MBPS if firmware.rpg_max_rate else None,
        first_cnp_rate_bps=(
            firmware.rate_to_set_on_first_cnp * MBPS if firmware.rate_to_set_on_first_cnp else None
        ),
        clamp_target=bool(firmware.clamp_tgt_rate),
        clamp_target_after_timer=bool(firmware.clamp_tgt_rate_after_time_inc),
        cnp_interval_s=firmware.min_time_between_cnps * US,
    )


def firmware_of_parameters(
    parameters: DcqcnParameters, *, wide_fields: bool = False
) -> FirmwareDcqcn:
    """Return the nearest registers; each is within half a unit of the parameter.

    A byte counter or a rate that is on never rounds to 0, which would mean off. Raises
    DcqcnRangeError where the device cannot hold the value, for example the paper's 10 MB byte
    counter without `wide_fields`, or a cut gain that is neither α nor α/2.
    """

    def on(value: float | None, unit: float) -> int:
        return 0 if value is None else max(1, round(value / unit))

    gains = {1.0: 10, 0.5: 11}
    if parameters.cut_gain not in gains:
        raise DcqcnRangeError(f"a cut of α·{parameters.cut_gain} is not among rpg_gd's 1 and 1/2")
    firmware = FirmwareDcqcn(
        dce_tcp_g=round((1 - parameters.g) * G_UNIT),
        dce_tcp_rtt=round(parameters.alpha_period_s / US),
        initial_alpha_value=min(G_UNIT - 1, round(parameters.initial_alpha * G_UNIT)),
        rpg_gd=gains[parameters.cut_gain],
        rate_reduce_monitor_period=round(parameters.cut_window_s / US),
        rpg_min_dec_fac=max(1, round(parameters.min_decrease_ratio * 100)),
        rpg_min_rate=max(1, round(parameters.min_rate_bps / MBPS)),
        rpg_max_rate=on(parameters.max_rate_bps, MBPS),
        rpg_time_reset=round(parameters.increase_timer_s / US),
        rpg_byte_reset=on(parameters.byte_counter_bytes, 1),
        rpg_threshold=parameters.recovery_stages,
        rpg_ai_rate=round(parameters.ai_bps / MBPS),
        rpg_hai_rate=round(parameters.hai_bps / MBPS),
        clamp_tgt_rate=int(parameters.clamp_target),
        clamp_tgt_rate_after_time_inc=int(parameters.clamp_target_after_timer),
        rate_to_set_on_first_cnp=on(parameters.first_cnp_rate_bps, MBPS),
        min_time_between_cnps=round(parameters.cnp_interval_s / US),
    )
    check_firmware(firmware, wide_fields=wide_fields)
    return firmware


PAPER = DcqcnParameters()
NVIDIA_FIRMWARE = parameters_of_firmware(FirmwareDcqcn())


def _hpcc(line_bps: float) -> DcqcnParameters:
    return replace(
        NVIDIA_FIRMWARE,
        g=1 / 256,
        byte_counter_bytes=None,
        ai_bps=5 * MBPS * line_bps / 25e9,
        hai_bps=50 * MBPS * line_bps / 25e9,
        initial_alpha=1.0,
        min_decrease_ratio=0.0,
        min_rate_bps=1000 * MBPS,
        cnp_interval_s=0.0,  # a CNP rides on each ACK of a marked packet
    )


def _conweave(line_bps: float) -> DcqcnParameters:
    factor = line_bps / 25e9
    return replace(_hpcc(line_bps), ai_bps=10e6 * factor, hai_bps=25e6 * factor, min_rate_bps=100e6)


def profile(name: str, line_bps: float) -> DcqcnParameters:
    """Return a published parameter set for a port of this speed; KeyError names the known ones.

    Only sets whose units are public are here; AMD's recommendation is AMD_POLLARA below.
    """
    profiles = {
        "paper": PAPER,
        "ns3_rdma": replace(
            PAPER, increase_timer_s=60 * US, byte_counter_bytes=300e6, min_rate_bps=100e6
        ),
        "nvidia_firmware": NVIDIA_FIRMWARE,
        "hpcc": _hpcc(line_bps),
        "conweave": _conweave(line_bps),
        "simai": replace(
            _hpcc(line_bps), increase_timer_s=900 * US, ai_bps=50e6, hai_bps=100e6,
            min_rate_bps=100e6,
        ),
        "paraleon_expert": replace(
            NVIDIA_FIRMWARE, cut_window_s=80 * US, ai_bps=50e6, hai_bps=150e6,
            cnp_interval_s=96 * US,
        ),
    }  # fmt: skip
    if name not in profiles:
        raise KeyError(f"no DCQCN profile {name!r}; known: {', '.join(profiles)}")
    return profiles[name]


# `nicctl update dcqcn` options as AMD recommends them; the scales of g and of the byte count are
# not public, so they have no form in base units.
AMD_POLLARA: Mapping[str, int] = MappingProxyType(
    {
        "alpha-update-interval": 1,
        "alpha-update-g": 512,
        "initial-alpha-value": 64,
        "rate-reduce-monitor-period": 1,
        "rate-increase-byte-count": 431068,
        "rate-increase-threshold": 1,
        "ai-rate": 160,
        "hai-rate": 300,
        "token-bucket-size": 800000,
        "cnp-dscp": 46,
    }
)
