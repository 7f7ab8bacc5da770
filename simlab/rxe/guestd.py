"""The lab's daemon: runs beside the simulated hosts and does what the lab asks over one socket.

In the VM it is the program that the VM was booted for; on a host whose kernel has rdma_rxe it
is a child of the lab. Standard library only, run by path with the system's Python: under
emulation every import costs. Requests and answers are JSON lines; the first line is the token.

The connection is the leash: when it closes, every spawned process is killed and the daemon
ends (and the VM with it), so a lab that dies leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import glob
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FIRST_CONTACT_S = 120.0


class Daemon:
    """What the lab may ask for; each public method is one operation."""

    def __init__(self) -> None:
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.returned: dict[str, int] = {}

    def ping(self) -> dict[str, Any]:
        """Tell who answers: process id, uptime in seconds, kernel release."""
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return {"pid": os.getpid(), "uptime_s": uptime, "kernel": os.uname().release}

    def set_clock(self, wall_s: float) -> None:
        """Set the wall clock (seconds since the epoch); the VM only."""
        time.clock_settime(time.CLOCK_REALTIME, wall_s)

    def run(self, script: str, timeout_s: float = 60.0, stdin: str = "") -> dict[str, Any]:
        """Run a shell script to its end; its text output and exit code (124 on time-out)."""
        child = subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = child.communicate(stdin.encode(), timeout=timeout_s)
            code = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            code = 124
        return {
            "code": code,
            "out": out.decode(errors="replace"),
            "err": err.decode("utf-8", "replace"),
        }

    def spawn(self, name: str, argv: list[str], log: str, env: dict[str, str]) -> int:
        """Start a process under a name, its output appended to a file; its process id."""
        if name in self.children and self.children[name].poll() is None:
            raise ValueError(f"{name} already runs")
        with Path(log).open("ab") as sink:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
            )
        self.children[name] = child
        return child.pid

    def status(self) -> dict[str, int | None]:
        """Exit code of every spawned process by name; None while it runs."""
        return {name: child.poll() for name, child in self.children.items()}

    def stop(self, name: str, signal_number: int, wait_s: float = 10.0) -> int | None:
        """Signal a spawned process and wait; its exit code, None if it still runs."""
        child = self.children[name]
        if child.poll() is None:
            child.send_signal(signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(wait_s)
        return child.poll()

    def read(self, patterns: list[str]) -> dict[str, str]:
        """Text of every readable file that matches."""
        found: dict[str, str] = {}
        for pattern in patterns:
            for path in sorted(glob.glob(pattern)):  # noqa: PTH207  Path.glob takes no absolute pattern
                with contextlib.suppress(OSError):
                    found[path] = Path(path).read_text(errors="replace")
        return found

    def write(self, path: str, text: str) -> None:
        """Write a file (in a VM: on its own overlay unless the folder is shared)."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)

    def kill_all(self) -> None:
        """Kill every spawned process and its group."""
        for child in self.children.values():
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()


OPERATIONS = ("ping", "set_clock", "run", "spawn", "status", "stop", "read", "write")


def answer(daemon: Daemon, line: str) -> dict[str, Any]:
    """Do one request; an exception becomes its text."""
    try:
        request = json.loads(line)
        operation = request.pop("op")
        if operation not in OPERATIONS:
            raise ValueError(f"unknown operation {operation!r}")
        return {"value": getattr(daemon, operation)(**request)}
    except Exception as error:  # noqa: BLE001  the lab reads it, the daemon lives on
        return {"error": f"{type(error).__name__}: {error}"}


def serve(listener: socket.socket, token: str, cleanup: str) -> None:
    """Serve the one owner until its connection closes."""
    listener.settimeout(FIRST_CONTACT_S)
    daemon = Daemon()
    try:
        while True:
            connection, _ = listener.accept()
            connection.settimeout(None)
            stream = connection.makefile("rw", encoding="utf-8", newline="\n")
            if hmac.compare_digest(stream.readline().strip(), token):
                break
            connection.close()
        listener.close()
        for line in stream:
            stream.write(json.dumps(answer(daemon, line)) + "\n")
            stream.flush()
    finally:
        daemon.kill_all()
        if cleanup:
            subprocess.run(["/bin/sh", "-c", cleanup], check=False)


def main() -> None:
    """Arguments: address, port, token file, script to run at the end (may be empty)."""
    address, port, token_file, cleanup_file = sys.argv[1:5]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cleanup = Path(cleanup_file).read_text() if cleanup_file else ""
    with socket.create_server((address, int(port))) as listener:
        serve(listener, Path(token_file).read_text().strip(), cleanup)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, TimeoutError):
        main()
