"""A small SNMPv2c agent: a sorted table of rows, GET, GETNEXT and GETBULK, faults on demand.

Rows are kept encoded, so that a GETBULK is a slice: one process serves hundreds of switches.
Where fidelity counts more than load (v3, views), tests use net-snmp's snmpd and pysnmp instead.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from simlab.switches import ber

Arcs = tuple[int, ...]
SYS_UP_TIME: Arcs = (1, 3, 6, 1, 2, 1, 1, 3, 0)


@dataclass
class SnmpFaults:
    """What goes wrong on demand.

    silent: answer nothing. delay_s: answer late. max_rows: rows in one reply (net-snmp: 100).
    max_bytes: larger replies become tooBig. ignore_above: a GETBULK that asks for more
    repetitions is not answered at all, as some images do. shuffle_at: swap this row and the
    next (OIDs not increasing). loop_at: answer this row for ever. foreign: answer from another
    socket. drop_every: leave every n-th request unanswered.
    """

    silent: bool = False
    delay_s: float = 0.0
    max_rows: int = 100
    max_bytes: int = 65000
    ignore_above: int = 0
    shuffle_at: Arcs | None = None
    loop_at: Arcs | None = None
    foreign: bool = False
    drop_every: int = 0


@dataclass
class Mib:
    """Rows of one agent: arcs -> (tag, value), sorted; encoded once, and again when they change."""

    community: str = "public"
    _arcs: list[Arcs] = field(default_factory=list)
    _rows: list[bytes] = field(default_factory=list)
    _at: dict[bytes, int] = field(default_factory=dict)
    _oids: list[bytes] = field(default_factory=list)
    _stale: dict[Arcs, bytes] | None = field(default_factory=dict)

    def put(self, oid: str | Arcs, tag: int, value: float | str | bytes) -> None:
        """Add or change a row."""
        arcs = ber.parse_dotted(oid) if isinstance(oid, str) else oid
        native = int(value) if isinstance(value, float) else value
        packed = ber.pack_value(tag, native)
        name = ber.pack_oid(arcs)
        row = ber.tlv(ber.SEQUENCE, name + packed)
        at = self._at.get(name)
        if at is not None and not self._stale:
            self._rows[at] = row
            return
        if self._stale is None or not self._stale:
            self._stale = dict(zip(self._arcs, self._rows, strict=True))
        self._stale[arcs] = row

    def remove(self, oid: str | Arcs) -> None:
        """Remove a row and all below it."""
        arcs = ber.parse_dotted(oid) if isinstance(oid, str) else oid
        self._settle()
        self._stale = {
            name: row
            for name, row in zip(self._arcs, self._rows, strict=True)
            if name[: len(arcs)] != arcs
        } or None
        self._settle(force=True)

    def _settle(self, *, force: bool = False) -> None:
        if not self._stale and not force:
            return
        rows = sorted((self._stale or {}).items())
        self._arcs = [arcs for arcs, _ in rows]
        self._rows = [row for _, row in rows]
        self._oids = [ber.pack_oid(arcs) for arcs in self._arcs]
        self._at = {name: at for at, name in enumerate(self._oids)}
        self._stale = None

    def __len__(self) -> int:
        self._settle()
        return len(self._arcs)

    def get(self, name: bytes) -> bytes:
        """Return the varbind of an encoded OID, noSuchObject where there is none."""
        at = self._at.get(name)
        if at is not None:
            return self._rows[at]
        return ber.tlv(ber.SEQUENCE, name + ber.NO_SUCH_OBJECT)

    def after(self, name: bytes, count: int, faults: SnmpFaults) -> list[bytes]:
        """Return up to `count` varbinds after an encoded OID, the last endOfMibView at the end."""
        at = self._at.get(name)
        if at is not None:
            start = at + 1
        else:
            start = bisect_right(
                self._arcs, ber.parse_oid(name[2:] if name[1] < 0x80 else name[3:])
            )
        rows = self._rows[start : start + count]
        if faults.shuffle_at is not None:
            swap = bisect_left(self._arcs, faults.shuffle_at) - start
            if 0 <= swap < len(rows) - 1:
                rows[swap], rows[swap + 1] = rows[swap + 1], rows[swap]
        if faults.loop_at is not None:
            stuck = bisect_left(self._arcs, faults.loop_at) - start
            if stuck < len(rows):
                keep = max(stuck, 0)
                rows = rows[:keep] + [self._rows[start + stuck]] * (len(rows) - keep)
        if len(rows) < count:
            last = self._oids[-1] if self._oids else name
            rows.append(ber.tlv(ber.SEQUENCE, last + ber.END_OF_MIB))
        return rows

    def answer(self, request: bytes, faults: SnmpFaults | None = None) -> bytes | None:
        """Return the reply to one datagram; None where a real agent would stay silent.

        Raises ValueError on bytes that are no SNMPv2c request.
        """
        faults = faults or SnmpFaults()
        self._settle()
        _, start, end = ber.parse_tlv(request, 0)
        (_, vs, ve), (_, cs, ce), (kind, ps, pe) = ber.parse_sequence(request, start, end)
        if request[vs:ve] != b"\x01" or request[cs:ce] != self.community.encode():
            return None
        ids, one, two, binds = ber.parse_sequence(request, ps, pe)
        names = [
            request[ns - 2 if ne - ns < 0x80 else ns - 3 : ne]
            for _, bs, be in ber.parse_sequence(request, binds[1], binds[2])
            for _, ns, ne in [next(ber.parse_sequence(request, bs, be))]
        ]
        if kind == ber.GET:
            rows = [self.get(name) for name in names]
        elif kind == ber.GET_NEXT:
            rows = [self.after(name, 1, faults)[0] for name in names]
        elif kind == ber.GET_BULK:
            once = int.from_bytes(request[one[1] : one[2]], "big")
            times = int.from_bytes(request[two[1] : two[2]], "big")
            if faults.ignore_above and times > faults.ignore_above:
                return None
            rows = self._bulk(names, once, times, faults)
        else:
            return None
        identity = ber.tlv(ber.INTEGER, request[ids[1] : ids[2]])
        return self._reply(identity, rows, faults)

    def _bulk(self, names: list[bytes], once: int, times: int, faults: SnmpFaults) -> list[bytes]:
        rows = [self.after(name, 1, faults)[0] for name in names[:once]]
        repeated = [self.after(name, min(times, faults.max_rows), faults) for name in names[once:]]
        if len(repeated) == 1:
            rows += repeated[0]
        else:
            for at in range(times):
                rows += [column[min(at, len(column) - 1)] for column in repeated]
                if len(rows) >= faults.max_rows:
                    break
        return rows[: faults.max_rows]

    def _reply(self, identity: bytes, rows: list[bytes], faults: SnmpFaults) -> bytes:
        def whole(error: int, binds: bytes) -> bytes:
            head = identity + ber.pack_int(error) + ber.pack_int(0)
            pdu = ber.tlv(ber.RESPONSE, head + ber.tlv(ber.SEQUENCE, binds))
            community = ber.tlv(ber.OCTETS, self.community.encode())
            return ber.tlv(ber.SEQUENCE, ber.pack_int(1) + community + pdu)

        reply = whole(0, b"".join(rows))
        return whole(1, b"") if len(reply) > faults.max_bytes else reply


@dataclass
class SnmpAgent(asyncio.DatagramProtocol):
    """One agent on one UDP socket."""

    mib: Mib
    faults: SnmpFaults = field(default_factory=SnmpFaults)
    requests: int = 0
    _transport: asyncio.DatagramTransport | None = None
    _other: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket to answer on."""
        self._transport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer, as the faults allow."""
        self.requests += 1
        if self.faults.silent or (
            self.faults.drop_every and self.requests % self.faults.drop_every == 0
        ):
            return
        try:
            reply = self.mib.answer(data, self.faults)
        except (ValueError, IndexError):
            return
        if reply is None:
            return
        if self.faults.delay_s:
            asyncio.get_running_loop().call_later(self.faults.delay_s, self._send, reply, addr)
        else:
            self._send(reply, addr)

    def _send(self, reply: bytes, addr: tuple[str, int]) -> None:
        out = self._other if self.faults.foreign else self._transport
        if out is not None and not out.is_closing():
            out.sendto(reply, addr)

    async def listen(self, address: str = "127.0.0.1", port: int = 0) -> int:
        """Open the socket and return its port."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, (address, port))
        self._other, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, (address, 0))
        bound: int = transport.get_extra_info("sockname")[1]
        return bound

    def close(self) -> None:
        """Close the sockets."""
        for transport in (self._transport, self._other):
            if transport is not None:
                transport.close()
