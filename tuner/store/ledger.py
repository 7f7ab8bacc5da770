"""The ledger: which numbers of which agent are safe, so that a resend is known as one.

Every batch and every facts item has a key (agent, spool epoch, number). Within an epoch the
numbers go up; what was skipped is a hole (the agent's spool overflowed), counted as missing and
still welcome should it come late. The ledger is saved beside the segments, and what came after
the last save is read back from them.
"""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import Final

import msgspec

from collectors.model.errors import Malformed
from collectors.wire.pack import Key
from collectors.wire.segment import translate

_MOST_HOLES: Final = 1024
_MOST_EPOCHS: Final = 16


class Numbers(msgspec.Struct):
    """Numbers of one epoch. high: the highest. holes: (first, last) of what was skipped."""

    high: int = 0
    holes: list[tuple[int, int]] = []

    def knows(self, seq: int) -> bool:
        """Tell whether a number came before."""
        return seq <= self.high and not any(a <= seq <= b for a, b in self.holes)

    def note(self, seq: int) -> None:
        """Note a number. What came before the first one that was seen is not missed."""
        if not self.high:
            self.high = seq
        elif seq > self.high:
            if seq > self.high + 1:
                self.holes = [*self.holes, (self.high + 1, seq - 1)][-_MOST_HOLES:]
            self.high = seq
        else:
            self.holes = [
                part
                for a, b in self.holes
                for part in (((a, seq - 1), (seq + 1, b)) if a <= seq <= b else ((a, b),))
                if part[0] <= part[1]
            ]

    @property
    def missing(self) -> int:
        """How many numbers never came."""
        return sum(b - a + 1 for a, b in self.holes)


class AgentRecord(msgspec.Struct):
    """What the tuner knows of one agent. epoch: of its latest item."""

    epoch: str = ""
    software: str = ""
    epochs: dict[str, Numbers] = {}
    batches: int = 0
    values: int = 0
    duplicates: int = 0
    refused: int = 0
    missed_before: int = 0  # in epochs that are forgotten
    last_batch_at_ns: int = 0

    @property
    def missing(self) -> int:
        """How many numbers never came, in all epochs."""
        return self.missed_before + sum(numbers.missing for numbers in list(self.epochs.values()))

    def numbers(self, epoch: str) -> Numbers:
        """Return the numbers of an epoch, a new one where it is unknown."""
        found = self.epochs.get(epoch)
        if found is None:
            if len(self.epochs) >= _MOST_EPOCHS:
                oldest = next(iter(self.epochs))
                self.missed_before += self.epochs.pop(oldest).missing
            found = self.epochs[epoch] = Numbers()
        return found


class Sealed(msgspec.Struct, frozen=True):
    """A segment that is complete.

    oldest_ns, newest_ns: wall clock of its items, by the agents' clocks. written_ns: when it was
    completed, by the tuner's. size: in bytes.
    """

    oldest_ns: int
    newest_ns: int
    written_ns: int
    size: int


class _File(msgspec.Struct):
    version: int
    agents: dict[str, AgentRecord]
    sealed: dict[str, Sealed]


class Ledger:
    """Records of all agents, and of the segments that are complete."""

    def __init__(self) -> None:
        self.agents: dict[str, AgentRecord] = {}
        self.sealed: dict[str, Sealed] = {}

    @property
    def sealed_bytes(self) -> int:
        """Bytes of all complete segments."""
        return sum(segment.size for segment in list(self.sealed.values()))

    def record(self, agent: str) -> AgentRecord:
        """Return the record of an agent, a new one where it is unknown."""
        return self.agents.setdefault(agent, AgentRecord())

    def knows(self, key: Key) -> bool:
        """Tell whether an item is a resend."""
        record = self.agents.get(key.agent)
        numbers = None if record is None else record.epochs.get(key.epoch)
        return numbers is not None and numbers.knows(key.seq)

    def note(self, key: Key, values: int, batch_at_ns: int | None) -> None:
        """Note an item that is safe. batch_at_ns: None for facts."""
        record = self.record(key.agent)
        record.epoch = key.epoch
        record.numbers(key.epoch).note(key.seq)
        if batch_at_ns is not None:
            record.batches += 1
            record.values += values
            record.last_batch_at_ns = max(record.last_batch_at_ns, batch_at_ns)

    def acknowledged(self, agent: str, epoch: str) -> int:
        """Return up to which number everything that was sent is safe."""
        record = self.agents.get(agent)
        numbers = None if record is None else record.epochs.get(epoch)
        return 0 if numbers is None else numbers.high

    def forget(self, before_ns: int) -> None:
        """Forget agents whose newest batch is older."""
        for agent, record in list(self.agents.items()):
            if 0 < record.last_batch_at_ns < before_ns:
                del self.agents[agent]

    def forget_silent(self, connected: Container[str]) -> None:
        """Forget agents that never sent a batch and are not connected."""
        for agent, record in list(self.agents.items()):
            if not record.last_batch_at_ns and agent not in connected:
                del self.agents[agent]

    def save(self, path: Path) -> None:
        """Replace the file at once. Raises Denied or Unavailable."""
        data = msgspec.json.encode(_File(1, self.agents, self.sealed))
        new = path.with_suffix(".new")
        try:
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise translate(error, path, "save") from error

    def load(self, path: Path) -> None:
        """Read the file where it is there. Raises Malformed, Denied, Unavailable."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise translate(error, path, "read") from error
        try:
            file = msgspec.json.decode(data, type=_File)
        except msgspec.DecodeError as error:
            raise Malformed(str(path), "read", str(error), data) from error
        if file.version != 1:
            raise Malformed(str(path), "read", f"version {file.version} of a newer program")
        self.agents, self.sealed = file.agents, file.sealed


def sync_folder(folder: Path) -> None:
    """Return once the folder's list of files is on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
