"""A subnet with planted traffic and faults, swept twice by the collector into a window."""

from collectors.infiniband.collector import InfinibandCollector, SweepOptions
from collectors.infiniband.topology import End
from collectors.model.reading import Instant
from simlab.ib.fabrics import assign_lids, fat_tree, route_minhop
from simlab.ib.fake import Agent, FakeSubnet
from simlab.ib.script import ScriptState, apply_to_fake
from tests.tuner.builders import START_NS, Uplink, store_of
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES
from tuner.fabric.graph import build_fabric

SECONDS = 30


def prepared(topology=None):
    topology = topology or fat_tree(8, 128)
    assign_lids(topology)
    route_minhop(topology)
    return topology


def end(topology, name, port=1):
    return End(topology.find(name).guid, port)


def swept_items(topology, steps, *, subnet=None, sweeps=2):
    """Return items as an agent would send them, of sweeps SECONDS apart."""
    first = next(n for n in topology.nodes.values() if n.kind == "ca")
    subnet = subnet or FakeSubnet(topology, End(first.guid, 1), agent=Agent())
    collector = InfinibandCollector(lambda: subnet, SweepOptions())
    state, uplink, items = ScriptState(steps), Uplink("probe"), []
    for number in range(sweeps):
        at = number * SECONDS
        apply_to_fake(subnet, state, list(state.advance(at)))
        moment = Instant(START_NS + at * 10**9, 10**12 + at * 10**9)
        made = collector.read(lambda moment=moment: moment)
        items += uplink.batch(made.readings, "infiniband")
        if made.facts is not None:
            items.append(uplink.facts(made.facts, moment.at_ns, "infiniband"))
    return items


def look(topology, steps, **options):
    """Return window, fabric and diagnosis."""
    window = store_of(swept_items(topology, steps, **options)).window()
    fabric = build_fabric(window)
    return window, fabric, diagnose(window, fabric, RULES)
