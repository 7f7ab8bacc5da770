"""Slots and what they are part of, by number."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.model.entities import Device, Interface, Netdev, Port, Slot, Switch, priority, queue
from tuner.store.layout import Layout

DEVICE = Device("node1", "k", "mlx5_0")
WHOLES = [
    Netdev("node1", "eth0"), Port(DEVICE, 1), DEVICE, Switch("sw", "leaf"),
    Interface(Switch("sw"), "1"),
]  # fmt: skip
SLOTS = [
    priority(WHOLES[0], 3), queue(WHOLES[0], 3), queue(WHOLES[1], 0), Slot(WHOLES[3], "pool", 2),
    queue(Interface(Switch("sw", "of another name"), "1"), 7),
]  # fmt: skip


@given(entities=st.lists(st.sampled_from([*WHOLES, *SLOTS]), unique=True))
def test_every_entity_is_found_with_its_owner_and_index(entities):
    layout = Layout(entities)
    for number, entity in enumerate(entities):
        is_slot = isinstance(entity, Slot)
        assert layout.find(entity) == number
        assert layout.owners[layout.owner[number]] == (entity.parent if is_slot else entity)
        assert layout.slot[number] == (entity.index if is_slot else -1)
    absent = [entity for entity in (*WHOLES, *SLOTS) if entity not in entities]
    assert [layout.find(entity) for entity in absent] == [None] * len(absent)
    assert len(set(layout.owners)) == len(layout.owners)


def test_owners_come_once_in_the_order_of_what_is_asked():
    layout = Layout([*SLOTS, *WHOLES])
    numbers = layout.owner[:0]
    assert layout.owners_of(numbers) == []
    asked = [layout.find(entity) for entity in (SLOTS[3], SLOTS[1], WHOLES[2], SLOTS[0])]
    assert layout.owners_of(asked) == [WHOLES[3], WHOLES[0], WHOLES[2]]
