"""Linux: rendered scripts are run by a shell on a copy of sysfs and read back by our collectors."""

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.host.congestion_control import CongestionControlCollector
from collectors.host.context import HostContext
from collectors.host.jobs import parse_environment
from collectors.model.dcqcn import FIRMWARE_KNOBS, FirmwareDcqcn, parameters_of_firmware
from collectors.model.entities import Device, Host, Netdev, Port
from collectors.model.facts import Attribute, Setting
from collectors.model.reading import Instant
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev
from tests.tuner.render.states import step
from tuner.advice.plan import DevicePlan
from tuner.render.form import render_device
from tuner.render.registry import RENDERERS

PORT = FakePort(gids={0: ("fe80::1", "RoCE v2", "eth0")})
KEYED = "b83fd20300123400"
DEVICE = Device("n", KEYED, "mlx5_0")
RDMA = Port(DEVICE, 1)
ETH = Netdev("n", "eth0")
LINUX = RENDERERS["linux"]
KNOWN = (
    Attribute(DEVICE, "driver", "mlx5"),
    Attribute(DEVICE, "pci_address", "0000:17:00.0"),
    Attribute(RDMA, "netdev", "eth0"),
)
TRIES = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def host_plan(before, after, known=KNOWN):
    steps = [
        step(number, place, name, before.get((place, name)), value)
        for number, ((place, name), value) in enumerate(after.items(), 1)
        if before.get((place, name)) != value
    ]
    rows = tuple(Setting(place, name, value) for (place, name), value in before.items())
    return DevicePlan(Host("n"), "n", "linux", tuple(steps), rows, known)


def run(script, root):
    """Run a script on a copy of /sys; tools that are no files are noted, not run."""
    tools = root / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("dcb", "ip", "ethtool", "mlxreg", "setpci", "mstconfig"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {root}/called\n')
        (tools / name).chmod(0o755)
    (root / "called").write_text("")
    env = {**os.environ, "SYS": str(root / "sys"), "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (root / "called").read_text().splitlines()


def tree(root, where, registers, enable=False):
    write_device(root, FakeDevice("mlx5_0", "mlx5_core", ports=(PORT,)))
    write_netdev(root, FakeNetdev("eth0", pci_address="0000:17:00.0"))
    values = {knob.name: getattr(registers, knob.name) for knob in FIRMWARE_KNOBS}
    values |= {"cnp_dscp": 48, "cnp_802p_prio": 6}
    debugfs = {knob.name: knob.debugfs for knob in FIRMWARE_KNOBS}
    debugfs |= {"cnp_dscp": "np_cnp_dscp", "cnp_802p_prio": "np_cnp_prio"}
    for name, value in values.items():
        side = "roce_np" if debugfs[name].startswith("np") else "roce_rp"
        file = {
            "ofed": root / f"sys/class/net/eth0/ecn/{side}/{name}",
            "ofed params": root / f"sys/class/net/eth0/ecn/{side}/params/{name}",
            "debugfs": root / f"sys/kernel/debug/mlx5/0000:17:00.0/cc_params/{debugfs[name]}",
        }[where]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    for side in ("rp", "np") if enable else ():
        folder = root / f"sys/class/net/eth0/ecn/roce_{side}/enable"
        folder.mkdir(parents=True, exist_ok=True)
        for priority in range(8):
            (folder / str(priority)).write_text("0\n")


def read(root):
    context = HostContext("n", sysfs=str(root / "sys"))
    found = CongestionControlCollector(context).read(lambda: Instant(1, 1)).facts.settings
    return {(row.entity, row.name): row.value for row in found if row.name != "congestion_control"}


registers = st.builds(
    FirmwareDcqcn,
    **{
        knob.name: st.integers(max(knob.minimum, 1 if knob.unit == "Mb/s" else 0), knob.maximum)
        for knob in FIRMWARE_KNOBS
    },
)


@pytest.mark.parametrize("where", ["ofed", "ofed params", "debugfs"])
@given(first=registers, second=registers)
@TRIES
def test_every_dcqcn_register_is_written_and_read_back(tmp_path_factory, where, first, second):
    root = tmp_path_factory.mktemp("host")
    tree(root, where, first)
    before = read(root)
    assert len([key for key in before if key[1].startswith("dcqcn_")]) == len(FIRMWARE_KNOBS)
    wanted = parameters_of_firmware(second)
    after = {}
    for knob in FIRMWARE_KNOBS:
        value = getattr(wanted, knob.paper_field)
        after[RDMA, f"dcqcn_{knob.paper_field}"] = 0 if value is None else value
    after[RDMA, "cnp_dscp"] = 46
    made = render_device(host_plan(before, after), LINUX)
    assert made.missing == ()
    run(made.apply, root)
    assert read(root) == pytest.approx({**before, **after})
    run(made.undo, root)
    assert read(root) == before


def test_sides_of_dcqcn_and_traffic_classes(tmp_path):
    tree(tmp_path, "ofed", FirmwareDcqcn(), enable=True)
    tclass = tmp_path / "sys/class/infiniband/mlx5_0/tc/1/traffic_class"
    home = tmp_path / "sys/kernel/config/rdma_cm/mlx5_0/ports/1"
    for file, text in (
        (tclass, "Global tclass=0"), (home / "default_roce_tos", "104"),
        (home / "default_roce_mode", "IB/RoCE v1"),
    ):  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    before = read(tmp_path)
    on3 = tuple(p == 3 for p in range(8))
    after = {
        (RDMA, "dcqcn_rp_enabled"): on3,
        (RDMA, "dcqcn_np_enabled"): on3,
        (RDMA, "rdma_cm_tclass"): 106,
        (RDMA, "rdma_cm_roce_mode"): "RoCE v2",
        (RDMA, "forced_tclass"): 106,
    }
    made = render_device(host_plan(before, after), LINUX)
    run(made.apply, tmp_path)
    assert read(tmp_path) == {**before, **after}
    run(made.undo, tmp_path)
    assert read(tmp_path) == before


def test_the_low_bits_of_the_traffic_class_keep_its_dscp(tmp_path):
    home = tmp_path / "sys/kernel/config/rdma_cm/mlx5_0/ports/1"
    home.mkdir(parents=True)
    (home / "default_roce_tos").write_text("104\n")
    made = render_device(
        host_plan({(RDMA, "roce_ecn_codepoint"): 0}, {(RDMA, "roce_ecn_codepoint"): 2}), LINUX
    )
    run(made.apply, tmp_path)
    assert (home / "default_roce_tos").read_text() == "106\n"
    run(made.undo, tmp_path)
    assert (home / "default_roce_tos").read_text() == "104\n"


def test_a_file_that_is_not_there_ends_the_script():
    made = render_device(host_plan({}, {(RDMA, "dcqcn_ai_bps"): 40e6}), LINUX)
    env = {**os.environ, "SYS": "/nonexistent"}
    done = subprocess.run(["sh", "-c", made.apply], env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert "none of these files is there" in done.stderr


def test_commands_of_an_interface(tmp_path):
    places = tuple({26: 3, 48: 6}.get(d, -1) for d in range(64))
    former = tuple({26: 2}.get(d, -1) for d in range(64))
    before = {(ETH, "dscp_to_priority"): former, (ETH, "mtu_bytes"): 1500, (ETH, "trust"): "dscp"}
    after = {
        (ETH, "mtu_bytes"): 9000,
        (ETH, "pfc_priorities"): tuple(p == 3 for p in range(8)),
        (ETH, "dscp_to_priority"): places,
        (ETH, "ets_bandwidth_ratio"): (0.4, 0.0, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0),
        (ETH, "ets_algorithm"): ("ets",) * 6 + ("strict",) * 2,
        (ETH, "pause_rx_enabled"): False,
    }
    made = render_device(host_plan(before, after), LINUX)
    called = run(made.apply, tmp_path)
    assert called == [
        "ip link set dev eth0 mtu 9000",
        "ethtool -A eth0 rx off",
        "dcb pfc set dev eth0 prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off",
        (
            "dcb ets set dev eth0 tc-tsa 0:ets 1:ets 2:ets 3:ets 4:ets 5:ets 6:strict 7:strict "
            "tc-bw 0:40 1:0 2:0 3:60 4:0 5:0 6:0 7:0"
        ),
        "dcb app del dev eth0 dscp-prio 26:2",
        "dcb app add dev eth0 dscp-prio 26:3",
        "dcb app add dev eth0 dscp-prio 48:6",
    ]
    assert run(made.undo, tmp_path) == [
        "ip link set dev eth0 mtu 1500",
        "dcb app del dev eth0 dscp-prio 26:3",
        "dcb app add dev eth0 dscp-prio 26:2",
        "dcb app del dev eth0 dscp-prio 48:6",
    ]
    assert "pfc_priorities of netdev/n/eth0: its former value was not visible" in made.undo
    assert "disruption: mlx5: the link goes down and up" in made.apply


@pytest.mark.parametrize(
    ("driver", "why"),
    [("bnxt_re", "not public"), ("irdma", "parameters of its module"), ("rxe", "has no DCQCN")],
)
def test_what_a_driver_has_not_is_said(driver, why):
    known = (Attribute(DEVICE, "driver", driver),)
    made = render_device(host_plan({}, {(RDMA, "dcqcn_ai_bps"): 40e6}, known), LINUX)
    assert made.apply == ""
    assert why in made.missing[0].why


def test_loss_recovery_and_pcie(tmp_path):
    after = {
        (RDMA, "adaptive_retransmission"): True,
        (RDMA, "slow_restart"): False,
        (DEVICE, "pcie_max_read_request_bytes"): 4096,
    }
    before = {(DEVICE, "pcie_max_read_request_bytes"): 512}
    made = render_device(host_plan(before, after), LINUX)
    assert run(made.apply, tmp_path) == [
        (
            "mlxreg -d 0000:17:00.0 --reg_name ROCE_ACCL --set "
            "roce_adp_retrans_en=0x1,roce_slow_restart_en=0x0 --yes"
        ),
        "setpci -s 0000:17:00.0 CAP_EXP+8.w=5000:7000",
    ]
    assert run(made.undo, tmp_path) == ["setpci -s 0000:17:00.0 CAP_EXP+8.w=2000:7000"]


# --- firmware configuration ---------------------------------------------------------------------
@given(first=registers, second=registers)
@TRIES
def test_firmware_configuration_reads_back_as_next_boot(tmp_path_factory, first, second):
    from collectors.host.congestion_control import parse_mstconfig

    root = tmp_path_factory.mktemp("firmware")
    now, wanted = parameters_of_firmware(first), parameters_of_firmware(second)

    def state(parameters):
        rows = {
            f"dcqcn_{k.paper_field}": getattr(parameters, k.paper_field) for k in FIRMWARE_KNOBS
        }
        return {(RDMA, name): 0 if value is None else value for name, value in rows.items()}

    made = render_device(host_plan(state(now), state(wanted)), RENDERERS["mlxconfig"])
    firmware = {knob.name: getattr(first, knob.name) for knob in FIRMWARE_KNOBS}

    def burn(script):
        for line in run(script, root):
            assert line.startswith("mstconfig -y -d 0000:17:00.0 set ")
            query = "".join(f"  {word.replace('=', '   ')}\n" for word in line.split()[5:])
            firmware.update(parse_mstconfig(query, 1))

    if state(now) != state(wanted):
        assert "needs reset" in made.apply
        burn(made.apply)
        assert firmware == {knob.name: getattr(second, knob.name) for knob in FIRMWARE_KNOBS}
        burn(made.undo)
    assert firmware == {knob.name: getattr(first, knob.name) for knob in FIRMWARE_KNOBS}


# --- environments of jobs -----------------------------------------------------------------------
N = Host("n")


def environment(script, start):
    """The variables of a job that sourced a script."""
    done = subprocess.run(
        ["sh", "-c", f"{script}\nenv -0"], env={"PATH": os.environ["PATH"], **start},
        capture_output=True, check=True,
    )  # fmt: skip
    return parse_environment(done.stdout)


@pytest.mark.parametrize(
    ("platform", "former", "expected"),
    [
        (
            "nccl",
            {"NCCL_IB_TC": "0"},
            ("NCCL_IB_ADAPTIVE_ROUTING=1", "NCCL_IB_QPS_PER_CONNECTION=4",
             "NCCL_IB_SPLIT_DATA_ON_QPS=0", "NCCL_IB_TC=106", "NCCL_IB_TIMEOUT=20"),
        ),
        (
            "ucx",
            {"UCX_IB_TRAFFIC_CLASS": "0"},
            ("UCX_IB_AR_ENABLE=y", "UCX_IB_NUM_PATHS=4", "UCX_IB_TRAFFIC_CLASS=106",
             "UCX_RC_TIMEOUT=4.29497s"),
        ),
    ],
)  # fmt: skip
def test_environments(platform, former, expected):
    before = {(N, "job_tclass"): 0}
    after = {
        (N, "qps_per_connection"): 4,
        (N, "split_data_on_qps"): False,
        (N, "job_tclass"): 106,
        (N, "qp_timeout_code"): 20,
        (N, "job_adaptive_routing"): True,
    }
    made = render_device(host_plan(before, after), RENDERERS[platform])
    start = environment("", former)
    assert environment(made.apply, former) == expected
    assert environment(f"{made.apply}\n{made.undo}", former) == start
    gone = {row.knob for row in made.missing}
    assert gone == (set() if platform == "nccl" else {"split_data_on_qps"})


def test_ect_of_jobs_needs_their_dscp():
    asked = {(RDMA, "roce_ecn_codepoint"): 2}
    made = render_device(host_plan({}, asked), RENDERERS["nccl"])
    assert "whose DSCP is not known" in made.missing[0].why
    made = render_device(host_plan({(N, "job_tclass"): 104}, asked), RENDERERS["nccl"])
    assert "export NCCL_IB_TC=106" in made.apply
