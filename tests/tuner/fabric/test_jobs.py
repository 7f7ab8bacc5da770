"""Jobs from agents' facts and from host lists of Slurm, Kubernetes and files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.errors import FabricError, Malformed
from tests.tuner.diagnosis.audit_fabric import Clos
from tuner.fabric.jobs import expand, jobs_of, members, parse_host_lists, read_host_lists


def test_agents_know_the_job_of_a_queue_pair():
    made = Clos()
    for number in (1, 2):
        made.job(number)
    [job] = jobs_of(made.telemetry, made.fabric).values()
    assert (job.name, job.hosts, job.how) == ("slurm-1", ("h1", "h2"), "agents")
    assert job.ports == (made.port(1), made.port(2))
    assert job.dscps == (26,)
    assert len(job.queue_pairs) == 2
    assert made.port(1).device in members(job)


def test_a_host_list_gives_ports_to_a_job_that_no_agent_sees():
    made = Clos()
    jobs = jobs_of(made.telemetry, made.fabric, {"llama": ("h0", "h5")})
    assert jobs["llama"].hosts == ("h0", "h5")
    assert {port.device.host for port in jobs["llama"].ports} == {"h0", "h5"}
    assert len(jobs["llama"].ports) == 4
    assert jobs["llama"].dscps == ()


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[01-03,7]", ["n01", "n02", "n03", "n7"]),
        ("a,b c", ["a", "b", "c"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("node9", ["node9"]),
        ("", []),
    ],
)
def test_slurms_short_form(text, hosts):
    assert expand(text) == hosts


@pytest.mark.parametrize("text", ["n[", "n]", "n[a-b]", "n[5-3]", "n[0-9999999]", "n[]", "a[1][x]"])
def test_what_is_no_host_list_is_refused(text):
    with pytest.raises(Malformed):
        expand(text)


def test_forms_of_files(tmp_path):
    assert parse_host_lists("n[1-2]\n# spare\nn9\n", "j") == {"j": ("n1", "n2", "n9")}
    assert parse_host_lists("train: n[1-2]\ntest: [n5, n6]\n", "j") == {
        "train": ("n1", "n2"),
        "test": ("n5", "n6"),
    }
    pod = {
        "metadata": {"name": "t-0", "labels": {"batch.kubernetes.io/job-name": "train"}},
        "spec": {"nodeName": "n3"},
    }
    owned = {
        "metadata": {"name": "x-1", "ownerReferences": [{"name": "mpi"}]},
        "spec": {"nodeName": "n4"},
    }
    waiting = {"metadata": {"name": "y"}, "spec": {}}
    text = json.dumps({"kind": "List", "items": [pod, owned, waiting]})
    assert parse_host_lists(text, "j") == {"mpi": ("n4",), "train": ("n3",)}
    file = tmp_path / "night.txt"
    file.write_text("n[1-2]")
    assert read_host_lists(file) == {"night": ("n1", "n2")}
    with pytest.raises(FabricError, match="gone"):
        read_host_lists(tmp_path / "gone")


@given(st.text(max_size=60))
def test_any_text_is_hosts_or_one_typed_error(text):
    try:
        found = parse_host_lists(text, "j")
    except Malformed:
        return
    assert all(isinstance(host, str) and host for hosts in found.values() for host in hosts)
