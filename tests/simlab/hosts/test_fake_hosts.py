"""Fake hosts: each driver is read whole, both ways to a counter agree, counters move as told."""

import os
import subprocess
import sys

import pytest

from collectors.host.context import HostContext
from collectors.host.registry import HOST_COLLECTORS
from collectors.host.remote_kernel import RemoteKernel
from collectors.model.errors import FabricError, NotSupported, Unavailable
from collectors.model.reading import Instant
from simlab.hosts.motion import BUSY, moved, rewrite
from simlab.hosts.profile import DRIVERS, FAULTS, build_host, write_host
from simlab.hosts.server import FakeKernel, KernelServer


def clock() -> Instant:
    return Instant(1_700_000_000_000_000_000, 1_000_000_000_000)


def context(root, host, kernel=None) -> HostContext:
    kernel = kernel or FakeKernel(host)

    class Frames:
        def __init__(self, netdev):
            self.netdev = netdev

        def take(self):
            return kernel.frames(self.netdev)

        def close(self):
            pass

    return HostContext(
        host.name, root / "sys", root / "proc", open_netlink=kernel.open_netlink,
        open_ethtool=kernel.open_ethtool, open_frames=Frames,
    )  # fmt: skip


def read_all(given):
    return {row.name: row.build(given).read(clock) for row in HOST_COLLECTORS if row.on}


def values(results):
    return {
        (reading.entity, column.metric): value
        for result in results.values()
        for reading in result.readings
        for column, value in reading.values.items()
    }


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_driver_is_read_whole(tmp_path, driver):
    host = build_host("node1", driver, 2)
    write_host(host, tmp_path)
    results = read_all(context(tmp_path, host))
    unexpected = [
        gap
        for result in results.values()
        for gap in result.gaps
        if gap.reason not in ("EOPNOTSUPP", "not visible")
    ]
    assert unexpected == []
    assert len({str(entity) for entity, _ in values(results)}) >= 2 * 2


def test_series_of_a_nic_stay_in_the_budget(tmp_path):
    host = build_host("node1", "mlx5", 1)
    write_host(host, tmp_path)
    series = values(read_all(context(tmp_path, host)))
    assert 150 < len(series) <= 200


def test_counters_move_as_scripted(tmp_path):
    before = build_host("node1", "mlx5", 1)
    write_host(before, tmp_path)
    after = moved(before, 2.0, BUSY, seed=1)
    first = values(read_all(context(tmp_path, before)))
    assert rewrite(before, after, tmp_path) > 8
    second = values(read_all(context(tmp_path, after)))
    grown = {
        metric: second[key] - first[key]
        for key in first
        if second[key] != first[key]
        for metric in [key[1]]
    }
    assert grown["fabric_pfc_rx_frames_total"] == 40
    assert 0.9 < grown["node_infiniband_port_data_received_bytes_total"] / 20e9 < 1.1
    # What netlink answers moved together with the files.
    assert 0.9 < grown["node_infiniband_np_cnp_packets_sent_total"] / 800 < 1.1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_something_and_only_a_little(tmp_path, fault):
    right = build_host("node1", "mlx5", 2)
    wrong = FAULTS[fault](right)
    assert wrong != right
    assert wrong.devices[1:] == right.devices[1:]
    assert wrong.netdevs[1:] == right.netdevs[1:]


def test_the_fake_kernel_over_its_socket(tmp_path):
    host = build_host("node1", "mlx5", 2)
    write_host(host, tmp_path)
    server = KernelServer(tmp_path / "k", FakeKernel(host))
    server.start()
    try:
        remote = RemoteKernel(tmp_path / "k")
        given = HostContext(
            "node1", tmp_path / "sys", tmp_path / "proc", open_netlink=remote.open_netlink,
            open_ethtool=remote.open_ethtool, open_frames=remote.open_frames,
        )  # fmt: skip
        assert values(read_all(given)) == values(read_all(context(tmp_path, host)))
        neighbours = read_all(given)["lldp"].facts.neighbours
        assert [(str(n.local), n.remote.name) for n in neighbours] == [
            ("netdev/node1/eth0", "Ethernet1/1"),
            ("netdev/node1/eth1", "Ethernet1/1"),
        ]
        with pytest.raises(NotSupported, match="EPROTONOSUPPORT"):
            remote.open_netlink(7).request(b"\0" * 16)
        with pytest.raises(FabricError):
            remote.ask({"nonsense": 1})
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(Unavailable):
        RemoteKernel(tmp_path / "nobody").ask({})


def test_the_command_writes_trees_and_configurations(tmp_path):
    run = [sys.executable, "-m", "simlab.hosts", "serve", "--out", str(tmp_path / "o"),
           "--hosts", "2", "--nics", "1", "--driver", "bnxt_re"]  # fmt: skip
    code = "from simlab.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", code, "hosts", *run[3:]], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o/node2/sys/class/infiniband/bnxt_re0/node_guid").exists()
    assert "kernel:" in (tmp_path / "o/node1/agent.yaml").read_text()
    near = subprocess.run(
        [sys.executable, "-c", code, "hosts", "serve", "--out", "near"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True,
    )  # fmt: skip
    assert near.returncode == 0, near.stderr
    assert (tmp_path / "near/node1/sys/class/net/eth0/ecn/roce_rp").is_dir()
    for wrong in (["--driver", "mlx9"], ["--fault", "nothing"]):
        bad = subprocess.run(
            [sys.executable, "-c", code, "hosts", *run[3:6], *wrong], capture_output=True, text=True
        )
        assert bad.returncode == 2
        assert wrong[1] in bad.stderr
