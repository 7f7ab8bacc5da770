"""`tuner audit`, `paths`, `topology`, filters by job and Markdown, on a recorded Clos fabric."""

import json

import pytest
from typer.testing import CliRunner

from collectors.model.catalogue.registry import columns
from collectors.model.entities import host_of
from collectors.model.facts import Facts
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import pack_batch, pack_schema
from collectors.wire.segment import SegmentWriter
from tests.tuner.diagnosis.audit_fabric import Clos
from tuner.cli.main import app

AT = 1_800_000_000 * 10**9
STATE = columns("sysfs_port")["state"]


def write(folder, made):
    """Write the facts of a fabric made by hand as one agent's, port states among them."""
    folder.mkdir()
    writer = SegmentWriter(folder / "000001.ftseg")
    telemetry = made.telemetry
    facts = Facts(
        tuple(s for settings in telemetry.set_to.values() for s in settings.values()),
        tuple(a for attributes in telemetry.known.values() for a in attributes.values()),
        tuple(gid for gids in telemetry.table.values() for gid in gids),
        tuple(telemetry.cables),
        tuple(telemetry.pairs),
    )
    item = pb.Facts(agent="a", epoch="e", seq=1, collector="c", at_ns=AT, json=pack_facts(facts))
    writer.append(pb.Item(facts=item))
    ports = [e for e in telemetry.table if host_of(e)]
    for step in range(2):
        readings = [Reading(p, {STATE: 4}, Instant(AT + step * 10**10, step)) for p in ports]
        schema = pack_schema(readings)
        if not step:
            writer.append(pb.Item(schema=schema))
        batch = pack_batch(readings, schema, "sysfs", "boot")
        batch.agent, batch.epoch, batch.seq = "a", "e", step + 2
        writer.append(pb.Item(batch=batch))
    writer.close()
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    made = Clos()
    for number in range(4):
        made.job(number, NCCL_IB_TC=104, NCCL_IB_GID_INDEX=3)
    return write(tmp_path_factory.mktemp("audit") / "sound", made)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    made = Clos()
    for number in range(4):
        made.job(number, NCCL_IB_TC=104)
    made.telemetry.put(made.netdev(6), "fec", "none")
    del made.telemetry.cables[0]
    return write(tmp_path_factory.mktemp("audit") / "faulty", made)


def run(folder, *args):
    command, *rest = args
    arguments = [command, *rest, "--source", f"dir={folder}"]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})


def test_a_sound_fabric_passes_and_the_rest_is_named(sound):
    shown = run(sound, "audit")
    assert shown.exit_code == 0, shown.output
    assert "nothing differs" in shown.output
    assert "not compared:" in shown.output
    assert "peer_pfc_priorities" in shown.output


def test_findings_in_table_json_and_markdown(faulty):
    shown = run(faulty, "audit")
    assert shown.exit_code == 3
    assert "ends-differ" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 100
    document = json.loads(run(faulty, "audit", "--format", "json").output)
    rules = {finding["rule"] for finding in document["findings"]}
    assert "ends-differ" in rules
    written = run(faulty, "audit", "--format", "md")
    assert written.exit_code == 3
    assert written.output.startswith("# audit\n")
    assert "## findings" in written.output
    assert "| ends-differ |" in written.output or "rule: ends-differ" in written.output


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--host", "h6"), 3),
        (("--host", "h1"), 0),
        (("--job", "slurm-1"), 0),
        (("--job", "slu"), 0),
        (("--link", "leaf10 h2"), 3),
    ],
)
def test_the_audit_of_a_host_a_link_or_a_job(faulty, args, code):
    assert run(faulty, "audit", *args).exit_code == code


def test_a_job_by_a_host_list(faulty, tmp_path):
    lists = tmp_path / "jobs.yaml"
    lists.write_text("night: h[5-6]\nday: h1\n")
    with_list = ("--jobs", str(lists))
    assert run(faulty, "audit", "--job", "night", *with_list).exit_code == 3
    assert run(faulty, "audit", "--job", "day", *with_list).exit_code == 0
    unknown = run(faulty, "diagnose", "--job", "nobody", *with_list)
    assert unknown.exit_code == 2
    assert "no such job; known: day, night, slurm-1" in unknown.stderr


def test_topology_shows_holes_and_jobs(faulty):
    shown = run(faulty, "topology").output
    assert "leaf00 h0" in shown
    assert "holes:" in shown
    assert "slurm-1: 4 hosts, 4 ports, 4 queue pairs, DSCP 26 (agents)" in shown
    document = json.loads(run(faulty, "topology", "--format", "json").output)
    assert [hole["kind"] for hole in document["holes"]] == ["one end"]


def test_paths_of_queue_pairs_and_of_ports_without_any(sound):
    shown = run(sound, "paths", "h0", "h1")
    assert shown.exit_code == 0, shown.output
    assert "h0 eth0 qp 5 sport" in shown.output
    assert "only one" in shown.output
    far = json.loads(run(sound, "paths", "h0", "h5", "--format", "json").output)["paths"]
    assert len(far) == 2
    assert {hop["how"] for row in far for hop in row["hops"][:1]} == {"candidates"}
    assert {row["hops"][0]["why"] for row in far} == {"no queue pair is known"}
    unknown = run(sound, "paths", "h0", "mars")
    assert unknown.exit_code == 1
    assert "mars: no RDMA port" in unknown.stderr
