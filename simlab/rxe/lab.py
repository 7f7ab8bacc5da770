"""The Soft-RoCE lab as an object: boot, apply a scenario, run traffic, count, change, end.

    with Lab(hosts=4) as lab:
        lab.apply(read_scenario("lossy-link"))
        report = lab.run_traffic(10)
        lab.change(Change("port.loss_ratio", "p2", 0.0))

One boot serves any number of scenarios. Leaving the `with` block, however, ends everything.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct

from simlab.rxe import fabric
from simlab.rxe.counters import SNAPSHOT, Counters, parse_counters, retransmissions, since
from simlab.rxe.machine import (
    HERE,
    PYTHON,
    SWITCH_MANAGEMENT,
    LabError,
    Machine,
    Where,
    start,
)
from simlab.rxe.scenario import Change, Flow, Scenario, flows, host_names, with_change

METRICS_PORT = 9400  # host hN's agent serves its metrics on 9400 + N, the switch's on 9400
TRAFFIC = "traffic"
DRAIN_S = 5.0
CONNECT_GRACE_S = 60.0  # workers start and connect; slow under emulation


class FlowReport(Struct, frozen=True):
    """What a flow's sender completed. seconds_bps: goodput of each second of the run."""

    name: str
    sender: str
    receiver: str
    goodput_bps: float
    bytes: int
    messages: int
    errors: int
    reconnects: int
    seconds_bps: list[float]


class RunReport(Struct, frozen=True):
    """A traffic run: goodput per flow and everything that was counted meanwhile."""

    scenario: str
    elapsed_s: float
    flows: list[FlowReport]
    counted: Counters

    def flow(self, name: str) -> FlowReport:
        """Return a flow by name."""
        return next(flow for flow in self.flows if flow.name == name)

    def retransmissions(self, flow: str) -> int:
        """Events at the flow's sender that made it send again."""
        return retransmissions(self.counted, self.flow(flow).sender)


class Lab:
    """A running lab. Methods raise LabError; the object is not for several threads."""

    def __init__(
        self,
        hosts: int = 4,
        *,
        where: Where = "auto",
        say: Callable[[str], None] = lambda _: None,
        cpus: int = 2,
        memory_mib: int = 3072,
    ) -> None:
        self.host_count = hosts
        self.scenario: Scenario | None = None
        self._say = say
        self._where: Where = where
        self._cpus = cpus
        self._memory_mib = memory_mib
        self._machine: Machine | None = None
        self._job: dict[str, Any] = {}
        self._before: Counters | None = None
        self._runs = 0

    @property
    def machine(self) -> Machine:
        """The machine that the lab runs on."""
        if self._machine is None:
            raise LabError("the lab is not running (use it in a with block)")
        return self._machine

    @property
    def folder(self) -> Path:
        """Folder that both sides see; it is gone when the lab ends."""
        return self.machine.folder

    @property
    def hosts(self) -> list[str]:
        """Names of the simulated hosts."""
        return host_names(self.host_count)

    def __enter__(self) -> Self:
        self._machine = start(
            ports=tuple(METRICS_PORT + number for number in range(1, 9)),
            switch_port=METRICS_PORT,
            where=self._where,
            cleanup=fabric.destroy(),
            cpus=self._cpus,
            memory_mib=self._memory_mib,
            say=self._say,
        )
        try:
            if self.machine.kind == "host":
                self._refuse_foreign_names()
            self._say(f"booted in {self.machine.boot_s:.0f} s; building {self.host_count} hosts")
            self._create(self.host_count)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the lab and everything in it; safe to repeat."""
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()

    # --- fabric ------------------------------------------------------------------------------

    def apply(self, scenario: Scenario) -> None:
        """Give the fabric the scenario's links; the number of hosts is changed if it must be."""
        if scenario.fabric.hosts != self.host_count:
            self.machine.sh(fabric.destroy(), timeout_s=120)
            self._create(scenario.fabric.hosts)
        self.machine.sh(fabric.settings(scenario), timeout_s=120)
        self.scenario = scenario

    def change(self, change: Change) -> Scenario:
        """Apply one change: to a link at once, to a flow from the next traffic run on."""
        scenario = with_change(self._applied(), change)
        links = {host: scenario.link(host) for host in scenario.hosts}
        changed = {h: link for h, link in links.items() if link != self._applied().link(h)}
        if changed:
            self.machine.sh(fabric.link_settings(changed))
        self.scenario = scenario
        return scenario

    def counters(self) -> Counters:
        """Read the truth: every counter of every host and switch port."""
        return parse_counters(self.machine.sh(SNAPSHOT))

    # --- traffic -----------------------------------------------------------------------------

    def start_traffic(self, duration_s: float | None = None) -> None:
        """Start the scenario's flows; they run for the duration, counted from connected."""
        scenario = self._applied()
        self._runs += 1
        folder = self.folder / f"traffic-{self._runs}"
        folder.mkdir()
        job = traffic_job(scenario, duration_s or scenario.duration_s, folder)
        (folder / "job.json").write_text(json.dumps(job))
        self._before = self.counters()
        argv = [PYTHON, "-E", "-s", str(HERE / "traffic.py"), str(folder / "job.json")]
        self._spawn(TRAFFIC, argv, folder / "log")
        self._job = job

    def traffic_running(self) -> bool:
        """Tell whether the flows of the last start_traffic are still at it."""
        return bool(self._job) and self.machine.ask("status").get(TRAFFIC, 0) is None

    def progress(self) -> list[FlowReport]:
        """Goodput so far of the current or last traffic run."""
        return parse_reports(_reports(Path(self._job["folder"])), flows(self._applied()))

    def finish_traffic(self) -> RunReport:
        """Wait for the flows to end and report on the run."""
        until = time.monotonic() + float(self._job["duration_s"]) + CONNECT_GRACE_S
        while self.traffic_running():
            if time.monotonic() > until:
                self.machine.ask("stop", name=TRAFFIC, signal_number=signal.SIGKILL)
                raise LabError(f"traffic did not end: {self._log_tail()}")
            time.sleep(0.2)
        code = self.machine.ask("status")[TRAFFIC]
        done = self.progress()
        if code or not done:
            raise LabError(f"traffic failed (exit code {code}): {self._log_tail()}")
        assert self._before is not None  # noqa: S101  start_traffic set it
        counted = since(self._before, self._drained())
        return RunReport(self._applied().name, float(self._job["duration_s"]), done, counted)

    def run_traffic(self, duration_s: float | None = None) -> RunReport:
        """Run the scenario's flows from start to end."""
        self.start_traffic(duration_s)
        return self.finish_traffic()

    # --- agents and other commands in the lab --------------------------------------------------

    def start_command(
        self,
        name: str,
        argv: Sequence[str],
        *,
        on_switch: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Path:
        """Start a long-running command in the lab under a name; the path of its log.

        The command sees the same files as this host (read-only, but for the lab's folder).
        On the switch it runs in the switch's network namespace.
        """
        log = self.folder / f"{name}.log"
        inside = ["ip", "netns", "exec", fabric.SWITCH] if on_switch else []
        self._spawn(name, [*inside, *argv], log, env)
        return log

    def stop_command(self, name: str, number: int = signal.SIGTERM, wait_s: float = 20.0) -> int:
        """Signal a command (SIGKILL for a crash) and wait; its exit code."""
        code = self.machine.ask("stop", name=name, signal_number=int(number), wait_s=wait_s)
        if code is None:
            raise LabError(f"{name} still runs {wait_s:.0f} s after signal {int(number)}")
        return int(code)

    def commands(self) -> dict[str, int | None]:
        """Exit code of every command started in the lab; None while it runs."""
        return dict(self.machine.ask("status"))

    def metrics_port(self, host: str) -> int:
        """Port on this host's 127.0.0.1 that leads to METRICS_PORT + N of the lab's host hN."""
        return self.machine.forwards[inner_metrics_port(host)]

    def outer(self, port: int) -> str:
        """Address in the lab of a TCP port on this host's loopback, as host:port."""
        return f"{self.machine.outer}:{port}"

    # --- inside ------------------------------------------------------------------------------

    def _drained(self) -> Counters:
        """Counters once the queues are empty: what was sent is counted where it arrives, too."""
        until = time.monotonic() + DRAIN_S
        while True:
            counters = self.counters()
            waiting = sum(port.backlog_bytes for port in counters.ports.values())
            if not waiting or time.monotonic() > until:
                return counters
            time.sleep(0.2)

    def _create(self, hosts: int) -> None:
        management = "" if self.machine.kind == "host" else SWITCH_MANAGEMENT
        self.machine.sh(fabric.create(hosts, management), timeout_s=120)
        self.host_count = hosts

    def _applied(self) -> Scenario:
        if self.scenario is None:
            raise LabError("no scenario has been applied")
        return self.scenario

    def _spawn(
        self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.machine.ask("spawn", name=name, argv=list(argv), log=str(log), env=dict(env or {}))

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            text = (Path(self._job["folder"]) / "log").read_text(errors="replace")
            return " | ".join(text.strip().splitlines()[-3:]) or "no message"
        return "no log"

    def _refuse_foreign_names(self) -> None:
        """On a real host: never take over interfaces that are not the lab's."""
        names = [*self.hosts, f"netns/{fabric.SWITCH}"]
        paths = [f"/sys/class/net/{name}" for name in self.hosts]
        paths.append(f"/run/netns/{fabric.SWITCH}")
        there = self.machine.sh(f"ls -d {shlex.join(paths)} 2>/dev/null || true").split()
        if there:
            raise LabError(f"this host already has {there[0]}; the lab needs the names {names}")


def inner_metrics_port(host: str) -> int:
    """Port inside the lab on which the agent of a host (or of the switch `sw`) serves metrics."""
    return METRICS_PORT + (0 if host == fabric.SWITCH else int(host[1:]))


def traffic_job(scenario: Scenario, duration_s: float, folder: Path) -> dict[str, Any]:
    """Describe a traffic run for traffic.py."""
    return {
        "folder": str(folder),
        "duration_s": duration_s,
        "hosts": {
            host: {"device": fabric.rdma_device(host), "address": fabric.address(host)}
            for host in scenario.hosts
        },
        "flows": [
            {
                **msgspec.to_builtins(flow.traffic),
                "name": flow.name,
                "sender": flow.sender,
                "receiver": flow.receiver,
                "sender_address": fabric.address(flow.sender),
                "receiver_address": fabric.address(flow.receiver),
            }
            for flow in flows(scenario)
        ],
    }


def parse_reports(reports: Mapping[str, str], wanted: Sequence[Flow]) -> list[FlowReport]:
    """Make flow reports of the workers' JSON lines (text by host); unfinished lines are left out.

    Goodput is what the sender saw completed (acknowledged by the receiver's device) per second.
    """
    lines = [line for text in reports.values() for line in text.splitlines(keepends=True)]
    rows: dict[str, list[dict[str, Any]]] = {}
    for report in (json.loads(line) for line in lines if line.endswith("\n")):
        for end in report["ends"]:
            if end["side"] == "sender":
                rows.setdefault(end["flow"], []).append({**end, "at": report["elapsed_s"]})
    found = []
    for flow in wanted:
        if not (totals := rows.get(flow.name)):
            continue
        last = totals[-1]
        found.append(
            FlowReport(
                name=flow.name,
                sender=flow.sender,
                receiver=flow.receiver,
                goodput_bps=last["bytes"] * 8 / last["at"] if last["at"] else 0.0,
                bytes=last["bytes"],
                messages=last["messages"],
                errors=last["errors"],
                reconnects=last["reconnects"],
                seconds_bps=[
                    (new["bytes"] - old["bytes"]) * 8 / (new["at"] - old["at"])
                    for old, new in itertools.pairwise(totals)
                    if new["at"] - old["at"] > 0.5
                ],
            )
        )
    return found


def _reports(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.jsonl"))}
