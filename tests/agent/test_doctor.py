"""doctor: planted faults are named with their fix, none on a right host, blindness explained."""

import json

import pytest

from agent.config import Config, Paths
from agent.doctor import document, examine, show
from agent.sources import jobs
from simlab.hosts.profile import FAULTS, build_host, write_host
from simlab.hosts.server import FakeKernel, KernelServer


@pytest.fixture
def examined(tmp_path):
    """Return a function that plants faults on a fake host and examines it."""
    servers = []

    def run(*faults: str, driver: str = "mlx5"):
        root = tmp_path / "-".join((driver, *faults))
        root.mkdir()
        host = build_host("node1", driver, 2)
        for fault in faults:
            host = FAULTS[fault](host)
        write_host(host, root)
        socket = tmp_path / f"k{len(servers)}"
        server = KernelServer(socket, FakeKernel(host))
        server.start()
        servers.append(server)
        paths = Paths(str(root / "sys"), str(root / "proc"), str(socket))
        config = Config(agent="node1", paths=paths)
        return examine(config, jobs(config), 0.0, sleep=lambda _: None)

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


def rules(report) -> set[str]:
    return {finding.rule for finding, _ in report.findings}


@pytest.mark.parametrize("driver", ["mlx5", "bnxt_re", "irdma", "rxe"])
def test_a_host_that_is_right_has_no_finding(examined, driver):
    report = examined(driver=driver)
    assert report.findings == ()
    if driver == "mlx5":
        assert {s.source: s.state for s in report.sights if s.state in ("blind", "partly")} in (
            {}, {"privilege": "partly"},
        )  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_is_that_finding_and_no_other(examined, fault):
    report = examined(fault)
    assert rules(report) == {fault}
    [(finding, fix)] = report.findings
    assert fix
    assert finding.evidence
    assert "mlx5_0" in finding.summary
    assert "mlx5_1" not in finding.summary


def test_five_faults_at_once_are_five_findings(examined, capsys):
    planted = ("traffic-class", "pause-with-roce", "cnp-class", "gid-choice", "pcie-link")
    report = examined(*planted)
    assert rules(report) == set(planted)
    show(report)
    out = capsys.readouterr().out
    assert out.count("fix:") == 5
    assert max(map(len, out.splitlines())) <= 100
    told = document(report)
    assert {finding["rule"] for finding in told["findings"]} == set(planted)
    json.dumps(told)


def test_a_host_without_rdma_says_so(tmp_path):
    config = Config(agent="n", paths=Paths(str(tmp_path / "sys"), str(tmp_path / "proc")))
    report = examine(config, jobs(config), 0.0, sleep=lambda _: None)
    assert report.devices == ()
    assert report.findings == ()
    assert any("modprobe" in sight.fix for sight in report.sights)
    assert {v.outcome for v in report.verdicts} == {"cannot_tell"}
