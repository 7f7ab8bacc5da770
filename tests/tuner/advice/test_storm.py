"""A pause storm: the host is taken out, and a watchdog ends the next one; queues get thresholds."""

import pytest

from collectors.model.entities import Slot
from tests.tuner.advice.test_cures import changes, finding
from tests.tuner.diagnosis.test_rules import lab
from tuner.advice.cures.congestion import CURES as CONGESTION
from tuner.advice.recommend import CURES

ENABLED, DETECTION, RESTORATION = (
    f"pfc_watchdog_{name}" for name in ("enabled", "detection_seconds", "restoration_seconds")
)


def storm(made, place=1):
    return list(CURES["pause-storm"](finding("pause-storm", made.netdevs[place]), made.telemetry,
                                     made.fabric))  # fmt: skip


def test_the_watchdog_of_the_ports_to_hosts_is_switched_on_with_its_times():
    made = lab(4)
    for wire in made.interfaces:
        made.telemetry.put(wire, ENABLED, False)
    repair, watchdog = storm(made)
    assert repair.knob == "host_repair"
    ports = set(made.interfaces)
    wanted = {(ENABLED, port): True for port in ports}
    wanted |= {(name, port): 0.2 for name in (DETECTION, RESTORATION) for port in ports}
    assert changes([watchdog]) == wanted
    assert watchdog.scope == made.interfaces[1]  # that of the host itself first
    assert (watchdog.risk, watchdog.optional, watchdog.missing) == ("medium", False, ())
    assert [part.current for part in watchdog.parts] == [False, None, None]
    assert "enabled of " in watchdog.how
    assert "restoration_seconds" in watchdog.how


def test_times_that_were_set_stay():
    made = lab(2)
    for wire in made.interfaces:
        made.telemetry.put(wire, ENABLED, False)
        made.telemetry.put(wire, DETECTION, 0.4)
        made.telemetry.put(wire, RESTORATION, 0.4)
    assert {rec.knob for rec in storm(made)} == {"host_repair", ENABLED}


@pytest.mark.parametrize("known", [True, None])
def test_a_watchdog_that_runs_is_left_and_one_unknown_is_asked_for(known):
    made = lab(2)
    if known:
        for wire in made.interfaces:
            made.telemetry.put(wire, ENABLED, True)
    _, *rest = storm(made)
    assert bool(rest) is (known is None)
    for rec in rest:
        assert {part.places for part in rec.parts} == {(made.interfaces[1],)}
        assert rec.missing


def test_a_queue_that_shall_mark_like_the_others_gets_their_thresholds():
    made = lab(6)
    queues = [Slot(wire, "queue", 3) for wire in made.interfaces]
    for slot in queues[1:]:
        for name, held in (
            ("ecn_enabled", True), ("kmin_bytes", 1e5), ("kmax_bytes", 4e5), ("pmax_ratio", 0.2),
        ):  # fmt: skip
            made.telemetry.put(slot, name, held)
    made.telemetry.put(queues[0], "ecn_enabled", False)
    cause = finding("pfc-before-ecn", made.interfaces[0])
    recs = list(CONGESTION["pfc-before-ecn"](cause, made.telemetry, made.fabric))
    assert changes(recs) == {
        ("ecn_enabled", queues[0]): True, ("kmin_bytes", queues[0]): 1e5,
        ("kmax_bytes", queues[0]): 4e5, ("pmax_ratio", queues[0]): 0.2,
    }  # fmt: skip
