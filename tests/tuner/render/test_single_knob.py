"""One knob alone, on a switch of which all, or nothing, was read: carried out whole, or refused.

Tried on random states for every knob that a platform claims. Carried out means: the device's
configuration, read by its reader, has the new value and every other as it was; after undo it is
the configuration of before.
"""

import copy
import json
from dataclasses import replace

import jsonpatch
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.model.entities import Interface, Slot
from collectors.model.facts import Setting
from collectors.switchconfig.read import parse_configuration
from tests.tuner.render import test_sonic, test_switches
from tests.tuner.render.states import LEAF, device, parsed
from tests.tuner.render.test_registry import NAMES, plan_of, value_of
from tests.tuner.render.test_switches import by_indentation, flat, near
from tuner.advice.knobs.catalogue import KNOBS, of_platform
from tuner.render.form import render_device
from tuner.render.registers import MARKS
from tuner.render.registry import RENDERERS

THRESHOLDS = (("kmin_bytes", "kmax_bytes"), ("kmin_fill_ratio", "kmax_fill_ratio"))
SETTING = {"put", "ip", "ethtool", "dcb", "mlnx_qos", "mlxreg", "setpci", "mstconfig"}
MARKING = {"ecn_enabled", "kmin_bytes", "kmax_bytes", "kmin_fill_ratio", "kmax_fill_ratio"}
FORGOTTEN = MARKING | {"pmax_ratio", "ecn_average_weight"}
"""What some platforms do not keep of a queue while it does not mark."""


IMPLIED = {
    "dscp_to_traffic_class": ("trust",),
    "pfc_priorities": ("pfc_mode",),
    "pfc_watchdog_action": ("pfc_watchdog_enabled",),
    "pfc_watchdog_detection_seconds": ("pfc_watchdog_enabled",),
    "pfc_watchdog_restoration_seconds": ("pfc_watchdog_enabled",),
    "scheduler_weight": ("scheduler",),
    "flowlet_gap_seconds": ("load_balancing",),
}
"""What a reader takes from the same line where nothing else says it."""


class Commands:
    """A device that takes commands."""

    def __init__(self, platform, model):
        self.platform = platform
        self.take, self.text = model

    def enter(self, made, way):
        self.take(getattr(made, way))

    def facts(self):
        return parse_configuration(self.platform, self.text(), LEAF, "x")


class Database:
    """A SONiC switch: fragments are merged, patches applied, checkpoints gone back to."""

    platform = "sonic"

    def __init__(self):
        self.rows = {}
        self.checkpoint = {}

    def enter(self, made, way):
        if way == "apply":
            self.checkpoint = copy.deepcopy(self.rows)
        if patch := made.files.get(f"{way}.patch.json"):
            self.rows = jsonpatch.apply_patch(self.rows, json.loads(patch))
        elif fragment := made.files.get(f"{way}.config_db.json"):
            for table, rows in json.loads(fragment).items():
                for key, row in rows.items():
                    self.rows.setdefault(table, {}).setdefault(key, {}).update(row)
        elif "\nsudo config rollback" in getattr(made, way):
            self.rows = self.checkpoint

    def facts(self):
        return parse_configuration("sonic", json.dumps(self.rows), LEAF, "config_db.json")


SWITCHES = {
    "eos": (
        test_switches.EOS_WALKS,
        lambda: Commands("eos", by_indentation(test_switches.eos_name)),
    ),
    "nxos": (
        test_switches.NXOS_WALKS,
        lambda: Commands("nxos", by_indentation(test_switches.nxos_name)),
    ),
    "junos": (
        test_switches.JUNOS_WALKS,
        lambda: Commands("junos", flat("set", "delete", test_switches.junos_leaf)),
    ),
    "nvue": (
        test_switches.NVUE_WALKS,
        lambda: Commands("nvue", flat("nv set", "nv unset", test_switches.nvue_leaf)),
    ),
    "onyx": (
        test_switches.ONYX_WALKS,
        lambda: Commands("onyx", by_indentation(test_switches.onyx_name)),
    ),
    "sonic": (test_sonic.WALKS, Database),
}


def state(switch):
    return parsed(switch.facts(), of_platform(switch.platform))


def other_than(name):
    """A value of a knob that is not the one it is tried with."""
    knob, new = KNOBS[name], value_of(name)
    others = [*knob.choices, knob.low, knob.high, True, False, 7, "updn", "minhop"]
    made = [(other,) * knob.places if knob.places else other for other in others]
    fits = (other for other in made if other is not None and knob.unfit(other) == "")
    return next(other for other in fits if other != new)


def standing(found, off=None):
    """What stands in a state: a switch that is off reads as `off` or not at all.

    off: a queue that shall not mark, and so may have forgotten how it did.
    """
    return {
        (place, name): value
        for (place, name), value in found.items()
        if not (place == off and name in FORGOTTEN)
        and value is not False
        and not (isinstance(value, tuple) and set(value) <= {False, -1})
    }


@pytest.mark.parametrize("platform", SWITCHES)
def test_one_knob_alone(platform):
    walks, make = SWITCHES[platform]
    carried = set()

    @given(walks, st.data())
    @settings(
        max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def tried(walk, data):
        before, after = walk
        switch = make()
        switch.enter(render_device(device(platform, {}, before), RENDERERS[platform]), "apply")
        start = state(switch)
        near(standing(start), standing(before))
        wanted = {key: value for key, value in after.items() if start.get(key) != value}
        marks = [(at, "ecn_enabled") for at, name in {**before, **after} if name in MARKING]
        wanted |= {key: not before.get(key, False) for key in marks}
        if not wanted:
            return
        key = data.draw(st.sampled_from(sorted(wanted, key=str)))
        for low, high in THRESHOLDS:
            values = {**start, key: wanted[key]}
            if values.get((key[0], low), 0) > values.get((key[0], high), float("inf")):
                return  # the plan's own checks refuse this
        plan = device(platform, {}, {key: wanted[key]})
        (one,) = plan.steps
        plan = replace(
            plan, settings=switch.facts().settings, steps=(replace(one, current=start.get(key)),)
        )
        made = render_device(plan, RENDERERS[platform])
        if made.missing:
            assert made.apply == made.undo == ""
            assert made.missing[0].why
            return
        switch.enter(made, "apply")
        off = key[0] if key[1] == "ecn_enabled" and not wanted[key] else None
        there = standing(state(switch), off)
        for name in IMPLIED.get(key[1], ()):
            if (key[0], name) not in start:
                there.pop((key[0], name), None)
        near(there, standing({**start, key: wanted[key]}, off))
        switch.enter(made, "undo")
        assert "not taken back" not in made.undo
        near(standing(state(switch)), standing(start))
        carried.add(key[1])

    tried()
    assert len(carried) >= 6, "most draws were refused"


@pytest.mark.parametrize("platform", SWITCHES)
def test_marking_is_not_switched_on_without_its_thresholds(platform):
    slot = Slot(Interface(LEAF, NAMES.get(platform, "Ethernet1/1")), "queue", 3)
    plan = device(platform, {(slot, "ecn_enabled"): False}, {(slot, "ecn_enabled"): True})
    made = render_device(plan, RENDERERS[platform])
    assert (made.apply, made.undo, dict(made.files)) == ("", "", {})
    assert "not known" in made.missing[0].why


FORMER = {
    "nvue": (
        "nv set qos congestion-control site-a traffic-class 3 ecn enable\n"
        "nv set qos congestion-control site-a traffic-class 3 min-threshold 1000\n"
        "nv set qos congestion-control site-a traffic-class 3 max-threshold 2000\n"
        "nv set qos congestion-control site-a traffic-class 3 probability 10\n"
        "nv set interface swp1 qos congestion-control profile site-a\n"
    ),
    "junos": (
        "set class-of-service forwarding-classes class ROCE queue-num 3\n"
        "set class-of-service drop-profiles DP interpolate fill-level 10\n"
        "set class-of-service drop-profiles DP interpolate fill-level 50\n"
        "set class-of-service drop-profiles DP interpolate drop-probability 0\n"
        "set class-of-service drop-profiles DP interpolate drop-probability 100\n"
        "set class-of-service schedulers S drop-profile-map loss-priority any protocol any "
        "drop-profile DP\n"
        "set class-of-service schedulers S explicit-congestion-notification\n"
        "set class-of-service scheduler-maps site-a forwarding-class ROCE scheduler S\n"
        "set class-of-service interfaces et-0/0/0 scheduler-map site-a\n"
    ),
    "nxos": (
        "policy-map type queuing site-a\n"
        "  class type queuing c-out-8q-q3\n"
        "    random-detect minimum-threshold 1000 bytes maximum-threshold 2000 bytes "
        "drop-probability 10 weight 0 ecn\n"
        "interface Ethernet1/1\n"
        "  service-policy type queuing output site-a\n"
    ),
}


@pytest.mark.parametrize("platform", FORMER)
def test_undo_goes_back_to_the_profile_of_before(platform):
    switch = SWITCHES[platform][1]()
    switch.take(FORMER[platform])
    facts = switch.facts()
    start = state(switch)
    key = next(key for key in start if key[1] in ("kmin_bytes", "kmin_fill_ratio"))
    plan = device(platform, {key: start[key]}, {key: start[key] / 2})
    plan = replace(plan, settings=facts.settings, attributes=facts.attributes)
    made = render_device(plan, RENDERERS[platform])
    switch.enter(made, "apply")
    assert state(switch)[key] == start[key] / 2
    assert "site-a" not in {str(row.value) for row in switch.facts().attributes}
    switch.enter(made, "undo")
    near(state(switch), start)
    assert "site-a" in {str(row.value) for row in switch.facts().attributes}


@pytest.mark.parametrize("platform", ["nxos", "junos"])
def test_a_port_that_looked_at_no_dscp_looks_at_none_after_undo(platform):
    port = Interface(LEAF, NAMES.get(platform, "Ethernet1/1"))
    places = tuple(3 if dscp == 26 else -1 for dscp in range(64))
    before = {(port, "trust"): "pcp", (port, "dscp_to_traffic_class"): places}
    switch = SWITCHES[platform][1]()
    made = render_device(device(platform, before, {(port, "trust"): "dscp"}), RENDERERS[platform])
    switch.enter(made, "apply")
    assert state(switch)[port, "trust"] == "dscp"
    switch.enter(made, "undo")
    assert (port, "trust") not in state(switch)


HOSTS = [
    (platform, name)
    for platform, renderer in RENDERERS.items()
    if renderer.on == "host"
    for name in sorted(of_platform(platform))
    if renderer.knows(name) and name != "trust"  # follows from the DSCP rules, without a command
]


def commands(text):
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(("platform", "name"), HOSTS)
def test_a_host_goes_back_the_way_it_came_and_never_to_a_value_not_seen(platform, name):
    plan, _ = plan_of(name, platform)
    known = {(step.scope, step.knob): step.proposed for step in plan.steps if step.knob != name}
    rows = tuple(Setting(at, knob, value) for (at, knob), value in known.items())
    new, old = value_of(name), other_than(name)

    def made(current, proposed):
        (one,) = (step for step in plan.steps if step.knob == name)
        asked = replace(one, current=current, proposed=proposed)
        return render_device(replace(plan, steps=(asked,), settings=rows), RENDERERS[platform])

    there, back, blind = made(old, new), made(new, old), made(None, new)
    if platform != "opensm" and there.apply and back.apply:  # OpenSM goes back to a copy
        assert commands(there.undo) == commands(back.apply)
    if there.apply:
        assert commands(there.undo) != commands(there.apply)
    if platform == "mlxconfig" and name in MARKS:
        return  # one mask for both sides: the other side's value is this one's
    for line in commands(blind.undo):  # a rule that was added is taken away, nothing is set
        assert line.split()[0] not in SETTING or line.startswith("dcb app del "), blind.undo
