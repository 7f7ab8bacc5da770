"""Host collectors on a real kernel: what they read equals what the kernel's own tools print."""

import json
import shlex
import sys
import time
from pathlib import Path

import pytest

from simlab.nic.build import BuildError, build_module
from simlab.nic.build import why_not as nic_why_not
from simlab.rxe.lab import TRAFFIC
from simlab.rxe.scenario import read_scenario

pytestmark = pytest.mark.lab_rxe

ROOT = Path(__file__).resolve().parents[3]
GUEST = ROOT / "tests/simlab/rxe/guest_read.py"
DEBUGFS = "/sys/kernel/debug/fabric_lab_nic"
# A datagram to all nodes of the cable with DSCP 26.
SEND = """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, 67, 26 << 2)
s.sendto(b"x" * 100, ("ff02::1", 9, 0, socket.if_nametoindex("lab0")))
"""
STATES = {4: "ACTIVE", 1: "DOWN"}


def read(machine, pattern: str, *names: str) -> dict:
    argv = ["env", f"PYTHONPATH={ROOT}", sys.executable, str(GUEST), pattern, *names]
    return json.loads(machine.sh(f"cd /; {shlex.join(argv)}", timeout_s=180))


def tool(machine, command: str):
    return json.loads(machine.sh(command))


@pytest.fixture(scope="module")
def traffic(lab):
    """The healthy scenario's flows, running while the tests below look at them."""
    lab.apply(read_scenario("healthy"))
    lab.start_traffic(300)  # ended by hand below
    until = time.monotonic() + 60
    while time.monotonic() < until:
        flows = lab.progress()
        if flows and all(flow.messages for flow in flows):
            return lab
        time.sleep(1)
    pytest.fail("the flows did not start")


def test_queue_pairs_equal_rdma_resource_and_ports_are_those_on_the_wire(traffic):
    machine = traffic.machine

    def theirs_now():
        return {
            (qp["ifname"], qp["lqpn"], qp.get("rqpn"), qp["type"], qp["state"], qp.get("pid"))
            for qp in tool(machine, "rdma -j resource show qp")
        }

    theirs = theirs_now()
    told = read(machine, "rxe.*", "queue_pairs", "rdma_list", "sports:h1")
    assert theirs == theirs_now(), "the flows ended or reconnected meanwhile"
    ours = {
        (qp["device"], qp["lqpn"], qp["rqpn"], qp["type"], qp["state"], qp["pid"])
        for qp in told["queue_pairs"]["queue_pairs"]
    }
    assert ours == theirs
    assert any(qp[3] == "RC" for qp in ours)
    predicted = {
        qp["sport"]
        for qp in told["queue_pairs"]["queue_pairs"]
        if qp["device"] == "rxe_h1" and qp["type"] == "RC"
    }
    seen = set(told["sports:h1"])
    assert seen
    assert seen <= predicted
    devices = {
        (d["ifname"], int(d["node_guid"].replace(":", ""), 16))
        for d in tool(machine, "rdma -j dev")
    }
    assert {(name, guid) for name, guid, _ in told["rdma_list"]["devices"]} == devices
    links = {
        (link["ifname"], link["port"], link["state"], link["netdev"])
        for link in tool(machine, "rdma -j link")
    }
    assert {
        (name, port, STATES[state], netdev)
        for name, port, state, _, netdev in told["rdma_list"]["ports"]
    } == links


def test_statistics_equal_rdma_statistic(traffic):
    machine = traffic.machine
    users = {qp["pid"] for qp in tool(machine, "rdma -j resource show qp") if "pid" in qp}
    traffic.stop_command(TRAFFIC)
    if users:  # the flows themselves, by the kernel's own list
        machine.sh(f"kill -9 {' '.join(map(str, users))} 2> /dev/null || true; sleep 3")
    before = tool(machine, "rdma -j statistic show")
    told = read(machine, "rxe.*", "hw_counters", "sysfs")
    assert tool(machine, "rdma -j statistic show") == before, "the fabric is not at rest"
    got = {}
    for entity, metric, value in told["hw_counters"]["values"]:
        got.setdefault(entity, {})[metric] = value
    assert told["hw_counters"]["gaps"] == []
    assert len(got) == len(before)
    ours = sorted(
        (
            values["node_infiniband_port_packets_transmitted_total"],
            values["node_infiniband_port_packets_received_total"],
            values["fabric_rdma_sends_tx_total"],
            values["node_infiniband_duplicate_requests_packets_total"],
        )
        for values in got.values()
    )
    theirs = sorted(
        (row["sent_pkts"], row["rcvd_pkts"], row["rdma_sends"], row["duplicate_request"])
        for row in before
    )
    assert ours == theirs
    assert sum(row[0] for row in ours) > 1000


@pytest.fixture(scope="module")
def nic(lab):
    """The lab NIC module, loaded into the lab's machine."""
    if lab.machine.kind == "host":
        pytest.skip("the lab NIC is loaded into a VM only")
    if (reason := nic_why_not()) is not None:
        pytest.skip(f"lab NIC: {reason}")
    try:
        module = build_module()
    except BuildError as error:
        pytest.fail(str(error))
    machine = lab.machine
    machine.sh(f"insmod {module} && ip link set lab0 up && ip link set lab1 up")
    machine.sh("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    yield machine
    machine.sh("rmmod fabric_lab_nic")


def test_what_dcb_and_ethtool_set_we_read_back(nic):
    nic.sh("dcb pfc set dev lab0 prio-pfc 3:on delay 11")
    nic.sh("dcb app add dev lab0 dscp-prio 26:3 48:6")
    nic.sh("dcb ets set dev lab0 prio-tc 0:0 3:3 6:6 tc-bw 0:40 3:60 tc-tsa 0:ets 3:ets 6:strict")
    nic.sh("dcb buffer set dev lab0 prio-buffer 3:1 buffer-size 0:400000 1:600000")
    nic.sh(
        "dcb maxrate set dev lab0 tc-maxrate 0:100gbit && ethtool -A lab1 autoneg off rx on tx off"
    )
    nic.sh(
        f"echo '3 5 700000' > {DEBUGFS}/lab0/rx_pfc; echo '3 2 30' > {DEBUGFS}/lab0/tx_pfc; "
        f"echo '-1 9 0' > {DEBUGFS}/lab1/tx_pfc; echo 13 > {DEBUGFS}/lab1/rx_discards; "
        f"echo 21 > {DEBUGFS}/lab1/fec"
    )
    told = read(nic, "lab.*", "dcb", "ethtool", "ethtool_netlink", "netdev", "lldp")
    settings = {
        (entity.rsplit("/", 1)[1], name): value
        for part in ("dcb", "ethtool_netlink", "netdev")
        for entity, name, value in told[part]["settings"]
    }
    pfc = tool(nic, "dcb -j pfc show dev lab0")
    assert settings["lab0", "pfc_priorities"] == pfc["prio_pfc"]
    assert settings["lab0", "pfc_priorities"].index(True) == 3
    assert settings["lab0", "pfc_delay_bits"] == pfc["delay"] == 11
    apps = tool(nic, "dcb -j app show dev lab0")["dscp_prio"]
    table = settings["lab0", "dscp_to_priority"]
    assert [[dscp, p] for dscp, p in enumerate(table) if p >= 0] == sorted(apps)
    assert settings["lab0", "trust"] == "dscp"
    ets = tool(nic, "dcb -j ets show dev lab0")
    assert settings["lab0", "priority_to_traffic_class"] == ets["prio_tc"]
    assert settings["lab0", "ets_algorithm"] == ets["tc_tsa"]
    assert settings["lab0", "ets_bandwidth_ratio"] == [share / 100 for share in ets["tc_bw"]]
    assert settings["lab0", "ets_bandwidth_ratio"][3] == 0.6
    buffers = tool(nic, "dcb -j buffer show dev lab0")
    assert settings["lab0", "priority_to_buffer"] == buffers["prio_buffer"]
    assert settings["lab0", "buffer_bytes"] == buffers["buffer_size"]
    # Only that it is there: dcb 6.1 writes bytes per second where dcbnl.h has kbit/s.
    assert [rate > 0 for rate in settings["lab0", "traffic_class_rate_bps"]] == [True] + [False] * 7
    assert settings["lab0", "dcbx_mode"] == ["host", "ieee"]
    assert settings["lab1", "pause_rx_enabled"] is True
    assert settings["lab1", "pause_tx_enabled"] is False
    assert settings["lab0", "speed_bps"] == 400_000_000_000
    values = {
        (entity, metric): value
        for part in ("ethtool", "ethtool_netlink", "netdev")
        for entity, metric, value in told[part]["values"]
    }
    priority = "priority/3/netdev/vm/lab0"
    assert values[priority, "fabric_pfc_rx_frames_total"] == 5
    assert values[priority, "fabric_pfc_rx_pause_seconds_total"] == 700_000  # µs, scaled later
    assert values[priority, "fabric_pfc_tx_frames_total"] == 2
    assert ("priority/4/netdev/vm/lab0", "fabric_pfc_rx_frames_total") not in values
    assert values["netdev/vm/lab1", "fabric_pause_tx_frames_total"] == 9
    assert values["netdev/vm/lab1", "fabric_interface_rx_buffer_discards_total"] == 13
    assert values["netdev/vm/lab1", "fabric_interface_rx_fec_corrected_blocks_total"] == 21


def test_our_statistics_equal_ethtools_and_follow_the_set(nic):
    nic.sh("dcb app replace dev lab0 dscp-prio 26:3; dcb pfc set dev lab0 prio-pfc 3:on")
    nic.sh(f"/usr/bin/python3 -c {shlex.quote(SEND)}")
    told = read(nic, "lab0", "ethtool", "ethtool_netlink")
    lines = nic.sh("ethtool -S lab0").splitlines()[1:]
    theirs = {name.strip(): int(value) for name, value in (line.rsplit(":", 1) for line in lines)}
    ours = {(entity, metric): value for entity, metric, value in told["ethtool"]["values"]}
    for p in range(8):
        key = (f"priority/{p}/netdev/vm/lab0", "fabric_priority_tx_bytes_total")
        assert ours[key] <= theirs[f"tx_prio{p}_bytes"]
    assert ours["priority/3/netdev/vm/lab0", "fabric_priority_tx_bytes_total"] > 0
    nic.sh("dcb pfc set dev lab0 prio-pfc all:off 5:on")  # the driver's set of names changes
    moved = read(nic, "lab0", "ethtool")["ethtool"]
    pfc = {
        entity for entity, metric, _ in moved["values"] if metric == "fabric_pfc_rx_frames_total"
    }
    assert pfc == {"priority/5/netdev/vm/lab0"}
    assert moved["gaps"] == []


PLANNED = {
    "mtu_bytes": 4200,
    "pfc_priorities": tuple(priority == 3 for priority in range(8)),
    "dscp_to_priority": tuple({26: 3, 48: 6}.get(dscp, -1) for dscp in range(64)),
    "priority_to_traffic_class": (0, 0, 0, 3, 0, 0, 6, 0),
    "ets_algorithm": ("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets"),
    "ets_bandwidth_ratio": (0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0),
    "priority_to_buffer": (0, 0, 0, 1, 0, 0, 0, 0),
    "buffer_bytes": (300_000, 500_000, 0, 0, 0, 0, 0, 0),
}


def settings_of(nic) -> dict:
    """What our collectors read of lab0, of the knobs that the plan below turns."""
    told = read(nic, "lab0", "dcb", "netdev")
    rows = [row for part in ("dcb", "netdev") for row in told[part]["settings"]]
    return {
        name: tuple(value) if isinstance(value, list) else value
        for entity, name, value in rows
        if entity.endswith("/lab0") and name in PLANNED
    }


def test_a_rendered_plan_runs_on_the_lab_nic_is_read_back_and_taken_back(nic):
    from collectors.model.entities import Host, Netdev
    from collectors.model.facts import Setting
    from tests.tuner.render.states import step
    from tuner.advice.plan import DevicePlan
    from tuner.render.form import render_device
    from tuner.render.linux import RENDERER

    # Tests before this one, or a try of it that was cut off, may have left some of what is planned.
    nic.sh("dcb pfc set dev lab0 prio-pfc all:off 5:on")
    nic.sh("dcb ets set dev lab0 tc-tsa all:ets tc-bw all:0 0:100")
    nic.sh("dcb ets set dev lab0 prio-tc 1:1 tc-tsa 5:strict")
    nic.sh("dcb buffer set dev lab0 buffer-size all:0 0:100000; ip link set lab0 mtu 1500")
    nic.sh("dcb buffer set dev lab0 prio-buffer 4:1 && dcb app replace dev lab0 dscp-prio 26:4")
    before, place = settings_of(nic), Netdev("vm", "lab0")
    assert before.keys() == PLANNED.keys()
    assert [name for name, value in PLANNED.items() if before[name] == value] == []
    steps = tuple(
        step(number, place, name, before[name], value)
        for number, (name, value) in enumerate(PLANNED.items(), 1)
    )
    known = tuple(Setting(place, name, value) for name, value in before.items())
    made = render_device(DevicePlan(Host("vm"), "vm", "linux", steps, known), RENDERER)
    assert made.missing == ()
    nic.sh(f"sh -c {shlex.quote(made.apply)}")
    assert settings_of(nic) == PLANNED
    assert tool(nic, "dcb -j pfc show dev lab0")["prio_pfc"] == list(PLANNED["pfc_priorities"])
    nic.sh(f"sh -c {shlex.quote(made.verify)}")
    nic.sh(f"sh -c {shlex.quote(made.undo)}")
    assert settings_of(nic) == before
