import math
import random
from collections import Counter
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model import roce
from collectors.model.dcqcn import (
    FIRMWARE_KNOBS,
    NVIDIA_FIRMWARE,
    PAPER,
    DcqcnParameters,
    DcqcnRangeError,
    FirmwareDcqcn,
    firmware_of_parameters,
    parameters_of_firmware,
    profile,
)
from collectors.model.ecmp_hash import (
    E_ECMP,
    HASH_BITS,
    NS3_FIELDS,
    FlowKey,
    HashAlgorithm,
    HashField,
    HashSpec,
    Reduction,
    choose_member,
    crc_bisync,
    crc_ccitt,
    hash_value,
    murmur3,
    pack_hash_key,
    reachable_members,
    reduce_hash,
    xor16,
)
from collectors.model.ecn import (
    PUBLISHED,
    EcnThresholds,
    thresholds_of_fill,
    thresholds_of_wred,
    wred_of_thresholds,
)

QPNS = st.integers(0, roce.QPN_MASK)


@pytest.mark.parametrize(
    ("local", "remote", "label", "port"),
    [
        (0x1234, 0x5678, 0x60002, 49178),
        (0x48, 0x49, 0x1488, 54408),
        (100, 200, 0x4E20, 52769),
        (0x2A5, 0x2A5, 0x6FE59, 65090),
        (0xFFFFFF, 0xFFFFFF, 0xFFF1E, 65313),
        (1, 1, 1, 49153),
    ],
)
def test_source_port_vectors(local: int, remote: int, label: int, port: int) -> None:
    assert roce.flow_label_of_qps(local, remote) == label
    assert roce.source_port(local, remote) == port


@given(QPNS, QPNS)
def test_source_port_is_symmetric_and_in_range(local: int, remote: int) -> None:
    assert roce.source_port(local, remote) == roce.source_port(remote, local)
    assert 49152 <= roce.source_port(local, remote) <= 65535


def test_a_flow_label_replaces_the_qp_numbers() -> None:
    assert roce.source_port(1, 1, 0x4E20) == 52769
    assert roce.source_port(0x11A, 0x22B) == 58199


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="QP number 16777216"):
        roce.source_port(1 << 24, 1)
    with pytest.raises(ValueError, match="DSCP 64"):
        roce.tclass_of_dscp(64)
    with pytest.raises(ValueError, match="traffic class 256"):
        roce.dscp_of_tclass(256)


def test_traffic_class_is_dscp_and_ecn() -> None:
    assert roce.dscp_of_tclass(106) == 26
    assert roce.ecn_of_tclass(106) is roce.Ecn.ECT0
    assert roce.tclass_of_dscp(24) == 96
    for tclass in range(256):
        parts = roce.dscp_of_tclass(tclass), roce.ecn_of_tclass(tclass)
        assert roce.tclass_of_dscp(*parts) == tclass


def test_pause_and_timers() -> None:
    assert roce.pause_s(0xFFFF, 100e9) == pytest.approx(335e-6, rel=2e-3)
    assert roce.pause_s(0xFFFF, 400e9) == pytest.approx(84e-6, rel=2e-3)
    assert roce.pause_quanta(1e-6, 100e9) == 196
    assert roce.pause_quanta(1.0, 100e9) == 0xFFFF
    assert roce.ack_timeout_s(20) == pytest.approx(4.295, rel=1e-3)
    assert roce.ack_timeout_s(0) == math.inf
    assert roce.ack_timeout_code(roce.ack_timeout_s(14)) == 14
    assert roce.ack_timeout_code(1.0) == 18
    assert roce.rnr_timer_s(12) == pytest.approx(0.64e-3)
    assert roce.rnr_timer_s(0) == pytest.approx(0.65536)
    assert roce.rnr_timer_code(0.5) == 0
    assert roce.rnr_timer_code(1e-3) == 14
    assert roce.alpha_of_dynamic_th(-3) == 1 / 8
    with pytest.raises(ValueError, match="RNR"):
        roce.rnr_timer_code(1.0)


def test_check_values_of_the_hashes() -> None:
    text = b"123456789"
    assert crc_ccitt(text) == 0x29B1
    assert crc_bisync(text) == 0xBB3D
    assert hash_value(text, HashAlgorithm.CRC) == 0xCBF43926
    assert hash_value(text, HashAlgorithm.CRC_32LO) == 0x3926
    assert hash_value(text, HashAlgorithm.CRC_32HI) == 0xCBF4
    assert hash_value(text, HashAlgorithm.CRC_CCITT) == 0x29B1
    assert xor16(b"\x12\x34\xff") == 0x1234 ^ 0xFF00
    # SMHasher's published vectors for MurmurHash3_x86_32.
    assert murmur3(b"", 1) == 0x514E28B7
    assert murmur3(b"test", 0x9747B28C) == 0x704B81DC
    assert murmur3(b"Hello, world!", 0x9747B28C) == 0x24884CBA
    assert murmur3(b"aaa", 0x9747B28C) == 0x283E0130


def test_key_is_packed_as_the_device_reads_it() -> None:
    flow = FlowKey(src_ip=0x0A000001, dst_ip=0x0B000001, src_port=0xC001, dst_qp=0x123456)
    assert pack_hash_key(flow, HashSpec(fields=E_ECMP)).hex() == (
        "0a0000010b00000111c00112b7123456"
    )
    ns3 = HashSpec(HashAlgorithm.MURMUR3, NS3_FIELDS)
    assert pack_hash_key(flow, ns3).hex() == "0100000a0100000b01c0b712"
    assert len(pack_hash_key(replace(flow, ip_bytes=16), HashSpec())) == 37


@given(
    st.binary(min_size=13, max_size=13),
    st.binary(min_size=13, max_size=13),
    st.binary(min_size=13, max_size=13),
)
def test_crcs_and_xor_are_affine(first: bytes, second: bytes, third: bytes) -> None:
    def xor(*keys: bytes) -> bytes:
        return bytes(a ^ b ^ c for a, b, c in zip(*keys, strict=True))

    mixed = xor(first, second, third)
    for algorithm in set(HashAlgorithm) - {HashAlgorithm.MURMUR3}:
        values = [hash_value(key, algorithm, 7) for key in (first, second, third)]
        assert hash_value(mixed, algorithm, 7) == values[0] ^ values[1] ^ values[2]


@given(st.sampled_from(HashAlgorithm), st.integers(0, 2**32 - 1), st.integers(1, 64))
def test_choice_is_a_member(algorithm: HashAlgorithm, seed: int, members: int) -> None:
    flow = FlowKey(0x0A000001, 0x0A000002, 50000, dst_qp=7, flow_label=9, in_port=3)
    for reduction in Reduction:
        for rotate in (0, 5):
            spec = HashSpec(algorithm, tuple(HashField), seed, rotate, reduction)
            assert 0 <= choose_member(flow, members, spec) < members


def test_every_algorithm_spreads_and_reacts_to_fields_and_seed() -> None:
    draw = random.Random(1)
    flows = [FlowKey(*(draw.getrandbits(bits) for bits in (32, 32, 16))) for _ in range(4096)]
    for algorithm in HashAlgorithm:
        spec = HashSpec(algorithm)
        load = Counter(choose_member(flow, 16, spec) for flow in flows)
        assert len(load) == 16
        assert max(load.values()) < 1.4 * 256
        key = pack_hash_key(flows[0], spec)
        assert hash_value(key, algorithm, 1) != hash_value(key, algorithm)
    one_port = [FlowKey(1, 2, 50000, dst_qp=qp) for qp in range(64)]
    assert len({choose_member(flow, 16, HashSpec()) for flow in one_port}) == 1
    assert len({choose_member(flow, 16, HashSpec(fields=E_ECMP)) for flow in one_port}) == 16


def test_a_group_without_members_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a member"):
        choose_member(FlowKey(1, 2, 3), 0, HashSpec())


@pytest.mark.parametrize(
    ("first", "second", "reachable"), [(16, 16, 1), (16, 8, 1), (8, 16, 2), (16, 12, 3), (16, 9, 9)]
)
def test_polarisation(first: int, second: int, reachable: int) -> None:
    assert reachable_members(first, second) == reachable
    values = [value for value in range(5000) if value % first == 3]
    assert len({reduce_hash(v, second, 16, Reduction.MODULO) for v in values}) == reachable


def test_what_separates_two_tiers() -> None:
    draw = random.Random(2)
    flows = [FlowKey(*(draw.getrandbits(bits) for bits in (32, 32, 16))) for _ in range(4096)]

    def reached(first: HashSpec, second: HashSpec) -> int:
        through = [flow for flow in flows if choose_member(flow, 16, first) == 5]
        return len({choose_member(flow, 16, second) for flow in through})

    crc = HashSpec()
    assert reached(crc, crc) == 1
    assert reached(crc, replace(crc, seed=0x12345)) == 1  # an affine hash: only renumbered
    assert reached(crc, replace(crc, rotate=5)) == 16
    assert reached(crc, HashSpec(HashAlgorithm.CRC_CCITT)) == 16
    murmur = HashSpec(HashAlgorithm.MURMUR3)
    assert reached(murmur, replace(murmur, seed=1)) == 16


def test_multiply_shift_uses_the_high_bits() -> None:
    assert reduce_hash(0xFFFF, 16, HASH_BITS[HashAlgorithm.XOR], Reduction.MULTIPLY_SHIFT) == 15
    assert reduce_hash(0x0FFF, 16, 16, Reduction.MULTIPLY_SHIFT) == 0


def test_firmware_defaults_in_base_units() -> None:
    assert pytest.approx(5 / 1024) == NVIDIA_FIRMWARE.g
    assert pytest.approx(1e-6) == NVIDIA_FIRMWARE.alpha_period_s
    assert pytest.approx(300e-6) == NVIDIA_FIRMWARE.increase_timer_s
    assert NVIDIA_FIRMWARE.cut_gain == 0.5
    assert NVIDIA_FIRMWARE.ai_bps == 5e6
    assert NVIDIA_FIRMWARE.first_cnp_rate_bps is None
    assert not NVIDIA_FIRMWARE.clamp_target
    for knob in FIRMWARE_KNOBS:
        if knob.default is not None:
            assert getattr(FirmwareDcqcn(), knob.name) == knob.default


def test_every_register_has_a_knob_and_every_parameter_one_register() -> None:
    assert [knob.name for knob in FIRMWARE_KNOBS] == [f.name for f in fields(FirmwareDcqcn)]
    assert {knob.paper_field for knob in FIRMWARE_KNOBS} == {
        f.name for f in fields(DcqcnParameters)
    }


REGISTERS = st.builds(
    FirmwareDcqcn, **{k.name: st.integers(k.minimum, k.maximum) for k in FIRMWARE_KNOBS}
)


@given(REGISTERS)
def test_registers_survive_the_round_trip(firmware: FirmwareDcqcn) -> None:
    assert firmware_of_parameters(parameters_of_firmware(firmware)) == firmware


def test_paper_needs_the_wide_byte_counter() -> None:
    with pytest.raises(DcqcnRangeError, match=r"rpg_byte_reset = 10000000 B is outside 0\.\.32767"):
        firmware_of_parameters(PAPER)
    firmware = firmware_of_parameters(PAPER, wide_fields=True)
    assert firmware.dce_tcp_g == 1020  # not 4: the register is 1 − g
    assert firmware.rpg_byte_reset == 10_000_000
    with pytest.raises(DcqcnRangeError, match="rpg_gd"):
        firmware_of_parameters(replace(PAPER, cut_gain=0.25))
    with pytest.raises(DcqcnRangeError, match="dce_tcp_rtt = 0"):
        parameters_of_firmware(FirmwareDcqcn(dce_tcp_rtt=0))


def test_a_counter_that_is_on_stays_on() -> None:
    tiny = replace(NVIDIA_FIRMWARE, byte_counter_bytes=0.2, first_cnp_rate_bps=1e3)
    assert firmware_of_parameters(tiny).rpg_byte_reset == 1
    assert firmware_of_parameters(tiny).rate_to_set_on_first_cnp == 1


def test_profiles() -> None:
    assert profile("hpcc", 100e9).ai_bps == 20e6
    assert profile("conweave", 100e9).hai_bps == 100e6
    assert profile("paper", 40e9) == PAPER
    assert profile("paraleon_expert", 400e9).cnp_interval_s == pytest.approx(96e-6)
    assert PAPER.scaled_rates(10).ai_bps == 400e6
    with pytest.raises(KeyError, match="known: paper"):
        profile("nonesuch", 1e9)


def test_marking_curve() -> None:
    ecn = EcnThresholds(5e3, 200e3, 0.01)
    assert ecn.marking_ratio(5e3) == 0
    assert ecn.marking_ratio(102.5e3) == pytest.approx(0.005)
    assert ecn.marking_ratio(200e3) == pytest.approx(0.01)
    assert ecn.marking_ratio(200.001e3) == 1
    step = EcnThresholds(30e3, 30e3, 1.0)
    assert step.slope_per_byte == math.inf
    assert (step.marking_ratio(30e3), step.marking_ratio(30.1e3)) == (0, 1)
    for wrong in ((2, 1, 0.1), (-1, 1, 0.1), (0, 1, 0), (0, 1, 1.1)):
        with pytest.raises(ValueError, match="needs 0"):
            EcnThresholds(*wrong)


def test_device_forms_of_thresholds() -> None:
    ecn = EcnThresholds(150e3, 1500e3, 0.004)
    wred = wred_of_thresholds(ecn, 254)
    assert (wred.kmin_cells, wred.kmax_cells, wred.pmax_percent) == (591, 5906, 1)
    back = thresholds_of_wred(wred)
    assert abs(back.kmin_bytes - ecn.kmin_bytes) <= 127
    assert thresholds_of_fill(10e6, 10, 50, 20) == EcnThresholds(1e6, 5e6, 0.2)
    assert any(row.ecn == EcnThresholds(1 << 20, 2 << 20, 0.05) for row in PUBLISHED)
    hpcc = {row.link_bps: row.ecn for row in PUBLISHED if row.source == "HPCC"}
    assert hpcc[25e9] == EcnThresholds(100e3, 400e3, 0.2)
    assert hpcc[400e9] == EcnThresholds(1600e3, 6400e3, 0.2)
