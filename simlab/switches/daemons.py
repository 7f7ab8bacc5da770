"""Real daemons on the loopback, for tests and labs: net-snmp's snmpd and Redis."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simlab.loopback import free_port


class DaemonFailed(Exception):
    """A daemon is not installed or did not come up; the text says which and how to get it."""


def _find(program: str, package: str) -> str:
    found = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin")
    if found is None:
        raise DaemonFailed(f"{program} is not installed: apt-get install {package}")
    return found


@contextmanager
def running(
    argv: list[str], log: Path, prefix: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon in the foreground, its output in a file, and stop it at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen([*prefix, *argv], stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def snmpd(
    folder: Path,
    extra: str = "",
    address: str = "127.0.0.1",
    port: int | None = None,
    prefix: tuple[str, ...] = (),
) -> Iterator[int]:
    """Run snmpd with community `public` and the SNMPv3 user `reader`; yield its UDP port.

    extra: more lines of configuration (`createUser`, `pass_persist`). Raises DaemonFailed.
    """
    program = _find("snmpd", "snmpd")
    port = port or free_port(socket.SOCK_DGRAM)
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "snmpd.conf"
    lines = (
        f"agentaddress udp:{address}:{port}",
        "rocommunity public default",
        'createUser reader SHA-256 "authentication pass" AES "privacy passphrase"',
        "rouser reader priv",
        f"agentXSocket unix:{folder}/agentx",
        "sysName leaf1",
        extra,
    )
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    argv = [program, "-f", "-Lo", "-C", "-c", str(config), "-p", str(folder / "pid")]
    environment = ("env", f"SNMP_PERSISTENT_DIR={folder}/state", f"SNMPCONFPATH={folder}")
    log = folder / "log"
    with running(argv, log, (*prefix, *environment)) as process:
        _wait(process, log, "NET-SNMP version")
        yield port


def _wait(process: subprocess.Popen[bytes], log: Path, sign: str, limit_s: float = 10.0) -> None:
    until = time.monotonic() + limit_s
    while sign not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            tail = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise DaemonFailed(f"{process.args!r} did not come up: {' | '.join(tail)}")
        time.sleep(0.05)


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """Run Redis with no persistence; yield its TCP port. Raises DaemonFailed."""
    program = _find("redis-server", "redis-server")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    log = folder / "log"
    with running(argv, log) as process:
        _wait(process, log, "Ready to accept connections")
        yield port
