"""The bounds of what can be set: the last value that is taken, and the first one that is not."""

from dataclasses import replace

import pytest

from collectors.model.ecmp_hash import NS3_FIELDS, HashField
from collectors.model.errors import ConfigInvalid
from simlab.packet import layout as at
from simlab.packet.limits import check_model, check_places, check_topology, check_traffic
from simlab.packet.parameters import (
    NS3_HASH,
    Balancing,
    HostModel,
    Model,
    NicModel,
    SwitchModel,
    Transport,
)
from simlab.packet.topology import (
    Cable,
    Topology,
    fat_tree,
    leaf_spine,
    rail_optimised,
    star,
)
from simlab.packet.traffic import Connection, Message, Traffic, check_counts

SMALL = Transport(payload_bytes=1, header_bytes=0)
LARGEST = 2**16 - 1  # bytes of a frame, in 16 bits


def refused(check, *arguments) -> bool:
    try:
        check(*arguments)
    except ConfigInvalid:
        return True
    return False


def outside(record: object, name: str, *values: float) -> list[float]:
    """Return the values that a field of the model may not have."""
    section = {Transport: "transport", SwitchModel: "switch", HostModel: "host"}[type(record)]
    return [
        value
        for value in values
        if refused(check_model, Model(**{section: replace(record, **{name: value})}))
    ]


@pytest.mark.parametrize("name", ["ack_bytes", "cnp_bytes", "control_bytes"])
def test_a_control_frame_has_1_to_65535_bytes(name):
    assert outside(SMALL, name, 0, 1, LARGEST, LARGEST + 1) == [0, LARGEST + 1]


def test_a_data_frame_has_a_payload_and_65535_bytes_at_most():
    assert outside(SMALL, "payload_bytes", 0, 1, LARGEST, LARGEST + 1) == [0, LARGEST + 1]
    assert outside(SMALL, "header_bytes", -1, 0, LARGEST - 1, LARGEST) == [-1, LARGEST]


def test_numbers_count_from_zero_and_some_from_one():
    assert outside(SMALL, "ack_every", 0, 1, 10**9) == [0]
    assert outside(SMALL, "window_packets", -1, 0) == [-1]
    assert outside(SwitchModel(), "buffer_bytes", 0, 1, 1 << 33, (1 << 33) + 1) == [
        0,
        (1 << 33) + 1,
    ]
    assert outside(SwitchModel(), "alpha", -0.1, 0, 1e4, 10_001.0) == [-0.1, 10_001.0]


def test_times_end_where_the_clock_of_a_run_ends():
    """An event's time and a timer that it starts share a word that ends at 35 s."""
    assert outside(HostModel(), "pause_s", -1e-9, 0.0, 17.0, 17.1) == [-1e-9, 17.1]
    assert outside(SMALL, "rto_s", 17.0, 1e12) == [1e12]
    assert outside(HostModel(), "drain_bps", 0.0, 0.9, 1.0, 2e15) == [0.9, 2e15]
    assert refused(check_traffic, star(2), one(start_s=17.1))
    assert not refused(check_traffic, star(2), one(start_s=17.0))


@pytest.mark.parametrize(
    ("record", "name", "last", "beyond"),
    [
        (SMALL, "window_packets", 2**23, 2**23 + 1),  # half of the packet sequence numbers
        (SMALL, "ack_every", 10**15, 10**15 + 1),
        (SMALL, "rto_s", 17.0, 17.5),
        (SwitchModel(), "alpha", 1e4, 1e4 + 0.5),
        (SwitchModel(), "lossy_alpha", 1e4, 1e4 + 0.5),
        (SwitchModel(), "egress_alpha", 1e4, 1e4 + 0.5),
        (SwitchModel(), "headroom_delays", 1e6, 1e6 + 0.5),
        (SwitchModel(), "headroom_packets", 1e6, 1e6 + 0.5),
        (SwitchModel(), "queue_limit_bytes", 10**15, 10**15 + 1),
        (SwitchModel(), "weights", {3: 4096}, {3: 4097}),
        (HostModel(), "drain_bps", 1e15, 1e15 + 0.5),
        (HostModel(), "slow", {0: 1.0}, {0: 0.5}),
        (SwitchModel(), "headroom_delays", 0.0, -0.5),
    ],
)
def test_a_number_is_taken_up_to_its_bound(record, name, last, beyond):
    assert outside(record, name, last, beyond) == [beyond]


def test_rates_delays_and_seeds_have_bounds_of_their_own():
    for cable, wrong in (
        (Cable(0, 1, 1e5, 0.0), False), (Cable(0, 1, 1e5 - 0.5, 0.0), True),
        (Cable(0, 1, 1e9, 1.0), False), (Cable(0, 1, 1e9, 1.5), True),
    ):  # fmt: skip
        assert refused(check_topology, Topology(2, (1,), (cable,))) == wrong
    for seed, wrong in ((2**32 - 1, False), (2**32, True)):
        hashing = replace(NS3_HASH, seed=seed)
        assert refused(check_model, Model(balancing=Balancing(hash=hashing))) == wrong
    assert not refused(check_model, Model(balancing=Balancing(weights={0: 0})))


def test_what_is_more_than_there_are_numbers_for_is_refused_before_it_is_made():
    """Three events a directed port, two a queue pair, of 2**18 - 1; 4 million messages."""
    pairs, cables = (2**18 - 1) // 2, (2**18 - 1) // 6
    check_counts("some", pairs=pairs, messages=4_000_000)
    for more in ({"pairs": pairs + 1, "messages": 0}, {"pairs": 0, "messages": 4_000_001}):
        assert refused(lambda more=more: check_counts("some", **more))
    assert len(star(cables).cables) == cables == 43_690
    for made, larger in (
        (lambda: leaf_spine(10, 2184, 1, parallel=2), lambda: leaf_spine(10, 2184, 2, parallel=2)),
        (lambda: fat_tree(2, hosts_per_leaf=21_843), lambda: fat_tree(2, hosts_per_leaf=21_844)),
        (lambda: rail_optimised(1, 10, 4368), lambda: rail_optimised(1, 10, 4369)),
    ):
        assert len(made().cables) == cables
        assert refused(larger)
    assert refused(star, cables + 1)


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (Model(switches={0: SwitchModel()}), r"switches\[0\].*it has 2\.\.2"),
        (Model(ports={4: SwitchModel()}), r"ports\[4\].*it has 0\.\.3"),
        (Model(nics={2: NicModel()}), r"nics\[2\].*it has 0\.\.1"),
        (Model(host=HostModel(slow={-1: 1e9})), r"host\.slow\[-1\].*it has 0\.\.1"),
        (Model(balancing=Balancing(switches={1: NS3_HASH})), r"balancing\.switches\[1\]"),
        (Model(balancing=Balancing(weights={9: 1})), r"balancing\.weights\[9\]"),
        (Model(balancing=Balancing(tiers={2: NS3_HASH})), r"balancing\.tiers\[2\].*1\.\.1"),
    ],
)
def test_a_setting_for_a_place_that_the_fabric_has_not_is_refused(model, place):
    with pytest.raises(ConfigInvalid, match=place):
        check_places(star(2), model)


def test_settings_for_places_that_there_are_are_taken():
    there = Model(
        switches={2: SwitchModel()}, ports={3: SwitchModel()}, nics={1: NicModel()},
        host=HostModel(slow={0: 1e9}),
        balancing=Balancing(switches={2: NS3_HASH}, weights={0: 2}, tiers={1: NS3_HASH}),
    )  # fmt: skip
    check_places(star(2), there)
    check_places(replace(star(2), tier=()), there)  # where none is said, a switch is of tier 1


def test_a_hash_is_over_different_fields_and_at_least_one():
    for fields, wrong in (((), True), ((HashField.DST_QP,), False), (NS3_FIELDS * 2, True)):
        hashing = replace(NS3_HASH, fields=fields)
        assert refused(check_model, Model(balancing=Balancing(hash=hashing))) == wrong


@pytest.mark.parametrize("name", ["cnp_priority", "ack_priority"])
def test_a_priority_is_one_of_eight(name):
    assert outside(SMALL, name, -1, 0, 7, 8) == [-1, 8]


def test_priorities_in_lists_and_mappings_are_looked_at_too():
    for name in ("lossless", "unmanaged", "strict"):
        assert not refused(check_model, Model(switch=SwitchModel(**{name: (0, 7)})))
        assert refused(check_model, Model(switch=SwitchModel(**{name: (3, 8)})))
    for classes, wrong in (({7: 0}, False), ({8: 0}, True), ({0: 8}, True), ({0: 7}, False)):
        assert refused(check_model, Model(switch=SwitchModel(classes=classes))) == wrong
    for weights, wrong in (({7: 1}, False), ({7: 0}, True), ({8: 1}, True), ({-1: 1}, True)):
        assert refused(check_model, Model(switch=SwitchModel(weights=weights))) == wrong


def test_a_share_is_within_0_and_1():
    cable = Cable(0, 1, 1e9, 1e-6)
    for rate, wrong in ((0.0, False), (1.0, False), (1.01, True), (-0.01, True)):
        made = Topology(2, (1,), (replace(cable, error_rate=rate),))
        assert refused(check_topology, made) == wrong


def test_what_is_out_of_bounds_is_named_with_its_bounds():
    with pytest.raises(ConfigInvalid, match=r"ack_bytes.* 0 is out of bounds: 1 to 65535"):
        check_model(Model(transport=replace(SMALL, ack_bytes=0)))
    with pytest.raises(ConfigInvalid, match=r"ack_every.* 0 is out of bounds: 1 to 1e.15"):
        check_model(Model(transport=replace(SMALL, ack_every=0)))


@pytest.mark.parametrize(
    ("cables", "wrong"),
    [
        ([(0, 2), (1, 2)], False),
        ([(0, 2), (1, 2), (2, 3)], True),  # no such node
        ([(0, 2), (-1, 2)], True),
        ([(0, 2), (1, 1)], True),  # both ends at one
        ([(0, 2), (0, 1)], True),  # two hosts
        ([(0, 2)], True),  # host 1 has none
        ([(0, 2), (1, 2), (1, 2)], True),  # two
    ],
)
def test_every_host_has_one_cable_to_a_switch(cables, wrong):
    made = Topology(3, (2,), tuple(Cable(a, b, 1e9, 0.0) for a, b in cables))
    assert refused(check_topology, made) == wrong
    slow = replace(made, cables=tuple(replace(cable, rate_bps=99_999.0) for cable in made.cables))
    assert refused(check_topology, slow)
    assert refused(check_topology, star(2, rate_bps=1e5)) is False


def one(**changes) -> Traffic:
    message = {
        name: changes.pop(name)
        for name in ("size_bytes", "repeat", "start_s", "delay_s", "gate_delay_s")
        if name in changes
    }
    connection = Connection(**{"src": 0, "dst": 1, **changes})
    return Traffic((connection,), (Message(**{"connection": 0, "size_bytes": 1, **message}),))


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, False),
        ({"dst": 2}, True),  # the switch
        ({"src": 9}, True),
        ({"dst": 0}, True),
        ({"priority": 0}, False),
        ({"priority": 7}, False),
        ({"priority": 8}, True),
        ({"priority": -1}, True),
        ({"size_bytes": 0}, True),
        ({"size_bytes": 10**15}, False),
        ({"size_bytes": 10**15 + 1}, True),
        ({"repeat": 0}, True),
        ({"start_s": -1e-12}, True),
        ({"delay_s": -1e-12}, True),
        ({"gate_delay_s": -1e-12}, True),
    ],
)
def test_a_message_goes_from_one_host_to_another(changes, wrong):
    assert refused(check_traffic, star(2), one(**changes)) == wrong


def test_traffic_without_a_message_is_refused():
    assert refused(check_traffic, star(2), Traffic((Connection(src=0, dst=1),), ()))


def test_as_many_queue_pairs_fit_as_there_are_numbers_for_their_events():
    """Three events a directed port, two a queue pair, and two of the whole fabric."""
    fabric = star(2)
    most = (at.ENTITY_MASK - 3 * 4 - 2) // 2
    message = (Message(connection=0, size_bytes=1),)
    pair = Connection(src=0, dst=1)
    assert not refused(check_traffic, fabric, Traffic((pair,) * most, message))
    assert refused(check_traffic, fabric, Traffic((pair,) * (most + 1), message))
    odd = Topology(4, (3,), (*star(3).cables,))
    most = (at.ENTITY_MASK - 3 * 6 - 2) // 2
    assert not refused(check_traffic, odd, Traffic((pair,) * most, message))
    assert refused(check_traffic, odd, Traffic((pair,) * (most + 1), message))
