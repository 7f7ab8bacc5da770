"""Agents inside the lab: one per simulated host and one on the switch, each seeing only its own.

They are the product's own command, `fabric-agent run --config FILE`, as a user would start it;
config, spool and log of each are in the lab's folder. Under emulation a start takes seconds, so
all are started side by side.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from collectors.host.registry import HOST_COLLECTORS
from simlab.rxe.fabric import SWITCH, rdma_device, switch_port
from simlab.rxe.lab import Lab, inner_metrics_port
from simlab.rxe.machine import LabError

# What a Soft-RoCE host has anything to say to; the rest costs an emulated CPU and finds nothing.
HOST_COLLECTORS_ON = frozenset({"sysfs", "hw_counters", "ip_ecn", "netdev"})
DEADLINE_S = 20.0  # under emulation on a busy machine a pass may take seconds
LOOPBACK = {"localhost", "127.0.0.1", "0.0.0.0", "::1"}  # noqa: S104  compared, not bound


def agent_config(lab: Lab, host: str, tuner: str, interval_s: float) -> dict[str, Any]:
    """Return the configuration of a host's (or the switch's) agent.

    `tuner` is host:port as seen from outside the lab.
    """
    cables = lab.folder / f"cables-{host}.yaml"
    on = frozenset() if host == SWITCH else HOST_COLLECTORS_ON
    config: dict[str, Any] = {
        "agent": host,
        "interval": interval_s,
        "devices": {"include": [rdma_device(host), host]},
        "metrics": {"address": "0.0.0.0", "port": inner_metrics_port(host)},  # noqa: S104
        "collectors": {
            "topology": {"on": True, "options": {"file": str(cables)}},
            **{name: {"deadline": DEADLINE_S} for name in on},
            **{row.name: {"on": False} for row in HOST_COLLECTORS if row.on and row.name not in on},
        },
    }
    if host == SWITCH:
        config["devices"] = {"include": ["p[1-8]"]}
        # A switch has no RDMA device; everything about its ports is in its queues.
        options = {"switch": SWITCH}
        config["collectors"]["qdisc"] = {"on": True, "deadline": DEADLINE_S, "options": options}
    if tuner:
        address, _, port = tuner.rpartition(":")
        inside = lab.outer(int(port)) if address in LOOPBACK else tuner
        config["uplink"] = {"tuner": inside, "spool": str(spool(lab, host))}
    return config


def start_agents(
    lab: Lab, tuner: str = "", *, interval_s: float = 2.0, hosts: Iterable[str] | None = None
) -> None:
    """Start the agents of all (or the given) hosts; does not wait for them.

    Raises LabError where there is no fabric-agent.
    """
    _compile()
    for host in hosts if hosts is not None else [*lab.hosts, SWITCH]:
        config = lab.folder / f"agent-{host}.yaml"
        (lab.folder / f"cables-{host}.yaml").write_text(yaml.safe_dump(cables_of(lab, host)))
        lab.machine.sh(f"mkdir -p {spool(lab, host)}")
        config.write_text(yaml.safe_dump(agent_config(lab, host, tuner, interval_s)))
        start_agent(lab, host)


def spool(lab: Lab, host: str) -> Path:
    """Folder of an agent's spool: in the VM's memory, where it outlives the agent.

    In the shared folder each of its fsyncs would wait for this host's disk, and with it every
    other file of the VM: on a busy disk that stops the traffic, too.
    """
    inside = lab.folder if lab.machine.kind == "host" else Path("/run/fabric-lab")
    return inside / "spool" / host


def _compile() -> None:
    """Compile what agents import on this host, once: in the lab it would be done at each start."""
    for package in ("agent", "collectors"):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            compileall.compile_dir(folder, quiet=2)


def start_agent(lab: Lab, host: str) -> Path:
    """Start one host's agent, again after a crash or stop; the path of its log."""
    argv = [*agent_command(), "run", "--config", str(lab.folder / f"agent-{host}.yaml")]
    env = inside_environment()
    return lab.start_command(f"agent-{host}", argv, on_switch=host == SWITCH, env=env)


def cables_of(lab: Lab, host: str) -> dict[str, Any]:
    """Return what LLDP would tell a host: its own cable; the switch knows all of them."""
    return {
        "links": [
            [{"host": name, "netdev": name}, {"switch": SWITCH, "interface": switch_port(name)}]
            for name in lab.hosts
            if host in (name, SWITCH)
        ]
    }


def kill_agent(lab: Lab, host: str) -> None:
    """End one host's agent as a crash would: SIGKILL."""
    lab.stop_command(f"agent-{host}", signal.SIGKILL)


def stop_agents(lab: Lab, wait_s: float = 30.0) -> dict[str, int]:
    """End all running agents as an administrator would (SIGTERM); exit code by host."""
    running = [name for name, code in lab.commands().items() if code is None]
    return {
        name.removeprefix("agent-"): lab.stop_command(name, signal.SIGTERM, wait_s)
        for name in running
        if name.startswith("agent-")
    }


def wait_for_agents(lab: Lab, hosts: Iterable[str] | None = None, timeout_s: float = 240.0) -> None:
    """Wait until every agent serves its metrics. Raises LabError naming the one that does not."""
    until = time.monotonic() + timeout_s
    for host in hosts if hosts is not None else [*lab.hosts, SWITCH]:
        while not _serves(lab, host, until):
            time.sleep(0.5)


def _serves(lab: Lab, host: str, until: float) -> bool:
    """Tell whether an agent serves its metrics; LabError where it ended or `until` has passed."""
    try:
        scrape(lab, host)
    except LabError as error:
        ended = lab.commands().get(f"agent-{host}")
        if ended is None and time.monotonic() <= until:
            return False
        log = (lab.folder / f"agent-{host}.log").read_text(errors="replace")
        tail = " | ".join(log.strip().splitlines()[-3:]) or "empty log"
        raise LabError(f"agent of {host} serves no metrics: {tail}") from error
    return True


def scrape(lab: Lab, host: str, timeout_s: float = 20.0) -> str:
    """Fetch /metrics of a host's agent. Raises LabError where it does not answer."""
    url = f"http://127.0.0.1:{lab.metrics_port(host)}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.URLError) as error:
        raise LabError(f"{host}: {url}: {error}") from error


def agent_command() -> list[str]:
    """Return the fabric-agent of this environment. Raises LabError if there is none."""
    beside = Path(sys.executable).parent / "fabric-agent"
    found = str(beside) if beside.exists() else shutil.which("fabric-agent")
    if found is None:
        raise LabError("fabric-agent is not installed here: ./run setup")
    return [found]


def inside_environment() -> dict[str, str]:
    """Variables that commands in the lab need to find the same code as this process."""
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    # Nothing may be written beside the sources: the lab's root is read-only.
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
