"""A table recorded by others (own_synthetic/snmp) is read whole, through a real agent."""

from pathlib import Path

import pytest

from simlab.switches import ber
from simlab.switches.snmp_agent import Mib
from tests.collectors.passes import values

RECORD = Path(__file__).parents[3].parent / "shared/fixtures/own_synthetic/snmp/public.snmprec"
ECN = "fabric_queue_ecn_marked_packets_total"
TAGS = {
    "2": ber.INTEGER, "4": ber.OCTETS, "6": ber.OID, "65": ber.COUNTER32, "66": ber.GAUGE32,
    "67": ber.TIMETICKS, "70": ber.COUNTER64,
}  # fmt: skip


@pytest.mark.parametrize(("platform", "vendor"), [("nxos", ".9.9.813.1.2.1."), ("eos", ".30065.")])
def test_every_vendor_row_becomes_a_value(rig, platform, vendor):
    if not RECORD.exists():
        pytest.skip(f"{RECORD} is not here")
    mib = Mib()
    rows = [line.split("|", 2) for line in RECORD.read_text().splitlines() if line]
    for oid, tag, value in rows:
        mib.put(oid, TAGS[tag], value if tag in ("4", "6") else int(value))
    result = rig(mib, platform).poll()
    got = values(result)
    assert len({entity for entity, _ in got if entity.startswith("interface/")}) == 64
    gate = ".30065.3.13.1.9.1.3."
    counting = {oid.split(gate)[1] for oid, _, value in rows if gate in oid and value == "1"}
    ecn = ".30065.3.13.1.9.1.4."
    expected = [
        int(value)
        for oid, _, value in rows
        if vendor in oid and gate not in oid and (ecn not in oid or oid.split(ecn)[1] in counting)
    ]
    metrics = ("fabric_pfc_rx_frames_total", "fabric_pfc_tx_frames_total", ECN)
    found = [value for (_, metric), value in got.items() if metric in metrics]
    assert sorted(found) == sorted(expected)
