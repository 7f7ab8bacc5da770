"""Plans on the screen and as files: what a device calls itself is shown, and does nothing else."""

from dataclasses import replace

import pytest

from collectors.model.entities import Interface, Switch
from tests.tuner.render.states import step
from tuner.advice.plan import Conflict, DevicePlan, Plan, Refusal
from tuner.cli.rendering import folder_of, left_out, printed, rendered, write_out

HOSTILE = "x\x1b[2J\n\u202e\x9b<b>"


def plan():
    leaf = Switch(HOSTILE, HOSTILE)
    steps = (
        step(1, Interface(leaf, HOSTILE), "mtu_bytes", None, 9000),
        replace(step(2, leaf, "ecmp_hash_seed", None, 7), summary=HOSTILE),
    )
    lost = Refusal(HOSTILE, "mtu_bytes", leaf, HOSTILE)
    return Plan(
        (DevicePlan(leaf, HOSTILE, "junos", steps),), (), (Conflict((HOSTILE,), HOSTILE),), (lost,)
    )


def test_nothing_on_the_screen_steers_it():
    shown = [*printed(rendered(plan(), "auto")), *left_out(plan())]
    assert any("hash-seed 7" in text for text in shown)
    assert all(char.isprintable() for text in shown for char in text.replace("\n", ""))
    assert [text.count("\n") for text in left_out(plan())] == [0, 0]


def test_no_file_steers_a_screen_or_lies_outside(tmp_path):
    out = tmp_path / "out"
    for path in write_out(plan(), rendered(plan(), "auto"), out):
        assert path.resolve().is_relative_to(out)
        text = path.read_text()
        if path.suffix == ".json":  # for machines: as it was said, the ASCII ones escaped
            assert "\x1b" not in text
            continue
        assert all(char.isprintable() for char in text.replace("\n", ""))
    page = (out / "plan.md").read_text()
    assert "<b>" not in page.replace("\\<b\\>", "").partition("```")[0]


@pytest.mark.parametrize("name", ["..", ".", "", "../x", "a/../b", ".ssh", "x" * 999])
def test_no_name_of_a_device_leads_out_of_the_folder(tmp_path, name):
    folder = folder_of(name)
    assert (tmp_path / folder).resolve().parent == tmp_path.resolve()
    assert not folder.startswith(".")
    assert len(folder) < 200


def test_names_that_look_alike_have_folders_of_their_own():
    assert folder_of("leaf1.example") == "leaf1.example"
    assert folder_of("a b") != folder_of("a_b") != folder_of("a;b") != folder_of("a b")
