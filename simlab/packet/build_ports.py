"""The rows of ports, queues, priority groups and switches."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet.parameters import EcnAt, InfinibandLink, Model, SwitchModel
from simlab.packet.picoseconds import PS_PER_S, ps, ps_per_byte
from simlab.packet.topology import Topology

Ints = NDArray[np.int64]
ETHERNET_BYTES = 38  # of a frame on the wire that the MTU does not count


def thresholds_at(ecn: tuple[EcnAt, ...], rate_bps: float) -> EcnThresholds | None:
    """Return the thresholds of ports of this speed; those of a single entry scale with speed."""
    for entry in ecn:
        if entry.rate_bps == rate_bps:
            return entry.thresholds
    if len(ecn) != 1:
        return None
    only, scale = ecn[0].thresholds, rate_bps / ecn[0].rate_bps
    return replace(only, kmin_bytes=only.kmin_bytes * scale, kmax_bytes=only.kmax_bytes * scale)


def headroom(switch: SwitchModel, rate_bps: float, delay_s: float, packet: int) -> int:
    """Return the headroom of one priority group in bytes."""
    if switch.headroom_bytes is not None:
        return switch.headroom_bytes
    in_flight = rate_bps / 8 * delay_s * switch.headroom_delays
    return math.floor(in_flight) + math.floor(switch.headroom_packets * packet)


def rate_words(rate_bps: float) -> dict[int, int]:
    """Return the words of a directed port that say how fast it sends."""
    per_byte = ps_per_byte(rate_bps)
    return {
        at.PORT_PS_BYTE: per_byte.numerator if per_byte.denominator == 1 else -1,
        at.PORT_PS_NUM: per_byte.numerator,
        at.PORT_PS_DEN: per_byte.denominator,
        at.PORT_PS_REM: 0,
    }


def drain_ps(drain_bps: float) -> int:
    """Return how many picoseconds a host takes to take a byte in; 0: as fast as the wire."""
    return round(8 * PS_PER_S / drain_bps) if drain_bps else 0


def fill_ports(s: Ints, topology: Topology, model: Model, first_port: int, switches: int) -> None:
    """Write every directed port with its queues and priority groups."""
    forwarding = {node: i for i, node in enumerate(topology.switches)}
    for port in range(2 * len(topology.cables)):
        cable = topology.cables[port // 2]
        row = first_port + at.port_offset(port)
        node = topology.end(port)
        is_switch = node in forwarding
        switch = model.switch_at(node, port)
        strict = sum(1 << p for p in switch.strict) if is_switch else 255
        values = {
            **rate_words(cable.rate_bps),
            at.PORT_DELAY: ps(cable.delay_s),
            at.PORT_NUMBER: port,
            at.PORT_REVERSE: first_port + at.port_offset(port ^ 1),
            at.PORT_ERROR: round(cable.error_rate * at.RANDOM_RANGE),
            at.PORT_TROUBLE: at.LINK_LOSSY if cable.error_rate > 0 else 0,
            at.PORT_STRICT: strict,
            at.PORT_NODE: node,
            at.PORT_CNP_LAST: -(10**15),
            at.PORT_PAUSE_PS: ps(switch.pause_s if is_switch else model.host.pause_s),
        }
        if is_switch:
            values[at.PORT_SWITCH] = switches + forwarding[node] * at.SWITCH_WORDS
            values[at.PORT_WATCHDOG] = ps(switch.watchdog_s)
            values[at.PORT_WATCH_RESTORE] = ps(switch.watchdog_restore_s)
            obeyed = sum(1 << p for p in switch.lossless) if switch.pfc else 0
            values[at.PORT_WATCH_UNTIL] = (255 & ~obeyed) << at.DEAF_SHIFT
        else:
            values[at.PORT_DRAIN_NUM] = drain_ps(model.host.slow.get(node, model.host.drain_bps))
            values[at.PORT_RX_LIMIT] = model.host.rx_buffer_bytes
            values[at.PORT_RX_XOFF] = model.host.rx_xoff_bytes
            values[at.PORT_RX_XON] = model.host.rx_xon_bytes
            values |= _nic_words(model, node)
            s[at.RECEIVE_LIMITED] |= values[at.PORT_RECEIVE_INTERVAL] > 0
            if not model.nic_at(node).pfc:
                values[at.PORT_WATCH_UNTIL] = 255 << at.DEAF_SHIFT
                values[at.PORT_RX_XOFF] = at.NEVER
        peer = topology.peer(port)
        takes = (
            model.switch_at(peer, port ^ 1).mtu_bytes
            if peer in forwarding
            else model.nic_at(peer).mtu_bytes
        )
        if takes:
            values[at.PORT_LARGEST] = takes + ETHERNET_BYTES
            values[at.PORT_TROUBLE] |= at.LINK_SHORT
        for word, value in values.items():
            s[row + word] = value
        s[row + at.PORT_PAUSE_END : row + at.PORT_PAUSE_END + 8] = at.NEVER
        s[row + at.PORT_WATCH_END : row + at.PORT_WATCH_END + 8] = at.NEVER
        if model.infiniband is not None:
            own = None if peer in forwarding else model.nic_at(peer).credits_bytes
            credit = model.infiniband.credits_bytes if own is None else own
            s[row + at.PORT_CREDIT : row + at.PORT_CREDIT + 8] = credit
        for bit in range(9):
            queue = row + at.PORT_QUEUES + bit * at.QUEUE_WORDS
            s[queue + at.QUEUE_KMIN] = at.NEVER
            s[queue + at.QUEUE_KMAX] = at.NEVER
            s[queue + at.QUEUE_QUANTUM] = switch.weights.get(bit, 1) * s[at.MTU_WIRE]
            if is_switch and bit != at.CONTROL:
                _fill_queue(s, queue, bit, cable.rate_bps, switch, model.infiniband)
        for bit in range(8):
            group = row + at.PORT_GROUPS + bit * at.GROUP_WORDS
            s[group + at.GROUP_PORT] = row
            s[group + at.GROUP_BIT] = bit
            s[group + at.GROUP_REFRESH] = at.NEVER


def _nic_words(model: Model, node: int) -> dict[int, int]:
    nic, host = model.nic_at(node), model.host
    requests = nic.receive_requests
    interval = nic.receive_interval_s
    return {
        at.PORT_ECT: at.ECT if nic.ecn_capable else 0,
        at.PORT_SILENT: int(not nic.sends_cnps),
        at.PORT_RECEIVE_REQUESTS: host.receive_requests if requests is None else requests,
        at.PORT_RECEIVE_INTERVAL: ps(host.receive_interval_s if interval is None else interval),
    }


def _fill_queue(
    s: Ints,
    queue: int,
    bit: int,
    rate: float,
    switch: SwitchModel,
    infiniband: InfinibandLink | None,
) -> None:
    s[queue + at.QUEUE_LIMIT] = switch.queue_limit_bytes
    if bit not in switch.lossless or not switch.pfc:
        s[queue + at.QUEUE_ALPHA] = round(switch.lossy_alpha * at.RATIO_ONE)
    if switch.egress_alpha > 0:
        s[queue + at.QUEUE_ALPHA] = round(switch.egress_alpha * at.RATIO_ONE)
    limited = s[queue + at.QUEUE_ALPHA] > 0 or switch.queue_limit_bytes > 0
    s[queue + at.QUEUE_OPTIONS] = at.MARK_ENQUEUE * switch.ecn_at_enqueue | at.LIMITED * int(
        limited
    )
    if infiniband is not None:
        if infiniband.threshold_bytes:
            s[queue + at.QUEUE_KMIN] = infiniband.threshold_bytes
            s[queue + at.QUEUE_FECN_RATE] = infiniband.marking_rate
            s[queue + at.QUEUE_KMAX] = infiniband.threshold_bytes
        return
    limits = thresholds_at(switch.ecn, rate)
    if limits is not None:
        s[queue + at.QUEUE_KMIN] = round(limits.kmin_bytes) + switch.ecn_skip_bytes
        s[queue + at.QUEUE_KMAX] = round(limits.kmax_bytes) + switch.ecn_skip_bytes
        s[queue + at.QUEUE_PMAX] = round(limits.pmax_ratio * at.RANDOM_RANGE)


def _fill_group(
    s: Ints, group: int, bit: int, switch: SwitchModel, room: int, alpha: float, *, spared: bool
) -> None:
    """Write an ingress group. spared: the other ports of the fabric keep its class lossless."""
    lossless = bit in switch.lossless
    s[group + at.GROUP_RESERVED] = switch.reserved_bytes
    s[group + at.GROUP_LOSSLESS] = int(lossless and switch.pfc)
    s[group + at.GROUP_HEADROOM] = room if lossless and switch.pfc else 0
    s[group + at.GROUP_XON_OFFSET] = switch.xon_offset_bytes
    s[group + at.GROUP_ALPHA] = round(alpha * at.RATIO_ONE)
    if lossless and switch.xoff_bytes is not None:
        s[group + at.GROUP_ALPHA] = -1
        s[group + at.GROUP_XOFF] = switch.xoff_bytes
    elif not lossless or not switch.pfc:
        # The egress side limits these, unless the other ports keep the class lossless.
        limit = switch.lossy_alpha if spared else 64
        s[group + at.GROUP_ALPHA] = round(at.RATIO_ONE * limit)


def fill_switches(
    s: Ints, topology: Topology, model: Model, first_port: int, switches: int
) -> None:
    """Write every switch and the thresholds of its ingress groups."""
    ports = topology.ports_of()
    host_rates = {topology.cables[ports[h][0] // 2].rate_bps for h in topology.hosts}
    host_rate = min(host_rates) if host_rates else 0.0
    packet = int(s[at.MTU_WIRE])
    for index, node in enumerate(topology.switches):
        row = switches + index * at.SWITCH_WORDS
        taken = 0
        for port in ports[node]:
            switch = model.switch_at(node, port)
            cable = topology.cables[port // 2]
            room = headroom(switch, cable.rate_bps, cable.delay_s, packet)
            alpha = switch.alpha
            if switch.alpha_doubles_with_rate and cable.rate_bps > host_rate:
                alpha *= 2 ** math.floor(math.log2(cable.rate_bps / host_rate))
            taken += switch.reserved_bytes + room * len(switch.lossless)
            groups = first_port + at.port_offset(port) + at.PORT_GROUPS
            for bit in range(8):
                spared = model.switch.pfc and bit in model.switch.lossless
                group = groups + bit * at.GROUP_WORDS
                _fill_group(s, group, bit, switch, room, alpha, spared=spared)
        switch = model.switch_at(node)
        s[row + at.SWITCH_POOL] = max(0, switch.buffer_bytes - taken)
        s[row + at.SWITCH_INDEX] = index
        s[row + at.SWITCH_PAUSE_EACH] = int(switch.pause_each_packet)
        s[row + at.SWITCH_CLASSES] = sum(1 << p for p in switch.unmanaged) + sum(
            switch.classes.get(p, p) << 8 + 4 * p for p in range(8)
        )
