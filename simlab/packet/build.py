"""From topology, model and traffic to the engine's state vectors."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simlab.packet import layout as at
from simlab.packet import profile_layout as profile
from simlab.packet.build_messages import dependency_words, fill_messages, profile_key
from simlab.packet.build_ports import fill_ports, fill_switches
from simlab.packet.limits import check
from simlab.packet.parameters import CnpMode, CongestionControl, Form, Model, Spread
from simlab.packet.picoseconds import ps
from simlab.packet.regions import Entities, divide, number_entities
from simlab.packet.routing import Routes, build_routes, hashed_paths
from simlab.packet.topology import Topology
from simlab.packet.traffic import Traffic

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SLACK_PACKETS = 64
SELECTIVE_WINDOW = 4096  # packets that the bitmaps of selective repeat follow, if nothing is said
LINE = 16  # words of a pair of cache lines, which the processor fetches together


@dataclass(slots=True)
class State:
    """The vectors and where their parts begin (word indices)."""

    s: Ints
    f: Floats
    ports: int
    port_handles: Ints
    switches: int
    profiles: dict[tuple[float, int], int]  # (line rate, host with its own settings or -1)
    qps: int
    qp_slots: int
    messages: int
    paths: list[tuple[tuple[int, ...], tuple[int, ...]]]
    routes: Routes
    path_space: tuple[int, int]
    nics: dict[int, int]  # host node -> its directed port


def memory(words: int) -> Ints:
    """Return a zeroed vector on whole pages, huge ones where the kernel has them."""
    region = mmap.mmap(-1, 8 * words)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        region.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(region, dtype=np.int64)


class _Space:
    """Hands out regions of the vector one after the other, each on a pair of cache lines."""

    def __init__(self, start: int) -> None:
        self.end = -(-start // LINE) * LINE

    def take(self, words: int) -> int:
        begin = self.end
        self.end = begin + -(-words // LINE) * LINE
        return begin


def build(topology: Topology, model: Model, traffic: Traffic, seed: int) -> State:
    """Lay out the whole simulation; ConfigInvalid for what is out of bounds or does not fit."""
    check(topology, model, traffic)
    routes = build_routes(topology, model.balancing)
    paths = connection_paths(topology, model, traffic, routes)
    ports = 2 * len(topology.cables)
    slots = len(traffic.connections)
    regions = divide(topology, model, traffic)
    entities = number_entities(topology, traffic, regions)
    space = _Space(at.TREE + 2 * entities.leaves)
    owners = space.take(entities.leaves)
    region_at = space.take(regions.count * at.REGION_WORDS)
    first_port = space.take(-(-ports // at.TILE_PORTS) * at.TILE_WORDS)
    switches = space.take(len(topology.switches) * at.SWITCH_WORDS)
    nics = host_ports(topology)
    kinds = sorted({profile_key(topology, model, node, port) for node, port in nics.items()})
    profiles = {kind: space.take(profile.RP_WORDS) for kind in kinds}
    controls = [model.congestion_at(node) for _, node in kinds]
    tables = [space.take(max(1, len(control.cct))) for control in controls]
    table = space.take(routes.table.size)
    groups = space.take(len(routes.groups))
    hops = sum(len(f) + len(b) for f, b in paths)
    spare = 4 * hops + 1024  # for paths that change when a link fails
    path_at = space.take(hops + spare)
    qps = space.take(slots * at.QP_WORDS)
    messages = space.take(len(traffic.messages) * at.MSG_WORDS)
    lists, list_words = dependency_words(traffic)
    list_at = space.take(list_words)
    starts = sum(1 for m in traffic.messages if m.free > 0 and not m.gates)
    start_at = space.take(2 * starts)
    delayed = (m for m in traffic.messages if m.delay_s > 0 or m.gate_delay_s > 0)
    heap_words = 2 * (2 + sum(m.repeat for m in delayed))
    heap = space.take(heap_words)
    words = _window(model) // 32 + 1 if model.transport.selective_repeat else 0
    maps = space.take(2 * words * slots)
    flowlet = model.balancing.spread is Spread.FLOWLET
    flowlets = space.take(1 + 2 * slots * len(topology.switches) if flowlet else 1)
    watch = space.take(ports)
    pool = space.take(1024 * at.PKT_WORDS)
    s = memory(space.end)
    floats = profile.RP_FLOATS * len(profiles) + at.FLOAT_WORDS * slots
    f = np.zeros(floats, dtype=np.float64)
    port_handles = np.array([first_port + at.port_offset(port) for port in range(ports)])
    state = State(
        s, f, first_port, port_handles, switches, profiles, qps, slots, messages, paths, routes,
        (path_at, path_at + hops + spare), nics,
    )  # fmt: skip
    header = {
        at.LEAVES: entities.leaves, at.ROOTS: entities.roots, at.OWNERS: owners,
        at.REGION_COUNT: regions.count, at.REGIONS: region_at, at.WINDOW: regions.window,
        at.EVEN_COUNT: regions.even,
        at.START_ENTITY: entities.start, at.PORT_COUNT: ports,
        at.PACKET_BRK: pool, at.HEAP: heap, at.ROUTES: table,
        at.HOST_COUNT: len(topology.hosts), at.FLOWLETS: flowlets, at.SAMPLE_LIST: watch,
        at.SR_WORDS: words, at.START_NEXT: start_at, at.START_END: start_at + 2 * starts,
        at.PACKET_LIMIT: space.end - SLACK_PACKETS * at.PKT_WORDS,
        at.MESSAGE_COUNT: len(traffic.messages),
    }  # fmt: skip
    for word, value in header.items():
        s[word] = value
    seed_random(s, seed)
    for mask in range(1, 512):
        s[at.HIGHEST_BIT + mask] = mask.bit_length() - 1
    s[flowlets] = len(topology.switches)
    _fill_header(s, model)
    fill_ports(s, topology, model, first_port, switches)
    fill_switches(s, topology, model, first_port, switches)
    for number, (control, cct) in enumerate(zip(controls, tables, strict=True)):
        _fill_profile(state, number, control, cct)
    _fill_routes(state, table, groups)
    cursors = _fill_paths(state, path_at)
    _fill_qps(state, traffic, maps, words)
    _fill_entities(state, entities)
    fill_messages(state, topology, traffic, model, cursors, lists, list_at, start_at)
    reset_tree(s)
    return state


def _window(model: Model) -> int:
    wire = model.transport
    return wire.window_packets or (SELECTIVE_WINDOW if wire.selective_repeat else 0)


def seed_random(s: Ints, seed: int) -> None:
    """Start the two generators of simlab.packet.events.random from one seed, in every region."""
    s[at.RANDOM_A] = 1 + (seed * 2654435761 + 12345) % 2147483562
    s[at.RANDOM_B] = 1 + (seed * 40503 + 987654321) % 2147483398
    for region in range(int(s[at.REGION_COUNT])):
        row = s[at.REGIONS] + region * at.REGION_WORDS
        a, b = np.random.SeedSequence([seed % 2**64, region]).generate_state(2).tolist()
        s[row + at.REGION_RANDOM_A] = 1 + a % 2147483562
        s[row + at.REGION_RANDOM_B] = 1 + b % 2147483398


def host_ports(topology: Topology) -> dict[int, int]:
    """Return the directed port of every host NIC."""
    ports = topology.ports_of()
    return {host: ports[host][0] for host in topology.hosts}


def connection_paths(
    topology: Topology, model: Model, traffic: Traffic, routes: Routes
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the (forward, ACK) switch egress ports of every connection."""
    connections = traffic.connections
    forward = hashed_paths(topology, model.balancing, routes, connections)
    back = hashed_paths(topology, model.balancing, routes, connections, reverse=True)
    return [
        (
            forward[i] if one.path is None else one.path,
            back[i] if one.ack_path is None else one.ack_path,
        )
        for i, one in enumerate(connections)
    ]


def _is_count(routes: Routes) -> NDArray[np.bool_]:
    counts = np.zeros(len(routes.groups), dtype=bool)
    index = 0
    while index < len(routes.groups):
        counts[index] = True
        index += 1 + int(routes.groups[index])
    return counts


_CNP = {
    CnpMode.ON_ACK: at.CNP_ON_ACK,
    CnpMode.PER_QP: at.CNP_PER_QP,
    CnpMode.PER_PORT: at.CNP_PER_PORT,
}
_FORM = {
    Form.OFF: profile.OFF,
    Form.PAPER: profile.PAPER,
    Form.FIRMWARE: profile.FIRMWARE,
    Form.INFINIBAND: profile.IB_CCT,
}
_PICK = {
    Spread.ECMP: at.PICK_SPRAY,
    Spread.SPRAY: at.PICK_SPRAY,
    Spread.FLOWLET: at.PICK_FLOWLET,
    Spread.LEAST_QUEUE: at.PICK_LEAST_QUEUE,
}


def _fill_header(s: Ints, model: Model) -> None:
    wire = model.transport
    values = {
        at.TRUNCATE_NS: model.truncate_ns,
        at.MTU_WIRE: wire.payload_bytes + wire.header_bytes,
        at.HEADER_BYTES: wire.header_bytes,
        at.ACK_BYTES: wire.ack_bytes,
        at.CNP_BYTES: wire.cnp_bytes,
        at.CONTROL_BYTES: wire.control_bytes,
        at.CNP_PRIORITY: wire.cnp_priority,
        at.ACK_PRIORITY: -1 if wire.ack_priority is None else wire.ack_priority,
        at.ACK_HOST_QUEUE: at.CONTROL if wire.ack_jumps_host_queue else -1,
        at.ACK_ECT: wire.ack_ecn_capable,
        at.ACK_EVERY: wire.ack_every,
        at.CNP_MODE: _CNP[model.congestion.cnp_mode],
        at.CNP_INTERVAL: ps(model.congestion.dcqcn.cnp_interval_s),
        at.RNR_DELAY: ps(wire.rnr_delay_s),
        at.NAK_INTERVAL: ps(wire.nak_interval_s),
        at.NAK_CNP: wire.nak_cuts,
        at.RTO: ps(wire.rto_s),
        at.RETRY_LIMIT: wire.retry_limit,
        at.SELECTIVE: wire.selective_repeat,
        at.REORDER_TOLERANT: wire.reorder_tolerant,
        at.FLOWLET_GAP: ps(model.balancing.flowlet_gap_s),
        at.SPRAY: _PICK[model.balancing.spread],
        at.INFINIBAND: model.infiniband is not None,
        at.HURRY: model.congestion.increase_hurries,
        at.WINDOW_PACKETS: _window(model),
    }
    for word, value in values.items():
        s[word] = int(value)


def _fill_profile(state: State, number: int, control: CongestionControl, cct: int) -> None:
    p = control.dcqcn
    for index, delay in enumerate(control.cct):
        state.s[cct + index] = round(delay * 256)
    (line, _), row = list(state.profiles.items())[number]
    floats = number * profile.RP_FLOATS
    values = {
        profile.RP_FORM: _FORM[control.form],
        profile.RP_ALPHA_PERIOD: max(1, ps(p.alpha_period_s)),
        profile.RP_WINDOW: max(1, ps(p.cut_window_s)),
        profile.RP_WINDOW_OFFSET: ps(control.monitor_offset_s),
        profile.RP_TIMER: max(1, ps(p.increase_timer_s)),
        profile.RP_BYTES: 0 if p.byte_counter_bytes is None else round(p.byte_counter_bytes),
        profile.RP_STAGES: p.recovery_stages,
        profile.RP_AI: round(p.ai_bps),
        profile.RP_HAI: round(p.hai_bps),
        profile.RP_MIN: max(1, round(p.min_rate_bps)),
        profile.RP_MAX: round(min(line, p.max_rate_bps or line)),
        profile.RP_FIRST: round(p.first_cnp_rate_bps or 0),
        profile.RP_CLAMP: int(p.clamp_target),
        profile.RP_CLAMP_TIMER: int(p.clamp_target_after_timer),
        profile.RP_FLOAT: floats,
        profile.RP_CCT: cct,
        profile.RP_CCT_LIMIT: max(0, len(control.cct) - 1),
        profile.RP_CCT_INCREASE: control.ccti_increase,
        profile.RP_CCT_MIN: control.ccti_min,
        profile.RP_CCT_TIMER: ps(control.ccti_timer_s),
        profile.RP_HYPER_SCALED: int(control.hyper_scaled),
    }
    for word, value in values.items():
        state.s[row + word] = value
    state.f[floats + profile.RP_G] = p.g
    state.f[floats + profile.RP_GAIN] = p.cut_gain
    state.f[floats + profile.RP_MIN_DECREASE] = p.min_decrease_ratio
    state.f[floats + profile.RP_ALPHA_START] = p.initial_alpha


def _fill_routes(state: State, table: int, groups: int) -> None:
    """Write which group of next hops every (switch, host) has, and the ports of the groups."""
    s, routes = state.s, state.routes
    counts = _is_count(routes)
    rows = state.port_handles[np.where(counts, 0, routes.groups)]
    s[groups : groups + len(routes.groups)] = np.where(counts, routes.groups, rows)
    s[table : table + routes.table.size] = (routes.table + groups).ravel()


def _fill_paths(state: State, path_at: int) -> list[tuple[int, int]]:
    """Write the hops of every connection; return its two cursors."""
    cursors = []
    cursor = path_at
    for forward, back in state.paths:
        begin = cursor
        for port in (*forward, *back):
            state.s[cursor] = state.ports + at.port_offset(port)
            cursor += 1
        cursors.append((begin, begin + len(forward)))
    state.path_space = (cursor, state.path_space[1])
    return cursors


def _fill_qps(state: State, traffic: Traffic, maps: int, words: int) -> None:
    s = state.s
    rows = s[state.qps : state.qps + state.qp_slots * at.QP_WORDS].reshape(-1, at.QP_WORDS)
    index = np.arange(state.qp_slots)
    rows[:, at.QP_INDEX] = index
    rows[:, at.QP_FLOAT] = profile.RP_FLOATS * len(state.profiles) + at.FLOAT_WORDS * index
    s[at.RECYCLE] = int(traffic.flows)
    if words:
        rows[:, at.QP_SACK_MAP] = maps + 2 * words * index
        rows[:, at.QP_RX_MAP] = maps + 2 * words * index + words
    if traffic.flows:
        handles = state.qps + at.QP_WORDS * index
        rows[:-1, at.QP_READY_NEXT] = handles[1:]
        s[at.QP_FREE] = state.qps


def _fill_entities(state: State, entities: Entities) -> None:
    """Tell ports and QPs their entities, and the event trees what these belong to."""
    s, handles = state.s, state.port_handles
    qps = state.qps + at.QP_WORDS * np.arange(state.qp_slots)
    for of, owners, kind in (
        (entities.arrival, handles, at.ARRIVAL),
        (entities.departure, handles, at.DEPARTURE),
        (entities.pause_timer, handles, at.PAUSE_TIMER),
        (entities.qp, qps, at.PACE),
        (entities.qp + 1, qps, at.QP_TIMER),
        (entities.start, 0, at.START),
        (entities.start + 1, 0, at.SAMPLE),
    ):
        s[s[at.OWNERS] + of] = owners + kind
    s[handles + at.PORT_ENTITIES] = (
        entities.arrival
        | entities.departure << at.ENTITY_BITS
        | entities.pause_timer << 2 * at.ENTITY_BITS
    )
    s[qps + at.QP_ID] = entities.qp
    for region, first in enumerate(entities.first_qp.tolist()):
        s[s[at.REGIONS] + region * at.REGION_WORDS + at.REGION_FIRST_QP] = first


def reset_tree(s: Ints) -> None:
    """Cancel every event except the first planned start."""
    leaves = int(s[at.LEAVES])
    keys = at.NEVER << at.ENTITY_BITS | np.arange(leaves)
    if s[at.START_NEXT] < s[at.START_END]:
        entity = int(s[at.START_ENTITY])
        keys[entity] = int(s[s[at.START_NEXT]]) << at.ENTITY_BITS | entity
    level = keys
    size = leaves
    while size >= 1:
        s[at.TREE + size : at.TREE + 2 * size] = level
        level = np.minimum(level[0::2], level[1::2]) if size > 1 else level
        size //= 2
