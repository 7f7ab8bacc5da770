"""PFC of one simulated switch, read over SNMP, gNMI and the SONiC database, to the frame."""

import asyncio

import pytest

from collectors.gnmi.client import Dial
from collectors.gnmi.subscriber import Options as GnmiOptions
from collectors.gnmi.subscriber import Subscriber
from collectors.model.entities import Switch
from collectors.snmp.poller import SnmpPoller
from collectors.snmp.session import Community, Endpoint
from collectors.sonic.database import Database
from collectors.sonic.poller import Options as SonicOptions
from collectors.sonic.poller import SonicPoller
from collectors.targets.secret import Secret
from simlab.switches.daemons import DaemonFailed, redis_server
from simlab.switches.gnmi_face import GnmiFace
from simlab.switches.gnmi_target import GnmiTarget
from simlab.switches.redis_face import RedisFace
from simlab.switches.snmp_agent import SnmpAgent
from simlab.switches.snmp_face import SnmpFace
from simlab.switches.state import SwitchState
from tests.collectors.passes import clock

LEAF = Switch("leaf1")
METRICS = (
    "fabric_pfc_rx_frames_total", "fabric_pfc_tx_frames_total", "fabric_interface_rx_bytes_total",
    "fabric_interface_tx_bytes_total", "fabric_queue_tx_packets_total",
)  # fmt: skip


def values(result, renamed, metrics=METRICS):
    found = {}
    for reading in result.readings:
        text = str(reading.entity)
        for alias, name in renamed.items():
            if text.endswith(f"/{alias}"):
                text = text.removesuffix(alias) + name
        for column, value in reading.values.items():
            if column.metric in metrics:
                found[text, column.metric] = column.to_unit(value)
    return found


@pytest.mark.lab_switch
def test_sonic_three_ways(tmp_path):
    state = SwitchState("leaf1", "sonic", 8)
    state.run(2.0)
    aliases = {f"etp{n}": f"Ethernet{4 * (n - 1)}" for n in range(1, 9)}

    async def run(redis_port):
        agent = SnmpAgent(SnmpFace(state).mib)
        snmp_port = await agent.listen()
        target = GnmiTarget(GnmiFace(state))
        gnmi_port = await target.listen()
        RedisFace(state, redis_port)
        endpoint = Endpoint("127.0.0.1", Community(Secret("public")), snmp_port)
        snmp = SnmpPoller(LEAF, "sonic", endpoint)
        options = GnmiOptions(lambda _: True, interval_s=1.0)
        gnmi = Subscriber(LEAF, "sonic", Dial("127.0.0.1", gnmi_port), options)
        sonic = SonicPoller(
            LEAF, Database("leaf1", "127.0.0.1", redis_port), SonicOptions(lambda _: True)
        )
        results = [await poller.poll(clock) for poller in (snmp, gnmi, sonic)]
        snmp.close()
        await gnmi.close()
        await sonic.close()
        agent.close()
        await target.close()
        return results

    try:
        with redis_server(tmp_path) as redis_port:
            results = asyncio.run(run(redis_port))
    except DaemonFailed as lack:
        pytest.skip(str(lack))
    over_snmp, over_gnmi, from_redis = (values(result, aliases) for result in results)
    pfc = {key for key in from_redis if "pfc" in key[1]}
    assert len(pfc) == 8 * 8 * 2
    assert over_snmp == over_gnmi == from_redis
    entity = "priority/3/interface/leaf1/Ethernet4"
    assert from_redis[entity, METRICS[0]] == state.get("pfc_rx", 2, 3) > 0


def test_g18_watchdog_counts_are_a_hint_beside_our_own_evidence():
    """A watchdog that takes XONs for a storm (swss 4581): its count and the frames stay apart."""
    state = SwitchState("leaf1", "eos", 1)
    state.add("wd_storms", 1, 3, 5)
    state.add("pfc_rx", 1, 4, 7)

    async def run():
        agent = SnmpAgent(SnmpFace(state).mib)
        endpoint = Endpoint("127.0.0.1", Community(Secret("public")), await agent.listen())
        poller = SnmpPoller(LEAF, "eos", endpoint)
        result = await poller.poll(clock)
        poller.close()
        agent.close()
        return values(result, {}, ("fabric_pfc_watchdog_storms_total", METRICS[0]))

    got = asyncio.run(run())
    end = "interface/leaf1/Ethernet1%2F1"
    assert got[f"queue/3/{end}", "fabric_pfc_watchdog_storms_total"] == 5
    assert got[f"priority/3/{end}", "fabric_pfc_rx_frames_total"] == 0
    assert got[f"priority/4/{end}", "fabric_pfc_rx_frames_total"] == 7
    assert got[f"queue/4/{end}", "fabric_pfc_watchdog_storms_total"] == 0
