"""Which entities are slots of one port, interface or switch: found once for a whole window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from collectors.model.entities import Entity, Slot, SlotKind
from tuner.store.arithmetic import Ints


class Layout:
    """Entities by number, and what they are part of.

    owners: whatever is no slot or has some, each once. owner: of each entity, by its number in
    `owners`; what is no slot owns itself. slot: index of each entity that is a slot, -1 of others.
    """

    def __init__(self, entities: Sequence[Entity]) -> None:
        self._entities = entities
        self._owner_numbers: dict[Entity, int] = {}
        met: dict[int, int] = {}  # by identity: most owners of one name are one object
        owner: list[int] = []
        slot: list[int] = []
        number = 0
        last: Entity | None = None
        for entity in entities:
            whole = entity.parent if isinstance(entity, Slot) else entity
            slot.append(-1 if whole is entity else entity.index)  # type: ignore[union-attr]
            if whole is not last:
                last = whole
                known = met.get(id(whole))
                if known is None:
                    known = self._owner_numbers.setdefault(whole, len(self._owner_numbers))
                    met[id(whole)] = known
                number = known
            owner.append(number)
        self.owner: Ints = np.array(owner, np.int64)
        self.slot: Ints = np.array(slot, np.int64)
        self._slots: dict[int, dict[tuple[SlotKind, int], int]] = {}

    @cached_property
    def owners(self) -> Sequence[Entity]:
        """See the class."""
        return tuple(self._owner_numbers)

    def find(self, entity: Entity) -> int | None:
        """Return the number of an entity, None where it is not known."""
        if not isinstance(entity, Slot):
            owner = self._owner_numbers.get(entity)
            number = -1 if owner is None else self._selves[owner]
            return None if number < 0 else number
        owner = self._owner_numbers.get(entity.parent)
        if owner is None:
            return None
        slots = self._slots.get(owner)
        if slots is None:
            slots = self._slots[owner] = self._slots_of(owner)
        return slots.get((entity.kind, entity.index))

    def owners_of(self, numbers: Ints) -> list[Entity]:
        """Return the owners of some entities, each once, in order."""
        owners, first = np.unique(self.owner[numbers], return_index=True)
        return [self.owners[place] for place in owners[np.argsort(first)].tolist()]

    @cached_property
    def _selves(self) -> list[int]:
        """The number of each owner as an entity, -1 where only its slots are known."""
        numbers: Ints = np.full(len(self.owners), -1, np.int64)
        whole = np.flatnonzero(self.slot < 0)
        numbers[self.owner[whole]] = whole
        found: list[int] = numbers.tolist()
        return found

    @cached_property
    def _members(self) -> tuple[list[int], list[int]]:
        """All slots by owner, and where each owner's begin."""
        slots = np.flatnonzero(self.slot >= 0)
        order = slots[np.argsort(self.owner[slots], kind="stable")]
        starts = np.searchsorted(self.owner[order], np.arange(len(self.owners) + 1))
        return order.tolist(), starts.tolist()

    def _slots_of(self, owner: int) -> dict[tuple[SlotKind, int], int]:
        order, starts = self._members
        return {
            (slot.kind, slot.index): number
            for number in order[starts[owner] : starts[owner + 1]]
            if isinstance(slot := self._entities[number], Slot)
        }


def owners_among(entities: Iterable[Entity]) -> dict[Entity, None]:
    """Return what entities are or are slots of, each once, in order."""
    wholes = [e.parent if isinstance(e, Slot) else e for e in entities]
    # By identity first: most of one name are one object, and telling that is quick.
    return dict.fromkeys({id(whole): whole for whole in wholes}.values())
