"""Telemetry of many agents as they would send it: 8 ports of 60 counters that grow unevenly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collectors.model.entities import Device, Port
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import pack_batch, pack_schema

PORTS, COUNTERS = 8, 60
COLUMNS = tuple(Column(f"bench_{n}_total", "counter", "hw_counters") for n in range(COUNTERS))
VALUES = PORTS * COUNTERS
START_NS, STEP_NS = 1_800_000_000 * 10**9, 10 * 10**9


def agent_items(agent: str, samples: int, seed: int, start_ns: int = START_NS) -> Iterator[pb.Item]:
    """Yield schema and batches of one agent. The message of a batch is used again and again.

    Half of the counters are error counters that stand still, most at zero; the others are large
    and grow by random steps, each at its own scale.
    """
    random = np.random.default_rng(seed)
    readings = [
        Reading(
            Port(Device(agent, f"0000:{port:02x}:00.0", f"mlx5_{port}"), 1),
            dict.fromkeys(COLUMNS, 0),
            Instant(start_ns, 10**15 + port * 50_000),
        )
        for port in range(PORTS)
    ]
    schema = pack_schema(readings)
    yield pb.Item(schema=schema)
    item = pb.Item(batch=pack_batch(readings, schema, "netlink", f"boot-{seed}"))
    batch = item.batch
    batch.agent, batch.epoch = agent, "bench"
    moving = random.random(VALUES) < 0.5
    scale = 10 ** random.uniform(1, 9, VALUES) * moving
    errors = random.integers(0, 1000, VALUES) * (random.random(VALUES) < 0.2)
    values = np.where(moving, random.integers(0, 2**40, VALUES), errors).astype(np.uint64)
    for number in range(samples):
        batch.seq = number + 1
        batch.at_ns = start_ns + number * STEP_NS
        batch.mono_ns = 10**15 + number * STEP_NS
        values = values + (scale * random.random(VALUES)).astype(np.uint64)
        del batch.ints[:]
        batch.ints.extend(values)
        yield item
