"""The store of a tuner that watches a large fabric, written as its agents' batches arrive.

Each host reads RDMA counters, interface counters and ethtool statistics of 8 ports every ten
seconds; the switches are polled every thirty seconds, 32 of them by each poller. Counters grow
at a third of line rate, alike at both ends of a cable; three known faults are planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import structs

from collectors.codec.mad_smp import LINK_UP, PORT_ACTIVE
from collectors.model.catalogue import interface, rdma, rdma_errors
from collectors.model.catalogue.registry import CATALOGUE, columns
from collectors.model.entities import Entity, Switch, priority, queue
from collectors.model.facts import Facts
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import pack_batch, pack_schema
from tests.bench.scale_parts.clos import LINE_BPS, LOSSLESS, Clos
from tuner.store.disk import DiskStore, Retention

START_NS: Final = 1_800_000_000 * 10**9
STEP_NS: Final = 10 * 10**9
POLL_STEPS: Final = 3  # a switch is polled at every third step
POLLER_SWITCHES: Final = 32
IN_USE: Final = (0, LOSSLESS, 6)  # priorities whose statistics are read: other traffic, RoCE, CNPs
LOAD: Final = 0.3
FRAME: Final = 4200.0
STARVED, NARROW, UNGUARDED = 70, 100, 130
"""Hosts with a planted fault on rail 2: receiver not ready, MTU of 1500, no PFC."""

_PORT: Final = (
    *columns("sysfs_counters").values(),
    *columns("hw_counters", "mlx5").values(),
    *columns("sysfs_port").values(),
)
_NETDEV: Final = tuple(columns("netdev").values())
_ETHTOOL: Final = tuple(dict.fromkeys(columns("ethtool", "mlx5").values()))
_PER_PRIORITY: Final = tuple(c for c in _ETHTOOL if "priority" in CATALOGUE[c.metric].on)
_WHOLE: Final = tuple(c for c in _ETHTOOL if "netdev" in CATALOGUE[c.metric].on)


def _gnmi(*metrics: str) -> tuple[Column, ...]:
    return tuple(Column(name, CATALOGUE[name].kind, "gnmi") for name in metrics)


_SWITCH_PORT: Final = (
    *dict.fromkeys(c for c in columns("gnmi").values() if c.metric.startswith("fabric_interface")),
    *_gnmi(interface.SPEED.name),
)
_SWITCH_PRIORITY: Final = _gnmi(
    interface.PFC_RX_FRAMES.name, interface.PFC_TX_FRAMES.name, interface.PFC_RX_PAUSE.name
)
_SWITCH_QUEUE: Final = _gnmi(
    interface.QUEUE_TX_BYTES.name, interface.QUEUE_TX_PACKETS.name, interface.QUEUE_DROPS.name,
    interface.QUEUE_ECN_MARKED.name,
)  # fmt: skip

_BYTES: Final = LOAD * LINE_BPS / 8 * STEP_NS / 1e9
_STATES: Final = {
    rdma.STATE.name: PORT_ACTIVE,
    rdma.PHYSICAL_STATE.name: LINK_UP,
    rdma.RATE.name: LINE_BPS // 8,
    interface.SPEED.name: LINE_BPS,
    interface.OPER_STATE.name: 1,
    interface.CARRIER.name: 1,
}


def _step(column: Column, of: Entity) -> float:
    """Return the mean growth in ten seconds in native units: traffic flows, nothing is lost."""
    name = column.metric
    if column.kind != "counter" or (name.startswith("fabric_priority") and of.index != LOSSLESS):  # type: ignore[union-attr]
        return 0.0
    if "bytes_total" in name and "drop" not in name and "multicast" not in name:
        return _BYTES / float(column.scale)
    plain = ("packets_received_total", "packets_transmitted_total", "rx_packets_total",
             "tx_packets_total")  # fmt: skip
    odd = ("ecn", "cnp", "_ce_", "sequence", "retry", "multicast")
    if name.endswith(plain) and not any(word in name for word in odd):
        return _BYTES / FRAME
    return 0.0


class _Source:
    """One collector of one agent; each pass is the message of the former with new numbers."""

    def __init__(
        self, agent: str, collector: str, shape: Sequence[tuple[Entity, Sequence[Column]]],
        random: np.random.Generator, faults: Mapping[tuple[Entity, str], float],
    ) -> None:  # fmt: skip
        when = Instant(START_NS, 10**15)
        readings = [Reading(of, dict.fromkeys(row, 0), when) for of, row in shape]
        self.schema = pb.Item(schema=pack_schema(readings))
        self.item = pb.Item(
            batch=pack_batch(readings, self.schema.schema, collector, f"boot-{agent}")
        )
        self.item.batch.agent, self.item.batch.epoch = agent, "bench"
        place = {
            column: n for n, column in enumerate(dict.fromkeys(c for _, r in shape for c in r))
        }
        cells = [(of, c) for of, row in shape for c in sorted(row, key=place.__getitem__)]
        cells = [cell for cell in cells if cell[1].number == "int"]
        self.step = np.array([faults.get((of, c.metric), _step(c, of)) for of, c in cells])
        begin = [_STATES.get(c.metric, 0) / float(c.scale) for _, c in cells]
        counted = self.step * random.uniform(1e3, 1e5, len(cells))
        self.values = (np.array(begin) + counted).astype(np.uint64)
        self._moving = np.flatnonzero(self.step)

    def at(self, at_ns: int, seq: int, steps: int) -> pb.Item:
        """Return the batch of a pass, and let the counters grow."""
        batch = self.item.batch
        batch.seq, batch.at_ns, batch.mono_ns = seq, at_ns, 10**15 + at_ns - START_NS
        self.values[self._moving] += (self.step[self._moving] * steps).astype(np.uint64)
        del batch.ints[:]
        batch.ints.extend(self.values)
        return self.item


def _host_sources(clos: Clos, number: int, random: np.random.Generator) -> list[_Source]:
    ports, netdevs = clos.ports(number), clos.netdevs(number)
    faults: dict[tuple[Entity, str], float] = {}
    if number == STARVED:
        faults[ports[2], rdma_errors.OUT_OF_BUFFER.name] = 5000.0
    if number == STARVED + 1:
        faults[ports[2], rdma_errors.RNR_NAK_RX.name] = 5000.0
    shapes: dict[str, list[tuple[Entity, Sequence[Column]]]] = {
        "sysfs": [(port, _PORT) for port in ports],
        "netdev": [(netdev, _NETDEV) for netdev in netdevs],
        "ethtool": [
            *((netdev, _WHOLE) for netdev in netdevs),
            *((priority(n, p), _PER_PRIORITY) for n in netdevs for p in IN_USE),
        ],
    }
    agent = clos.host(number)
    return [_Source(agent, name, shape, random, faults) for name, shape in shapes.items()]


def _switch_source(clos: Clos, switch: Switch, poller: str, random: np.random.Generator) -> _Source:
    ports = clos.interfaces(switch)
    shape: list[tuple[Entity, Sequence[Column]]] = [
        *((port, _SWITCH_PORT) for port in ports),
        *((priority(port, LOSSLESS), _SWITCH_PRIORITY) for port in ports),
        *((queue(port, LOSSLESS), _SWITCH_QUEUE) for port in ports),
    ]
    return _Source(poller, f"gnmi:{switch.key}", shape, random, {})


def _host_facts(clos: Clos, number: int) -> Facts:
    facts = clos.host_facts(number)
    changed = {NARROW: ("mtu_bytes", 1500), UNGUARDED: ("pfc_priorities", (False,) * 8)}
    name, value = changed.get(number, ("", None))
    bad = clos.netdevs(number)[2]
    settings = tuple(
        structs.replace(setting, value=value)
        if value is not None and setting.name == name and setting.entity == bad
        else setting
        for setting in facts.settings
    )
    return replace(facts, settings=settings)


def write_store(
    folder: Path, clos: Clos, samples: int, told: Callable[[int], None], seed: int = 1
) -> int:
    """Fill a folder with a store of the fabric and return the number of values in it.

    samples: passes of each host. told: called with the number of each finished pass.
    """
    random = np.random.default_rng(seed)
    schemas: dict[bytes, pb.Schema] = {}
    disk = DiskStore(folder, Retention(), schemas.__getitem__)
    disk.open(0)
    sequence: dict[str, int] = {}

    def numbered(agent: str) -> int:
        sequence[agent] = sequence.get(agent, 0) + 1
        return sequence[agent]

    hosts = {n: _host_sources(clos, n, random) for n in range(clos.hosts)}
    switches = [
        (f"poller-{place // POLLER_SWITCHES}", switch) for place, switch in enumerate(clos.switches)
    ]
    polled = [(poller, _switch_source(clos, switch, poller, random)) for poller, switch in switches]
    every = [source for sources in hosts.values() for source in sources]
    for source in (*every, *(source for _, source in polled)):
        schemas[source.schema.schema.id] = source.schema.schema

    def facts() -> Iterator[pb.Item]:
        about = [(clos.host(n), "host", _host_facts(clos, n)) for n in range(clos.hosts)]
        about += [(poller, f"config:{s.key}", clos.switch_facts(s)) for poller, s in switches]
        for agent, collector, known in about:
            yield pb.Item(
                facts=pb.Facts(
                    agent=agent, epoch="bench", seq=numbered(agent), collector=collector,
                    at_ns=START_NS, json=pack_facts(known),
                )
            )  # fmt: skip

    values = 0
    pending: list[pb.Item] = []

    def put(item: pb.Item, at_ns: int) -> None:
        nonlocal values
        copy = pb.Item()
        copy.CopyFrom(item)
        pending.append(copy)
        values += len(item.batch.ints)
        if len(pending) >= 256:
            flush(at_ns)

    def flush(at_ns: int) -> None:
        disk.commit(pending, at_ns)
        disk.noted(pending)
        pending.clear()

    for item in facts():
        put(item, START_NS)
    for step in range(samples):
        begin = START_NS + step * STEP_NS
        for number, sources in hosts.items():
            at_ns = begin + number * STEP_NS // clos.hosts
            for source in sources:
                put(source.at(at_ns, numbered(clos.host(number)), 1), at_ns)
        if step % POLL_STEPS == 0:
            for place, (poller, source) in enumerate(polled):
                at_ns = begin + place * STEP_NS // len(polled)
                put(source.at(at_ns, numbered(poller), POLL_STEPS), at_ns)
        told(step + 1)
    flush(START_NS + samples * STEP_NS)
    disk.close()
    return values
