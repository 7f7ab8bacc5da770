"""fabric-agent record: collect for a while into a folder that can be replayed elsewhere."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from agent.config import Config
from agent.packing import Packer
from agent.schedule import Schedule
from agent.snapshot import Outcome, Snapshot
from agent.sources import Job, read_boot_id
from collectors.model.reading import Pass
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import Key, set_key
from collectors.wire.pseudonyms import Pseudonyms
from collectors.wire.recording import RecordingWriter

_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was written: numbered items and bytes; outcomes of the collectors at the end."""

    items: int
    bytes: int
    outcomes: tuple[Outcome, ...]


def record(
    config: Config,
    planned: Sequence[Job],
    folder: Path,
    duration_s: float,
    *,
    anonymise: bool,
    stop: Event,
    progress: Callable[[float, int], None],
) -> Recorded:
    """Run the jobs for a while and write what they give.

    stop: ends it early. progress: called with seconds passed and items so far. Raises
    FabricError where the folder cannot be written or holds something.
    """
    writer = RecordingWriter(folder, Pseudonyms() if anonymise else None)
    passes: queue.Queue[tuple[str, Pass]] = queue.Queue()
    snapshot = Snapshot()
    schedule = Schedule(
        planned, snapshot, lambda name, seen: passes.put((name, seen)), config.agent
    )
    packer = Packer(read_boot_id(Path(config.paths.procfs)))
    epoch = uuid.uuid4().hex

    def write(name: str, seen: Pass) -> None:
        for packed in packer.pack(name, seen, time.time_ns(), time.monotonic_ns()):
            set_key(packed.item, Key(config.agent, epoch, writer.items + 1))
            if packed.schema:
                writer.append(pb.Item(schema=packed.schema))
            writer.append(packed.item)

    def drain(timeout_s: float) -> None:
        try:
            write(*passes.get(timeout=timeout_s))
            while True:
                write(*passes.get_nowait())
        except queue.Empty:
            return

    began = time.monotonic()
    schedule.start()
    try:
        while (passed := time.monotonic() - began) < duration_s and not stop.is_set():
            drain(_TICK_S)
            schedule.check_deadlines()
            progress(passed, writer.items)
    finally:
        schedule.stop(max((job.deadline_s for job in planned), default=0.0))
        drain(0.01)
        writer.close()
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Recorded(writer.items, size, snapshot.outcomes())
