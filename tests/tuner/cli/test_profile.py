"""`tuner profile`: files for every platform, exit codes, errors."""

import json

import pytest
from typer.testing import CliRunner

from tuner.cli.main import app

BASE = ("profile", "--speed", "400G", "--cable", "30", "--downlinks", "2", "--uplinks", "2")


def run(*args):
    return CliRunner().invoke(app, [*BASE, *args])


def test_a_folder_for_each_device(tmp_path):
    shown = run("--platform", "sonic", "--platform", "junos", "--out", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert folders == {"sonic-leaf", "sonic-spine", "junos-leaf", "junos-spine", "host"}
    assert (tmp_path / "host/nccl.apply.env").exists()
    config = json.loads((tmp_path / "sonic-leaf/apply.config_db.json").read_text())
    assert config["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] == "3"
    left = (tmp_path / "sonic-leaf/not-carried-out.txt").read_text()
    assert "ecmp_hash_seed of sonic-leaf: SONiC has no such knob" in left
    assert max(len(line) for line in shown.output.splitlines()) <= 100


def test_machines_get_checks_and_plan():
    shown = run("--platform", "nvue", "--buffer", "64MB", "--format", "json")
    assert shown.exit_code == 0
    document = json.loads(shown.output)
    assert document["schema"] == "fabric-tuner/profile/1"
    assert {row["outcome"] for row in document["checks"]} == {"holds"}
    assert document["plan"]["devices"][0]["platform"] == "nvue"


def test_a_profile_that_does_not_fit_ends_with_3():
    shown = run("--platform", "eos", "--buffer", "1MB")
    assert shown.exit_code == 3
    assert "broken" in shown.output


def test_the_page_has_one_port_for_all():
    shown = run("--platform", "eos", "--format", "md")
    assert shown.exit_code == 0
    assert "Ethernet1/1 queue 3" in shown.output
    assert "Ethernet2/1" not in shown.output


def test_what_cannot_be_is_said():
    assert run("--platform", "ios").exit_code == 2
    assert run("--platform", "eos", "--asic", "x").exit_code == 2
    shown = CliRunner().invoke(
        app, ["profile", "--speed", "123G", "--cable", "1", "--platform", "eos"]
    )
    assert shown.exit_code == 1
    assert "no pause response time for 123 Gb/s" in shown.stderr


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(
            ("--netdev", name)
            for name in ("", "a;b", "a\nb", "$(a)", "a'b", "../a", "-x", "a" * 99)
        ),
        *(("--rdma", name) for name in ("", "a b", "`a`", 'a"b', "a/b")),
        *(("--cable", text) for text in ("inf", "1e300", "1e9", "nan", "-1")),
        *(("--uplink-cable", text) for text in ("inf", "nan")),
        *(("--speed", text) for text in ("0G", "1e300G", "fast")),
        *(("--uplink-speed", text) for text in ("0G", "1e300G")),
        *(("--buffer", text) for text in ("0", "1KB", "1e300MB")),
        ("--gpus", "1" + "0" * 30),
    ],
)
def test_values_that_cannot_be_are_refused_by_their_option(option, text):
    shown = run("--platform", "eos", option, text)
    assert shown.exit_code == 2
    assert option in shown.stderr
    assert shown.stdout == ""
    assert "Traceback" not in shown.output


def test_a_file_for_a_folder_is_said_before_anything_is_printed(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, file / "below"):
        shown = run("--platform", "eos", "--out", str(out))
        assert shown.exit_code in (1, 2)
        assert shown.stdout == ""
        assert "file" in shown.stderr
    assert file.read_text() == "mine"
