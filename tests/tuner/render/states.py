"""Random states of a switch, and plans between two of them: what every renderer is tried on.

A state is drawn in groups that belong together (a queue's marking, a watchdog's times), because
devices have no half of them.
"""

from hypothesis import strategies as st

from collectors.model.entities import Interface, Slot, Switch
from collectors.model.facts import Attribute, Setting
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.plan import Check, DevicePlan, Step

LEAF = Switch("leaf1", "leaf1")
CHECK = Check("it reads back", "", 300.0)


def step(number, scope, knob, current, proposed):
    row = KNOBS[knob]
    assert row.unfit(proposed) == ""
    return Step(
        number, f"rec{number}", knob, scope, current, proposed, row.unit, f"change {knob}", (),
        "low", row.disruption, "", "", CHECK,
    )  # fmt: skip


def device(platform, before, after, attributes=(), where=lambda _place, _name: ""):
    """The plan that leads from one state to another; what `after` lacks stays as it was."""
    steps = [
        step(number, place, name, before.get((place, name)), value)
        for number, ((place, name), value) in enumerate(after.items(), 1)
        if before.get((place, name)) != value
    ]
    rows = tuple(
        Setting(place, name, value, where(place, name)) for (place, name), value in before.items()
    )
    plain = tuple(Attribute(place, name, value) for place, name, value in attributes)
    return DevicePlan(LEAF, "leaf1", platform, tuple(steps), rows, plain)


bools8 = st.lists(st.booleans(), min_size=8, max_size=8).map(tuple)
percents = st.integers(1, 100).map(lambda n: n / 100)


def maps(size, low=0):
    return st.dictionaries(
        st.integers(0, size - 1), st.integers(low, 7), min_size=1, max_size=6
    ).map(lambda chosen: tuple(chosen.get(at, -1) for at in range(size)))


@st.composite
def marking(draw, unit=1, extra=()):
    low = draw(st.integers(0, 4000))
    high = draw(st.integers(low, 9000))
    group = {
        "ecn_enabled": True,
        "kmin_bytes": low * unit,
        "kmax_bytes": high * unit,
        "pmax_ratio": draw(percents),
    }
    if "weight" in extra:
        group["ecn_average_weight"] = draw(st.integers(0, 15))
    return group


def one(name, values):
    return values.map(lambda value: {name: value})


@st.composite
def together(draw, **parts):
    return {name: draw(values) for name, values in parts.items()}


@st.composite
def walks(draw, ports, port_groups, slot_groups, switch_groups, alike=False):
    """Two states: (before, after). after changes or adds groups of before, and drops none."""
    before, after = {}, {}
    shared = {}

    def spread(place, groups, tag):
        for at, group in enumerate(groups):
            if alike and tag:
                key = (tag, at)
                if key not in shared:
                    shared[key] = (
                        draw(group) if draw(st.booleans()) else {},
                        draw(group) if draw(st.booleans()) else {},
                    )
                first, second = shared[key]
            else:
                first = draw(group) if draw(st.booleans()) else {}
                second = draw(group) if draw(st.booleans()) else {}
            before.update({(place, name): value for name, value in first.items()})
            after.update({(place, name): value for name, value in second.items()})

    for name in ports:
        port = Interface(LEAF, name)
        spread(port, port_groups, "port")
        for kind, numbers, groups in slot_groups:
            for number in numbers:
                spread(Slot(port, kind, number), groups, f"{kind}{number}")
    spread(LEAF, switch_groups, "")
    return before, after


def merged(before, after):
    """The state that stands once the steps are done."""
    return {**before, **after}


def parsed(facts, names):
    """The settings of a parsed configuration, as a state of the named knobs."""
    return {(row.entity, row.name): row.value for row in facts.settings if row.name in names}
