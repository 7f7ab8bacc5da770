"""Group commit: what all streams have received goes to disk together, then is acknowledged.

While one group is being written, the next one gathers: many agents cost few flushes. Nothing
is acknowledged before it is on disk; where the disk refuses, nothing of the group is, and every
stream that had a part in it is told why and ended, so that its agent keeps the data.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from collectors.model.errors import FabricError
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import Key
from tuner.store.store import Checked, Store

LOG: Final = logging.getLogger(__name__)
_MOST_IN_GROUP: Final = 1024
_MOST_IN_FLIGHT: Final = 512  # items of one stream that wait for the disk
_MOST_BYTES: Final = 64 << 20  # of all streams


@dataclass
class Stream:
    """One live uplink, as its handler and the committer share it.

    acknowledged: highest number that is safe. answers: what else there is to say, in order.
    ended: the handler must return once the answers are sent.
    """

    agent: str
    epoch: str
    acknowledged: int
    in_flight: int = 0
    received: int = 0
    answers: deque[pb.Answer] = field(default_factory=deque)
    bad_schemas: dict[bytes, str] = field(default_factory=dict)
    ended: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def refuse(self, why: str, *, permanent: bool, seq: int = 0, end: bool = True) -> None:
        """Say why an item (seq) or the stream (0) is refused; after `end` nothing follows."""
        if self.ended:
            return
        self.answers.append(
            pb.Answer(
                epoch=self.epoch,
                acknowledged=self.acknowledged,
                refused=why,
                permanent=permanent,
                refused_seq=seq,
            )
        )
        self.ended = end
        self.wake.set()


@dataclass(frozen=True, slots=True)
class Entry:
    """An item on its way to disk; item None: it was refused, for this reason, for good."""

    stream: Stream
    seq: int
    item: Checked | None
    refusal: str = ""
    size: int = 0


class Committer:
    """Owns the writing side of the store; `run` is its only task.

    trouble: why nothing can be stored now, '' while all is well. on_commit: called with seconds,
    items and numbers of each group.
    """

    def __init__(self, store: Store, on_commit: Callable[[float, list[Checked]], None]) -> None:
        self.trouble = ""
        self._store = store
        self._on_commit = on_commit
        self._waiting: deque[Entry] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._stopping = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")

    async def put(self, entry: Entry) -> None:
        """Queue an entry; waits while its stream, or all together, have too much on the way.

        What comes after an item that failed is not queued: it would overtake it.
        """
        stream = entry.stream
        while not stream.ended and (
            stream.in_flight >= _MOST_IN_FLIGHT or self._bytes >= _MOST_BYTES
        ):
            self._room.clear()
            await self._room.wait()
        if stream.ended:
            return
        stream.in_flight += 1
        self._bytes += entry.size
        self._waiting.append(entry)
        self._wake.set()

    async def run(self) -> None:
        """Write groups until `stop`, then the rest."""
        while True:
            if not self._waiting:
                if self._stopping:
                    break
                self._wake.clear()
                await self._wake.wait()
                continue
            count = min(len(self._waiting), _MOST_IN_GROUP)
            await self._commit([self._waiting.popleft() for _ in range(count)])
        self._thread.shutdown()

    def stop(self) -> None:
        """Let `run` end once all that waits is written."""
        self._stopping = True
        self._wake.set()

    async def in_thread(self, work: Callable[[], None]) -> None:
        """Do other work on the store's files, between two groups."""
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _commit(self, group: list[Entry]) -> None:
        new, again = self._store.sort_out([entry.item for entry in group if entry.item is not None])
        began = time.monotonic()
        try:
            if new:
                await self.in_thread(lambda: self._store.commit(new))
        except FabricError as error:
            self._failed(group, error)
            return
        if new:
            if self.trouble:
                LOG.warning("the store can be written again")
            self.trouble = ""
            self._on_commit(time.monotonic() - began, new)
        self._store.noted(new, again)
        self._leave(group)
        for entry in group:
            stream = entry.stream
            stream.in_flight -= 1
            stream.acknowledged = max(stream.acknowledged, entry.seq)
            if entry.item is None:
                self._store.refused(Key(stream.agent, stream.epoch, entry.seq))
                stream.refuse(entry.refusal, permanent=True, seq=entry.seq, end=False)
            stream.wake.set()

    def _failed(self, group: list[Entry], error: FabricError) -> None:
        text = f"the tuner cannot store: {error}; it acknowledges nothing until it can"
        if not self.trouble:
            LOG.error("%s", text)
        self.trouble = str(error)
        failed = {id(entry.stream): entry.stream for entry in group}
        # Later items of these streams must not overtake the ones that failed.
        dropped = [entry for entry in self._waiting if id(entry.stream) in failed]
        self._waiting = deque(entry for entry in self._waiting if id(entry.stream) not in failed)
        for stream in failed.values():
            stream.refuse(text, permanent=False)
            stream.in_flight = 0
        self._leave([*group, *dropped])

    def _leave(self, entries: list[Entry]) -> None:
        """Make room where entries are through, or given up."""
        self._bytes -= sum(entry.size for entry in entries)
        self._room.set()
