"""A live OpenSM on ibsim: what we read equals what the diags read, port by port, hop by hop."""

import json
import random
import re
import shutil
import sys
from pathlib import Path

import pytest

from collectors.infiniband.netfile import parse_net
from simlab.ib.fabrics import fat_tree, three_tier, two_tier
from simlab.ib.lab import IbLab, find_preload
from simlab.ib.script import ScriptState, Step, ibsim_commands

pytestmark = pytest.mark.lab_ib

ROOT = Path(__file__).parents[3]
CLIENT = Path(__file__).with_name("sweep_client.py")
AGENT = [sys.executable, "-c", "from agent.cli import app; app()"]

FABRICS = {
    "4 leaves x 2 spines x 2": lambda: two_tier(4, 2, 2),
    "fattree:4, 3 tiers": lambda: fat_tree(4),
    "parallel cables, 128 hosts": lambda: three_tier(4, 4, 2, 2, 8, speed="EDR"),
}


@pytest.fixture(scope="module", params=FABRICS)
def lab(request):
    for tool in ("opensm", "ibsim", "ibnetdiscover", "perfquery", "ibtracert"):
        if shutil.which(tool) is None and not Path("/usr/sbin", tool).exists():
            pytest.skip(f"{tool} is not installed: apt install opensm ibsim-utils infiniband-diags")
    find_preload()
    with IbLab(FABRICS[request.param](), manager="keep") as started:
        yield started


def agent(lab, *args, host="", check=True):
    run = lab.run([*AGENT, "ib", *args], host=host, check=check)
    return json.loads(run.stdout) if run.stdout else run


def sweep(lab, *pairs):
    return json.loads(lab.run([sys.executable, str(CLIENT), *pairs]).stdout)


def undirected(links):
    return {frozenset(pair) for pair in links}


def test_topology_is_ibnetdiscover_s(lab):
    theirs, skipped = parse_net(lab.tool("ibnetdiscover"))
    assert skipped == []
    ours = agent(lab, "topology", "--format", "json")
    assert not ours["partial"]
    guid = lambda text: int(text, 16)
    mine = undirected(
        (
            (guid(cable["a"]["guid"]), cable["a"]["port"]),
            (guid(cable["b"]["guid"]), cable["b"]["port"]),
        )
        for cable in ours["links"]
    )
    assert mine == undirected(theirs.links())
    assert {
        guid(n["guid"]): (n["name"], n["kind"], n["ports"], n["lid"]) for n in ours["nodes"]
    } == {n.guid: (n.name, n.kind, n.port_count, n.lid) for n in theirs.nodes.values()}
    assert {cable["width_speed"] for cable in ours["links"]} == {
        p.label for n in theirs.nodes.values() for p in n.ports.values() if p.peer
    }


LINKINFO = re.compile(
    r"^\s+(?:0x\w+\s+)?(\d+)\s+(\d+)\[.*==\(\s*(\w+)\s+([\d.]+) Gbps.*==>\s+(\d+)\s+(\d+)\["
)
LANE_GBPS = {"SDR": 2.5, "HDR": 53.125, "EDR": 25.78125}


def test_links_are_iblinkinfo_s(lab):
    theirs = {}
    for line in lab.tool("iblinkinfo").splitlines():
        if match := LINKINFO.match(line):
            lid, port, width, gbps, peer, peer_port = match.groups()
            theirs[int(lid), int(port)] = (width.lower(), float(gbps), int(peer), int(peer_port))
    ours = agent(lab, "topology", "--format", "json")
    lids = {node["guid"]: node["lid"] for node in ours["nodes"]}
    seen = {}
    for link in ours["links"]:
        a, b = ((lids[link[end]["guid"]], link[end]["port"]) for end in "ab")
        width, speed = link["width_speed"].split("x")
        seen[a] = (f"{width}x", LANE_GBPS[speed], *b)
        seen[b] = (f"{width}x", LANE_GBPS[speed], *a)
    assert seen == theirs


def plant(lab):
    """Give every live port counters of its own; name and port -> field -> value."""
    rng = random.Random(7)
    state = ScriptState([])
    planted = {}
    for node in lab.topology.nodes.values():
        for number, port in node.ports.items():
            if port.peer is None:
                continue
            values = {
                "SymbolErrorCounter": rng.randrange(1 << 16),
                "LinkDownedCounter": rng.randrange(1 << 8),
                "PortRcvErrors": rng.randrange(70_000),  # some saturate
                "PortXmitDiscards": rng.randrange(1 << 16),
                "LocalLinkIntegrityErrors": rng.randrange(16),
                "PortXmitWait": rng.randrange(1 << 32),
                "PortSwHOQLifetimeLimitDiscards": rng.randrange(1 << 16),
                "PortVLXmitWait3": rng.randrange(1 << 16),
                "PortXmitData": rng.randrange(1 << 45),
                "PortRcvData": rng.randrange(1 << 45),
            }
            planted[node.name, number] = values
            state.counters.update({(node.name, number, k): float(v) for k, v in values.items()})
    lab.console(*ibsim_commands(state, [], lab.topology))
    return planted


BLOCK = re.compile(r"^# Port (?:extended )?counters: Lid (\d+) port (\d+)", re.MULTILINE)


def perfquery(lab, lids):
    """Return (lid, port) -> fields of every port, narrow and extended, as perfquery prints them."""
    narrow, extended = {}, {}
    for lid, ports in lids.items():
        span = f"{min(ports)}-{max(ports)}" if len(ports) > 1 else str(ports[0])
        for made, option in ((narrow, ["-l"]), (extended, ["-l", "-x"])):
            text = lab.tool("perfquery", *option, str(lid), span)
            parts = BLOCK.split(text)[1:]
            for at in range(0, len(parts), 3):
                fields = re.findall(r"^(\w+):\.+(0x[0-9a-f]+|\d+)$", parts[at + 2], re.MULTILINE)
                made[int(parts[at]), int(parts[at + 1])] = {k: int(v, 0) for k, v in fields}
    return narrow, extended


def test_counters_are_perfquery_s_for_every_port(lab):
    planted = plant(lab)
    ours = sweep(lab)
    assert ours["misses"] == []
    by_place, place = {}, {}
    for key, attributes in ours["ports"].items():
        guid, port = key.split("/")
        by_place[ours["lids"][guid], int(port)] = attributes
        place[ours["names"][guid], int(port)] = ours["lids"][guid], int(port)
    assert set(place) == set(planted)
    lids = {}
    for lid, port in sorted(by_place):
        lids.setdefault(lid, []).append(port)
    narrow, extended = perfquery(lab, lids)
    assert set(by_place) <= set(narrow)
    for name, want in planted.items():
        attributes = by_place[place[name]]
        for field, value in attributes["PortCounters"].items():
            if field not in ("PortSelect", "CounterSelect"):
                assert narrow[place[name]][field] == value, (name, field)
        for field, value in attributes["PortCountersExtended"].items():
            if field.startswith("Port") and field != "PortSelect":
                # the datagrams of both are themselves traffic
                theirs = extended[place[name]][field]
                assert value <= theirs <= value + 5_000_000, (name, field)
        assert attributes["PortCounters"]["PortRcvErrors"] == min(want["PortRcvErrors"], 65535)
        assert attributes["PortVLXmitWaitCounters"]["PortVLXmitWait"][3] == want["PortVLXmitWait3"]
        details = attributes["PortXmitDiscardDetails"]
        assert details["PortSwHOQLifetimeLimitDiscards"] == want["PortSwHOQLifetimeLimitDiscards"]


TRACERT = re.compile(r"^\[(\d+)\] -> (?:switch|ca) port \{0x([0-9a-f]+)\}\[(\d+)\]", re.MULTILINE)


def test_routes_are_ibtracert_s(lab):
    hosts = [n.name for n in lab.topology.adapters()]
    rng = random.Random(5)
    pairs = [rng.sample(hosts, 2) for _ in range(16)]
    ours = sweep(lab, *(f"{a}:{b}" for a, b in pairs))
    lids = {ours["names"][guid]: lid for guid, lid in ours["lids"].items()}
    # an adapter's trace names its port GUID, ours its node
    nodes = {int(guid): int(guid) for guid in ours["names"]}
    nodes |= {n.guid + 1: n.guid for n in lab.topology.adapters()}
    for a, b in pairs:
        text = lab.tool("ibtracert", str(lids[a]), str(lids[b]))
        theirs = [
            [int(out), nodes[int(guid, 16)], int(into)] for out, guid, into in TRACERT.findall(text)
        ]
        mine = ours["routes"][f"{a}:{b}"]
        assert mine["error"] == ""
        assert mine["hops"] == theirs, (a, b)
    a, b = pairs[0]
    shown = agent(lab, "route", a, b, "--format", "json")
    assert len(shown["hops"]) == len(ours["routes"][f"{a}:{b}"]["hops"])
    assert shown["hops"][0]["out"] == f"{a}/1"
    assert shown["hops"][-1]["into"] == f"{b}/1"


def test_opensm_gives_a_path(lab):
    ours = agent(lab, "topology", "--format", "json")
    lids = {n["name"]: n["lid"] for n in ours["nodes"]}
    client = CLIENT.with_name("path_client.py")
    shown = lab.run([sys.executable, str(client), str(lids["H3"])], host="H1")
    path = json.loads(shown.stdout)
    assert (path["SLID"], path["DLID"]) == (lids["H1"], lids["H3"])
    assert path["sm"] == lids[lab.sm_host]
    assert path["Mtu"] in (1, 2, 3, 4, 5)
    assert path["SL"] == 0


def test_load_of_all_to_all_counts_every_flow(lab):
    made = agent(lab, "load", "--format", "json")
    topology = lab.topology
    hosts = sum(1 for _ in topology.adapters())
    assert made["ports"] == hosts
    assert made["links"]
    worst = max(made["links"], key=lambda row: row["flows"])
    assert worst["ratio"] >= 1.0
    shown = agent(lab, "load", "--through", worst["out"], "--format", "json")
    assert len(shown["flows"]) == worst["flows"]  # pair by pair, as tree by tree


def test_silent_node_and_pulled_cable(lab):
    topology = lab.topology
    quiet = [n.name for n in topology.adapters()][-1]
    leaf = next(n for n in topology.nodes.values() if n.name.startswith("Leaf"))
    up = next(n for n, p in leaf.ports.items() if p.peer and topology.nodes[p.peer.guid].is_switch)
    peer = leaf.ports[up].peer
    spine = topology.nodes[peer.guid].name
    before = agent(lab, "topology", "--format", "json")
    state = ScriptState([])
    lab.console(*ibsim_commands(state, [Step(0, "silent", quiet)], topology))
    run = lab.run([*AGENT, "ib", "topology", "--format", "json", "--timeout", "0.2"], check=False)
    assert run.returncode == 3
    partial = json.loads(run.stdout)
    assert partial["partial"]
    assert {n["name"] for n in before["nodes"]} - {n["name"] for n in partial["nodes"]} == {quiet}
    lab.console(*ibsim_commands(state, [Step(0, "speak", quiet)], topology))
    sweeps = lab.sweeps_done()
    lab.console(*ibsim_commands(state, [Step(0, "unlink", leaf.name, up)], topology))
    lab.wait_subnet_up(times=sweeps + 1)
    after = agent(lab, "topology", "--format", "json")
    assert len(before["links"]) - len(after["links"]) == 1
    gone = [o for o in after["oddities"] if o["what"] in ("links missing", "no uplink")]
    assert {leaf.name} <= {o["where"] for o in gone} | {spine}
    lab.console(
        *ibsim_commands(
            state, [Step(0, "link", leaf.name, up, peer=spine, peer_port=peer.port)], topology
        )
    )
    lab.wait_subnet_up(times=sweeps + 2)  # the cable works again before the next test


def test_people_s_tables(lab):
    for args in (["topology"], ["ports", "--interval", "0.2"], ["load", "--pattern", "ring"]):
        run = lab.run([*AGENT, "ib", *args])
        assert run.stdout.strip()
        assert max(len(line) for line in run.stdout.splitlines()) <= 100


def test_wrong_names_are_one_line(lab):
    run = lab.run([*AGENT, "ib", "route", "H0", "nonesuch"], check=False)
    assert run.returncode == 1
    assert (
        run.stderr.strip()
        == "fabric-agent: nonesuch: find: no such node, or not one alone; see `ib topology`"
    )
