"""Recordings of a small Soft-RoCE fabric, written through the real wire and segment format."""

from __future__ import annotations

from pathlib import Path

from collectors.model.catalogue.registry import columns
from collectors.model.entities import Device, Interface, Netdev, Port, Switch, queue
from collectors.model.facts import Attribute, Facts, Neighbour, Setting
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import pack_batch, pack_schema
from collectors.wire.segment import SegmentWriter

BEGIN = 1_800_000_000_000_000_000
STEPS = 7
STEP_NS = 5_000_000_000
RXE = columns("hw_counters", "rxe")
SNMP6 = columns("dev_snmp6")
QDISC = columns("qdisc")
NETDEV = columns("netdev")


def entities(number: int) -> tuple[Port, Netdev, Interface]:
    device = Device(f"h{number}", f"{number:016x}", f"rxe{number}")
    return (
        Port(device, 1),
        Netdev(f"h{number}", f"h{number}"),
        Interface(Switch("sw", "sw"), f"p{number}"),
    )


def column(via: dict[str, Column], key: str) -> Column:
    return via[key]


def record(folder: Path, faults: dict[str, dict[str, int]], hosts: int = 4) -> Path:
    """Write a recording. faults: agent -> counter key -> growth in each step."""
    folder.mkdir(parents=True)
    writer = SegmentWriter(folder / "000001.ftseg")
    seq = dict.fromkeys([*(f"h{n}" for n in range(1, hosts + 1)), "sw"], 0)

    def key(agent: str) -> dict:
        seq[agent] += 1
        return {"agent": agent, "epoch": "e1", "seq": seq[agent]}

    for number in range(1, hosts + 1):
        port, netdev, interface = entities(number)
        facts = Facts(
            settings=(Setting(netdev, "mtu_bytes", 1500, "mtu"),),
            attributes=(
                Attribute(port.device, "driver", "rxe"),
                Attribute(port, "netdev", netdev.name),
            ),
            neighbours=(Neighbour(netdev, interface, "lldp"),),
        )
        item = pb.Facts(collector="test", at_ns=BEGIN, json=pack_facts(facts), **key(f"h{number}"))
        writer.append(pb.Item(facts=item))
    settings = []
    for number in range(1, hosts + 1):
        interface = entities(number)[2]
        settings += [
            Setting(interface, "mtu_bytes", 1500, "mtu"),
            Setting(queue(interface, 0), "ecn_enabled", value=True, where="tc"),
            Setting(queue(interface, 0), "queue_rate_bps", 10_000_000, "tc"),
            Setting(queue(interface, 0), "queue_limit_bytes", 100_000, "tc"),
        ]
    item = pb.Facts(
        collector="test", at_ns=BEGIN, json=pack_facts(Facts(tuple(settings))), **key("sw")
    )
    writer.append(pb.Item(facts=item))
    schemas: set[bytes] = set()

    def put(agent: str, readings: list[Reading]) -> None:
        schema = pack_schema(readings)
        if schema.id not in schemas:
            schemas.add(schema.id)
            writer.append(pb.Item(schema=schema))
        batch = pack_batch(readings, schema, "test", "boot")
        for name, value in key(agent).items():
            setattr(batch, name, value)
        writer.append(pb.Item(batch=batch))

    for step in range(STEPS):
        when = Instant(BEGIN + step * STEP_NS, step * STEP_NS)
        for number in range(1, hosts + 1):
            port, netdev, interface = entities(number)
            grows = {"rcvd_pkts": 5000, "sent_pkts": 5000, "Ip6InECT0Pkts": 5000}
            grows |= faults.get(f"h{number}", {})
            readings = [
                Reading(
                    entity,
                    {col: step * grows.get(name, 0) for name, col in via.items()},
                    when,
                )
                for entity, via in ((port, RXE), (netdev, SNMP6))
            ]
            put(f"h{number}", readings)
        slots = [queue(entities(number)[2], 0) for number in range(1, hosts + 1)]
        grows = {"packets": 5000, "bytes": 5_000_000}
        readings = [
            Reading(
                slot,
                {
                    col: step * (grows | faults.get(slot.parent.name, {})).get(name, 0)
                    for name, col in QDISC.items()
                },
                when,
            )
            for slot in slots
        ]
        put("sw", readings)
    writer.sync()
    writer.close()
    return folder


LOSSY = {
    "h2": {"out_of_seq_request": 60},
    "h1": {"rcvd_seq_err": 30},
    "h3": {"rcvd_seq_err": 30},
}
