"""Runs on a host of an ibsim fabric: asks the real OpenSM for a path, prints it as JSON."""

import json
import sys

from collectors.infiniband.sa_discovery import fetch_path, find_subnet_manager
from collectors.infiniband.transactor import Transactor
from collectors.infiniband.umad import open_umad

transport = open_umad()
ask = Transactor(transport)
own, sm_lid = find_subnet_manager(ask)
path = fetch_path(ask, sm_lid, own, int(sys.argv[1]))
json.dump(
    {"own": own, "sm": sm_lid, **{k: v for k, v in path.items() if isinstance(v, int)}}, sys.stdout
)
transport.close()
