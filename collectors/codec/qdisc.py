"""Queueing disciplines over routing netlink: statistics and settings of egress queues.

Messages: uapi/linux/rtnetlink.h (tcmsg, TCA_*), gen_stats.h (TCA_STATS_*), pkt_sched.h (red,
tbf, fq_codel). Counters of packets and drops are 32 bits wide, but for TCA_STATS_PKT64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from collectors.codec.netlink import (
    NLM_F_DUMP,
    NLM_F_REQUEST,
    Message,
    number,
    pack_message,
    parse_attributes,
    text,
)
from collectors.model.errors import Malformed

RTM_NEWQDISC: Final = 36
RTM_GETQDISC: Final = 38
_TCMSG: Final = struct.Struct("=BBHiIII")
_TCA_KIND, _TCA_OPTIONS, _TCA_STATS2 = 1, 2, 7
_BASIC, _QUEUE, _APP, _PKT64 = 1, 3, 4, 8
_BASIC_FORM: Final = struct.Struct("=QI")
_QUEUE_FORM: Final = struct.Struct("=IIIII")  # qlen, backlog, drops, requeues, overlimits
_RED_FORM: Final = struct.Struct("=IIIBBBB")  # limit, min, max, Wlog, Plog, Scell_log, flags
_RED_XSTATS: Final = struct.Struct("=IIII")  # early, pdrop, other, marked
_RED_ECN: Final = 1
_RATE_FORM: Final = struct.Struct("=BBHhHI")  # cell_log, linklayer, overhead, align, mpu, rate
_FQ_CODEL_XSTATS: Final = struct.Struct("=IIII")  # type 0, maxpacket, drop_overlimit, ecn_mark
_ROOT: Final = 0xFFFF_FFFF
_INGRESS: Final = 0xFFFF_FFF1
_PER_QUEUE: Final = frozenset({"mq", "mqprio"})  # one child for each hardware queue


@dataclass(frozen=True, slots=True)
class Qdisc:
    """One discipline as the kernel dumps it. Absent statistics and options are None."""

    index: int
    kind: str
    handle: int
    parent: int
    bytes: int | None = None
    packets: int | None = None
    drops: int | None = None
    backlog_bytes: int | None = None
    marked: int | None = None
    rate_bps: int | None = None
    limit_bytes: int | None = None
    kmin_bytes: int | None = None
    kmax_bytes: int | None = None
    pmax_ratio: float | None = None
    ecn: bool | None = None


@dataclass(frozen=True, slots=True)
class EgressQueue:
    """An egress queue: a root discipline with what hangs below it, seen as one.

    number: 0, or the hardware queue under mq. handle: of its outermost discipline. Counts are
    the outermost discipline's, which includes what those below drop; marks, thresholds and the
    rate are those of the one that has them.
    """

    index: int
    number: int
    handle: int
    counts: Mapping[str, int]
    settings: Mapping[str, int | float | bool]


def pack_get_qdiscs() -> bytes:
    """Return the request for all disciplines of all interfaces of the namespace."""
    return pack_message(RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, _TCMSG.pack(0, 0, 0, 0, 0, 0, 0))


def parse_qdisc(message: Message) -> Qdisc | None:
    """Return the discipline of an RTM_NEWQDISC message; None for another. Raises Malformed."""
    if message.type != RTM_NEWQDISC:
        return None
    if len(message.payload) < _TCMSG.size:
        raise Malformed("rtnetlink", "parse qdisc", "truncated header", message.payload)
    _, _, _, index, handle, parent, _ = _TCMSG.unpack_from(message.payload)
    found = dict(parse_attributes(message.payload, _TCMSG.size))
    kind = text(found.get(_TCA_KIND, b""))
    stats = dict(parse_attributes(found.get(_TCA_STATS2, b"")))
    values: dict[str, int | float | bool | None] = {**_parse_stats(kind, stats)}
    options = found.get(_TCA_OPTIONS)
    if options and kind == "red":
        values |= _parse_red(dict(parse_attributes(options)))
    elif options and kind == "tbf":
        values |= _parse_tbf(dict(parse_attributes(options)))
    return Qdisc(index, kind, handle, parent, **values)  # type: ignore[arg-type]


def egress_queues(qdiscs: Iterable[Qdisc]) -> list[EgressQueue]:
    """Join disciplines into egress queues; interfaces without any queue are left out."""
    by_index: dict[int, list[Qdisc]] = {}
    for qdisc in qdiscs:
        if qdisc.parent != _INGRESS and qdisc.kind != "noqueue":
            by_index.setdefault(qdisc.index, []).append(qdisc)
    queues = []
    for index, members in sorted(by_index.items()):
        for root in (member for member in members if member.parent == _ROOT):
            heads = [root]
            if root.kind in _PER_QUEUE:
                heads = [q for q in members if q.parent >> 16 == root.handle >> 16]
            for head in heads:
                order = (head.parent & 0xFFFF) - 1 if head is not root else 0
                queues.append(_queue(index, order, head, members))
    return queues


def _queue(index: int, order: int, head: Qdisc, members: list[Qdisc]) -> EgressQueue:
    below = [head]
    for qdisc in below:  # grows while it is walked
        below += [q for q in members if q.parent >> 16 == qdisc.handle >> 16 and q not in below]
    counts = {
        "bytes": head.bytes,
        "packets": head.packets,
        "drops": head.drops,
        "backlog": head.backlog_bytes,
    }
    for qdisc in below:
        if qdisc.marked is not None:
            counts[f"{qdisc.kind} {'marked' if qdisc.kind == 'red' else 'ecn_mark'}"] = qdisc.marked
    settings: dict[str, int | float | bool | None] = {}
    for name, field in (
        ("queue_rate_bps", "rate_bps"),
        ("queue_limit_bytes", "limit_bytes"),
        ("ecn_enabled", "ecn"),
        ("kmin_bytes", "kmin_bytes"),
        ("kmax_bytes", "kmax_bytes"),
        ("pmax_ratio", "pmax_ratio"),
    ):
        known = [value for q in below if (value := getattr(q, field)) is not None]
        settings[name] = known[-1] if known else None  # the innermost queue is what fills up
    return EgressQueue(
        index,
        order,
        head.handle,
        {name: value for name, value in counts.items() if value is not None},
        {name: value for name, value in settings.items() if value is not None},
    )


def _parse_stats(kind: str, stats: Mapping[int, bytes]) -> dict[str, int]:
    values: dict[str, int] = {}
    if _BASIC in stats:
        values["bytes"], values["packets"] = _unpack(_BASIC_FORM, stats[_BASIC], "basic")
    if _PKT64 in stats:
        values["packets"] = number(stats[_PKT64])
    if _QUEUE in stats:
        _, values["backlog_bytes"], values["drops"], _, _ = _unpack(
            _QUEUE_FORM, stats[_QUEUE], "queue"
        )
    if _APP in stats and kind == "red":
        values["marked"] = _unpack(_RED_XSTATS, stats[_APP], "red")[3]
    elif _APP in stats and kind == "fq_codel":
        flavour, _, _, marked = _unpack(_FQ_CODEL_XSTATS, stats[_APP], "fq_codel")
        if flavour == 0:
            values["marked"] = marked
    return values


def _parse_red(options: Mapping[int, bytes]) -> dict[str, int | float | bool]:
    values: dict[str, int | float | bool] = {}
    if 1 in options:
        limit, kmin, kmax, _, _, _, flags = _unpack(_RED_FORM, options[1], "red options")
        values |= {"limit_bytes": limit, "kmin_bytes": kmin, "kmax_bytes": kmax}
        values["ecn"] = bool(flags & _RED_ECN)
    if 3 in options:
        values["pmax_ratio"] = round(number(options[3]) / (1 << 32), 9)
    return values


def _parse_tbf(options: Mapping[int, bytes]) -> dict[str, int]:
    if 4 in options:  # TCA_TBF_RATE64, above 4 GB/s
        return {"rate_bps": number(options[4]) * 8}
    if 1 in options:
        return {"rate_bps": _unpack(_RATE_FORM, options[1], "tbf options")[5] * 8}
    return {}


def _unpack(form: struct.Struct, data: bytes, what: str) -> tuple[int, ...]:
    if len(data) < form.size:
        raise Malformed("rtnetlink", f"parse qdisc {what}", f"{len(data)} bytes", data)
    return form.unpack_from(data)
