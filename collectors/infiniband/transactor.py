"""Requests in flight: windows per device, timeouts, bounded retries, and whose answer is whose.

One thread, no child processes. At most `window` datagrams are outstanding in all, at most
`vl15_window` of them SMPs (VL15 has no flow control), and at most `per_device` at any one device
(its LID, or the directed route that leads to it). Every request is a Get.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from collectors.codec import mad as frame
from collectors.infiniband.transport import Received, Transport
from collectors.model.errors import FabricError, Malformed


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no answer. reason: a short countable word; detail: for people."""

    reason: str  # timeout | unsupported | status | malformed | cancelled | deadline | send
    detail: str

    @property
    def permanent(self) -> bool:
        """True where the device said that it will never answer this."""
        return self.reason == "unsupported"


Answer: TypeAlias = bytes | Failure
"""The attribute's payload, or why there is none."""
Done: TypeAlias = Callable[[Answer], None]

CANCELLED: Final = Failure("cancelled", "the sweep was cancelled")
DEADLINE: Final = Failure("deadline", "no time left in this sweep")


@dataclass(slots=True)
class Statistics:
    """What happened on the wire since the transactor was made."""

    sent: int = 0
    answered: int = 0
    retried: int = 0
    timed_out: int = 0
    refused: int = 0  # answered with a status other than 0
    malformed: int = 0
    stray: int = 0  # answers to nothing that is outstanding: late, twice, or with a wrong id
    most_outstanding: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard the fabric may be asked."""

    window: int = 256
    vl15_window: int = 64
    per_device: int = 4
    timeout_s: float = 0.5
    retries: int = 2


class _Request:
    __slots__ = (
        "attribute",
        "component_mask",
        "device",
        "done",
        "lid",
        "mgmt_class",
        "modifier",
        "path",
        "payload",
        "table",
        "tries",
    )

    def __init__(
        self,
        device: object,
        lid: int,
        path: bytes,
        mgmt_class: int,
        attribute: int,
        modifier: int,
        payload: bytes,
        done: Done,
    ) -> None:
        self.device, self.lid, self.path = device, lid, path
        self.mgmt_class, self.attribute, self.modifier = mgmt_class, attribute, modifier
        self.payload, self.done, self.tries = payload, done, 0
        self.component_mask, self.table = 0, False

    @property
    def vl15(self) -> bool:
        return self.mgmt_class in (frame.CLASS_SMP_DIRECT, frame.CLASS_SMP_LID)


class Transactor:
    """Runs requests over one transport; each `done` is called exactly once, from `run`."""

    def __init__(
        self, transport: Transport, limits: Limits | None = None, *, m_key: int = 0, cc_key: int = 0
    ) -> None:
        """Take a transport; m_key and cc_key go into SMPs and congestion control datagrams."""
        self.transport = transport
        self.limits = limits or Limits()
        self.statistics = Statistics()
        self._m_key, self._cc_key = m_key, cc_key
        self._tid = 0
        self._busy: dict[object, int] = {}
        self._waiting: dict[object, deque[_Request]] = {}
        self._ready: deque[_Request] = deque()
        self._ready_vl15: deque[_Request] = deque()
        self._out_vl15 = 0
        self._outstanding: dict[int, tuple[_Request, float]] = {}
        self._cancelled = False

    # --- asking ------------------------------------------------------------------------------
    def smp_direct(
        self, path: bytes, attribute: int, modifier: int, done: Done, *, device: object = None
    ) -> None:
        """Ask the node at the end of a directed route."""
        of, kind = path if device is None else device, frame.CLASS_SMP_DIRECT
        lid = frame.PERMISSIVE_LID
        self._submit(_Request(of, lid, path, kind, attribute, modifier, b"", done))

    def smp_lid(self, lid: int, attribute: int, modifier: int, done: Done) -> None:
        """Ask the node of a LID through the forwarding tables."""
        self._submit(_Request(lid, lid, b"", frame.CLASS_SMP_LID, attribute, modifier, b"", done))

    def perf(self, lid: int, attribute: int, port: int, done: Done) -> None:
        """Ask the performance manager's agent of a LID about one of its ports."""
        self._submit(
            _Request(lid, lid, b"", frame.CLASS_PERF, attribute, 0, bytes((0, port)), done)
        )

    def congestion(self, lid: int, attribute: int, modifier: int, done: Done) -> None:
        """Ask the congestion control agent of a LID."""
        self._submit(
            _Request(lid, lid, b"", frame.CLASS_CONGESTION, attribute, modifier, b"", done)
        )

    def smp(
        self,
        path: bytes | None,
        lid: int,
        attribute: int,
        modifier: int,
        done: Done,
        *,
        device: object = None,
    ) -> None:
        """Ask a node along its directed route where that is known, else at its LID."""
        if path is None:
            self.smp_lid(lid, attribute, modifier, done)
        else:
            self.smp_direct(path, attribute, modifier, done, device=device)

    def subnet_administration(
        self,
        lid: int,
        attribute: int,
        done: Done,
        *,
        record: bytes = b"",
        mask: int = 0,
        table: bool,
    ) -> None:
        """Ask the subnet administrator for one record or a table; `done` gets the whole datagram.

        The kernel joins the segments of a table (RMPP) to one datagram.
        """
        request = _Request(lid, lid, b"", frame.CLASS_SA, attribute, 0, record, done)
        request.component_mask, request.table = mask, table
        self._submit(request)

    def cancel(self) -> None:
        """Make a running `run` give up; safe to call from another thread."""
        self._cancelled = True

    # --- running -----------------------------------------------------------------------------
    def run(self, budget_s: float | None = None) -> None:
        """Work until every request is done, the budget is spent or `cancel` was called.

        What is then unanswered is done with Failure("deadline") or Failure("cancelled"): no
        retry on our own deadline.
        """
        now = self.transport.now
        end = None if budget_s is None else now() + budget_s
        while self._ready or self._ready_vl15 or self._outstanding:
            if self._cancelled:
                self._abandon(CANCELLED)
                break
            self._fill()
            if not self._outstanding:
                continue
            # everything that is there, then wait once
            received = self.transport.receive(0)
            if received is None:
                moment = now()
                if end is not None and moment >= end:
                    self._abandon(DEADLINE)
                    break
                next_due = self._expire(moment)
                if next_due is None:
                    continue
                until = next_due if end is None else min(next_due, end)
                received = self.transport.receive(max(until - moment, 0.0))
            room = 64
            while received is not None:
                self._take(received)
                room -= 1
                received = self.transport.receive(0) if room else None
        self._cancelled = False

    # --- inside ------------------------------------------------------------------------------
    def _submit(self, request: _Request) -> None:
        device = request.device
        busy = self._busy.get(device, 0)
        if busy < self.limits.per_device:
            self._busy[device] = busy + 1
            (self._ready_vl15 if request.vl15 else self._ready).append(request)
        else:
            self._waiting.setdefault(device, deque()).append(request)

    def _fill(self) -> None:
        limits, out = self.limits, self._outstanding
        while self._ready and len(out) < limits.window:
            self._send(self._ready.popleft())
        while self._ready_vl15 and self._out_vl15 < limits.vl15_window and len(out) < limits.window:
            self._out_vl15 += 1
            self._send(self._ready_vl15.popleft())

    def _send(self, request: _Request) -> None:
        self._tid = tid = self._tid % 0xFFFFFFFF + 1
        cls = request.mgmt_class
        if cls == frame.CLASS_SMP_DIRECT:
            mad = frame.pack_direct(
                request.attribute, request.modifier, tid, request.path, self._m_key
            )
        elif cls == frame.CLASS_SA:
            mad = frame.pack_sa(
                request.attribute,
                tid,
                request.payload,
                request.component_mask,
                table=request.table,
            )
        else:
            key = 0
            if cls == frame.CLASS_CONGESTION:
                key = self._cc_key
            elif cls == frame.CLASS_SMP_LID:
                key = self._m_key
            mad = frame.pack_get(
                cls, request.attribute, request.modifier, tid, request.payload, key
            )
        timeout = self.limits.timeout_s
        self._outstanding[tid] = (request, self.transport.now() + timeout)
        self.statistics.sent += 1
        self.statistics.most_outstanding = max(
            self.statistics.most_outstanding, len(self._outstanding)
        )
        try:
            self.transport.send(mad, request.lid, timeout)
        except FabricError as error:
            self._release(tid)
            self._finish(request, Failure("send", str(error)))

    def _release(self, tid: int) -> _Request:
        request, _ = self._outstanding.pop(tid)
        if request.vl15:
            self._out_vl15 -= 1
        return request

    def _finish(self, request: _Request, answer: Answer) -> None:
        device = request.device
        waiting = self._waiting.get(device)
        if waiting:
            follower = waiting.popleft()
            (self._ready_vl15 if follower.vl15 else self._ready).append(follower)
            if not waiting:
                del self._waiting[device]
        elif self._busy[device] > 1:
            self._busy[device] -= 1
        else:
            del self._busy[device]
        request.done(answer)

    def _retry(self, request: _Request, failure: Failure) -> None:
        request.tries += 1
        if request.tries > self.limits.retries:
            self._finish(request, failure)
            return
        self.statistics.retried += 1
        (self._ready_vl15 if request.vl15 else self._ready).append(request)

    def _expire(self, moment: float) -> float | None:
        """Give up on what is overdue; return when the next one is, None when nothing is left."""
        out = self._outstanding
        while out:
            tid = next(iter(out))  # all timeouts are equal: the oldest is due first
            request, due = out[tid]
            if due > moment:
                return due
            self._timed_out(self._release(tid), request)
        return None

    def _timed_out(self, request: _Request, _same: object = None) -> None:
        self.statistics.timed_out += 1
        tries = request.tries + 1
        self._retry(
            request,
            Failure("timeout", f"no answer after {tries} tries of {self.limits.timeout_s:g} s"),
        )

    def _take(self, received: Received) -> None:
        status, lid, mad = received
        try:
            header = frame.parse_header(mad)
        except Malformed:
            self.statistics.malformed += 1
            return  # nobody can tell whose it is; its request times out
        tid = header.tid & 0xFFFFFFFF
        entry = self._outstanding.get(tid)
        if entry is None:
            self.statistics.stray += 1
            return
        request = entry[0]
        if status:
            self._release(tid)
            if status == errno.ETIMEDOUT:
                self._timed_out(request)
            else:
                self._finish(request, Failure("send", f"the port gave it back: errno {status}"))
            return
        if not self._is_answer(request, header, lid, mad):
            self.statistics.stray += 1
            return  # somebody else's: the request is still open
        self._release(tid)
        self.statistics.answered += 1
        self._finish_with(request, header, mad)

    @staticmethod
    def _is_answer(request: _Request, header: frame.Header, lid: int, mad: bytes) -> bool:
        """Tell whether a datagram with this request's id comes from whom it asked.

        A transaction id alone is not enough: a confused node may echo another's.
        """
        method = frame.METHOD_GET_TABLE_RESPONSE if request.table else frame.METHOD_GET_RESPONSE
        if header.method != method or header.mgmt_class != request.mgmt_class:
            return False
        if header.attribute != request.attribute or header.modifier != request.modifier:
            return False
        if request.mgmt_class == frame.CLASS_SMP_DIRECT:
            try:
                return frame.direct_path(mad) == request.path
            except Malformed:
                return False
        return lid in (0, request.lid)

    def _finish_with(self, request: _Request, header: frame.Header, mad: bytes) -> None:
        if header.status == 0:
            whole = request.mgmt_class == frame.CLASS_SA
            self._finish(request, mad if whole else mad[frame.PAYLOAD_AT :])
            return
        self.statistics.refused += 1
        text = frame.status_text(header.status)
        if frame.is_busy(header.status):
            self._retry(request, Failure("status", text))
        elif frame.is_unsupported(header.status):
            self._finish(request, Failure("unsupported", text))
        else:
            self._finish(request, Failure("status", text))

    def _abandon(self, failure: Failure) -> None:
        left = [request for request, _ in self._outstanding.values()]
        left += [*self._ready, *self._ready_vl15]
        left += [request for queue in self._waiting.values() for request in queue]
        self._outstanding.clear()
        self._ready.clear()
        self._ready_vl15.clear()
        self._waiting.clear()
        self._busy.clear()
        self._out_vl15 = 0
        for request in left:
            request.done(failure)
