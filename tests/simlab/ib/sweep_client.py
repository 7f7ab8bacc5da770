"""Runs on a host of an ibsim fabric: discovers, sweeps, prints everything as JSON."""

import json
import sys

from collectors.infiniband.counters import GROUPS, CounterSweep
from collectors.infiniband.discovery import discover
from collectors.infiniband.transactor import Limits, Transactor
from collectors.infiniband.umad import open_umad

transport = open_umad()
ask = Transactor(transport, Limits(timeout_s=0.2, retries=1))
found = discover(ask)
swept = CounterSweep(ask, GROUPS).sweep(found.topology)
json.dump(
    {
        "ports": {f"{end.guid}/{end.port}": values for end, values in swept.ports.items()},
        "lids": {node.guid: node.lid for node in found.topology.nodes.values()},
        "names": {node.guid: node.name for node in found.topology.nodes.values()},
        "misses": [f"{m.subject}: {m.what}" for m in (*found.misses, *swept.misses)],
        "methods": "get only",
        "statistics": [ask.statistics.sent, ask.statistics.stray],
    },
    sys.stdout,
)
transport.close()
