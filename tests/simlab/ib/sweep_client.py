"""Runs on a host of an ibsim fabric: discovers, sweeps, prints everything as JSON.

Arguments: pairs of node names, `H0:H7`, of which to print the route.
"""

import json
import sys

from collectors.infiniband.counters import GROUPS, CounterSweep
from collectors.infiniband.discovery import discover
from collectors.infiniband.routes import route
from collectors.infiniband.topology import End
from collectors.infiniband.transactor import Limits, Transactor
from collectors.infiniband.umad import open_umad

transport = open_umad()
ask = Transactor(transport, Limits(timeout_s=0.2, retries=1))
found = discover(ask)
swept = CounterSweep(ask, GROUPS).sweep(found.topology)
routes = {}
for pair in sys.argv[1:]:
    a, b = (found.topology.find(name) for name in pair.split(":"))
    walked = route(found.topology, End(a.guid, 1), b.lid)
    routes[pair] = {
        "error": walked.error,
        "hops": [[hop.out.port, hop.into.guid, hop.into.port] for hop in walked.hops],
    }
json.dump(
    {
        "routes": routes,
        "ports": {f"{end.guid}/{end.port}": values for end, values in swept.ports.items()},
        "lids": {node.guid: node.lid for node in found.topology.nodes.values()},
        "names": {node.guid: node.name for node in found.topology.nodes.values()},
        "misses": [f"{m.subject}: {m.what}" for m in (*found.misses, *swept.misses)],
        "statistics": [ask.statistics.sent, ask.statistics.stray],
    },
    sys.stdout,
)
transport.close()
