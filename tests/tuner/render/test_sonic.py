"""SONiC: patches applied to a config_db.json by another's RFC 6902, read back, and taken back."""

import copy
import json
from dataclasses import replace

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.entities import Interface, Slot
from collectors.switchconfig.read import parse_configuration
from tests.tuner.render import states
from tests.tuner.render.states import LEAF, device, maps, merged, one, parsed, together
from tests.tuner.render.test_switches import near
from tuner.advice.knobs.catalogue import of_platform
from tuner.render.form import render_device
from tuner.render.sonic import RENDERER

NAMES = of_platform("sonic")
WATCHDOG = together(
    pfc_watchdog_enabled=st.just(True),
    pfc_watchdog_detection_seconds=st.sampled_from([0.2, 0.4]),
    pfc_watchdog_restoration_seconds=st.sampled_from([0.2, 0.8]),
    pfc_watchdog_action=st.sampled_from(["drop", "forward"]),
    pfc_watchdog_poll_seconds=st.just(0.2),
)
some8 = states.bools8.filter(any)
WALKS = states.walks(
    ["Ethernet0", "Ethernet8"],
    [
        one("mtu_bytes", st.integers(1500, 9216)),
        one("speed_bps", st.sampled_from([10**11, 4 * 10**11])),
        one("fec", st.sampled_from(["rs", "none"])),
        one("admin_enabled", st.booleans()),
        st.one_of(one("pfc_priorities", some8), st.builds(
            lambda one, two: one | two, one("pfc_priorities", some8), WATCHDOG
        )),
        one("pfc_cable_length_metres", st.integers(1, 2000)),
        together(trust=st.just("dscp"), dscp_to_traffic_class=maps(64)),
        one("traffic_class_to_queue", maps(8)),
        one("traffic_class_to_group", maps(8)),
        one("priority_to_queue", maps(8)),
    ],
    [
        (
            "queue",
            (3, 4),
            [
                states.marking(),
                together(
                    scheduler=st.sampled_from(["strict", "dwrr"]),
                    scheduler_weight=st.integers(1, 99),
                ),
            ],
        ),
        (
            "priority_group",
            (3,),
            [
                together(
                    xoff_bytes=st.integers(1, 10**6),
                    xon_bytes=st.integers(0, 10**5),
                    reserved_buffer_bytes=st.integers(0, 10**6),
                    buffer_alpha_exponent=st.integers(-8, 8),
                )
            ],
        ),
    ],
    [
        one("ecmp_hash_fields", st.sampled_from([("SRC_IP", "L4_SRC_PORT"), ("DST_IP",)])),
        one("ecmp_hash_algorithm", st.sampled_from(["CRC", "XOR"])),
    ],
)  # fmt: skip


def read(database):
    facts = parse_configuration("sonic", json.dumps(database), LEAF, "config_db.json")
    assert facts.gaps == ()
    return facts


def state(database):
    return parsed(read(database), NAMES)


def patched(database, text):
    return jsonpatch.apply_patch(database, json.loads(text))


def with_names(plan, database):
    """Give the plan every setting that was read, and where, names of profiles too."""
    return replace(plan, settings=read(database).settings)


@given(WALKS)
@settings(max_examples=80, deadline=None)
def test_patches_apply_and_go_back(walk):
    before, after = walk
    made = render_device(device("sonic", {}, before), RENDERER)
    database = json.loads(made.files["apply.config_db.json"]) if before else {}
    near(state(database), before)
    if not before:
        return
    made = render_device(with_names(device("sonic", before, after), database), RENDERER)
    refused = {(row.knob, row.why.partition(":")[0]) for row in made.missing}
    assert all("holds for other places" in why for _, why in refused)
    if not made.files:
        return
    start = copy.deepcopy(database)
    there = patched(database, made.files["apply.patch.json"])
    if not refused:
        near(state(there), merged(before, after))
    back = patched(there, made.files["undo.patch.json"])
    near(state(back), before)
    assert {t: rows for t, rows in back.items() if rows} == start


AZURE = {
    "PORT": {f"Ethernet{n}": {"mtu": "9100", "speed": "400000"} for n in (0, 8)},
    "WRED_PROFILE": {
        "AZURE_LOSSLESS": {
            "ecn": "ecn_all",
            **{
                f"{colour}_{field}": value
                for colour in ("green", "yellow", "red")
                for field, value in (
                    ("min_threshold", "1048576"),
                    ("max_threshold", "2097152"),
                    ("drop_probability", "5"),
                )
            },
            **{f"wred_{colour}_enable": "true" for colour in ("green", "yellow", "red")},
        }
    },
    "QUEUE": {
        "Ethernet0|3": {"wred_profile": "AZURE_LOSSLESS", "scheduler": "scheduler.1"},
        "Ethernet8|3-4": {"wred_profile": "AZURE_LOSSLESS", "scheduler": "scheduler.1"},
    },
    "SCHEDULER": {"scheduler.1": {"type": "DWRR", "weight": "15"}},
}


def kmin_plan(*queues, value=400_000):
    places = [Slot(Interface(LEAF, name), "queue", number) for name, number in queues]
    before = {(place, "kmin_bytes"): 1_048_576 for place in places}
    after = {(place, "kmin_bytes"): value for place in places}
    return with_names(device("sonic", before, after), AZURE)


def test_a_profile_that_all_change_is_changed_in_place():
    made = render_device(kmin_plan(("Ethernet0", 3), ("Ethernet8", 3), ("Ethernet8", 4)), RENDERER)
    operations = json.loads(made.files["apply.patch.json"])
    assert [row["path"] for row in operations] == [
        f"/WRED_PROFILE/AZURE_LOSSLESS/{colour}_min_threshold"
        for colour in ("green", "yellow", "red")
    ]
    assert "ecnconfig -p AZURE_LOSSLESS -gmin 400000 -gmax 2097152 -gdrop 5" in made.apply


def test_one_queue_alone_gets_a_profile_of_its_own():
    made = render_device(kmin_plan(("Ethernet0", 3)), RENDERER)
    after = patched(copy.deepcopy(AZURE), made.files["apply.patch.json"])
    name = after["QUEUE"]["Ethernet0|3"]["wred_profile"]
    assert name.startswith("FT_")
    assert after["WRED_PROFILE"][name]["green_min_threshold"] == "400000"
    assert after["WRED_PROFILE"]["AZURE_LOSSLESS"] == AZURE["WRED_PROFILE"]["AZURE_LOSSLESS"]
    assert patched(after, made.files["undo.patch.json"]) == AZURE


def test_half_of_a_row_is_refused_by_name():
    made = render_device(kmin_plan(("Ethernet8", 3)), RENDERER)
    assert made.apply == ""
    assert [(m.knob, m.place) for m in made.missing] == [("kmin_bytes", "leaf1 Ethernet8 queue 3")]
    assert "QUEUE|Ethernet8|3-4 holds for other places" in made.missing[0].why


def test_what_sonic_has_not_is_said_by_name():
    plan = device("sonic", {}, {(LEAF, "ecmp_hash_seed"): 7, (LEAF, "load_balancing"): "adaptive"})
    made = rendered_with_gaps(plan)
    assert {row.knob for row in made.missing} == {"ecmp_hash_seed", "load_balancing"}
    assert all("SONiC has no such knob" in row.why for row in made.missing)


def rendered_with_gaps(plan):
    made = render_device(plan, RENDERER)
    assert made.apply == made.undo == made.verify.replace("#", "") == ""
    return made


def test_a_profile_named_after_its_content_is_never_changed():
    database = copy.deepcopy(AZURE)
    database["WRED_PROFILE"]["FT_abc"] = database["WRED_PROFILE"].pop("AZURE_LOSSLESS")
    for row in database["QUEUE"].values():
        row["wred_profile"] = "FT_abc"
    places = [
        Slot(Interface(LEAF, name), "queue", number)
        for name, number in (("Ethernet0", 3), ("Ethernet8", 3), ("Ethernet8", 4))
    ]
    asked = device(
        "sonic",
        {(place, "kmin_bytes"): 1_048_576 for place in places},
        {(place, "kmin_bytes"): 400_000 for place in places},
    )
    made = render_device(with_names(asked, database), RENDERER)
    after = patched(copy.deepcopy(database), made.files["apply.patch.json"])
    assert after["WRED_PROFILE"]["FT_abc"] == database["WRED_PROFILE"]["FT_abc"]
    assert {row["wred_profile"] for row in after["QUEUE"].values()} != {"FT_abc"}
    assert patched(after, made.files["undo.patch.json"]) == database
