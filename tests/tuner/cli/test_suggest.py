"""`tuner suggest` and `tuner explain` on recordings: answers, formats, exit codes, errors."""

import json

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from tests.tuner.recorded import LOSSY, record
from tuner.advice.document import SuggestDocument
from tuner.cli.main import app


def run(*args):
    return CliRunner().invoke(app, list(args))


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recordings") / "lossy", LOSSY)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recordings") / "healthy", {})


def test_a_fault_gives_exit_code_3_and_a_table_that_fits(lossy):
    shown = run("suggest", "--source", f"dir={lossy}")
    assert shown.exit_code == 3
    assert "packets are lost on the way to h2 rxe2/1" in " ".join(shown.output.split())
    assert max(len(line) for line in shown.output.splitlines()) <= 100


def test_json_is_the_documented_schema(lossy):
    shown = run("suggest", "--source", f"dir={lossy}", "--format", "json")
    assert shown.exit_code == 3
    document = msgspec.json.decode(shown.output, type=SuggestDocument)
    [rec] = document.recommendations
    assert rec.knob == "link_repair"
    assert rec.scope.entity == "link/interface%2Fsw%2Fp2/netdev%2Fh2%2Fh2"
    assert rec.because == [document.findings[0].id]
    assert document.agents == ["h1", "h2", "h3", "h4", "sw"]
    [seen] = [
        item
        for item in document.findings[0].evidence
        if item.metric == "node_infiniband_out_of_sequence_packets_received_total"
    ]
    assert seen.value == 60 * 6
    assert seen.until_ns - seen.since_ns == 30 * 10**9
    again = yaml.safe_load(run("suggest", "--source", f"dir={lossy}", "--format", "yaml").output)
    assert again == json.loads(shown.output)


def test_since_looks_back_from_the_newest_reading(lossy):
    shown = run("suggest", "--source", f"dir={lossy}", "--since", "11s", "--format", "json")
    document = msgspec.json.decode(shown.output, type=SuggestDocument)
    seen = document.findings[0].evidence[0]
    assert seen.value == 60 * 2


def test_healthy_is_silent_with_exit_code_0(healthy):
    shown = run("suggest", "--source", f"dir={healthy}")
    assert shown.exit_code == 0
    assert "nothing found" in shown.output
    document = run("suggest", "--source", f"dir={healthy}", "--format", "json").output
    assert json.loads(document)["findings"] == []


def test_explain_takes_the_id_of_a_finding_or_of_its_cure(lossy):
    document = json.loads(run("suggest", "--source", f"dir={lossy}", "--format", "json").output)
    finding, rec = document["findings"][0], document["recommendations"][0]
    for wanted in (finding["id"], finding["id"][:5], rec["id"]):
        shown = run("explain", wanted, "--source", f"dir={lossy}")
        assert shown.exit_code == 0
        for word in ("Evidence", "refuted if", "undo", "predicted", rec["id"]):
            assert word in shown.output
    machine = run("explain", rec["id"], "--source", f"dir={lossy}", "--format", "json")
    assert json.loads(machine.output)["finding"]["id"] == finding["id"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--source", "dir=/nonexistent"], 2, "/nonexistent"),
        (["--source", "file=x"], 2, "dir=PATH"),
        (["--since", "ten minutes"], 2, "ten minutes"),
        (["--tuner", "127.0.0.1:1"], 1, "127.0.0.1:1"),
        (["--format", "xml"], 2, "xml"),
    ],
)
def test_bad_input_is_one_line_and_a_code(args, code, words):
    shown = run("suggest", *args)
    assert shown.exit_code == code
    assert words in shown.stderr
    if "xml" not in args:  # typer's own words for a wrong choice take a few lines
        assert shown.stderr.count("\n") == 1


def test_an_unknown_id_names_those_that_exist(lossy):
    shown = run("explain", "zzzz", "--source", f"dir={lossy}")
    assert shown.exit_code == 1
    assert "there are:" in shown.stderr


def test_a_folder_of_something_else_is_told(tmp_path):
    (tmp_path / "letter.txt").write_text("hello")
    shown = run("suggest", "--source", f"dir={tmp_path}")
    assert shown.exit_code == 2
    assert "no recording" in shown.stderr


def test_what_is_told_of_the_job_gives_a_change_its_worth(lossy, tmp_path):
    log = tmp_path / "run.log"
    log.write_text(
        "#  Rank  0 Group  0 Pid 1 on h1 device 0 [0x07] H100\n# size algbw busbw\n"
        "  1048576  262144  float  sum  -1  100.5  10.43  20.0  0  99.1  10.5  19.9  0\n"
    )
    shown = run(
        "suggest", "--source", f"dir={lossy}", "--format", "json", "--measured", str(log),
        "--step-time", "800ms", "--communication", "40%", "--gpus", "64",
    )  # fmt: skip
    [rec] = msgspec.json.decode(shown.output, type=SuggestDocument).recommendations
    predicted = {effect.metric: effect for effect in rec.predicted}
    assert predicted["bus bandwidth"].before == 160e9
    assert predicted["step time"].before == 0.8
    assert 0 < predicted["GPU-hours regained per day"].after_high <= 64 * 24 * 0.4
    assert not any("worth" in what for what in rec.missing)
    bare = run("suggest", "--source", f"dir={lossy}", "--format", "json")
    [rec] = msgspec.json.decode(bare.output, type=SuggestDocument).recommendations
    assert any("--step-time" in what or "--communication" in what for what in rec.missing)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--communication", "140%"], "--communication"),
        (["--step-time", "soon"], "soon"),
        (["--measured", "/nonesuch"], "--measured"),
    ],
)
def test_wrong_words_about_the_job(lossy, arguments, word):
    shown = run("suggest", "--source", f"dir={lossy}", *arguments)
    assert shown.exit_code == 2
    assert word in shown.stderr


def test_a_plan_is_rendered_into_files(lossy, tmp_path):
    shown = run("suggest", "--source", f"dir={lossy}", "--render", "auto", "--out", str(tmp_path))
    assert shown.exit_code == 3
    assert "begin with" in shown.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    [device] = plan["devices"]
    assert [step["knob"] for step in device["steps"]] == ["link_repair"]
    assert [stage["name"] for stage in plan["stages"]] == ["canary"]
    left = (tmp_path / device["device"]["name"] / "not-carried-out.txt").read_text()
    assert "no command does this; by hand: drain" in left
    page = (tmp_path / "plan.md").read_text()
    assert "## Ring: canary" in page
    assert "packets are lost on the way to h2" in page


def test_the_plan_is_part_of_the_answer(lossy):
    document = json.loads(run("suggest", "--source", f"dir={lossy}", "--format", "json").output)
    [step] = document["plan"]["devices"][0]["steps"]
    assert step["recommendation"] == document["recommendations"][0]["id"]
    page = run("suggest", "--source", f"dir={lossy}", "--format", "md")
    assert page.exit_code == 3
    assert page.output.startswith("# Plan\n\n1 step on 1 device.")


def test_options_that_make_no_sense_are_usage_errors(lossy):
    for args in (("--render", "ios"), ("--out", "/tmp/x")):
        shown = run("suggest", "--source", f"dir={lossy}", *args)
        assert shown.exit_code == 2
    assert "no language 'ios'" in " ".join(
        run("suggest", "--source", f"dir={lossy}", "--render", "ios").output.split()
    )


def test_a_folder_that_cannot_be_written_is_one_line(lossy, tmp_path):
    (tmp_path / "file").write_text("")
    shown = run(
        "suggest", "--source", f"dir={lossy}", "--render", "auto", "--out", str(tmp_path / "file")
    )
    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert str(tmp_path / "file") in "".join(shown.stderr.replace("│", "").split())
