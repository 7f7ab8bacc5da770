"""Congestion control: three spellings, one vocabulary; inverted g, hex, Mb/s; nothing is made."""

from dataclasses import replace

import pytest

from collectors.host.congestion_control import (
    CongestionControlCollector,
    parse_flexible,
    parse_mstconfig,
    parse_tclass,
)
from collectors.host.context import HostContext
from collectors.host.kernel_file import Unreadable
from collectors.model.catalogue.settings import SETTINGS
from collectors.model.dcqcn import FIRMWARE_KNOBS
from collectors.model.errors import ConfigInvalid
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev

PORT = FakePort(gids={0: ("fe80::1", "RoCE v2", "eth0")})


def build(tmp_path, module="mlx5_core", name="mlx5_0"):
    write_device(tmp_path, FakeDevice(name, module, ports=(PORT,)))
    write_netdev(tmp_path, FakeNetdev("eth0", pci_address="0000:17:00.0"))
    return tmp_path / "sys"


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def read(host, clock):
    result = CongestionControlCollector(host()).read(clock)
    got = {setting.name: setting.value for setting in result.facts.settings}
    assert set(got) <= set(SETTINGS)
    return got, result


def registers(**changes):
    values = {knob.name: knob.default for knob in FIRMWARE_KNOBS}
    return values | {"min_time_between_cnps": 4} | changes


def test_upstream_mlx5_debugfs(host, tmp_path, clock):
    sys = build(tmp_path)
    home = sys / "kernel/debug/mlx5/0000:17:00.0/cc_params"
    for knob in FIRMWARE_KNOBS:
        put(home / knob.debugfs, registers()[knob.name])
    put(home / "np_cnp_dscp", 48)
    put(home / "np_cnp_prio", 6)
    got, result = read(host, clock)
    assert got["dcqcn_g"] == pytest.approx(5 / 1024)  # G = 1019 is 1 - g
    assert got["dcqcn_ai_bps"] == 5e6
    assert got["dcqcn_cut_gain"] == 0.5
    assert got["dcqcn_max_rate_bps"] == 0
    assert got["dcqcn_increase_timer_s"] == pytest.approx(300e-6)
    assert (got["cnp_dscp"], got["cnp_priority"]) == (48, 6)
    assert got["congestion_control"] == "unknown"  # debugfs does not tell what runs
    assert [(gap.what, gap.reason) for gap in result.gaps] == [("congestion_control", "not told")]
    assert "mstconfig -d 0000:17:00.0 -e query" in result.gaps[0].detail


@pytest.mark.parametrize("spelling", ["", "params/"])
def test_e15_ofed_sysfs_and_enable_bits(host, tmp_path, clock, spelling):
    sys = build(tmp_path)
    home = sys / "class/net/eth0/ecn"
    for knob in FIRMWARE_KNOBS:
        side = "roce_np" if knob.debugfs.startswith("np") else "roce_rp"
        put(home / side / f"{spelling}{knob.name}", registers(rpg_ai_rate=10)[knob.name])
    put(home / f"roce_np/{spelling}cnp_dscp", 46)
    put(home / f"roce_np/{spelling}cnp_802p_prio", 5)
    for priority in range(8):
        put(home / f"roce_rp/enable/{priority}", int(priority == 3))
        put(home / f"roce_np/enable/{priority}", 1)
    got, _ = read(host, clock)
    assert got["dcqcn_ai_bps"] == 10e6
    assert got["dcqcn_rp_enabled"] == (False, False, False, True, False, False, False, False)
    assert got["dcqcn_np_enabled"] == (True,) * 8  # each side as it is, never one AND the other
    assert got["congestion_control"] == "dcqcn"


def test_a_register_that_cannot_be_read_leaves_no_half_a_set(host, tmp_path, clock):
    sys = build(tmp_path)
    home = sys / "kernel/debug/mlx5/0000:17:00.0/cc_params"
    for knob in FIRMWARE_KNOBS:
        put(home / knob.debugfs, "x" if knob.name == "rpg_gd" else registers()[knob.name])
    got, result = read(host, clock)
    assert not [name for name in got if name.startswith("dcqcn_")]
    assert [gap.reason for gap in result.gaps if gap.what == "rpg_gd"] == ["not numeric"]


def test_an_impossible_register_is_a_gap(host, tmp_path, clock):
    sys = build(tmp_path)
    home = sys / "kernel/debug/mlx5/0000:17:00.0/cc_params"
    for knob in FIRMWARE_KNOBS:
        put(home / knob.debugfs, registers(dce_tcp_g=5000)[knob.name])
    _, result = read(host, clock)
    assert "out of range" in [gap.reason for gap in result.gaps]


def test_nothing_visible_says_what_to_do(host, tmp_path, clock):
    build(tmp_path)
    got, result = read(host, clock)
    assert got["congestion_control"] == "unknown"
    assert "debugfs" in result.gaps[0].detail
    assert not (tmp_path / "sys/kernel/config").exists()


def test_bnxt_re_reads_hex_and_names_its_algorithm(host, tmp_path, clock):
    sys = build(tmp_path, "bnxt_en", "bnxt_re0")
    home = sys / "kernel/config/bnxt_re/bnxt_re0/ports/1/cc"
    for file, text in {"ecn_enable": "0x1", "cc_mode": "0x0", "roce_dscp": "0x1a",
                       "roce_prio": "0x3", "cnp_dscp": "0x30",
                       "cnp_prio": "0x7"}.items():  # fmt: skip
        put(home / file, text)
    got, _ = read(host, clock)
    assert got["congestion_control"] == "dctcp-like"
    assert (got["roce_dscp"], got["cnp_dscp"], got["cnp_priority"]) == (26, 48, 7)


def test_bnxt_re_debugfs(host, tmp_path, clock):
    sys = build(tmp_path, "bnxt_en", "bnxt_re0")
    home = sys / "kernel/debug/bnxt_re/0000:17:00.0/cc_config"
    for file, text in {"enable_cc": 1, "cc_mode": 1, "tos_dscp": 26, "tos_ecn": 1}.items():
        put(home / file, text)
    got, _ = read(host, clock)
    assert (got["congestion_control"], got["roce_ecn_codepoint"]) == ("dcqcn", 1)


def test_irdma_of_the_kernel_has_none_and_the_vendors_may(host, tmp_path, clock):
    sys = build(tmp_path, "ice", "irdma0")
    assert read(host, clock)[0]["congestion_control"] == "off"
    put(sys / "kernel/config/irdma/irdma0/roce_dcqcn_enable", 1)
    for file, text in {"dcqcn_cc_cfg_valid": 1, "dcqcn_T": 55, "dcqcn_F": 0,
                       "dcqcn_min_rate_MBps": 100}.items():  # fmt: skip
        put(sys / f"module/irdma/parameters/{file}", text)
    got, _ = read(host, clock)
    assert got["congestion_control"] == "dcqcn"
    assert got["dcqcn_increase_timer_s"] == pytest.approx(55e-6)
    assert got["dcqcn_min_rate_bps"] == 100e6
    assert "dcqcn_recovery_stages" not in got


def test_traffic_class_of_connections(host, tmp_path, clock):
    sys = build(tmp_path)
    put(sys / "class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106")
    put(sys / "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", 104)
    put(sys / "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "RoCE v2")
    got, _ = read(host, clock)
    assert (got["forced_tclass"], got["rdma_cm_tclass"]) == (106, 104)
    assert got["rdma_cm_roce_mode"] == "RoCE v2"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Global tclass=106", 106),
        ("", None),
        ("Global tclass=-1", None),
        ("\x1f06", 6),
        ("\u0663", None),
    ],
)
def test_tclass_texts(text, value):
    assert parse_tclass(text) == value


def test_numbers_in_two_bases():
    assert (parse_flexible("26"), parse_flexible("0x26\n"), parse_flexible("0x1a")) == (26, 38, 26)
    for text in ("", "0x", "g", "-1"):
        with pytest.raises(Unreadable):
            parse_flexible(text)


MSTCONFIG = """
Device #1:
Configurations:                                          Next Boot
        ROCE_CC_PRIO_MASK_P1                        8
        CNP_DSCP_P1                                 48
        CLAMP_TGT_RATE_P1                           True(1)
*       RPG_AI_RATE_P1                              20
        RPG_AI_RATE_P2                              7
        SRIOV_EN                                    False(0)
"""


def test_e15_next_boot_stands_apart_from_running(host, tmp_path, clock):
    sys = build(tmp_path)
    home = sys / "kernel/debug/mlx5/0000:17:00.0/cc_params"
    for knob in FIRMWARE_KNOBS:
        put(home / knob.debugfs, registers()[knob.name])
    lines = [
        f"  {knob.mlxconfig}_P1  {registers(rpg_ai_rate=20)[knob.name]}" for knob in FIRMWARE_KNOBS
    ]
    put(tmp_path / "mst/0000:17:00.0.txt", "\n".join(lines) + MSTCONFIG)
    context = host(options={"mstconfig_folder": str(tmp_path / "mst")})
    settings = CongestionControlCollector(context).read(clock).facts.settings
    ai = {s.applies: s.value for s in settings if s.name == "dcqcn_ai_bps"}
    assert ai == {"running": 5e6, "next_boot": 20e6}
    enabled = [s for s in settings if s.name == "dcqcn_rp_enabled"]
    assert [(s.applies, s.value.index(True)) for s in enabled] == [("next_boot", 3)]


CURRENT = """
Device #1:
Configurations:                          Default         Current         Next Boot
        ROCE_CC_PRIO_MASK_P1             255             {mask}          8
        ROCE_CC_PRIO_MASK_P2             255             255             255
        ROCE_CC_ALGORITHM_P1             ECN(0)          {algorithm}     ECN(0)
*       ROCE_CC_LEGACY_DCQCN             True(1)         {legacy}        True(1)
        USER_PROGRAMMABLE_CC             False(0)        {program}       False(0)
"""
TOLD = {"mask": "255", "algorithm": "ECN(0)", "legacy": "False(0)", "program": "False(0)"}


@pytest.mark.parametrize(
    ("told", "algorithm"),
    [
        ({}, "dcqcn"),
        ({"program": "True(1)"}, "programmable"),
        ({"program": "True(1)", "legacy": "True(1)"}, "dcqcn"),  # held to the firmware's own
        ({"mask": "0"}, "off"),
        ({"algorithm": "QCN(1)"}, "unknown"),
        ({"algorithm": "QCN(1)", "legacy": "True(1)"}, "dcqcn"),
    ],
)
@pytest.mark.parametrize("enabled", [None, True, False], ids=["debugfs", "rp on", "rp off"])
def test_the_algorithm_that_runs_by_firmware_settings_and_enable_bits(
    host, tmp_path, clock, told, algorithm, enabled
):
    sys = build(tmp_path)
    put(sys / "kernel/debug/mlx5/0000:17:00.0/cc_params/rp_gd", 11)
    for priority in range(8) if enabled is not None else ():
        put(sys / f"class/net/eth0/ecn/roce_rp/enable/{priority}", int(enabled))
    put(tmp_path / "mst/0000:17:00.0.txt", CURRENT.format(**TOLD | told))
    context = host(options={"mstconfig_folder": str(tmp_path / "mst")})
    settings = CongestionControlCollector(context).read(clock).facts.settings
    found = {s.applies: s.value for s in settings if s.name == "congestion_control"}
    if enabled is not None:  # what the driver was told since is newer than the firmware's settings
        algorithm = (
            ("programmable" if algorithm == "programmable" else "dcqcn") if enabled else "off"
        )
    assert found == {"running": algorithm, "next_boot": "dcqcn"}


@pytest.mark.parametrize(
    ("chip", "handled", "restarts", "algorithm"),
    [
        ("MT4119", 7, 0, "dcqcn"),
        ("MT4119", 7, 7, "unknown"),  # slow restarts count as handled CNPs
        ("MT4119", 0, 0, "unknown"),
        ("MT4129", 7, 0, "unknown"),  # may run a program that handles CNPs
    ],
)
def test_handled_cnps_show_dcqcn_on_chips_that_know_nothing_else(
    host, tmp_path, clock, chip, handled, restarts, algorithm
):
    counters = {"rp_cnp_handled": handled, "roce_slow_restart_cnps": restarts}
    port = replace(PORT, hw_counters=counters)
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(port,), files={"hca_type": chip}))
    put(tmp_path / "sys/kernel/debug/mlx5/0000:17:00.0/cc_params/rp_gd", 11)
    assert read(host, clock)[0]["congestion_control"] == algorithm


def test_a_query_of_the_next_boot_tells_nothing_of_now():
    assert parse_mstconfig(MSTCONFIG, 1, "running") == {}
    both = CURRENT.format(**TOLD | {"mask": "4"})
    masks = [parse_mstconfig(both, 1, when)["prio_mask"] for when in ("running", "next_boot")]
    assert masks == [4, 8]


def test_mstconfig_text():
    found = parse_mstconfig(MSTCONFIG, 1)
    assert found == {"prio_mask": 8, "cnp_dscp": 48, "clamp_tgt_rate": 1, "rpg_ai_rate": 20}
    with pytest.raises(ConfigInvalid):
        CongestionControlCollector(HostContext("n", options={"colour": 1}))
