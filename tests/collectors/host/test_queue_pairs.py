"""Queue pairs, jobs and optional counters: E13, E14, what is predicted, what never leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codec import netlink
from collectors.codec import rdma_netlink as codec
from collectors.host.jobs import parse_environment, parse_job
from collectors.host.queue_pairs import QueuePairCollector
from collectors.model.errors import ConfigInvalid, Malformed
from collectors.model.roce import source_port
from simlab.hosts.responder import FakeQueuePair, RdmaResponder
from simlab.hosts.tree import FakeDevice, write_device

PAIRS = (
    FakeQueuePair(0x11A, 0x22B, pid=4242, peer=("10.0.0.1", "10.0.0.2")),
    FakeQueuePair(7, type=4, kernel_name="ib_core"),
    FakeQueuePair(0x30, 0x31, pid=4243, counters={"out_of_sequence": 5, "np_cnp_sent": 6}),
)
ENVIRONMENT = b"HOME=/root\0NCCL_IB_TC=106\0AWS_SECRET_ACCESS_KEY=s3cret\0UCX_TLS=rc\0NCCL_X=1\0"


def build(host, tmp_path, pairs=PAIRS, **options):
    device = FakeDevice("mlx5_0")
    write_device(tmp_path, device)
    process = tmp_path / "proc/4242"
    process.mkdir(parents=True)
    (process / "comm").write_text("python\n")
    (process / "cgroup").write_text("0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n")
    (process / "environ").write_bytes(ENVIRONMENT)
    optional = {"cc_rx_ce_pkts": True, "cc_tx_cnp_pkts": False}
    responder = RdmaResponder((device,), queue_pairs=pairs, optional=optional)
    return QueuePairCollector(host(open_netlink=lambda _: responder, options=options))


def test_pairs_with_process_job_and_source_port(host, tmp_path, clock):
    result = build(host, tmp_path).read(clock)
    first, second, third = result.facts.queue_pairs
    assert (first.local_qpn, first.remote_qpn, first.type, first.state) == (
        0x11A,
        0x22B,
        "RC",
        "RTS",
    )
    assert (first.process, first.job) == ("python", "slurm 77.0")
    assert first.udp_source_port == source_port(0x11A, 0x22B) == 58199
    assert (first.local_address, first.remote_address) == ("10.0.0.1", "10.0.0.2")
    assert (second.type, second.process, second.pid) == ("UD", "ib_core", None)
    assert second.udp_source_port is None
    assert third.process == ""
    settings = {s.name: s.value for s in result.facts.settings}
    assert settings == {
        "qp_counter_mode": "manual",
        "optional_counters_enabled": ("cc_rx_ce_pkts",),
    }


def test_counters_of_a_pair_that_has_its_own_set(host, tmp_path, clock):
    (reading,) = build(host, tmp_path).read(clock).readings
    assert str(reading.entity) == "qp/n1/b83fd20300123400/48"
    assert sorted(reading.values.values()) == [5, 6]


def test_firmware_that_picks_its_own_port_is_not_predicted(host, tmp_path, clock):
    device = FakeDevice("bnxt_re0", "bnxt_en")
    write_device(tmp_path, device)
    responder = RdmaResponder((device,), queue_pairs=PAIRS)
    result = QueuePairCollector(host(open_netlink=lambda _: responder)).read(clock)
    assert {pair.udp_source_port for pair in result.facts.queue_pairs} == {None}


def test_e13_beyond_the_budget_is_overflow_and_the_rest_goes_on(host, tmp_path, clock):
    many = tuple(FakeQueuePair(n, n + 1) for n in range(1, 400))
    result = build(host, tmp_path, many, max_bytes=2000).read(clock)
    assert 10 < len(result.facts.queue_pairs) < 100
    assert [(gap.what, gap.reason) for gap in result.gaps] == [("queue pairs", "overflow")]


def test_e14_a_kernel_without_optional_counters(host, tmp_path, clock):
    device = FakeDevice("mlx5_0")
    write_device(tmp_path, device)
    responder = RdmaResponder((device,), queue_pairs=PAIRS)
    result = QueuePairCollector(host(open_netlink=lambda _: responder)).read(clock)
    assert [(gap.what, gap.reason) for gap in result.gaps] == [("optional counters", "unsupported")]


def test_the_environment_is_off_by_default_and_secrets_never_leave(host, tmp_path, clock):
    quiet = build(host, tmp_path).read(clock)
    assert "job_environment" not in {setting.name for setting in quiet.facts.settings}
    (tmp_path / "proc/4242").rename(tmp_path / "proc/moved")
    told = build(host, tmp_path, environment=True).read(clock)
    (found,) = [s for s in told.facts.settings if s.name == "job_environment"]
    assert found.value == ("NCCL_IB_TC=106", "UCX_TLS=rc")
    assert "s3cret" not in repr(told)
    assert [gap.reason for gap in told.gaps] == ["ENOENT"]  # 4243 is gone


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_77/step_batch/user", "slurm 77.batch"),
        ("5:cpuset:/slurm/uid_1000/job_12/step_3", "slurm 12.3"),
        (("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
         "0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-aabbccddeeff0011.scope"),
         "pod 0a1b2c3d-1111-2222-3333-444455556666"),
        ("0::/system.slice/docker-aabbccddeeff00112233.scope", "container aabbccddeeff"),
        ("0::/user.slice/user-1000.slice", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_jobs(cgroup, job):
    assert parse_job(cgroup) == job


@given(st.binary(max_size=200))
def test_random_environments_tell_only_known_names(data):
    for entry in parse_environment(data + b"\0NCCL_IB_TC=1\0"):
        assert entry.split("=")[0].startswith(("NCCL_", "UCX_", "OMPI_", "RCCL_"))


def test_options_that_are_wrong(host, tmp_path):
    for options in ({"max_byte": 1}, {"max_bytes": 0}, {"max_seconds": "x"}, {"max_bytes": True}):
        with pytest.raises(ConfigInvalid):
            QueuePairCollector(host(options=options))


@given(st.sampled_from([codec.RES_QP_GET, codec.RES_CM_ID_GET, codec.STAT_GET,
                        codec.STAT_GET_STATUS]), st.binary(max_size=160))  # fmt: skip
def test_random_replies_raise_only_malformed(command, payload):
    message = netlink.Message(codec.message_type(command), 0, 0, payload)
    for parse in (codec.parse_queue_pairs, codec.parse_connections, codec.parse_counter_sets,
                  codec.parse_counter_mode, codec.parse_counter_status):  # fmt: skip
        try:
            parse(message)
        except Malformed:
            pass
    codec.parse_socket_address(payload)
