"""What the tests of this folder share: a small fabric and a way in."""

from collectors.infiniband.topology import End
from collectors.infiniband.transactor import Limits, Transactor
from simlab.ib.fabrics import assign_lids, route_minhop, two_tier
from simlab.ib.fake import Agent, FakeSubnet


def fabric(topology=None, *, agent=None, limits=None, **options):
    topology = topology or two_tier(4, 2, 2)
    assign_lids(topology)
    route_minhop(topology)
    first = next(node for node in topology.nodes.values() if node.kind == "ca")
    subnet = FakeSubnet(topology, End(first.guid, 1), agent=agent or Agent(), **options)
    return topology, subnet, Transactor(subnet, limits or Limits())


def named(topology, name):
    return next(node for node in topology.nodes.values() if node.name == name)


def end(topology, name, port):
    return End(named(topology, name).guid, port)
