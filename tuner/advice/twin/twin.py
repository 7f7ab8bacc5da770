"""The twin: the fabric of a window, or the part of it that matters, as a packet simulation.

It is built from settings, cables, queue pairs and port counters alone, states what it assumed,
and says how well it reproduces what was counted. What-if and search run on it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Port, wire_of
from collectors.model.errors import NotSupported
from collectors.model.metric import Metric
from simlab.packet.config import Config, FlowFile, Plan, TopologyFile
from simlab.packet.parameters import SwitchModel
from simlab.packet.topology import Cable
from tuner.advice.twin.change import QUEUE_PAIRS, Assignment
from tuner.advice.twin.load import Load, load_of, with_flows, with_queue_pairs
from tuner.advice.twin.model import model_of
from tuner.advice.twin.replay import Replay, replay
from tuner.advice.twin.wiring import Wiring, wire_up
from tuner.diagnosis.place import only_software_rdma
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.models.estimators import Estimate

MOST_HOSTS: Final = 64
WATCHED: Final = 4
SLICE_S: Final = 4e-3
PATIENCE: Final = 4.0  # a run ends after so many times the time that the traffic took
EVENTS: Final = 4  # of a packet and its acknowledgement on one link
SPREAD: Final = 0.3  # of what no telemetry bounds, either way


@dataclass(frozen=True, slots=True)
class Seen:
    """What telemetry counted on the twin's part of the fabric, for comparison."""

    seconds: float
    marked_ratio: float | None
    paused_ratio: float | None


@dataclass(frozen=True)
class Twin:
    """A plan and where it came from. `flows`, `rtt_s`, `burst_bytes`: of the busiest receiver."""

    plan: Plan
    wiring: Wiring
    load: Load
    watch: tuple[int, ...]
    flows: Estimate
    rtt_s: Estimate
    burst_bytes: Estimate
    seen: Seen
    assumed: tuple[str, ...]

    @property
    def events(self) -> int:
        """About how many events a run takes, before there was one."""
        transport, links = self.plan.model.transport, 4 if len(self.wiring.switches) > 1 else 2
        packets = sum(
            math.ceil(m.size_bytes * m.repeat / transport.payload_bytes)
            for m in self.load.traffic.messages
        )
        return packets * links * EVENTS

    def run(self, *, seed: int = 1) -> Replay:
        """Replay the traffic."""
        return replay(self.plan, seed=seed, watch=self.watch)

    def varied(self, *, flows: float = 1.0, rtt: float = 1.0, burst: float = 1.0) -> Twin:
        """Return the twin with N, RTT and burst size times these factors."""
        load = with_flows(self.load, flows) if flows != 1 else self.load
        if burst != 1:
            messages = tuple(
                replace(m, size_bytes=max(1, round(m.size_bytes * burst)))
                for m in load.traffic.messages
            )
            load = replace(load, traffic=replace(load.traffic, messages=messages))
        topology, model = self.plan.topology, self.plan.model
        if rtt != 1:
            # Headroom that is read fits cables that are not: it stays as ample as it is.
            model = replace(
                model,
                switch=_with_headroom(model.switch, rtt),
                switches={n: _with_headroom(one, rtt) for n, one in model.switches.items()},
                ports={n: _with_headroom(one, rtt) for n, one in model.ports.items()},
            )
            cables = tuple(replace(c, delay_s=c.delay_s * rtt) for c in topology.cables)
            topology = replace(topology, cables=cables)
        plan = replace(self.plan, topology=topology, model=model, traffic=load.traffic)
        return replace(self, plan=plan, load=load)

    def changed(
        self, telemetry: Telemetry, fabric: FabricView, changes: Sequence[Assignment]
    ) -> Twin:
        """Return the twin of the same window and traffic with some knobs set otherwise."""
        model, assumed = model_of(telemetry, fabric, self.wiring, changes)
        load = self.load
        for change in changes:
            if change.knob == QUEUE_PAIRS and isinstance(change.value, int):
                load = with_queue_pairs(load, change.value)
        wiring = self.wiring.changed(changes)
        plan = replace(self.plan, topology=wiring.topology, model=model, traffic=load.traffic)
        texts = tuple(dict.fromkeys((*self.assumed, *assumed)))
        return replace(self, plan=plan, wiring=wiring, load=load, assumed=texts)


def build_twin(
    telemetry: Telemetry,
    fabric: FabricView,
    *,
    about: Sequence[Port] = (),
    most_hosts: int = MOST_HOSTS,
    slice_s: float = SLICE_S,
) -> Twin:
    """Return the twin of a window.

    A fabric of more than `most_hosts` ports is cut down to the receivers in `about`, or else the
    busiest ones, with the senders that their queue pairs name. Raises NotSupported where cables
    or counters are missing, and for InfiniBand and Soft-RoCE, whose flow control is another.
    """
    _refuse_others(telemetry, fabric)
    hosts = _chosen(telemetry, fabric, about, most_hosts)
    wiring = wire_up(telemetry, fabric, hosts)
    model, assumed = model_of(telemetry, fabric, wiring)
    load = load_of(telemetry, fabric, wiring, model.transport, slice_s)
    left = len(fabric.ports()) - len(wiring.hosts)
    if left > 0:
        assumed = (*assumed, f"{left} other ports of the fabric are left out")
    bottleneck, watch = _busiest(wiring, load)
    config = Config(
        topology=TopologyFile(path="twin.topology"),
        workload=FlowFile(path="twin.flows"),
        duration_s=PATIENCE * max(load.seconds * load.share, 1e-5),
        name="twin",
    )
    plan = Plan(config, wiring.topology, model, load.traffic, ())
    count = sum(1 for one in load.traffic.connections if one.dst == bottleneck)
    packet = model.transport.payload_bytes + model.transport.header_bytes
    rtt = _round_trip(wiring, load, bottleneck, packet)
    burst = max(
        (
            message.size_bytes
            for message in load.traffic.messages
            if load.traffic.connections[message.connection].dst == bottleneck
        ),
        default=0,
    )
    return Twin(
        plan,
        wiring,
        load,
        watch,
        around(count, "queue pairs with traffic to the busiest receiver"),
        around(rtt, "cables of the path and one packet a hop; no queueing"),
        around(burst, "bytes of one queue pair to the busiest receiver, posted at once"),
        _seen(telemetry, wiring, load),
        (*wiring.assumed, *assumed, *load.assumed),
    )


def _refuse_others(telemetry: Telemetry, fabric: FabricView) -> None:
    if only_software_rdma(telemetry, fabric):
        raise NotSupported("twin", "model", "Soft-RoCE has no PFC and no reaction to marks")
    layers = [telemetry.attributes(port).get("link_layer") for port in fabric.ports()]
    if layers and all(layer is not None and layer.value == "InfiniBand" for layer in layers):
        raise NotSupported("twin", "model", "InfiniBand is not simulated from telemetry")


def _with_headroom(switch: SwitchModel, factor: float) -> SwitchModel:
    if switch.headroom_bytes is None:
        return switch
    return replace(switch, headroom_bytes=round(switch.headroom_bytes * factor))


def around(value: float, assumption: str) -> Estimate:
    """Return a value with the interval that is taken where telemetry gives none."""
    text = f"{assumption}; interval taken as ±{SPREAD:.0%}"
    return Estimate(value, value * (1 - SPREAD), value * (1 + SPREAD), (text,))


def _chosen(
    telemetry: Telemetry, fabric: FabricView, about: Sequence[Port], most: int
) -> list[Port]:
    """Return the ports to simulate: all of them, or receivers and those who send to them."""
    ports = list(fabric.ports())
    if len(ports) <= most:
        return ports
    received = {
        entity: growth.total
        for entity, growth in telemetry.growth_all(rdma.RX_BYTES.name).items()
        if isinstance(entity, Port)
    }
    receivers = [*about, *sorted(received, key=lambda port: -received[port])]
    by_address: dict[str, Port] = {}
    for port in ports:
        for gid in telemetry.gids(port):
            by_address.setdefault(gid.gid.removeprefix("::ffff:"), port)
    senders: dict[Port, list[Port]] = {}
    for pair in telemetry.queue_pairs():
        there = by_address.get(pair.remote_address.removeprefix("::ffff:"))
        if there is not None:
            senders.setdefault(there, []).append(Port(pair.device, pair.port))
    kept: dict[Port, None] = {}
    for receiver in dict.fromkeys(receivers):
        group = dict.fromkeys([receiver, *senders.get(receiver, ())])
        new = [port for port in group if port not in kept]
        if len(kept) + len(new) > most and kept:
            break
        kept.update(dict.fromkeys(new[:most]))
    return list(kept)


def _busiest(wiring: Wiring, load: Load) -> tuple[int, tuple[int, ...]]:
    """Return the host that most is sent to, and the egress ports towards the four most so."""
    towards = [0] * len(wiring.hosts)
    for message in load.traffic.messages:
        towards[load.traffic.connections[message.connection].dst] += message.size_bytes
    order = sorted(range(len(towards)), key=lambda node: -towards[node])
    # The cable of host node i is cable i; its second end is the switch's egress to it.
    return order[0], tuple(2 * node + 1 for node in order[:WATCHED] if towards[node])


def _round_trip(wiring: Wiring, load: Load, receiver: int, packet_bytes: int) -> float:
    """Return the longest base round trip of the connections to a receiver, in seconds.

    Two ways of delay, and one packet's time at every hop of one of them.
    """
    away = {receiver: 0.0}
    near: dict[int, list[Cable]] = {}
    for cable in wiring.topology.cables:
        near.setdefault(cable.a, []).append(cable)
        near.setdefault(cable.b, []).append(cable)
    queue = deque([receiver])
    while queue:
        node = queue.popleft()
        for cable in near.get(node, ()):
            far = cable.b if cable.a == node else cable.a
            if far not in away:
                hop = 2 * cable.delay_s + packet_bytes * 8 / cable.rate_bps
                away[far] = away[node] + hop
                queue.append(far)
    senders = {one.src for one in load.traffic.connections if one.dst == receiver}
    return max((away.get(node, 0.0) for node in senders), default=0.0)


def _seen(telemetry: Telemetry, wiring: Wiring, load: Load) -> Seen:
    """Return what was counted on the twin's cables, in the measures of a replay."""
    marked = _counted(telemetry, wiring, interface.QUEUE_ECN_MARKED)
    packets = _counted(telemetry, wiring, interface.QUEUE_TX_PACKETS)
    paused = _counted(telemetry, wiring, interface.PFC_RX_PAUSE)
    moved = _counted(telemetry, wiring, interface.TX_BYTES) | _counted(
        telemetry, wiring, rdma.TX_BYTES
    )
    floor = 0.01 * max(moved.values(), default=0.0)
    carried = [port for port, value in moved.items() if value > floor]
    sent = sum(packets.values())
    return Seen(
        load.seconds,
        sum(marked.values()) / sent if marked and sent else None,
        sum(paused.get(port, 0.0) for port in carried) / len(carried) / load.seconds
        if paused and carried and load.seconds
        else None,
    )


def _counted(telemetry: Telemetry, wiring: Wiring, metric: Metric) -> dict[int, float]:
    """Return a counter's growth by directed port, its priorities and queues summed."""
    found: dict[int, float] = {}
    for entity, growth in telemetry.growth_all(metric.name).items():
        wire = wire_of(entity)
        port: int | None
        if isinstance(wire, Port) and wire in wiring.node_of:
            port = 2 * wiring.node_of[wire]
        else:
            port = None if wire is None else wiring.directed.get(wire)
        if port is not None:
            found[port] = found.get(port, 0.0) + growth.total
    return found
