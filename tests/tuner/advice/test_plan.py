"""Plans: order, conflicts that are named, refusals that are named, rings of a roll-out."""

import pytest
from msgspec import structs

from collectors.model.entities import Host, Interface, Netdev, Port, Slot, Switch, queue
from collectors.model.facts import Attribute
from tests.tuner.fake import FakeTelemetry, lab
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.language import platform_of
from tuner.advice.planning import build_plan, device_of
from tuner.advice.recommendation import Effect, Recommendation

LEAF = Switch("leaf1", "leaf1")
EFFECT = Effect("pause time", "seconds", 9.0, 0.0, 1.0, "a model", "as measured")


def rec(knob, scope, proposed, current=None, *, because=("f1",), effects=(EFFECT,)):
    row = KNOBS[knob]
    return Recommendation(
        knob, scope, current, proposed, row.unit, f"change {knob}", because, (), effects,
        0.9, "low", row.disruption, "do it", "undo it",
    )  # fmt: skip


def plan(*recs, made=None, reasons=None):
    made = made or lab()
    return build_plan(recs, made.telemetry, made.fabric, reasons or {"f1": "it is so"})


def ends(made, at=0):
    return made.netdevs[at], made.interfaces[at]


PFC = tuple(p == 3 for p in range(8))


def test_room_comes_before_pauses_pauses_before_classes_marks_before_jobs():
    port = Interface(LEAF, "Ethernet0")
    group, slot = Slot(port, "priority_group", 3), queue(port, 3)
    places = tuple(3 if d == 26 else -1 for d in range(64))
    asked = [
        rec("kmin_bytes", slot, 1000),
        rec("dscp_to_traffic_class", port, places),
        rec("pfc_priorities", port, PFC),
        rec("xoff_bytes", group, 90_000),
        rec("ecmp_hash_seed", LEAF, 7),
    ]
    (device,) = plan(*asked).devices
    order = [step.knob for step in device.steps]
    for first, second in (
        ("xoff_bytes", "pfc_priorities"),
        ("pfc_priorities", "dscp_to_traffic_class"),
        ("dscp_to_traffic_class", "kmin_bytes"),
    ):
        assert order.index(first) < order.index(second)
    assert [step.number for step in device.steps] == [1, 2, 3, 4, 5]
    assert device.steps[0].why == ("it is so",)
    assert "reads 90 KB" in device.steps[0].check.reads_back
    assert device.steps[0].check.watch == "pause time: 9 s → 0 to 1 s"


def test_two_values_for_one_knob_keep_the_more_urgent_and_name_the_other():
    slot = queue(Interface(LEAF, "Ethernet0"), 3)
    one, two = rec("kmin_bytes", slot, 1000), rec("kmin_bytes", slot, 2000)
    made = plan(one, two)
    (step,) = made.devices[0].steps
    assert step.proposed == 1000
    (conflict,) = made.conflicts
    assert conflict.kept == one.id
    assert "1,000 bytes and 2,000 bytes are both recommended" in conflict.why
    assert plan(one, one).conflicts == ()


@pytest.mark.parametrize("known", [True, False])
def test_kmin_above_kmax_is_left_out_and_named(known):
    made = lab()
    slot = made.queues[0]
    recs = [rec("kmin_bytes", slot, 5000)]
    if known:
        made.telemetry.put(slot, "kmax_bytes", 4000)
    else:
        recs.insert(0, rec("kmax_bytes", slot, 4000))
    shown = plan(*recs, made=made)
    assert [s.knob for d in shown.devices for s in d.steps] == ([] if known else ["kmax_bytes"])
    assert "kmin_bytes 5,000 bytes would be above kmax_bytes 4,000 bytes" in shown.conflicts[0].why
    assert plan(rec("kmin_bytes", slot, 3000), made=made).conflicts == ()


def test_ends_that_would_differ_are_named():
    made = lab()
    netdev, port = ends(made)
    made.telemetry.put(port, "mtu_bytes", 1500)
    shown = plan(rec("mtu_bytes", netdev, 9000, 1500), made=made)
    assert "its peer sw p1 1,500 bytes" in shown.conflicts[0].why
    both = [rec("mtu_bytes", netdev, 9000, 1500), rec("mtu_bytes", port, 9000, 1500)]
    assert plan(*both, made=made).conflicts == ()


def test_dcqcn_is_touched_only_where_it_is_known_to_run():
    made = lab()
    port = made.ports[0]
    asked = rec("dcqcn_ai_bps", port, 40e6)
    for running, why in ((None, "unknown"), ("programmable", "programmable"), ("off", "off")):
        if running:
            made.telemetry.put(port, "congestion_control", running)
        shown = plan(asked, made=made)
        assert shown.devices == ()
        assert f"is {why}, not known to be DCQCN" in shown.refused[0].why
    made.telemetry.put(port, "congestion_control", "dcqcn")
    assert plan(asked, made=made).refused == ()


def test_the_firmwares_knobs_are_refused_by_name():
    made = lab()
    asked = rec("congestion_control", made.ports[0], "dcqcn")
    assert plan(asked, made=made).refused[0].why == "the firmware owns this knob"
    netdev = made.netdevs[0]
    pfc = rec("pfc_priorities", netdev, PFC)
    assert plan(pfc, made=made).refused == ()
    made.telemetry.put(netdev, "dcbx_mode", ("firmware", "ieee"))
    assert "the firmware manages DCB of h1 h1" in plan(pfc, made=made).refused[0].why


def test_values_out_of_range_are_refused():
    shown = plan(rec("pmax_ratio", queue(Interface(LEAF, "e"), 3), 3.0))
    assert shown.refused[0].why == "pmax_ratio: 3 is outside 0.01..1"


def test_canaries_go_first_with_the_switch_at_their_other_end():
    made = lab(30)
    recs = [rec("pfc_priorities", n, PFC) for n in made.netdevs]
    recs += [rec("pfc_priorities", i, PFC) for i in made.interfaces]
    shown = plan(*recs, made=made)
    canary, tenth, rest = shown.stages
    assert canary.devices == ("h1", "sw")
    assert len(tenth.devices) == 3
    assert len(rest.devices) == 26
    assert "pause time" in canary.watch
    assert any("discards" in text for text in canary.stop_if)
    assert canary.hold_s > 0


def test_one_of_several_switches_goes_first_also_where_their_changes_differ():
    leaves = [Switch(name, name) for name in ("leaf1", "leaf2", "leaf3")]
    knobs = ("mtu_bytes", "pfc_watchdog_detection_seconds", "fec")
    values = (9000, 0.2, "rs")
    recs = [
        rec(knob, Interface(leaf, "Ethernet0"), value)
        for leaf, knob, value in zip(leaves, knobs, values, strict=True)
    ]
    assert [stage.devices for stage in plan(*recs).stages] == [("leaf1",), ("leaf2",), ("leaf3",)]


def test_nothing_to_do_is_an_empty_plan():
    shown = plan()
    assert (shown.devices, shown.stages, shown.conflicts, shown.steps) == ((), (), (), 0)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("software", "SONiC Software Version: SONiC.202311", "sonic"),
        ("software", "Arista Networks EOS version 4.36.1F", "eos"),
        ("software", "Cisco NX-OS(tm) nxos.10.5", "nxos"),
        ("software", "Juniper Networks, Inc. qfx5240 Junos OS", "junos"),
        ("software", "Cumulus Linux 5.14", "nvue"),
        ("software", "MLNX-OS SX_3.10", "onyx"),
        ("config_language", "junos", "junos"),
        ("software", "something else", ""),
    ],
)
def test_the_language_of_a_switch(name, value, expected):
    assert platform_of(LEAF, (), (Attribute(LEAF, name, value),)) == expected


def test_the_language_by_ports_and_of_hosts():
    telemetry = FakeTelemetry()
    for port, expected in (("swp1", "nvue"), ("et-0/0/1", "junos"), ("Eth1/1", "onyx")):
        telemetry.put(Interface(LEAF, port), "mtu_bytes", 9000)
        rows = telemetry.settings(Interface(LEAF, port)).values()
        assert platform_of(LEAF, rows, ()) == expected
    rows = [structs.replace(row, where="/sys/class/net/p1/mtu") for row in rows]
    assert (
        platform_of(LEAF, [structs.replace(r, entity=Interface(LEAF, "p1")) for r in rows], ())
        == "linux"
    )
    assert platform_of(Host("h1"), (), ()) == "linux"


def test_devices_of_places():
    made = lab()
    assert device_of(made.ports[0]) == Host("h1")
    assert device_of(made.queues[0]) == Switch("sw")
    assert device_of(Netdev("h9", "eth0")) == Host("h9")
    assert device_of(Port(made.ports[0].device, 1)) == Host("h1")


def test_from_a_finding_to_a_script_as_the_demo_shows_it():
    from tests.tuner.advice.test_recommend import advise, not_ect_lab
    from tuner.render.registry import render_plan

    made = not_ect_lab()
    made.telemetry.put(made.ports[0], "roce_ecn_codepoint", 0)
    shown, recs = advise(made)
    reasons = {finding.id: finding.summary for finding in shown.findings}
    built = build_plan(recs, made.telemetry, made.fabric, reasons)
    codepoints = [s for d in built.devices for s in d.steps if s.knob == "roce_ecn_codepoint"]
    assert codepoints
    texts = [t for t in render_plan(built, "auto") if t.platform == "linux"]
    assert any("& ~3) | 2 ))" in text.apply for text in texts)
    turned = [text for text in texts if "& ~3) | 2" in text.apply]
    for text in turned:
        assert ("& ~3) | 0 ))" in text.undo) != ("its former value was not visible" in text.undo)
    assert all(step.why and step.check.reads_back for step in codepoints)
