"""A fake subnet that answers management datagrams, for what ibsim cannot do.

It is a Transport: nodes with latency, loss and silence, agents that lack attributes, answer
garbage, late, twice or with another's transaction id, a limit of outstanding requests per
device, congestion control, 64-bit counters and the sampling tick. The clock is its own and
jumps to the next event, or is the real one (`real_time=True`) for benches.
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from collectors.codec import mad as frame
from collectors.codec import mad_cc, mad_perf, mad_smp
from collectors.codec.mad_layout import Layout
from collectors.infiniband.topology import End, IbPort, Node, Topology
from collectors.infiniband.transport import Received
from collectors.model.errors import Unavailable
from simlab.ib.fake_sa import pack_node_info, pack_port_info, sa_answer

_UNSUPPORTED = 3 << 2
_BAD_VALUE = 7 << 2
_SPIN_S = 500e-6

Oddness = Literal["", "garbage", "truncated", "late", "twice", "other's id", "busy", "wrong port"]

FULL_CAPABILITY = (
    mad_perf.CAP_ALL_PORT_SELECT
    | mad_perf.CAP_EXTENDED_WIDTH
    | mad_perf.CAP_XMIT_WAIT
    | mad_perf.CAP_RS_FEC
    | mad_perf.CAP_QP1_DROPPED
)


@dataclass(slots=True)
class Agent:
    """How one node answers. latency_s: time it works on one datagram, one after the other."""

    latency_s: float = 0.0
    loss: float = 0.0
    silent: bool = False
    odd: Oddness = ""
    unsupported: frozenset[int] = frozenset()  # PerfMgt attributes
    congestion: bool = True
    capability: int = FULL_CAPABILITY
    capability2: int = mad_perf.CAP2_ADDITIONAL_EXTENDED
    tick: int = 7


@dataclass(slots=True)
class Wire:
    """What went over the fake wire."""

    requests: Counter[int] = field(default_factory=Counter)  # by management class
    methods: Counter[int] = field(default_factory=Counter)
    overrun: int = 0  # requests beyond a device's limit, dropped
    most_at_one_device: int = 0


class FakeSubnet:
    """A Transport into a topology, entered at one adapter."""

    def __init__(
        self,
        topology: Topology,
        enter_at: End,
        *,
        agent: Agent | None = None,
        outstanding_per_device: int = 4,
        real_time: bool = False,
        seed: int = 1,
    ) -> None:
        """Serve a topology whose LIDs and forwarding tables are filled in (see `route_minhop`)."""
        self.topology = topology
        self.enter_at = enter_at
        self.agents: dict[int, Agent] = {}
        self.default_agent = agent or Agent()
        self.limit = outstanding_per_device
        self.wire = Wire()
        self.counters: dict[End, dict[str, int]] = {}
        self.vectors: dict[tuple[End, str], tuple[int, ...]] = {}
        self.switch_settings: dict[int, dict[str, Any]] = {}
        self.ca_settings: dict[int, dict[str, Any]] = {}
        self.sl_to_vl = tuple(sl % 8 for sl in range(16))
        # block (1 low, 3 high) -> entries of lane << 8 | weight
        self.vl_arbitration = {1: tuple(lane << 8 | 4 for lane in range(8)), 3: (0 << 8 | 4,)}
        self._packed: dict[tuple[int, int, int], bytes] = {}
        self._random = random.Random(seed)
        self._by_lid = {lid: end.guid for lid, end in topology.by_lid().items()}
        self._heap: list[tuple[float, int, int, Received]] = []
        self._order = 0
        self._free_at: dict[int, float] = {}
        self._pending: dict[int, int] = {}
        self._time = 0.0
        self._real = real_time
        self._last_tid = 0
        self.now: Callable[[], float] = time.monotonic if real_time else self._virtual

    def _virtual(self) -> float:
        return self._time

    def close(self) -> None:
        """Nothing to give back."""

    def agent_of(self, guid: int) -> Agent:
        """Return the agent of a node, its own copy, to be changed."""
        if guid not in self.agents:
            self.agents[guid] = replace(self.default_agent)
        return self.agents[guid]

    def count(self, end: End, **values: int) -> None:
        """Set counters of a port by the spec's field names."""
        self.counters.setdefault(end, {}).update(values)
        self._packed.clear()

    def add(self, end: End, **values: int) -> None:
        """Add to counters of a port; they are clamped where they are read, as hardware does."""
        have = self.counters.setdefault(end, {})
        for name, value in values.items():
            have[name] = have.get(name, 0) + value
        self._packed.clear()

    def count_each(self, end: End, name: str, values: Iterable[int]) -> None:
        """Set a counter that has one value per VL, SL or lane."""
        self.vectors[end, name] = tuple(values)
        self._packed.clear()

    def changed(self) -> None:
        """Forget packed answers after the topology was changed by hand."""
        self._packed.clear()
        self._by_lid = {lid: end.guid for lid, end in self.topology.by_lid().items()}

    # --- Transport ---------------------------------------------------------------------------
    def send(self, mad: bytes, lid: int, timeout_s: float) -> None:  # noqa: ARG002
        """Take a request and schedule its answer, if there is to be one."""
        if len(mad) != frame.MAD_BYTES:
            raise Unavailable("fake port", "send", f"{len(mad)} bytes")
        self.wire.requests[mad[1]] += 1
        self.wire.methods[mad[3]] += 1
        if mad[1] == frame.CLASS_SMP_DIRECT:
            reached = self._walk(frame.direct_path(mad))
        else:
            owner = self._by_lid.get(lid)
            reached = (self.topology.nodes[owner], 0) if owner in self.topology.nodes else None
        if reached is None:
            return
        node, into = reached
        agent = self.agents.get(node.guid, self.default_agent)
        if agent.silent or (agent.loss and self._random.random() < agent.loss):
            return
        pending = self._pending.get(node.guid, 0)
        if pending >= self.limit:
            self.wire.overrun += 1
            return
        self._pending[node.guid] = pending + 1
        self.wire.most_at_one_device = max(self.wire.most_at_one_device, pending + 1)
        due = max(self.now(), self._free_at.get(node.guid, 0.0)) + agent.latency_s
        self._free_at[node.guid] = due
        self._answer(node, into, agent, mad, lid, due)

    def receive(self, wait_s: float) -> Received | None:
        """Return the next answer that is due."""
        self._pass_time(self.now() + max(wait_s, 0.0))
        if not self._heap or self._heap[0][0] > self.now():
            return None
        _, _, guid, received = heapq.heappop(self._heap)
        if guid:
            self._pending[guid] -= 1
        return received

    def _pass_time(self, until: float) -> None:
        """Let the clock come to the next answer that is due, or to `until` if that is sooner."""
        due = min(until, self._heap[0][0]) if self._heap else until
        if not self._real:
            self._time = max(self._time, due)
            return
        while (left := due - self.now()) > 0:
            if left > _SPIN_S:  # a sleep takes longer than it is asked to
                time.sleep(left)

    # --- the subnet --------------------------------------------------------------------------
    def _walk(self, path: bytes) -> tuple[Node, int] | None:
        """Follow a directed route; None where a cable is missing or an adapter is in the way."""
        node, into = self.topology.nodes[self.enter_at.guid], self.enter_at.port
        for step, out in enumerate(path):
            if step and not node.is_switch:
                return None
            port = node.ports.get(out)
            if port is None or port.peer is None or not port.is_up:
                return None
            node, into = self.topology.nodes[port.peer.guid], port.peer.port
        return node, into

    def _answer(
        self, node: Node, into: int, agent: Agent, mad: bytes, lid: int, due: float
    ) -> None:
        cls = mad[1]
        if cls == frame.CLASS_SA:
            self._deliver(node, agent, sa_answer(self.topology, mad), lid, due)
            return
        status, payload = self._payload(node, into, agent, mad)
        if agent.odd == "busy":
            status = 1
        top = frame.STATUS_DIRECTION if cls == frame.CLASS_SMP_DIRECT else 0
        head = bytearray(mad[: frame.PAYLOAD_AT])
        head[3] = frame.METHOD_GET_RESPONSE
        head[4:6] = (status | top).to_bytes(2, "big")
        if cls == frame.CLASS_SMP_DIRECT:
            reply = bytes(head) + payload[:64] + mad[128:]
        else:
            reply = bytes(head) + payload
        reply += bytes(frame.MAD_BYTES - len(reply))
        self._deliver(node, agent, reply, lid, due)

    def _deliver(self, node: Node, agent: Agent, reply: bytes, lid: int, due: float) -> None:
        guid = node.guid
        match agent.odd:
            case "garbage":
                # the header survives, or nobody could tell that it was this node
                reply = reply[:64] + self._random.randbytes(192)
                if reply[1] == frame.CLASS_SMP_DIRECT:
                    reply = reply[:128] + self._random.randbytes(128)
            case "truncated":
                reply = reply[:40]
            case "late":
                due += 60.0
            case "twice":
                self._push(due, 0, Received(0, lid, reply))
            case "other's id":
                reply = reply[:8] + self._last_tid.to_bytes(8, "big") + reply[16:]
            case "wrong port":
                reply = reply[:65] + bytes((reply[65] ^ 0x55,)) + reply[66:]
        if agent.odd != "other's id":
            self._last_tid = int.from_bytes(reply[8:16], "big")
        self._push(due, guid, Received(0, lid if lid != frame.PERMISSIVE_LID else 0, reply))

    def _push(self, due: float, guid: int, received: Received) -> None:
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, guid, received))

    # --- attributes --------------------------------------------------------------------------
    def _payload(self, node: Node, into: int, agent: Agent, mad: bytes) -> tuple[int, bytes]:
        cls, attribute = mad[1], int.from_bytes(mad[16:18], "big")
        modifier = int.from_bytes(mad[20:24], "big")
        if cls in (frame.CLASS_SMP_DIRECT, frame.CLASS_SMP_LID):
            return self._smp(node, into, attribute, modifier)
        if cls == frame.CLASS_PERF:
            return self._perf(node, agent, attribute, mad[frame.PAYLOAD_AT + 1])
        if cls == frame.CLASS_CONGESTION and agent.congestion:
            return self._congestion(node, attribute, modifier)
        return _UNSUPPORTED, bytes(192)

    def _smp(self, node: Node, into: int, attribute: int, modifier: int) -> tuple[int, bytes]:
        if attribute == mad_smp.NODE_INFO.attribute:
            return 0, pack_node_info(node, into)
        if attribute == mad_smp.PORT_INFO.attribute:
            port = node.ports.get(modifier)
            if port is None and (modifier > node.port_count or (modifier == 0)):
                return _BAD_VALUE, bytes(64)
            key = (node.guid, modifier, attribute)
            packed = self._packed.get(key)
            if packed is None:
                packed = pack_port_info(
                    port or IbPort(modifier, mad_smp.PORT_DOWN, mad_smp.POLLING),
                    masks=not node.is_switch or modifier == 0,
                )
                self._packed[key] = packed
            return 0, packed
        if attribute == mad_smp.NODE_DESCRIPTION.attribute:
            return 0, node.name.encode()[:64].ljust(64, b"\0")
        if attribute == mad_smp.SWITCH_INFO.attribute and node.is_switch:
            return 0, mad_smp.SWITCH_INFO.pack(
                {
                    "LinearFDBCap": 49152,
                    "LinearFDBTop": max(len(node.lft) - 1, 0),
                    "EnhancedPort0": int(node.enhanced_port0),
                }
            )
        if attribute == mad_smp.LINEAR_FORWARDING.attribute and node.is_switch:
            block = node.lft[modifier * 64 : modifier * 64 + 64]
            return 0, block + b"\xff" * (64 - len(block))
        if attribute == mad_smp.SL_TO_VL.attribute:
            return 0, mad_smp.SL_TO_VL.pack({"SLtoVL": self.sl_to_vl})
        if attribute == mad_smp.VL_ARBITRATION.attribute:
            entries = self.vl_arbitration.get(modifier >> 16, ())
            padded = (*entries, *([0] * 32))[:32]
            return 0, mad_smp.VL_ARBITRATION.pack({"VLWeight": padded})
        return _UNSUPPORTED, bytes(64)

    def _perf(self, node: Node, agent: Agent, attribute: int, number: int) -> tuple[int, bytes]:
        if attribute in agent.unsupported:
            return _UNSUPPORTED, bytes(192)
        if attribute == mad_perf.CLASS_PORT_INFO.attribute:
            return 0, mad_perf.CLASS_PORT_INFO.pack(
                {
                    "BaseVersion": 1,
                    "ClassVersion": 1,
                    "CapabilityMask": agent.capability,
                    "CapabilityMask2": agent.capability2,
                }
            )
        layout = _PERF_LAYOUTS.get(attribute)
        if layout is None:
            return _UNSUPPORTED, bytes(192)
        if number not in node.ports and number != 0xFF:
            return _BAD_VALUE, bytes(192)
        key = (node.guid, number, attribute | 0x10000)
        packed = self._packed.get(key)
        if packed is None:
            packed = self._packed[key] = self._pack_counters(layout, End(node.guid, number), agent)
        return 0, packed

    def _pack_counters(self, layout: Layout, end: End, agent: Agent) -> bytes:
        if layout is mad_perf.PORT_SAMPLES_CONTROL:
            return layout.pack({"PortSelect": end.port, "Tick": agent.tick})
        have = self.counters.get(end, {})
        values: dict[str, Any] = {"PortSelect": end.port}
        for row in layout.fields:
            limit = (1 << row.width) - 1
            if row.count > 1:
                vector = self.vectors.get((end, row.name))
                if vector is not None:
                    padded = (*vector, *([0] * row.count))[: row.count]
                    values[row.name] = tuple(min(v, limit) for v in padded)
            elif row.name in have:
                values[row.name] = min(have[row.name], limit)
        return layout.pack(values)

    def _congestion(self, node: Node, attribute: int, modifier: int) -> tuple[int, bytes]:
        if attribute == mad_cc.CONGESTION_INFO.attribute:
            return 0, mad_cc.CONGESTION_INFO.pack({"CongestionInfo": 0, "ControlTableCap": 2})
        if attribute == mad_cc.SWITCH_CONGESTION_SETTING.attribute and node.is_switch:
            setting = self.switch_settings.get(node.guid, {})
            return 0, mad_cc.SWITCH_CONGESTION_SETTING.pack(setting)
        if attribute == mad_cc.CA_CONGESTION_SETTING.attribute and not node.is_switch:
            setting = self.ca_settings.get(node.guid, {})
            return 0, mad_cc.CA_CONGESTION_SETTING.pack(setting)
        if attribute == mad_cc.CONGESTION_CONTROL_TABLE.attribute and modifier < 2:
            return 0, mad_cc.CONGESTION_CONTROL_TABLE.pack({"CCTI_Limit": 127})
        return _UNSUPPORTED, bytes(192)


_PERF_LAYOUTS = {layout.attribute: layout for layout in mad_perf.LAYOUTS}
