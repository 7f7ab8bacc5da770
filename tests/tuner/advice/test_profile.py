"""Day-0 profiles: consistent by their own audit, which notices when they are not."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.codec.sonic_config import config_of_json, parse_config_db
from collectors.model.entities import Interface, Slot, display
from collectors.switchconfig.read import parse_configuration
from tuner.advice.profile import (
    PLATFORMS,
    TCLASS,
    Site,
    ecn_for,
    headroom_for,
    make_profile,
    queue_pairs_for,
)
from tuner.advice.profile_audit import audit
from tuner.render.form import render_device
from tuner.render.registry import RENDERERS, render_plan


def site(**changes):
    known = {
        "speed_bps": 400e9, "cable_m": 30.0, "uplink_cable_m": 100.0, "switches": ("sonic", "eos"),
        "downlinks": 4, "uplinks": 4, "gpus": 64, "buffer_bytes": 110e6,
    }  # fmt: skip
    return Site(**{**known, **changes})


def outcomes(plan, where):
    return {verdict.check: verdict.outcome for verdict in audit(plan, where)}


@given(
    st.sampled_from([100e9, 200e9, 400e9, 800e9]),
    st.sampled_from([1.0, 30.0, 300.0]),
    st.sampled_from([5.0, 100.0, 500.0]),
    st.sets(st.sampled_from(PLATFORMS), min_size=1),
    st.sampled_from([8, 4096]),
)
@settings(max_examples=25, deadline=None)
def test_every_profile_fits_together(speed, cable, between, platforms, gpus):
    where = site(
        speed_bps=speed, cable_m=cable, uplink_cable_m=between, switches=tuple(sorted(platforms)),
        gpus=gpus,
    )  # fmt: skip
    found = audit(make_profile(where), where)
    assert all(v.outcome == "holds" or _no_thresholds(v, platforms) for v in found), found


def _no_thresholds(verdict, platforms):
    """Junos has percents of a buffer, which say nothing without its size."""
    return platforms == {"junos"} and verdict.check == "marks come before pauses"


def changed(plan, knob, value, where=lambda _scope: True):
    """The plan with another value for a knob."""
    devices = tuple(
        replace(
            device,
            steps=tuple(
                replace(step, proposed=value) if step.knob == knob and where(step.scope) else step
                for step in device.steps
            ),
        )
        for device in plan.devices
    )
    return replace(plan, devices=devices)


def on_host(scope):
    return not isinstance(scope, (Interface, Slot))


NOWHERE = (-1,) * 64
NONE = (False,) * 8
SIX = tuple(p in (3, 6) for p in range(8))
BREAKS = [
    ("dscp_to_priority", NOWHERE, "data is lossless end to end"),
    ("dscp_to_traffic_class", NOWHERE, "data is lossless end to end"),
    ("job_tclass", 24 << 2 | 2, "data is lossless end to end"),
    ("job_tclass", TCLASS & ~3, "data is ECN-capable and queues mark"),
    ("ecn_enabled", False, "data is ECN-capable and queues mark"),
    ("cnp_dscp", 26, "CNPs are strict and never paused"),
    ("scheduler", "dwrr", "CNPs are strict and never paused"),
    ("pfc_priorities", SIX, "CNPs are strict and never paused"),
    ("kmin_bytes", 10**9, "marks come before pauses"),
    ("buffer_alpha_exponent", -8, "marks come before pauses"),
    ("xoff_bytes", 1000, "headroom holds the cable"),
    ("pfc_watchdog_poll_seconds", 5.0, "watchdog and timeouts fit"),
    ("qp_timeout_code", 14, "watchdog and timeouts fit"),
    ("ets_bandwidth_ratio", (0.5,) + (0.0,) * 7, "shares of the NIC add up"),
    ("ecmp_hash_seed", 7, "hash seeds differ between tiers"),
    ("mtu_bytes", 1500, "packets fit"),
]


@pytest.mark.parametrize(("knob", "value", "check"), BREAKS)
def test_the_audit_notices(knob, value, check):
    where = site()
    plan = make_profile(where)
    assert outcomes(plan, where)[check] == "holds"
    assert outcomes(changed(plan, knob, value), where)[check] == "broken"


def test_one_end_alone_is_noticed():
    where = site()
    plan = changed(make_profile(where), "pfc_priorities", NONE, on_host)
    assert outcomes(plan, where)["PFC is alike on hosts and switches"] == "broken"


def test_an_unknown_buffer_is_unknown_not_fine():
    where = site(buffer_bytes=None)
    assert outcomes(make_profile(where), where)["marks come before pauses"] == "unknown"


MAY_LACK = {  # headroom, where a platform computes it itself, and what it does not have
    "xoff_bytes", "xon_bytes", "reserved_buffer_bytes", "buffer_alpha_exponent",
    "pfc_cable_length_metres", "pfc_watchdog_enabled", "pfc_watchdog_poll_seconds",
    "pfc_watchdog_detection_seconds", "pfc_watchdog_restoration_seconds", "pfc_watchdog_action",
    "pfc_mode", "trust", "pmax_ratio", "ecmp_hash_seed",
}  # fmt: skip


@pytest.mark.parametrize("platform", PLATFORMS)
def test_rendered_profiles_parse_back(platform):
    where = site(switches=(platform,))
    plan = make_profile(where)
    for device in plan.devices[:2]:
        made = render_device(device, RENDERERS[platform])
        if platform == "sonic":
            import json

            config = config_of_json(json.loads(made.files["apply.config_db.json"]))
            facts, odd = parse_config_db(config, device.device, "x")
            assert odd == []
        else:
            facts = parse_configuration(platform, made.apply, device.device, "x")
            assert facts.gaps == ()
        found = {(row.entity, row.name): row.value for row in facts.settings}
        unsaid = {(row.knob, row.place) for row in made.missing}
        assert {knob for knob, _ in unsaid} <= MAY_LACK
        for step in device.steps:
            if (step.knob, display(step.scope)) in unsaid:
                continue
            if RENDERERS[platform].knows(step.knob):
                want = step.proposed
                got = found[step.scope, step.knob]
                assert got == (pytest.approx(want) if isinstance(want, float) else want), step.knob
            else:
                assert any(row.knob == step.knob for row in made.missing)


def test_hosts_get_a_script_and_environments():
    made = {row.platform: row for row in render_plan(make_profile(site()), "auto")}
    assert {"linux", "nccl", "ucx"} <= set(made)
    assert "export NCCL_IB_TC=106" in made["nccl"].apply
    assert "default_roce_tos" in made["linux"].apply
    assert "rpg_ai_rate" in made["linux"].apply
    without = make_profile(site(nic="bnxt_re"))
    assert not [s for d in without.devices for s in d.steps if s.knob.startswith("dcqcn_")]


def test_values_follow_speed_cable_and_job():
    assert ecn_for(100e9).kmin_bytes == pytest.approx(100_000)
    assert ecn_for(400e9).kmax_bytes == pytest.approx(1_600_000)
    where = site()
    short, long = headroom_for(where, 400e9, 5), headroom_for(where, 400e9, 300)
    assert long.xoff_bytes > short.xoff_bytes
    assert queue_pairs_for(site(gpus=4)) == 1
    assert queue_pairs_for(site(gpus=4096, downlinks=32, uplinks=32)) > 4
    with pytest.raises(ValueError, match="no pause response time"):
        make_profile(site(speed_bps=123e9))
