"""Claims of both ends become cables; what does not fit is named."""

from collectors.model.entities import Interface, Netdev, Switch, link
from collectors.model.facts import Attribute, Neighbour
from collectors.model.topology import breakouts, join, names_of

LEAF, SPINE = Switch("leaf1", "leaf1"), Switch("spine1", "spine1")
MAC_LEAF, MAC_SPINE = "02:00:00:00:00:01", "02:00:00:00:00:02"
UP, DOWN = Interface(LEAF, "Ethernet4"), Interface(SPINE, "Ethernet1/1")
PORT, NIC = Interface(LEAF, "Ethernet0"), Netdev("node1", "eth2")
ATTRIBUTES = [
    Attribute(LEAF, "chassis_id", MAC_LEAF),
    Attribute(SPINE, "chassis_id", MAC_SPINE.upper().replace(":", "-")),
    Attribute(LEAF, "system_name", "leaf1.example.com"),
    Attribute(PORT, "alias", "etp1"),
    Attribute(NIC, "mac", "02:aa:00:00:00:09"),
]
NAMES = names_of([UP, DOWN, PORT, NIC], ATTRIBUTES)


def said(local, key, name, port, how="lldp"):
    return Neighbour(local, Interface(Switch(key, name), port), how)


def test_both_ends_of_a_cable_are_one_link():
    result = join(
        [said(UP, MAC_SPINE, "spine1", "Ethernet1/1"), said(DOWN, MAC_LEAF, "leaf1", "Ethernet4")],
        NAMES,
    )
    assert result.links == (link(UP, DOWN),)
    assert (result.one_sided, result.disputes, result.unknown) == ((), (), ())


def test_a_host_names_the_switch_by_chassis_and_alias_and_the_switch_the_host_by_mac():
    result = join(
        [
            said(NIC, MAC_LEAF, "leaf1.example.com", "etp1"),
            said(PORT, "02:aa:00:00:00:09", "node1", "02:aa:00:00:00:09"),
        ],
        NAMES,
    )
    assert result.links == (link(NIC, PORT),)
    assert result.disputes == ()


def test_a_host_by_its_name():
    result = join([said(PORT, "02:ff:00:00:00:00", "node1.example.com", "eth2")], NAMES)
    assert result.links == (link(NIC, PORT),)


def test_a_link_that_one_end_does_not_see():
    other = Interface(SPINE, "Ethernet1/2")
    result = join(
        [
            said(UP, MAC_SPINE, "", "Ethernet1/1"),
            said(other, "02:99:00:00:00:00", "far", "Ethernet9"),
        ],
        NAMES,
    )
    assert [claim.local for claim in result.one_sided] == [UP]
    assert result.unknown == (Interface(Switch("02:99:00:00:00:00", "far"), "Ethernet9"),)


def test_ends_that_contradict_each_other_are_no_cable():
    third = Interface(LEAF, "Ethernet8")
    result = join(
        [
            said(UP, MAC_SPINE, "", "Ethernet1/1"),
            said(DOWN, MAC_LEAF, "", "Ethernet8"),
            Neighbour(third, DOWN, "topology file"),
        ],
        NAMES,
    )
    assert result.links == ()
    assert {dispute.wire for dispute in result.disputes} == {DOWN}
    assert "spine1 Ethernet1/1 is said to be cabled to" in str(result.disputes[0])


def test_breakouts():
    names = ["swp1s0", "swp1s1", "swp2", "Ethernet1/1/1", "Ethernet1/1/2", "Ethernet3/1"]
    found = breakouts(Interface(LEAF, name) for name in names)
    assert {row.parent.name: [part.name for part in row.parts] for row in found} == {
        "swp1": names[:2],
        "Ethernet1/1": names[3:5],
    }
