"""What a simulation has to say: flows, queue pairs, ports and queues as columns, and totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simlab.packet import layout as at
from simlab.packet.picoseconds import PS_PER_S
from simlab.packet.simulation import Simulation

Column = NDArray[np.generic]
Table = dict[str, Column]

# Counters of a queue pair: name -> word. Sender side unless named by what arrives.
QP_COUNTERS = {
    "tx_packets": at.QP_TX_PACKETS,
    "retransmitted": at.QP_RETRANSMITTED,
    "rx_bytes": at.QP_RX_BYTES,
    "cnp_handled": at.QP_CNP_RX,
    "cuts": at.QP_CUTS,
    "increases": at.QP_INCREASES,
    "out_of_sequence": at.QP_OUT_OF_ORDER,
    "naks": at.QP_NAKS,
    "timeouts": at.QP_TIMEOUTS,
    "ce_received": at.QP_RX_CE,
    "cnp_sent": at.QP_CNP_TX,
    "rnr_naks": at.QP_RNR,
    "duplicates": at.QP_DUPLICATES,
}
SUM_PLACE = {name: at.QP_STATS.index(word) for name, word in QP_COUNTERS.items()}  # in PORT_SUMS


def _rows(sim: Simulation, first: int, count: int, words: int) -> NDArray[np.int64]:
    return sim.s[first : first + count * words].reshape(count, words)


def qp_rows(sim: Simulation) -> NDArray[np.int64]:
    """Return the rows of all QP slots."""
    return _rows(sim, sim.state.qps, sim.state.qp_slots, at.QP_WORDS)


@dataclass(frozen=True, slots=True)
class PortRows:
    """The words of all directed ports: rows[ports, words], or rows[port] for one to index."""

    s: NDArray[np.int64]
    handles: NDArray[np.int64]

    def __len__(self) -> int:
        """Return how many directed ports there are."""
        return len(self.handles)

    def __getitem__(self, key: Any) -> Any:
        """Return a copy of the words asked for, or the vector from one port's handle on."""
        if not isinstance(key, tuple):
            return self.s[self.handles[key] :]
        ports, words = key
        if isinstance(words, slice):
            words = np.arange(words.start, words.stop)
        return self.s[np.add.outer(self.handles[ports], words)]


def port_rows(sim: Simulation) -> PortRows:
    """Return the words of all directed ports."""
    return PortRows(sim.s, sim.state.port_handles)


def message_rows(sim: Simulation) -> NDArray[np.int64]:
    """Return the rows of all messages."""
    return _rows(sim, sim.state.messages, len(sim.traffic.messages), at.MSG_WORDS)


def queue_words(sim: Simulation, word: int) -> NDArray[np.int64]:
    """Return one word of every egress queue: [directed port, queue 0-8]."""
    starts = at.PORT_QUEUES + at.QUEUE_WORDS * np.arange(9)
    words: NDArray[np.int64] = port_rows(sim)[:, starts + word]
    return words


def group_words(sim: Simulation, word: int) -> NDArray[np.int64]:
    """Return one word of every ingress priority group: [directed port, priority]."""
    starts = at.PORT_GROUPS + at.GROUP_WORDS * np.arange(8)
    words: NDArray[np.int64] = port_rows(sim)[:, starts + word]
    return words


def flow_table(sim: Simulation) -> Table:
    """Return one row a message; `fct_s` and `ideal_s` are NaN where it did not finish.

    `slowdown` is the completion time over that of the message alone in the fabric (never below
    1); the ideal is the reference simulators' standalone_fct.
    """
    rows = message_rows(sim)
    ends = [sim.traffic.connections[m.connection] for m in sim.traffic.messages]
    done = rows[:, at.MSG_ACKED_TIME] > 0
    fct = np.where(done, (rows[:, at.MSG_ACKED_TIME] - rows[:, at.MSG_START]) / PS_PER_S, np.nan)
    ideal = np.array([ideal_s(sim, i) for i in range(len(rows))])
    return {
        "src": np.array([one.src for one in ends]),
        "dst": np.array([one.dst for one in ends]),
        "sport": np.array([one.sport for one in ends]),
        "dport": np.array([one.dport for one in ends]),
        "priority": np.array([one.priority for one in ends]),
        "size_bytes": rows[:, at.MSG_BYTES] * rows[:, at.MSG_REPEAT],
        "start_s": rows[:, at.MSG_START] / PS_PER_S,
        "fct_s": fct,
        "received_s": np.where(done, rows[:, at.MSG_RECEIVED_TIME] / PS_PER_S, np.nan),
        "ideal_s": ideal,
        "slowdown": np.maximum(1.0, fct / ideal),
    }


def ideal_s(sim: Simulation, message: int) -> float:
    """Return the completion time of a message alone: base RTT plus wire time at the bottleneck.

    Base RTT is two ways of propagation and one full payload per hop one way (refsim.md).
    """
    one = sim.traffic.messages[message]
    wire = sim.model.transport
    connection = sim.traffic.connections[one.connection]
    forward, _ = sim.state.paths[one.connection]
    ports = (sim.state.nics[connection.src], *forward)
    cables = [sim.topology.cables[port // 2] for port in ports]
    rtt = sum(2 * c.delay_s + wire.payload_bytes * 8 / c.rate_bps for c in cables)
    packets = -(-one.size_bytes // wire.payload_bytes)
    on_wire = (one.size_bytes + packets * wire.header_bytes) * one.repeat
    return rtt + on_wire * 8 / min(c.rate_bps for c in cables)


def qp_table(sim: Simulation) -> Table:
    """Return the counters, rate and progress of every queue pair that was not reused."""
    rows = qp_rows(sim)
    table: Table = {name: rows[:, word] for name, word in QP_COUNTERS.items()}
    table["rate_bps"] = rows[:, at.QP_RATE]
    table["target_bps"] = rows[:, at.QP_TARGET]
    table["acked_packets"] = rows[:, at.QP_UNACKED]
    table["received_packets"] = rows[:, at.QP_EXPECTED]
    if not sim.traffic.flows:
        for name in ("src", "dst"):
            table[name] = np.array([getattr(one, name) for one in sim.traffic.connections])
    return table


def port_table(sim: Simulation) -> Table:
    """Return one row a directed port: who, traffic, pauses by the port's own view, losses."""
    rows = port_rows(sim)
    now = sim.word(at.NOW)
    received = arrivals(sim)
    return {
        "port": np.arange(len(rows)),
        "node": rows[:, at.PORT_NODE],
        "interface": np.array(sim.topology.interface_numbers()),
        "tx_packets": rows[:, at.PORT_TX_PACKETS],
        "tx_bytes": rows[:, at.PORT_TX_BYTES],
        "rx_packets": received[:, 0],
        "rx_bytes": received[:, 1],
        "rx_pause": rows[:, at.PORT_PAUSE_RX : at.PORT_PAUSE_RX + 8].sum(axis=1),
        "tx_pause": group_words(sim, at.GROUP_PAUSE_TX).sum(axis=1),
        "paused_s": paused_ps(sim).sum(axis=1) / PS_PER_S,
        "marked": queue_words(sim, at.QUEUE_MARKED).sum(axis=1),
        "dropped": queue_words(sim, at.QUEUE_DROPPED).sum(axis=1)
        + group_words(sim, at.GROUP_DROPPED).sum(axis=1),
        "lost": rows[:, at.PORT_LOST],
        "queue_max_bytes": watermarks(sim)[:, :8].max(axis=1),
        "wait_s": rows[:, at.PORT_WAIT] / PS_PER_S,
        "utilisation": rows[:, at.PORT_TX_BYTES]
        * 8
        / np.array([sim.topology.cables[i // 2].rate_bps for i in range(len(rows))])
        / max(now / PS_PER_S, 1e-12),
    }


def arrivals(sim: Simulation) -> NDArray[np.int64]:
    """Return packets and bytes that arrived at each port: what the far end sent, lost none of,
    and has not on the wire any more.
    """
    rows = port_rows(sim)
    sent = rows[:, [at.PORT_TX_PACKETS, at.PORT_TX_BYTES]]
    sent = sent - rows[:, [at.PORT_LOST, at.PORT_LOST_BYTES]]
    s = sim.s
    for port in np.flatnonzero(rows[:, at.PORT_LINK_HEAD]).tolist():
        packet = int(rows[port, at.PORT_LINK_HEAD])
        while packet:
            sent[port] -= (1, s[packet + at.PKT_INFO] & at.SIZE_MASK)
            packet = int(s[packet + at.PKT_NEXT])
    peer = np.arange(len(rows)) ^ 1
    arrived: NDArray[np.int64] = sent[peer]
    return arrived


def watermarks(sim: Simulation) -> NDArray[np.int64]:
    """Return the longest length of every queue so far: [directed port, queue 0-8]."""
    longest: NDArray[np.int64] = np.maximum(
        queue_words(sim, at.QUEUE_MAX), queue_words(sim, at.QUEUE_WATERMARK)
    )
    return longest


def paused_ps(sim: Simulation) -> NDArray[np.int64]:
    """Return how long each port's priorities were paused so far: [directed port, priority]."""
    rows = port_rows(sim)
    done = rows[:, at.PORT_PAUSE_TIME : at.PORT_PAUSE_TIME + 8]
    since = rows[:, at.PORT_PAUSE_SINCE : at.PORT_PAUSE_SINCE + 8]
    blocked = rows[:, at.PORT_PAUSED][:, None] >> np.arange(8) & 1
    open_now = np.where(blocked != 0, sim.word(at.NOW) - since, 0)
    total: NDArray[np.int64] = done + (0 if sim.model.infiniband else open_now)
    return total


def qp_total(sim: Simulation, name: str) -> int:
    """Return a QP counter summed over all QPs, also those whose slot was reused."""
    reused = port_rows(sim)[:, at.PORT_SUMS + SUM_PLACE[name]].sum()
    return int(qp_rows(sim)[:, QP_COUNTERS[name]].sum() + reused)


@dataclass(frozen=True, slots=True)
class Summary:
    """The totals of a run."""

    simulated_s: float
    events: int
    link_packets: int
    messages: int
    messages_done: int
    ecn_marked: int
    cnp_handled: int
    cuts: int
    pause_frames: int
    paused_s: float
    drops: int
    lost_on_links: int
    retransmitted: int
    out_of_sequence: int
    timeouts: int
    queue_max_bytes: int
    cpu_s: float

    def items(self) -> Mapping[str, float | int]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def summary(sim: Simulation) -> Summary:
    """Add everything up."""
    ports = port_table(sim)
    return Summary(
        simulated_s=sim.now_s,
        events=sim.events,
        link_packets=sim.link_packets,
        messages=len(sim.traffic.messages),
        messages_done=sim.word(at.DONE_MESSAGES),
        ecn_marked=int(ports["marked"].sum()),
        cnp_handled=qp_total(sim, "cnp_handled"),
        cuts=qp_total(sim, "cuts"),
        pause_frames=int(ports["tx_pause"].sum()),
        paused_s=float(ports["paused_s"].sum()),
        drops=int(ports["dropped"].sum()) + int(port_rows(sim)[:, at.PORT_RX_DISCARDS].sum()),
        lost_on_links=int(ports["lost"].sum()),
        retransmitted=qp_total(sim, "retransmitted"),
        out_of_sequence=qp_total(sim, "out_of_sequence"),
        timeouts=qp_total(sim, "timeouts"),
        queue_max_bytes=int(ports["queue_max_bytes"].max()),
        cpu_s=sim.cpu_s,
    )


def jain(values: Column) -> float:
    """Return Jain's fairness index (1984) of the values."""
    x = np.asarray(values, dtype=float)
    return float(x.sum() ** 2 / (len(x) * (x**2).sum()))


def iteration_times(sim: Simulation) -> list[float]:
    """Return how long each finished iteration of a collective took: first post to last arrival."""
    rows = message_rows(sim)
    times: dict[str, tuple[int, int]] = {}
    for index, message in enumerate(sim.traffic.messages):
        if not message.label:
            continue
        complete = rows[index, at.MSG_RECEIVED] == rows[index, at.MSG_REPEAT]
        end = int(rows[index, at.MSG_RECEIVED_TIME]) if complete else at.NEVER
        start = int(rows[index, at.MSG_START])
        if not rows[index, at.MSG_FIRST_POST_DONE]:
            start = at.NEVER
        known = times.get(message.label, (at.NEVER, 0))
        times[message.label] = (min(known[0], start), max(known[1], end))
    return [(end - start) / PS_PER_S for start, end in times.values() if end != at.NEVER]
