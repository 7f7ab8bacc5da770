"""Cures of uneven paths at the hosts: how many queue pairs, how messages use them, which ports.

Flowlets are never advised: NICs pace RoCE at line rate and leave no gaps between bursts, so only
what may reorder packets helps further, and that only where receivers place them as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from collectors.model.catalogue import interface
from collectors.model.ecmp_hash import FlowKey, HashField, HashSpec, choose_member
from collectors.model.entities import Entity, Host, Interface, Port, Switch, display
from collectors.model.facts import QueuePairFact
from collectors.model.roce import SOURCE_PORT_BASE, source_port
from tuner.advice.cure import GOODPUT, part_of, recommend_change, recommend_together
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.language import platform_of
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Evidence, Finding
from tuner.diagnosis.host.roce_port import job_variables
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.fabric.routes import flow_of, hash_spec
from tuner.models.ecmp_prediction import predict_connections
from tuner.models.fabric_graph import leaf_spine
from tuner.models.queue_pairs import plan_source_ports

FITS: Final = 0.9  # correlation of predicted and counted loads: the hash is as published
GAIN: Final = 1.1  # fullest link before over after: less is not worth ports of one's own
PORTS: Final = range(SOURCE_PORT_BASE, SOURCE_PORT_BASE + 256)  # enough for any plan
MOST_FLOWS: Final = 4096
SEEDS: Final = 24  # of hashes, for a prediction
FEW_CHANNELS: Final = 8
_SPLIT: Final = "NCCL_IB_SPLIT_DATA_ON_QPS"
_CHANNELS: Final = ("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS")
_PLACES: Final = "out_of_order_placement"

Variables = Mapping[str, tuple[str, Evidence, tuple[Host, ...]]]


def variables(telemetry: Telemetry, fabric: FabricView) -> Variables:
    """Return the variables of jobs' environments: value, where it was seen, and all its hosts.

    Of a variable that hosts have unlike, the value of the first counts, and its hosts.
    """
    found: dict[str, tuple[str, Evidence, dict[Host, None]]] = {}
    for port in fabric.ports():
        for name, value, evidence in job_variables(telemetry, port):
            known = found.setdefault(name, (value, evidence, {}))
            if known[0] == value:
                known[2].setdefault(Host(port.device.host))
    return {name: (value, seen, tuple(hosts)) for name, (value, seen, hosts) in found.items()}


def more_channels(
    finding: Finding, telemetry: Telemetry, fabric: FabricView, effects: Sequence[Effect]
) -> Iterable[Recommendation]:
    """Lift a bound on channels: each carries a ring of its own, with queue pairs of its own."""
    known = variables(telemetry, fabric)
    for name in _CHANNELS:
        value, evidence, hosts = known.get(name, ("", None, ()))
        if evidence is None or not value.isdecimal() or int(value) >= FEW_CHANNELS:
            continue
        made = recommend_change(
            finding, "channels_max", hosts[0], int(value), FEW_CHANNELS,
            f"{name}={value} leaves few flows for each pair of NICs: let NCCL use "
            f"{FEW_CHANNELS} channels", effects,
            confidence=min(finding.confidence, 0.7), risk="low", also=hosts[1:],
        )  # fmt: skip
        yield replace(made, evidence=(*made.evidence, evidence))
        return


def whole_messages(
    finding: Finding, telemetry: Telemetry, fabric: FabricView, links: int, pairs: int
) -> Iterable[Recommendation]:
    """Deal whole messages to queue pairs in turn: a split one waits for its slowest part."""
    value, evidence, hosts = variables(telemetry, fabric).get(_SPLIT, ("", None, ()))
    if evidence is None or value != "1" or pairs < 2:
        return
    graph = leaf_spine(2, links, links)
    ends = np.arange(links, dtype=np.int64), np.arange(links, dtype=np.int64) + links
    slowest = {
        mode: np.array(
            [
                rates.min()
                for rates in predict_connections(graph, ends, pairs, range(SEEDS), mode=mode)
            ]
        )
        for mode in ("split", "round_robin")
    }
    ratios = slowest["round_robin"] / slowest["split"]
    low, high = (float(value) for value in np.quantile(ratios, [0.05, 0.95]))
    effect = Effect(
        GOODPUT, "ratio", 1.0, low, high, "max-min rates over hash seeds",
        f"{links} connections of {pairs} queue pairs over {links} links; {SEEDS} random hashes",
    )  # fmt: skip
    made = recommend_change(
        finding, "split_data_on_qps", hosts[0], True, False,
        "deal whole messages to queue pairs in turn instead of splitting each: the slowest path "
        "then holds up its own messages only", [effect],
        confidence=min(finding.confidence, 0.8), risk="low", also=hosts[1:],
    )  # fmt: skip
    yield replace(made, evidence=(*made.evidence, evidence))


def planned_ports(
    finding: Finding,
    telemetry: Telemetry,
    fabric: FabricView,
    switch: Switch,
    links: Sequence[Interface],
) -> Iterable[Recommendation]:
    """Choose the UDP source ports of queue pairs so that their flows lie evenly on the links.

    Linux takes the port from both queue pair numbers, NICs of NVIDIA let the library set it. Only
    where the published hash over these ports explains the bytes that the links carried.
    """
    spec = hash_spec(telemetry.settings(switch))
    if isinstance(spec, str) or HashField.SRC_PORT not in spec.fields or len(links) < 2:
        return
    flows = _leaving(telemetry, fabric, switch)
    if not 1 < len(flows) <= MOST_FLOWS or not all(_sets_ports(telemetry, p) for p in flows):
        return
    now = _loads(flows, spec, len(links))
    counted = [telemetry.growth(interface.TX_BYTES.name, link) for link in links]
    bytes_of = np.array([0.0 if growth is None else growth.total for growth in counted])
    if not bytes_of.std() or not now.std() or np.corrcoef(now, bytes_of)[0, 1] < FITS:
        return
    ports, then = _plan(flows, spec, len(links))
    if now.max() < GAIN * then.max():
        return
    parts = []
    for host, chosen in ports.items():
        old = tuple(_port(pair) for pair in flows if pair.device.host == host)
        parts.append(part_of("qp_source_ports", [Host(host)], old, chosen))
    effect = Effect(
        GOODPUT, "ratio", 1.0, 1.0, float(now.max() / then.max()), "published hash, as it counted",
        f"{len(flows)} flows of {display(switch)}: {now.max():.0f} on the fullest of {len(links)} "
        f"links now, {then.max():.0f} then; equal flows, the fullest link sets the pace",
    )  # fmt: skip
    yield recommend_together(
        finding, "source ports", parts,
        f"source ports that spread the flows of {display(switch)} evenly: its hash "
        f"({spec.algorithm.value}) explains what its links carried", [effect],
        confidence=min(finding.confidence, 0.6), risk="medium",
        missing=["whether the jobs' library lets source ports be chosen"], optional=True,
    )  # fmt: skip


def _leaving(telemetry: Telemetry, fabric: FabricView, switch: Switch) -> list[QueuePairFact]:
    """Return the queue pairs whose flows go up from a switch, by host, peer and number."""
    below: set[Port] = set()
    addresses: set[str] = set()
    for port in fabric.ports():
        far = fabric.peer(fabric.attached(port))
        if isinstance(far, Interface) and far.switch == switch:
            below.add(port)
            addresses |= {gid.gid.removeprefix("::ffff:") for gid in telemetry.gids(port)}
    found = [
        pair
        for pair in telemetry.queue_pairs()
        if Port(pair.device, pair.port) in below
        and pair.remote_address.removeprefix("::ffff:") not in addresses
        and _flow(pair) is not None
    ]
    return sorted(found, key=lambda p: (p.device.host, p.remote_address, p.local_qpn))


def _flow(pair: QueuePairFact) -> FlowKey | None:
    return flow_of(structs.replace(pair, udp_source_port=_port(pair)))


def _port(pair: QueuePairFact) -> int:
    """Return a queue pair's UDP source port; the kernel's choice where it is not shown."""
    if pair.udp_source_port is not None:
        return pair.udp_source_port
    return source_port(pair.local_qpn, pair.remote_qpn or 0)


def _sets_ports(telemetry: Telemetry, pair: QueuePairFact) -> bool:
    driver = telemetry.attributes(pair.device).get("driver")
    return driver is not None and str(driver.value).startswith("mlx5")


def _loads(flows: Iterable[QueuePairFact], spec: HashSpec, links: int) -> np.ndarray:
    loads = np.zeros(links)
    for pair in flows:
        flow = _flow(pair)
        if flow is not None:
            loads[choose_member(flow, links, spec)] += 1
    return loads


def _plan(
    flows: Sequence[QueuePairFact], spec: HashSpec, links: int
) -> tuple[dict[str, tuple[int, ...]], np.ndarray]:
    """Return source ports by host, and how many flows each link gets with them."""
    used: Counter[tuple[int, ...]] = Counter()
    ports: dict[str, tuple[int, ...]] = {}
    for pair in flows:
        flow = _flow(pair)
        if flow is not None:
            made = plan_source_ports(flow, 1, [(spec, links)], PORTS, used)
            ports[pair.device.host] = (*ports.get(pair.device.host, ()), *made)
    return ports, np.array([used[(link,)] for link in range(links)], dtype=float)


def spray(
    finding: Finding,
    telemetry: Telemetry,
    fabric: FabricView,
    switches: Sequence[Switch],
    effects: Sequence[Effect],
) -> Iterable[Recommendation]:
    """Let switches choose the path of each packet where every receiver places them in any order."""
    ports = list(fabric.ports())
    tolerant = bool(ports) and all(_tolerates(telemetry, port) for port in ports)
    static = [one for one in switches if _set_to(telemetry, one, "load_balancing") == "static"]
    if not tolerant or not static or len(static) < len(switches):
        return
    if not all(_can(telemetry, one, "load_balancing") for one in static):
        return
    hosts = tuple(dict.fromkeys(Host(port.device.host) for port in ports))
    wanted = [("load_balancing", tuple[Entity, ...](static), "static", "adaptive")]
    known = variables(telemetry, fabric)
    if any(name.startswith("NCCL_") for name in known):
        told = known.get("NCCL_IB_ADAPTIVE_ROUTING", ("", None, ()))[0]
        if told != "1":
            wanted.append(("job_adaptive_routing", hosts, False, True))  # type: ignore[arg-type]
    yield recommend_together(
        finding, "spraying", [part_of(*one) for one in wanted],
        "choose the path of each packet by load: all NICs place what comes out of order", effects,
        confidence=min(finding.confidence, 0.7), risk="medium", optional=True,
    )  # fmt: skip


def _tolerates(telemetry: Telemetry, port: Port) -> bool:
    return _set_to(telemetry, port, _PLACES) is True


def _set_to(telemetry: Telemetry, place: Entity, name: str) -> object:
    setting = telemetry.settings(place).get(name)
    return None if setting is None else setting.value


def _can(telemetry: Telemetry, switch: Switch, knob: str) -> bool:
    """Tell whether a switch's platform has a knob; one that is not known may not."""
    attributes = tuple(telemetry.attributes(switch).values())
    platform = platform_of(switch, tuple(telemetry.settings(switch).values()), attributes)
    return bool(platform) and KNOBS[knob].home(platform) is not None


def hash_queue_pairs(
    finding: Finding, telemetry: Telemetry, switches: Sequence[Switch], effects: Sequence[Effect]
) -> Iterable[Recommendation]:
    """Let the hash see the destination queue pair (E-ECMP) where a switch can and does not."""
    blind = [
        one
        for one in switches
        if _set_to(telemetry, one, "ecmp_hash_rdma_qp") is False
        and _can(telemetry, one, "ecmp_hash_rdma_qp")
    ]
    if blind:
        yield recommend_change(
            finding, "ecmp_hash_rdma_qp", blind[0], False, True,
            "hash the destination queue pair, too (E-ECMP): queue pairs of one pair of hosts then "
            "take paths of their own whatever their source ports", effects,
            confidence=min(finding.confidence, 0.8), risk="low", also=blind[1:],
        )  # fmt: skip
