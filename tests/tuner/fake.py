"""A small fabric with telemetry made by hand: what a rule sees, without store and wire."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from collectors.model.entities import Device, Interface, Netdev, Port, Slot, Switch, queue
from collectors.model.facts import Attribute, Neighbour, Setting
from collectors.model.metric import Metric
from tuner.fabric.graph import Fabric, build_fabric
from tuner.store.growths import GrowthTable
from tuner.store.layout import Layout

SECONDS = 30.0
SINCE = 1_800_000_000_000_000_000


@dataclass
class Growth:
    total: float
    seconds: float = SECONDS
    samples: int = 7
    first_at_ns: int = SINCE
    last_at_ns: int = SINCE + int(SECONDS * 1e9)
    resets: int = 0
    saturated: bool = False

    @property
    def rate(self) -> float:
        return self.total / self.seconds


@dataclass
class Sample:
    value: float
    at_ns: int = SINCE


@dataclass(eq=False)
class FakeTelemetry:
    grown: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)
    set_to: dict = field(default_factory=dict)
    known: dict = field(default_factory=dict)
    cables: list = field(default_factory=list)
    stepped: dict = field(default_factory=dict)
    table: dict = field(default_factory=dict)
    pairs: list = field(default_factory=list)
    since_ns: int = SINCE
    until_ns: int = SINCE + int(SECONDS * 1e9)

    def grow(self, metric: Metric, entity, total):
        self.grown.setdefault(metric.name, {})[entity] = Growth(total)

    def see(self, metric: Metric, entity, value):
        self.seen.setdefault(metric.name, {})[entity] = Sample(value)

    def put(self, entity, name, value):
        self.set_to.setdefault(entity, {})[name] = Setting(entity, name, value, "test")

    def entities(self, metric):
        return [*self.grown.get(metric, {}), *self.seen.get(metric, {})]

    def growth(self, metric, entity):
        return self.grown.get(metric, {}).get(entity)

    def growth_all(self, metric):
        return self.grown.get(metric, {})

    def counted(self, metric):
        return bool(self.growth_all(metric))

    def growing(self, metric, least=None, *, or_saturated=False):
        return {
            entity: growth
            for entity, growth in self.growth_all(metric).items()
            if (growth.total > 0 if least is None else growth.total >= least)
            or (or_saturated and growth.saturated)
        }

    def totals(self, metric, entities):
        grown = [self.growth(metric, entity) for entity in entities]
        return [None if growth is None else float(growth.total) for growth in grown]

    def growth_table(self, metric):
        grown = {e: growth for e, growth in self.growth_all(metric).items() if growth.seconds > 0}
        names = {"first_at": "first_at_ns", "last_at": "last_at_ns"}

        def ask(name):
            return np.array([getattr(growth, names.get(name, name)) for growth in grown.values()])

        return GrowthTable(self.numbers(grown), ask("total").astype(np.float64), ask)

    def value_table(self, metric, *, highest=False):
        seen = self.highest_all(metric) if highest else self.latest_all(metric)
        values = [float(sample.value) for sample in seen.values()]
        return self.numbers(seen), np.array(values, np.float64)

    def numbers(self, entities):
        number = {entity: n for n, entity in enumerate(self.everything())}
        return np.array([number[entity] for entity in entities], np.int64)

    def everything(self):
        return list(
            dict.fromkeys(e for of in (self.grown, self.seen) for m in of.values() for e in m)
        )

    def layout(self):
        return Layout(self.everything())

    def unlike(self, metric, value):
        return {e: seen for e, seen in self.latest_all(metric).items() if seen.value != value}

    def latest(self, metric, entity):
        return self.seen.get(metric, {}).get(entity)

    def latest_all(self, metric):
        return self.seen.get(metric, {})

    def settings(self, entity):
        return self.set_to.get(entity, {})

    def highest_all(self, metric):
        return self.seen.get(metric, {})

    def rates(self, metric, entity):
        return self.stepped.get((metric, entity))

    def setting_all(self, name):
        return {e: s[name] for e, s in self.set_to.items() if name in s}

    def alike(self, name):
        found = {}
        for entity, setting in self.setting_all(name).items():
            found.setdefault(setting.value, []).append(entity)
        return found

    def likeness(self, entity):
        return tuple((name, s.value) for name, s in sorted(self.settings(entity).items()))

    def attributes(self, entity):
        return self.known.get(entity, {})

    def neighbours(self):
        return self.cables

    def gids(self, port):
        return self.table.get(port, ())

    def queue_pairs(self):
        return self.pairs

    def gaps(self):
        return ()

    def known_entities(self):
        return list(dict.fromkeys([*self.known, *self.set_to]))

    def parts_of(self, owners):
        wanted = set(owners)
        return [
            e for e in self.known_entities() if (e.parent if isinstance(e, Slot) else e) in wanted
        ]

    def known_owners(self):
        owners = (e.parent if isinstance(e, Slot) else e for e in self.known_entities())
        return list(dict.fromkeys(owners))


@dataclass
class Lab:
    """N Soft-RoCE hosts around one switch, as the lab has them."""

    telemetry: FakeTelemetry
    ports: list[Port]
    netdevs: list[Netdev]
    interfaces: list[Interface]
    queues: list[Slot]

    @property
    def fabric(self) -> Fabric:
        return build_fabric(self.telemetry)


def lab(hosts: int = 3) -> Lab:
    telemetry = FakeTelemetry()
    switch = Switch("sw", "sw")
    made = Lab(telemetry, [], [], [], [])
    for number in range(1, hosts + 1):
        device = Device(f"h{number}", f"00000000000000{number:02d}", f"rxe{number}")
        port, netdev = Port(device, 1), Netdev(f"h{number}", f"h{number}")
        interface = Interface(switch, f"p{number}")
        telemetry.known[device] = {"driver": Attribute(device, "driver", "rxe")}
        telemetry.known[port] = {"netdev": Attribute(port, "netdev", netdev.name)}
        telemetry.cables.append(Neighbour(netdev, interface, "lldp"))
        slot = queue(interface, 0)
        telemetry.put(slot, "ecn_enabled", True)
        telemetry.put(slot, "queue_rate_bps", 20_000_000)
        telemetry.put(slot, "queue_limit_bytes", 60_000)
        for entity in (netdev, interface):
            telemetry.put(entity, "mtu_bytes", 1500)
        for name, value in zip(
            ("ports", "netdevs", "interfaces", "queues"),
            (port, netdev, interface, slot),
            strict=True,
        ):
            getattr(made, name).append(value)
    return made
