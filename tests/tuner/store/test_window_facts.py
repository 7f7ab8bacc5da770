"""Facts hold until they change, and their history is kept within bounds."""

from dataclasses import replace

from collectors.model.entities import Device, Interface, Netdev, Port, Switch
from collectors.model.facts import Attribute, Facts, Gap, Gid, Neighbour, QueuePairFact, Setting
from tests.tuner.builders import Uplink, at, store_of

DEVICE = Device("node1", "0002c90300a1b2c3", "mlx5_0")
PORT = Port(DEVICE, 1)


def test_facts_hold_until_they_change():
    netdev = Netdev("node1", "eth0")
    leaf = Interface(Switch("leaf1"), "Ethernet1")
    first = Facts(
        settings=(
            Setting(netdev, "mtu_bytes", 1500, "ip link"),
            Setting(netdev, "mtu_bytes", 9000, "file", "next_boot"),
        ),
        attributes=(Attribute(PORT, "netdev", "eth0"),),
        gids=(Gid(PORT, 1, "fe80::1", "RoCE v2", "eth0"), Gid(PORT, 0, "::1", "RoCE v1")),
        neighbours=(Neighbour(netdev, leaf, "lldp"),),
        queue_pairs=(QueuePairFact(DEVICE, 1, 17),),
        gaps=(Gap("port/x", "sysfs", "rate", "EINVAL"),),
        versions=(("kernel", "6.1"),),
    )
    second = replace(first, settings=(Setting(netdev, "mtu_bytes", 9000),))
    up = Uplink()
    store = store_of(
        [up.facts(first, at(0).at_ns), up.facts(first, at(5).at_ns), up.facts(second, at(10).at_ns)]
    )
    early, late = store.window(0, at(9).at_ns), store.window()
    assert early.settings(netdev)["mtu_bytes"].value == 1500
    assert early.settings(netdev, "next_boot")["mtu_bytes"].value == 9000
    assert late.settings(netdev)["mtu_bytes"].value == 9000
    assert late.setting_all("mtu_bytes").keys() == {netdev}
    assert late.settings(PORT) == {}
    assert late.attributes(PORT)["netdev"].value == "eth0"
    assert [gid.index for gid in late.gids(PORT)] == [0, 1]
    assert late.neighbours() == first.neighbours
    assert late.queue_pairs() == first.queue_pairs
    assert late.gaps() == first.gaps == late.gaps("node1")
    assert late.gaps("other") == ()
    assert {leaf, netdev, PORT, DEVICE} <= set(late.known_entities())
    assert late.agent_of(netdev) == "node1"
    assert late.agent_of(leaf) is None
    changes = late.fact_history()
    assert [(c.at_ns, c.before, c.after) for c in changes] == [
        (at(0).at_ns, None, first),
        (at(10).at_ns, first, second),
    ]
    store.evict(at(20).at_ns)
    assert store.window().settings(netdev)["mtu_bytes"].value == 9000


def test_facts_that_change_all_the_time_stay_bounded_and_true():
    up, store = Uplink(), store_of([])
    netdev = Netdev("node1", "eth0")

    def facts(n):
        return Facts(settings=(Setting(netdev, "mtu_bytes", n),))

    early = None
    for n in range(200):
        store.add(up.facts(facts(n), at(n).at_ns))
        early = store.window() if n == 150 else early
    window = store.window(at(180).at_ns, at(190).at_ns)
    assert window.settings(netdev)["mtu_bytes"].value == 190
    changes = window.fact_history()
    assert [(c.before, c.after) for c in changes] == [
        (facts(n - 1), facts(n)) for n in range(180, 191)
    ]
    kept = store.window().fact_history()
    assert 40 < len(kept) <= 64
    assert all(change.before is not None for change in kept)
    assert early.fact_history()[-1].after == facts(150)
    store.add(up.facts(facts(7), at(170.5).at_ns))  # late
    late = store.window(0, at(170.7).at_ns)
    assert late.settings(netdev)["mtu_bytes"].value == 7
