"""Asking each target of an inventory once."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import msgspec

from agent.schedule import read_clock
from agent.switches import TRANSPORTS, Switchboard
from collectors.model.catalogue.ethernet import PRIORITY_RX_MARKED
from collectors.model.catalogue.interface import PFC_RX_FRAMES, QUEUE_ECN_MARKED
from collectors.model.catalogue.switch import ECN_MARKED, QUEUE_ECN_BYTES
from collectors.model.errors import FabricError
from collectors.model.reading import Pass
from collectors.targets.inventory import Target

_ECN: Final = {
    row.name for row in (ECN_MARKED, QUEUE_ECN_MARKED, QUEUE_ECN_BYTES, PRIORITY_RX_MARKED)
}


class Answer(msgspec.Struct, frozen=True):
    """What one target said over one transport. lacks: metrics or tables that are not there."""

    target: str
    transport: str
    answers: bool
    seconds: float
    values: int = 0
    pfc: bool = False
    ecn: bool = False
    queues: bool = False
    settings: int = 0
    neighbours: int = 0
    chassis_id: str = ""
    lacks: tuple[str, ...] = ()
    error: str = ""


def ask_all(board: Switchboard, names: tuple[str, ...], timeout_s: float) -> tuple[Answer, ...]:
    """Return an answer for each target and transport; all are asked at once."""
    return asyncio.run(_ask_all(board, names, timeout_s))


async def _ask_all(
    board: Switchboard, names: tuple[str, ...], timeout_s: float
) -> tuple[Answer, ...]:
    asked = [
        _ask(board, target, transport, timeout_s)
        for target in board.inventory.targets
        if target.name in names
        for transport in TRANSPORTS
        if getattr(target, transport)
    ]
    return tuple(await asyncio.gather(*asked))


async def _ask(board: Switchboard, target: Target, transport: str, timeout_s: float) -> Answer:
    began = time.monotonic()
    poller: Any = None
    try:
        poller = board.poller(target, transport, timeout_s)
        async with asyncio.timeout(timeout_s):
            found = await poller.poll(read_clock)
            while transport == "gnmi" and not found.readings:
                await asyncio.sleep(0.1)
                found = await poller.poll(read_clock)
    except FabricError as error:
        return Answer(target.name, transport, False, time.monotonic() - began, error=str(error))
    except TimeoutError:
        why = f"{target.name}: {transport}: no answer in {timeout_s:g} s"
        return Answer(target.name, transport, False, time.monotonic() - began, error=why)
    finally:
        closing = poller.close() if hasattr(poller, "close") else None
        if closing is not None:
            await closing
    return _answer(target, transport, time.monotonic() - began, found)


def _answer(target: Target, transport: str, seconds: float, found: Pass) -> Answer:
    metrics = {column.metric for reading in found.readings for column in reading.values}
    facts = found.facts
    chassis = [row.value for row in facts.attributes if row.name == "chassis_id"] if facts else []
    return Answer(
        target.name,
        transport,
        True,
        seconds,
        sum(len(reading.values) for reading in found.readings),
        PFC_RX_FRAMES.name in metrics,
        not _ECN.isdisjoint(metrics),
        any(metric.startswith("fabric_queue_") for metric in metrics),
        len(facts.settings) if facts else 0,
        len(facts.neighbours) if facts else 0,
        str(chassis[0]) if chassis else "",
        tuple(sorted({f"{gap.what}: {gap.reason}" for gap in found.gaps})),
    )
