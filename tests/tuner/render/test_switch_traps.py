"""Traps of single switch platforms that random states do not show."""

from dataclasses import replace

from collectors.model.entities import Interface, Slot
from collectors.switchconfig.read import parse_configuration
from tests.tuner.render import configs
from tests.tuner.render.states import LEAF, device
from tests.tuner.render.test_switches import (
    by_indentation,
    eos_name,
    junos_leaf,
    rendered,
    there_and_back,
)
from tuner.render.eos import RENDERER as EOS
from tuner.render.form import render_device
from tuner.render.junos import RENDERER as JUNOS


def test_eos_has_one_polling_interval_for_all_ports():
    ports = [Interface(LEAF, name) for name in ("Ethernet1/1", "Ethernet2/1")]
    name = "pfc_watchdog_poll_seconds"
    beside = {(port, "mtu_bytes"): 9214 for port in ports}
    before = {**beside, **{(port, name): 0.1 for port in ports}}
    after = {(port, name): 0.2 for port in ports}
    there_and_back(EOS, (before, after), *by_indentation(eos_name))
    made = rendered(device("eos", {}, after), EOS)
    assert made.apply.count("polling-interval 0.2\n") == 1
    assert "no priority-flow-control pause watchdog default polling-interval\n" in made.undo


def test_junos_takes_no_loss_from_classes_that_nothing_pauses_any_more():
    config = configs.Flat("set", "delete", junos_leaf)
    port = Interface(LEAF, "et-0/0/0")
    places = tuple(3 if dscp == 26 else -1 for dscp in range(64))
    after = {
        (port, "pfc_priorities"): tuple(p == 3 for p in range(8)),
        (port, "dscp_to_traffic_class"): places,
    }
    made = rendered(device("junos", {}, after), JUNOS)
    config.enter(made.apply)
    assert "class-of-service forwarding-classes class FT-Q3 pfc-priority 3" in config.text()
    config.enter(made.undo)
    assert "no-loss" not in config.text()
    assert "pfc-priority" not in config.text()


def test_eos_names_the_profile_that_a_setting_stands_in():
    text = """
qos profile ROCE
   uc-tx-queue 3
      random-detect ecn minimum-threshold 1000 bytes maximum-threshold 2000 bytes
interface Ethernet1/1
   service-profile ROCE
interface Ethernet2/1
   service-profile ROCE
"""
    facts = parse_configuration("eos", text, LEAF, "leaf1.cfg")
    slot = Slot(Interface(LEAF, "Ethernet1/1"), "queue", 3)
    asked = device("eos", {(slot, "kmin_bytes"): 1000}, {(slot, "kmin_bytes"): 1500})
    made = render_device(replace(asked, settings=facts.settings), EOS)
    assert (
        "kmin_bytes of leaf1 Ethernet1/1 queue 3 stands in a qos profile (leaf1.cfg:4) that 2"
        in (made.apply)
    )
    assert "qos profile" not in made.undo
