"""Devices name themselves, with any text: none of it becomes a command, or ends a comment."""

from dataclasses import replace

import pytest
from msgspec import structs

from collectors.model.entities import Device, Host, Interface, Netdev, Port, Slot, Switch
from collectors.model.facts import Attribute, Setting
from tests.tuner.render.states import step
from tests.tuner.render.test_registry import NAMES, PAIRS, plan_of
from tuner.advice.plan import Check, DevicePlan, Plan
from tuner.render.form import render_device
from tuner.render.markdown import plan_markdown
from tuner.render.registry import RENDERERS, render_plan

MARK = "INJECTED"
HOSTILE = (
    f"x; {MARK}",
    f"x\n{MARK}",
    f"x'{MARK}'",
    f'x"{MARK}"',
    f"$({MARK})",
    f"`{MARK}`",
    f"x|{MARK}",
    f"x {MARK}",
    f"--{MARK}",
    f"../{MARK}\x00",
    f"x\x1b]0;{MARK}\x07",
    f"x\u202e{MARK}",
    f"x\u2028{MARK}",
    f"{MARK}-" + "x" * 600,
)
SWITCHES = [name for name, row in RENDERERS.items() if row.on == "switch"]
HOSTS = [name for name, row in RENDERERS.items() if row.on == "host"]


def commands(made):
    """The lines that are no comment; and no line ends but at a line feed."""
    comment = RENDERERS[made.platform].comment
    texts = (made.apply, made.undo, made.verify, *made.files.values())
    lines = [line for text in texts for line in text.split("\n")]
    assert [line for text in texts for line in text.splitlines()] == [
        line for text in texts for line in text.split("\n")[: text.count("\n")]
    ]
    assert all(char.isprintable() for line in (*lines, *made.diff.split("\n")) for char in line)
    return [line for line in lines if not line.startswith(comment)]


def clean(made):
    return not any(MARK in line for line in commands(made))


def renamed(place, name):
    """The same kind of place, by a hostile name."""
    match place:
        case Slot(parent, kind, index):
            return Slot(renamed(parent, name), kind, index)
        case Port(device, number):
            return Port(renamed(device, name), number)
        case Interface(switch, _):
            return Interface(switch, name)
        case Netdev(host, _):
            return Netdev(host, name)
        case Device(host, _, _):
            return Device(host, name, name)
        case Host():
            return Host(name)
        case Switch():
            return Switch(name, name)
    raise AssertionError(place)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_name_of_a_place_becomes_a_command(hostile):
    for knob, platform in PAIRS:
        plan, place = plan_of(knob, platform)
        if place is None:
            continue
        steps = tuple(replace(s, scope=renamed(s.scope, hostile)) for s in plan.steps)
        known = tuple(
            structs.replace(a, entity=renamed(a.entity, hostile)) for a in plan.attributes
        )
        made = render_device(
            replace(plan, name=hostile, steps=steps, attributes=known), RENDERERS[platform]
        )
        assert clean(made), (knob, platform)
        if not any(isinstance(s.scope, Switch) for s in plan.steps):
            assert knob in {row.knob for row in made.missing}
            assert made.apply == made.undo == made.verify == ""


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("platform", RENDERERS)
def test_words_around_a_step_stay_in_their_comments(platform, hostile):
    check = Check(hostile, hostile, 300.0)
    for knob, other in PAIRS:
        plan, place = plan_of(knob, other)
        if other != platform or place is None:
            continue
        steps = tuple(
            replace(s, summary=hostile, recommendation=hostile, disruption=hostile, check=check)
            for s in plan.steps
        )
        rows = tuple(Setting(s.scope, "description", 1, hostile) for s in steps)
        plan = replace(plan, name=hostile, steps=steps, settings=rows)
        assert clean(render_device(plan, RENDERERS[platform])), knob


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("platform", SWITCHES)
def test_values_of_a_switch_are_words(platform, hostile):
    leaf = Switch("leaf1", "leaf1")
    port = Interface(leaf, NAMES.get(platform, "Ethernet1/1"))
    for place, knob, value in (
        (port, "fec", hostile),
        (port, "trust", hostile),
        (Slot(port, "queue", 3), "scheduler", hostile),
        (leaf, "ecmp_hash_fields", (hostile,)),
    ):
        plain = step(1, place, "mtu_bytes", 1500, 9000)
        read = replace(plain, knob=knob, current=value, proposed="rs")
        asked = replace(plain, knob=knob, current=None, proposed=value)
        rows = (Setting(place, knob, value, "x"),)
        for one, known in ((read, ()), (asked, ()), (replace(read, current=None), rows)):
            made = render_device(
                DevicePlan(leaf, "leaf1", platform, (one,), known), RENDERERS[platform]
            )
            assert clean(made)
            assert [row.knob for row in made.missing] == [knob]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("platform", HOSTS)
def test_what_is_known_of_an_adapter_goes_into_paths_only_as_a_name(platform, hostile):
    for knob, other in PAIRS:
        plan, place = plan_of(knob, other)
        if other != platform or place is None:
            continue
        for name in ("pci_address", "netdev", "driver"):
            known = tuple(
                Attribute(a.entity, a.name, hostile if a.name == name else a.value)
                for a in plan.attributes
            )
            assert clean(render_device(replace(plan, attributes=known), RENDERERS[platform]))
        env = tuple(replace(s, current=hostile) for s in plan.steps)
        assert clean(render_device(replace(plan, steps=env), RENDERERS[platform]))


@pytest.mark.parametrize("hostile", ["AZURE;INJECTED", "$(INJECTED)", "A'INJECTED", "`INJECTED`"])
def test_names_of_rows_and_classes_are_no_commands(hostile):
    leaf = Switch("leaf1", "leaf1")
    port = Interface(leaf, "Ethernet0")
    queue = Slot(port, "queue", 3)
    rows = (
        Setting(queue, "kmin_bytes", 1000, f"WRED_PROFILE|{hostile} QUEUE|Ethernet0|3"),
        Setting(queue, "kmax_bytes", 2000, f"WRED_PROFILE|{hostile}"),
    )
    plan = DevicePlan(leaf, "leaf1", "sonic", (step(1, queue, "kmin_bytes", 1000, 1500),), rows)
    made = render_device(plan, RENDERERS["sonic"])
    assert [row.knob for row in made.missing] == ["kmin_bytes"]
    assert made.apply == made.undo == made.verify == ""
    assert made.files == {}
    alias = (Attribute(Slot(leaf, "queue", 3), "alias", f"x\n{hostile}"),)
    inner = Slot(Interface(leaf, "et-0/0/0"), "queue", 3)
    junos = replace(
        plan,
        steps=(step(1, inner, "scheduler", None, "strict"),),
        settings=(),
        attributes=alias,
    )
    assert clean(render_device(junos, RENDERERS["junos"]))


def test_a_hostile_port_does_not_cost_the_others():
    leaf = Switch("leaf1", "leaf1")
    bad, good = Interface(leaf, f"Eth1/1 mtu 1\n{MARK}"), Interface(leaf, "Eth1/2")
    steps = (step(1, bad, "mtu_bytes", 1500, 9000), step(2, good, "mtu_bytes", 1500, 9000))
    made = render_device(DevicePlan(leaf, "leaf1", "onyx", steps), RENDERERS["onyx"])
    assert "interface ethernet 1/2 mtu 9000 force\n" in made.apply
    assert clean(made)
    (left,) = made.missing
    assert "does not look like" in left.why
    assert "\n" not in left.place + left.why


@pytest.mark.parametrize("name", ["Po5", "mgmt0", "1/1", "Ethernet1/1", "Eth1/1/../2"])
def test_onyx_takes_only_its_own_names_of_ethernet_ports(name):
    leaf = Switch("leaf1", "leaf1")
    steps = (step(1, Interface(leaf, name), "mtu_bytes", 1500, 9000),)
    made = render_device(DevicePlan(leaf, "leaf1", "onyx", steps), RENDERERS["onyx"])
    assert made.apply == ""
    assert [row.knob for row in made.missing] == ["mtu_bytes"]


def test_lists_of_adapters_are_one_word_of_the_shell():
    host = Host("h1")
    steps = (step(1, host, "job_devices", None, "^mlx5_0,mlx5_1"),)
    made = render_device(DevicePlan(host, "h1", "linux", steps), RENDERERS["nccl"])
    assert "export NCCL_IB_HCA='^mlx5_0,mlx5_1'\n" in made.apply


@pytest.mark.parametrize("name", ["<img src=x>", "a\n# b", "x\x1b[2J", "[a](b)", "```\n<b>", "a|b"])
def test_the_page_shows_names_as_text(name):
    leaf = Switch(name, name)
    port = Interface(leaf, name)
    steps = (replace(step(1, port, "mtu_bytes", None, 9000), summary=name, why=(name,), how=name),)
    plan = Plan((DevicePlan(leaf, name, "eos", steps),), (), (), ())
    text = plan_markdown(plan, render_plan(plan, "auto"))
    assert all(char.isprintable() for line in text.split("\n") for char in line)
    assert name not in text
    assert "does not look like" in text
    steps = (step(1, leaf, "ecmp_hash_seed", None, 7), step(2, leaf, "ecmp_hash_offset", None, 1))
    plan = replace(plan, devices=(DevicePlan(leaf, name, "eos", steps),))
    lines = plan_markdown(plan, render_plan(plan, "auto")).split("\n")
    fences = [at for at, line in enumerate(lines) if line.startswith("```")]
    inside = {at for a, b in zip(fences[::2], fences[1::2], strict=True) for at in range(a, b)}
    assert not any(name in line for at, line in enumerate(lines) if at not in inside)
