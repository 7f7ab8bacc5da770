"""The rows of messages and the lists of what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simlab.packet import layout as at
from simlab.packet.parameters import Model, Spread
from simlab.packet.picoseconds import ps
from simlab.packet.topology import Topology
from simlab.packet.traffic import Message, Traffic

if TYPE_CHECKING:
    from simlab.packet.build import State


def dependency_words(traffic: Traffic) -> tuple[list[list[int]], int]:
    """Return the successors of every message and the words that lists outside its row need."""
    successors: list[list[int]] = [[] for _ in traffic.messages]
    words = 0
    for index, message in enumerate(traffic.messages):
        words += 1 + len(message.gates)
        words += 0 if _short(message.after) else 1 + len(message.after)
        for before in {*message.after, *message.gates}:
            successors[before].append(index)
    return successors, words + sum(1 + len(row) for row in successors if not _short(row))


def _short(others: Sequence[int]) -> bool:
    """Tell whether a list of messages fits into the message's own row."""
    return len(others) <= 1


def profile_key(topology: Topology, model: Model, node: int, port: int) -> tuple[float, int]:
    """Return which reaction-point profile the QPs of a NIC use: its rate, and itself if special."""
    own = model.nic_at(node).congestion is not None
    return topology.cables[port // 2].rate_bps, node if own else -1


def fill_messages(
    state: State,
    topology: Topology,
    traffic: Traffic,
    model: Model,
    cursors: Sequence[tuple[int, int]],
    successors: list[list[int]],
    list_at: int,
    start_at: int,
) -> None:
    """Write every message and the list of planned starts."""
    s = state.s
    wire = model.transport
    nic = state.nics
    dynamic = model.balancing.spread is not Spread.ECMP
    last_of: dict[int, int] = {}
    psn: dict[int, int] = {}
    planned = []
    for index, message in enumerate(traffic.messages):
        row = state.messages + index * at.MSG_WORDS
        one = traffic.connections[message.connection]
        packets = -(-message.size_bytes // wire.payload_bytes)
        last = message.size_bytes - (packets - 1) * wire.payload_bytes + wire.header_bytes
        port = nic[one.src]
        forward, back = cursors[message.connection]
        if dynamic and one.path is None:
            forward = -1 - int(state.routes.host_of[one.dst])
            back = -1 - int(state.routes.host_of[one.src])
        first = psn.get(message.connection, 0)
        values = {
            at.MSG_PACKETS: packets,
            at.MSG_LAST_BYTES: last,
            at.MSG_REPEAT: message.repeat,
            at.MSG_FREE: min(message.free, message.repeat),
            at.MSG_POSTED: 0 if message.gates else min(message.free, message.repeat),
            at.MSG_FIRST_PSN: first,
            at.MSG_DELAY: ps(message.delay_s),
            at.MSG_GATE_DELAY: ps(message.gate_delay_s),
            at.MSG_SRC_PORT: state.ports + at.port_offset(port),
            at.MSG_DST_PORT: state.ports + at.port_offset(nic[one.dst]),
            at.MSG_PATH: forward,
            at.MSG_ACK_PATH: back,
            at.MSG_PROFILE: state.profiles[profile_key(topology, model, one.src, port)],
            at.MSG_PRIORITY: one.priority,
            at.MSG_BYTES: message.size_bytes,
        }
        for word, value in values.items():
            s[row + word] = value
        psn[message.connection] = first + packets * message.repeat
        if message.connection in last_of:
            s[last_of[message.connection] + at.MSG_NEXT] = row
        last_of[message.connection] = row
        if not traffic.flows:
            s[row + at.MSG_QP] = state.qps + message.connection * at.QP_WORDS
        if message.free > 0 and not message.gates:
            planned.append((ps(message.start_s), index, row))
        list_at = _fill_lists(state, row, message, successors[index], list_at)
    for time, _, row in sorted(planned):
        s[start_at] = time
        s[start_at + 1] = row
        start_at += 2


def _fill_lists(
    state: State, row: int, message: Message, successors: Sequence[int], list_at: int
) -> int:
    """Write what a message waits for and what waits for it; return where the next list goes."""
    s = state.s
    short = row + at.MSG_SHORT_LISTS
    for word, others in (
        (at.MSG_PREDS, message.after),
        (at.MSG_SUCCS, successors),
        (at.MSG_GATES, message.gates),
    ):
        if not others:
            continue
        place = list_at
        if _short(others) and word != at.MSG_GATES:
            place = short
            short += 2
        else:
            list_at += 1 + len(others)
        s[row + word] = place
        s[place] = len(others)
        for offset, other in enumerate(others, start=1):
            s[place + offset] = state.messages + other * at.MSG_WORDS
    return list_at
