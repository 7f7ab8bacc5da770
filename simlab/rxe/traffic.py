"""Real RC traffic between the lab's hosts: one worker process a host, through pyverbs.

Run by path with the distribution's Python inside the lab: `traffic.py JOB.json`. The parent
imports pyverbs once and forks the workers before any device is opened, since an import costs
seconds under emulation. The two ends of a flow exchange their QPs over a socket pair, as an
application would over its control connection; when a QP fails (retries exceeded), both ends
reset and connect again, and the failure is counted.

Each worker appends to FOLDER/HOST.jsonl, once a second and at the end, the running totals of its
flow ends: bytes and messages completed, completions in error, reconnects, posted buffers.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

try:
    import pyverbs.libibverbs_enums as e
except ImportError:  # rdma-core before 50
    import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
IDLE_S = 0.003
CONNECT_S = 30.0
FINISH_S = 5.0
PORT = 1
Wires = dict[str, tuple[socket.socket, socket.socket]]


def gid_index(device: str, address: str) -> int:
    """Find the RoCE v2 GID of an address; its index is never assumed."""
    folder = Path(f"/sys/class/infiniband/{device}/ports/{PORT}")
    wanted = ipaddress.ip_address(address)
    for path in sorted((folder / "gids").iterdir(), key=lambda entry: int(entry.name)):
        if ipaddress.ip_address(path.read_text().strip()) != wanted:
            continue
        if (folder / "gid_attrs/types" / path.name).read_text().strip() == "RoCE v2":
            return int(path.name)
    raise SystemExit(f"{device}: no RoCE v2 GID for {address}")


class End:
    """One end of a flow: its QPs on one completion queue, and its totals."""

    def __init__(
        self, host: dict[str, Any], flow: dict[str, Any], sending: bool, peer: socket.socket
    ) -> None:
        self.flow = flow
        self.sending = sending
        self.control = peer
        self.lines = peer.makefile("r")
        self.host = host
        self.size = int(flow["message_bytes"])
        self.slots = int(flow["depth"] if sending else flow["recv_buffers"])
        self.context: Context = host["context"]
        self.mtu = int(self.context.query_port(PORT).active_mtu)
        self.mr = MR(host["pd"], self.size, ACCESS)
        entries = max(16, 2 * self.slots * int(flow["qps"]))
        self.cq = CQ(self.context, entries)
        capacity = QPCap(max_send_wr=self.slots + 1, max_recv_wr=self.slots + 1)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=capacity)
        self.qps = [QP(host["pd"], init) for _ in range(int(flow["qps"]))]
        self.number = {qp.qp_num: index for index, qp in enumerate(self.qps)}
        self.posted = [0] * len(self.qps)
        self.remote: dict[str, Any] = {}
        self.next_drain = 0.0
        self.finished = False
        self.paced_bytes = 0.0
        self.totals = {"bytes": 0, "messages": 0, "errors": 0, "reconnects": 0}
        self.sge = SGE(self.mr.buf, self.size, self.mr.lkey)

    def say(self, **what: Any) -> None:
        """Send one line to the other end."""
        self.control.sendall((json.dumps(what) + "\n").encode())

    def hear(self) -> dict[str, Any]:
        """Wait for one line of the other end."""
        line = self.lines.readline()
        if not line:
            raise EOFError
        return dict(json.loads(line))

    def offer(self) -> dict[str, Any]:
        """Describe this end for the other one."""
        numbers = [qp.qp_num for qp in self.qps]
        return {"qpns": numbers, "rkey": self.mr.rkey, "addr": self.mr.buf, "mtu": self.mtu}

    def connect(self) -> None:
        """Take all QPs from whatever state to ready, in step with the other end."""
        self.control.settimeout(CONNECT_S)
        self.mtu = int(self.context.query_port(PORT).active_mtu)
        self.say(offer=self.offer())
        while "offer" not in (heard := self.hear()):
            pass
        self.remote = heard["offer"]
        for qp, number in zip(self.qps, self.remote["qpns"], strict=True):
            qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            qp.to_rts(self.attributes(number))
        while self.cq.poll(64)[0]:
            pass
        self.posted = [0] * len(self.qps)
        if not self.sending and self.flow["verb"] == "send":
            self.post_receives()
        self.say(ready=True)
        while "ready" not in self.hear():
            pass
        self.control.settimeout(None)

    def attributes(self, remote_number: int) -> QPAttr:
        """All that a connected RC QP needs."""
        flow = self.flow
        attributes = QPAttr(port_num=PORT)
        attributes.qp_access_flags = ACCESS
        attributes.dest_qp_num = remote_number
        attributes.path_mtu = min(self.mtu, int(self.remote["mtu"]))
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = int(flow["min_rnr_timer"])
        attributes.timeout = int(flow["timeout"])
        attributes.retry_cnt = int(flow["retry_cnt"])
        attributes.rnr_retry = int(flow["rnr_retry"])
        attributes.rq_psn = attributes.sq_psn = 0
        peer = flow["receiver_address"] if self.sending else flow["sender_address"]
        route = GlobalRoute(
            dgid=GID(ipaddress.ip_address(peer).exploded),
            sgid_index=self.host["gid_index"],
            traffic_class=int(flow["tclass"]),
            hop_limit=64,
        )
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        return attributes

    def post_receives(self) -> None:
        """Fill every receive queue up to its number of buffers."""
        for index, qp in enumerate(self.qps):
            while self.posted[index] < self.slots:
                qp.post_recv(RecvWR(wr_id=index, num_sge=1, sg=[self.sge]))
                self.posted[index] += 1

    def post_sends(self, elapsed_s: float) -> None:
        """Keep every send queue full, or as full as the pace allows."""
        write = self.flow["verb"] == "write"
        opcode = e.IBV_WR_RDMA_WRITE if write else e.IBV_WR_SEND
        pace = self.flow["rate_bps"]
        for index, qp in enumerate(self.qps):
            while self.posted[index] < self.slots:
                if pace and self.paced_bytes * 8 > pace * elapsed_s:
                    return
                request = SendWR(wr_id=index, opcode=opcode, num_sge=1, sg=[self.sge])
                if write:
                    request.set_wr_rdma(self.remote["rkey"], self.remote["addr"])
                qp.post_send(request)
                self.posted[index] += 1
                self.paced_bytes += self.size

    def collect(self) -> bool:
        """Take completions; True if a QP of a sender failed and must be connected again."""
        failed = False
        while True:
            count, completions = self.cq.poll(32)
            for completion in completions[:count]:
                self.posted[self.number[completion.qp_num]] -= 1
                if completion.status == e.IBV_WC_SUCCESS:
                    self.totals["messages"] += 1
                    self.totals["bytes"] += self.size
                elif completion.status != e.IBV_WC_WR_FLUSH_ERR:
                    self.totals["errors"] += 1
                    failed = True
                else:
                    failed = True
            if count < 32:
                return failed and self.sending

    def step(self, now: float, elapsed_s: float, *, post: bool = True) -> None:
        """Do what is due; without `post`, only finish what is under way."""
        if self.sending:
            if self.collect() and post:
                self.totals["reconnects"] += 1
                self.say(reconnect=True)
                self.connect()
            if post:
                self.post_sends(elapsed_s)
            return
        if self.flow["verb"] == "send" and now >= self.next_drain:
            self.collect()
            self.post_receives()
            self.next_drain = now + float(self.flow["drain_interval_s"])
        if self.asked():
            self.connect()

    def asked(self) -> bool:
        """Tell whether the sender asks for a new connection; note when it is through."""
        if self.finished:
            return False
        try:
            waiting = self.control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        heard = self.hear() if waiting else {"done": True}
        self.finished = "done" in heard
        return "reconnect" in heard

    def finish(self) -> bool:
        """Tell whether nothing is under way any more; a sender then says so."""
        if self.sending and not self.finished and not any(self.posted):
            self.finished = True
            self.say(done=True)
        return self.finished


def work(name: str, job: dict[str, Any], wires: Wires) -> None:
    """Be one host: connect all its flow ends, run to the end of the job, report."""
    host = dict(job["hosts"][name])
    host["gid_index"] = gid_index(host["device"], host["address"])
    host["context"] = Context(name=host["device"])
    host["pd"] = PD(host["context"])
    ends: list[End] = []
    for flow in job["flows"]:
        for side, sending in (("sender", True), ("receiver", False)):
            if flow[side] == name:
                ends.append(End(host, flow, sending, wires[flow["name"]][0 if sending else 1]))
    for end in ends:  # the same order of flows at every host: no two wait for each other
        end.connect()
    began = time.monotonic()
    next_report = began + 1.0
    with (Path(job["folder"]) / f"{name}.jsonl").open("a") as sink:
        report(sink, ends, 0.0, "start")
        while (now := time.monotonic()) < began + float(job["duration_s"]):
            before = sum(end.totals["messages"] for end in ends)
            for end in ends:
                end.step(now, now - began)
            if now >= next_report:
                report(sink, ends, now - began, "running")
                next_report += 1.0
            if sum(end.totals["messages"] for end in ends) == before:
                time.sleep(IDLE_S)
        report(sink, ends, time.monotonic() - began, "end")
    # A receiver that left first would make its senders time out: stay until all are through.
    until = time.monotonic() + FINISH_S
    open_ends = ends
    while open_ends and (now := time.monotonic()) < until:
        for end in open_ends:
            end.step(now, 0.0, post=False)
        open_ends = [end for end in open_ends if not end.finish()]
        time.sleep(IDLE_S)


def report(sink: Any, ends: list[End], elapsed_s: float, state: str) -> None:
    """Append the totals of all ends."""
    rows = [
        {"flow": end.flow["name"], "side": "sender" if end.sending else "receiver", **end.totals}
        for end in ends
    ]
    line = {"wall_s": time.time(), "elapsed_s": elapsed_s, "state": state, "ends": rows}
    sink.write(json.dumps(line) + "\n")
    sink.flush()


def close_foreign(name: str, job: dict[str, Any], wires: Wires) -> None:
    """Close the other workers' ends: or a worker that dies would never be missed."""
    for flow in job["flows"]:
        for side, wire in zip(("sender", "receiver"), wires[flow["name"]], strict=True):
            if flow[side] != name:
                wire.close()


def main() -> int:
    """Fork one worker a host and wait for all; exit 1 if one failed."""
    job = json.loads(Path(sys.argv[1]).read_text())
    wires = {flow["name"]: socket.socketpair() for flow in job["flows"]}
    busy = {flow[side] for flow in job["flows"] for side in ("sender", "receiver")}
    children = []
    for name in sorted(busy):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            close_foreign(name, job, wires)
            try:
                work(name, job, wires)
            except BaseException as error:  # noqa: BLE001  the log is how the lab hears of it
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    for pair in wires.values():
        for wire in pair:
            wire.close()
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
