"""Every rendered configuration parses back to what was planned, and undo gives back what was.

A random state becomes a configuration, the rendered commands are entered into a model of the
device's configuration, and C's own readers read the result.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.switchconfig.read import parse_configuration
from tests.tuner.render import configs, states
from tests.tuner.render.states import LEAF, device, maps, marking, merged, one, parsed, together
from tuner.advice.knobs.catalogue import of_platform
from tuner.render.eos import RENDERER as EOS
from tuner.render.form import render_device
from tuner.render.junos import RENDERER as JUNOS
from tuner.render.nvue import RENDERER as NVUE
from tuner.render.nxos import RENDERER as NXOS
from tuner.render.onyx import RENDERER as ONYX

TRIES = settings(max_examples=60, deadline=None)


def near(found, wanted):
    """Equal states; floats to a millionth."""
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        got = found[key]
        if isinstance(value, float) and isinstance(got, (int, float)):
            assert got == pytest.approx(value, abs=1e-6), key
        else:
            assert got == value, key


def rendered(plan, renderer):
    made = render_device(plan, renderer)
    assert made.missing == ()
    assert bool(made.apply) == bool(made.undo) == bool(plan.steps)
    return made


# --- Arista EOS ---------------------------------------------------------------------------------
EOS_WALKS = states.walks(
    ["Ethernet1/1", "Ethernet2/1"],
    [
        one("mtu_bytes", st.integers(1500, 9214)),
        one("speed_bps", st.sampled_from([10**11, 4 * 10**11])),
        one("fec", st.sampled_from(["reed-solomon", "fire-code"])),
        one("trust", st.sampled_from(["dscp", "pcp"])),
        together(pfc_mode=st.just("on"), pfc_priorities=states.bools8),
        together(
            pfc_watchdog_detection_seconds=st.sampled_from([0.05, 0.2, 2.0]),
            pfc_watchdog_restoration_seconds=st.sampled_from([0.2, 1.11, 5.0]),
        ),
        one("pfc_watchdog_action", st.sampled_from(["drop", "no-drop"])),
    ],
    [
        (
            "queue",
            (3, 6),
            [
                marking(extra=("weight",)),
                one("ecn_counting_enabled", st.just(True)),
                one("scheduler", st.just("strict")),
                one("scheduler_weight", st.integers(1, 99)),
            ],
        )
    ],
    [
        one("dscp_to_traffic_class", maps(64)),
        one("ecmp_hash_fields", st.just(("ip", "protocol", "dst-ip", "dst-port"))),
        one("ecmp_hash_seed", st.integers(0, 65535)),
        one("ecmp_hash_offset", st.integers(0, 15)),
    ],
)


def eos_name(line):
    words = line.split()
    if words[:2] in (["qos", "map"], ["priority-flow-control", "priority"]):
        return 4 if words[0] == "qos" else 3
    if words[:1] in (["interface"], ["uc-tx-queue"], ["load-balance"]):
        return len(words)
    if words[:2] == ["random-detect", "ecn"]:
        return 3
    if words[:3] == ["priority-flow-control", "pause", "watchdog"]:
        return 5
    if words[:2] == ["ecmp", "hash"]:
        return 3
    return 1 if words[0] in ("mtu", "speed", "fields") else min(2, len(words))


def there_and_back(renderer, walk, enter, text):
    """Enter the rendered commands, read the configuration, and go back again."""
    before, after = walk
    platform = renderer.platform
    names = of_platform(platform)

    def read():
        return parsed(parse_configuration(platform, text(), LEAF, "x"), names)

    whole = render_device(device(platform, {}, before), renderer)
    assert whole.missing == ()
    enter(whole.apply)
    near(read(), before)
    made = rendered(device(platform, before, after), renderer)
    enter(made.apply)
    near(read(), merged(before, after))
    enter(made.undo)
    near(read(), before)


def by_indentation(name_words):
    config = {}

    def enter(commands):
        configs.enter(config, configs.tree(commands, "!"), name_words)

    return enter, lambda: configs.text_of(config)


@given(EOS_WALKS)
@TRIES
def test_eos(walk):
    there_and_back(EOS, walk, *by_indentation(eos_name))


# --- Cisco NX-OS --------------------------------------------------------------------------------
NXOS_WALKS = states.walks(
    ["Ethernet1/1", "Ethernet1/2"],
    [
        one("mtu_bytes", st.integers(1500, 9216)),
        one("speed_bps", st.sampled_from([10**11, 4 * 10**11])),
        one("fec", st.sampled_from(["rs-fec", "auto"])),
        together(pfc_mode=st.just("on"), pfc_priorities=states.bools8),
        one("pfc_watchdog_enabled", st.booleans()),
        together(trust=st.just("dscp"), dscp_to_traffic_class=maps(64)),
    ],
    [
        (
            "queue",
            (3, 6),
            [
                marking(extra=("weight",)),
                one("scheduler", st.just("strict")),
                one("scheduler_weight", st.integers(1, 99)),
            ],
        ),
        (
            "priority_group",
            (3,),
            [
                together(
                    xoff_bytes=st.integers(1, 10**6),
                    pause_threshold_bytes=st.integers(1, 10**6),
                    resume_threshold_bytes=st.integers(1, 10**6),
                )
            ],
        ),
    ],
    [
        together(
            ecmp_hash_fields=st.just(("source-destination", "port", "source-destination")),
            ecmp_hash_seed=st.integers(0, 2**32 - 1),
            ecmp_hash_offset=st.integers(0, 63),
        ),
        together(
            load_balancing=st.sampled_from(["flowlet", "per_packet"]),
            flowlet_gap_seconds=st.sampled_from([1e-3, 5e-4]),
        ),
    ],
    alike=True,
)


def nxos_name(line):
    words = line.split()
    if words[0] in ("interface", "class", "class-map", "policy-map", "system", "hardware"):
        return len(words)
    if words[0] == "service-policy":
        return 4 if words[2] != "network-qos" else 3
    return 1 if words[0] in ("mtu", "speed", "fec", "mode", "flowlet-aging") else 2


@given(NXOS_WALKS)
@TRIES
def test_nxos(walk):
    there_and_back(NXOS, walk, *by_indentation(nxos_name))


# --- Cumulus NVUE -------------------------------------------------------------------------------
NVUE_WALKS = states.walks(
    ["swp1", "swp2"],
    [
        one("mtu_bytes", st.integers(1500, 9216)),
        one("fec", st.sampled_from(["rs", "auto"])),
        together(pfc_priorities=states.bools8, pfc_cable_length_metres=st.integers(1, 10**5)),
    ],
    [
        (
            "queue",
            (3, 6),
            [
                marking(),
                one("scheduler", st.sampled_from(["strict", "dwrr"])),
                one("scheduler_weight", st.integers(1, 99)),
            ],
        )
    ],
    [
        one("dscp_to_traffic_class", maps(64)),
        one("ecmp_hash_fields", st.sampled_from([("source-port",), ("source-ip", "ip-protocol")])),
        one("ecmp_hash_seed", st.integers(0, 2**32 - 1)),
        one("load_balancing", st.sampled_from(["adaptive", "static"])),
    ],
)


def nvue_leaf(words):
    """Whether the last word of an `nv set` line is a value, which a new one takes the place of."""
    listed = words[:2] == ["qos", "pfc"] and words[3] == "switch-priority"
    return not listed


@given(NVUE_WALKS)
@TRIES
def test_nvue(walk):
    there_and_back(NVUE, walk, *flat("nv set", "nv unset", nvue_leaf))


# --- Junos --------------------------------------------------------------------------------------
@st.composite
def drop_profiles(draw):
    low = draw(st.integers(0, 60))
    return {
        "ecn_enabled": True,
        "kmin_fill_ratio": low / 100,
        "kmax_fill_ratio": draw(st.integers(low, 100)) / 100,
        "pmax_ratio": draw(states.percents),
    }


@st.composite
def junos_classes(draw):
    """PFC only for priorities that some DSCP leads to."""
    places = [-1] * 64
    priorities = draw(st.sets(st.integers(1, 6), max_size=3))
    for priority in priorities:
        places[draw(st.integers(priority * 8, priority * 8 + 7))] = priority
    places[0] = 7
    return {
        "trust": "dscp",
        "dscp_to_traffic_class": tuple(places),
        "pfc_priorities": tuple(priority in priorities for priority in range(8)),
        "pfc_watchdog_enabled": True,
        "pfc_cable_length_metres": draw(st.integers(1, 300)),
    }


JUNOS_WALKS = states.walks(
    ["et-0/0/0", "et-0/0/1"],
    [one("mtu_bytes", st.integers(1500, 9216)), junos_classes()],
    [
        (
            "queue",
            (3, 6),
            [
                drop_profiles(),
                one("scheduler", st.just("strict")),
                one("scheduler_weight", st.integers(1, 99)),
            ],
        )
    ],
    [
        one("ecmp_hash_seed", st.integers(0, 2**32 - 1)),
        one("ecmp_hash_rdma_qp", st.just(False)),
        st.one_of(
            one("load_balancing", st.just("per_packet")),
            together(
                load_balancing=st.just("flowlet"),
                flowlet_gap_seconds=st.sampled_from([1e-4, 16e-6]),
            ),
        ),
    ],
)


def junos_leaf(words):
    """Whether the last word of a `set` line is a value, which a new one takes the place of."""
    return words[-2] in (
        "mtu", "scheduler-map", "congestion-notification-profile", "hash-seed", "pfc-priority",
        "queue-num", "scheduler", "percent", "cable-length", "priority",
    ) or words[-3:-1] == ["classifiers", "dscp"]  # fmt: skip


def gap_of(walk):
    """A switch without flowlets has no flowlet gap."""
    before, after = walk
    mode, gap = (LEAF, "load_balancing"), (LEAF, "flowlet_gap_seconds")
    return after.get(mode) == "per_packet" and gap in before


@given(JUNOS_WALKS.filter(lambda walk: not gap_of(walk)))
@TRIES
def test_junos(walk):
    there_and_back(JUNOS, walk, *flat("set", "delete", junos_leaf))


# --- NVIDIA Onyx --------------------------------------------------------------------------------
@st.composite
def kilobytes(draw):
    group = draw(marking(unit=1000))
    del group["pmax_ratio"]
    return group


ONYX_WALKS = states.walks(
    ["Eth1/1", "Eth1/2"],
    [
        one("mtu_bytes", st.integers(1500, 9216)),
        one("speed_bps", st.sampled_from([10**11, 4 * 10**11])),
        one("fec", st.sampled_from(["rs-fec", "no-fec"])),
        one("trust", st.sampled_from(["dscp", "pcp", "both"])),
        together(pfc_mode=st.just("on"), pfc_priorities=states.bools8.filter(any)),
        one("pfc_watchdog_enabled", st.just(True)),
    ],
    [
        (
            "queue",
            (3, 6),
            [
                kilobytes(),
                together(scheduler=st.just("wrr"), scheduler_weight=st.integers(1, 99)),
            ],
        )
    ],
    [one("dscp_to_traffic_class", maps(64))],
    alike=True,
)


def onyx_name(line):
    words = line.split()
    if words[:2] == ["interface", "ethernet"]:
        if words[3] in ("qos", "traffic-class"):
            return 6 if words[3] == "traffic-class" else 5
        return 6 if words[3] == "dcb" else 4
    return 4


@given(ONYX_WALKS)
@TRIES
def test_onyx(walk):
    there_and_back(ONYX, walk, *by_indentation(onyx_name))


def flat(set_word, delete_word, leaf):
    config = configs.Flat(set_word, delete_word, leaf)
    return config.enter, config.text
