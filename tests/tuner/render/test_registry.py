"""Every knob on every platform: carried out, or left out by name. Never dropped in silence."""

import pytest

from collectors.model.entities import Device, Host, Interface, Netdev, Port, Slot, Switch
from collectors.model.facts import Attribute, Setting
from tests.tuner.render.states import step
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.knobs.knob import PLATFORMS
from tuner.advice.plan import DevicePlan, Plan
from tuner.render.form import render_device
from tuner.render.registry import RENDERERS, render_plan

LEAF = Switch("leaf1", "leaf1")
HOST = Host("h1")
DEVICE = Device("h1", "0000:17:00.0", "mlx5_0")
PORT = Port(DEVICE, 1)
NAMES = {"nvue": "swp1", "junos": "et-0/0/0", "onyx": "Eth1/1"}
BESIDE = {  # what a platform sets in one line with the knob
    "kmin_bytes": "kmax_bytes",
    "kmax_bytes": "kmin_bytes",
    "pmax_ratio": "kmin_bytes kmax_bytes kmin_fill_ratio kmax_fill_ratio",
    "ecn_enabled": "kmin_bytes kmax_bytes kmin_fill_ratio kmax_fill_ratio",
    "ecn_average_weight": "kmin_bytes kmax_bytes",
    "kmin_fill_ratio": "kmax_fill_ratio",
    "kmax_fill_ratio": "kmin_fill_ratio",
    "pfc_watchdog_detection_seconds": "pfc_watchdog_restoration_seconds",
    "pfc_watchdog_restoration_seconds": "pfc_watchdog_detection_seconds",
    "pfc_watchdog_enabled": "pfc_priorities pfc_watchdog_detection_seconds "
    "pfc_watchdog_restoration_seconds",
    "pfc_watchdog_poll_seconds": "pfc_watchdog_detection_seconds",
    "xoff_bytes": "pause_threshold_bytes resume_threshold_bytes",
    "pause_threshold_bytes": "xoff_bytes resume_threshold_bytes",
    "resume_threshold_bytes": "xoff_bytes pause_threshold_bytes",
    "pfc_priorities": "dscp_to_traffic_class",
    "ecmp_hash_seed": "ecmp_hash_fields",
    "ecmp_hash_offset": "ecmp_hash_fields",
    "flowlet_gap_seconds": "load_balancing",
    "scheduler": "scheduler_weight",
    "trust": "dscp_to_priority dscp_to_traffic_class",
    "dcqcn_rp_enabled": "dcqcn_np_enabled",
    "dcqcn_np_enabled": "dcqcn_rp_enabled",
    "roce_ecn_codepoint": "job_tclass",
    "dscp_to_traffic_class": "trust",
}


def value_of(name):
    knob = KNOBS[name]
    special = {
        "kmin_bytes": 100_000,
        "kmin_fill_ratio": 0.1,
        "pfc_priorities": tuple(p == 3 for p in range(8)),
        "dscp_to_traffic_class": tuple(3 if d == 26 else 0 if d == 0 else -1 for d in range(64)),
        "dscp_to_priority": tuple(3 if d == 26 else -1 for d in range(64)),
        "ecmp_hash_fields": ("source-port",),
        "load_balancing": "flowlet",
        "job_devices": "mlx5_0",
        "opensm_routing_engine": "updn",
        "opensm_vl_arbitration": "weight 64 for lane 3",
        "fec": "rs",
        "scheduler": "strict",
        "trust": "dscp",
        "ets_bandwidth_ratio": (1.0,) + (0.0,) * 7,
        "priority_to_buffer": (0,) * 8,
    }
    if name in special:
        return special[name]
    if knob.choices:
        one = knob.choices[-1]
    else:
        low = -8 if knob.low is None else knob.low
        high = 200_000 if knob.high is None else knob.high
        one = min(max(low, 4 if knob.unit != "bytes" else 200_000), high)
        one = int(one) if float(one).is_integer() else one
    return (one,) * knob.places if knob.places else one


def place_of(name, platform):
    knob = KNOBS[name]
    port = Interface(LEAF, NAMES.get(platform, "Ethernet1/1"))
    switch = RENDERERS[platform].on == "switch"
    if name == "dscp_to_traffic_class":
        return port if platform in ("nxos", "junos", "sonic") else LEAF
    by_kind = {
        "queue": Slot(port, "queue", 3), "priority_group": Slot(port, "priority_group", 3),
        "interface": port, "switch": LEAF, "netdev": Netdev("h1", "eth0"), "port": PORT,
        "device": DEVICE, "host": HOST,
    }  # fmt: skip
    kinds = [kind for kind in knob.on if kind in by_kind]
    of_hosts = ("netdev", "port", "device", "host")
    fitting = [kind for kind in kinds if (kind not in of_hosts) == switch]
    return by_kind[fitting[0]] if fitting else None


def plan_of(name, platform):
    """A plan for a knob, with what the platform sets together with it."""
    asked = {name, *BESIDE.get(name, "").split()}
    places = {knob: place_of(knob, platform) for knob in asked}
    steps = [
        step(number, place, knob, None, value_of(knob))
        for number, (knob, place) in enumerate(sorted(places.items(), key=lambda i: i[0]), 1)
        if place is not None
    ]
    switch = RENDERERS[platform].on == "switch"
    known = (
        Attribute(DEVICE, "driver", "mlx5"),
        Attribute(DEVICE, "pci_address", "0000:17:00.0"),
        Attribute(PORT, "netdev", "eth0"),
    )
    device, title = (LEAF, "leaf1") if switch else (HOST, "h1")
    return DevicePlan(device, title, platform, tuple(steps), (), known), places[name]


PAIRS = [(name, platform) for name in KNOBS for platform in RENDERERS]


@pytest.mark.parametrize(("name", "platform"), PAIRS)
def test_a_knob_is_carried_out_or_left_out_by_name(name, platform):
    plan, place = plan_of(name, platform)
    if place is None:
        assert KNOBS[name].home(platform) is None, "no place for a knob that the platform has"
        return
    made = render_device(plan, RENDERERS[platform])
    refused = {row.knob: row.why for row in made.missing}
    if KNOBS[name].owner == "firmware":
        assert refused[name] == "the firmware owns this knob"
    elif KNOBS[name].home(platform) is None:
        assert name in refused
        assert refused[name].startswith(("no command does this", RENDERERS[platform].title))
    elif (name, platform) in REFUSED:
        assert REFUSED[name, platform] in refused[name]
    else:
        assert name not in refused, refused
        assert made.apply
        assert made.undo
        assert made.verify


REFUSED = {
    ("load_balancing", "nvue"): "adaptive routing, not flowlet",
}


def test_every_language_of_the_catalogue_has_a_renderer():
    assert set(RENDERERS) == set(PLATFORMS)


def both():
    queue = Slot(Interface(LEAF, "swp1"), "queue", 3)
    steps = (
        step(1, queue, "kmin_bytes", None, 1000),
        step(2, queue, "kmax_bytes", None, 2000),
        step(3, queue, "link_repair", "faulty", "repaired"),
    )
    jobs = (
        step(1, HOST, "qps_per_connection", 1, 4),
        step(2, Netdev("h1", "eth0"), "mtu_bytes", 1500, 9000),
        step(3, PORT, "ib_host_receive_path", None, "drains at line rate"),
    )
    leaf = DevicePlan(LEAF, "leaf1", "nvue", steps)
    return Plan((leaf, DevicePlan(HOST, "h1", "linux", jobs)), (), (), ())


def test_auto_speaks_to_each_device_in_its_own_languages():
    made = render_plan(both(), "auto")
    assert [(row.device, row.platform) for row in made] == [
        ("leaf1", "nvue"), ("h1", "linux"), ("h1", "nccl"), ("h1", "ucx"),
    ]  # fmt: skip
    leaf, linux, nccl, ucx = made
    assert [row.knob for row in leaf.missing] == ["link_repair"]
    assert "by hand" in leaf.missing[0].why
    assert [row.knob for row in linux.missing] == ["ib_host_receive_path"]
    assert nccl.missing == ucx.missing == ()
    assert "export UCX_IB_NUM_PATHS=4" in ucx.apply


def test_one_language_for_all_of_its_kind():
    made = render_plan(both(), "eos")
    assert [(row.device, row.platform) for row in made] == [("leaf1", "eos")]
    with pytest.raises(KeyError):
        render_plan(both(), "ios")


def test_a_switch_of_unknown_language_is_said_to_be():
    from dataclasses import replace

    plan = both()
    unknown = replace(plan, devices=(replace(plan.devices[0], platform=""),))
    (made,) = render_plan(unknown, "auto")
    assert {row.knob for row in made.missing} == {"kmin_bytes", "kmax_bytes", "link_repair"}
    assert "choose one with --render" in made.missing[0].why


def test_what_is_refused_is_in_no_text_not_even_in_undo():
    port = Interface(LEAF, "Ethernet1/1")
    steps = (
        step(1, Slot(port, "queue", 3), "kmin_bytes", None, 1000),  # Kmax is not known
        step(2, port, "mtu_bytes", 1500, 9000),
    )
    made = render_device(DevicePlan(LEAF, "leaf1", "eos", steps), RENDERERS["eos"])
    assert [row.knob for row in made.missing] == ["kmin_bytes"]
    for text in (made.apply, made.undo, made.verify, made.diff):
        assert "random-detect" not in text
        assert "kmin_bytes" not in text
    assert "mtu 9000" in made.apply
    assert "mtu 1500" in made.undo


def test_what_undo_cannot_take_back_is_said():
    queue = Slot(Interface(LEAF, "Ethernet1/1"), "queue", 3)
    known = (Setting(queue, "kmax_bytes", 5000, "x"),)  # half of a line: only Kmax was visible
    steps = (step(1, queue, "kmin_bytes", None, 1000),)
    made = render_device(DevicePlan(LEAF, "leaf1", "eos", steps, known), RENDERERS["eos"])
    assert "minimum-threshold 1000 bytes maximum-threshold 5000 bytes" in made.apply
    assert "not taken back: kmin_bytes of leaf1 Ethernet1/1 queue 3" in made.undo
    assert "configure checkpoint restore fabric-tuner-before" in made.undo
