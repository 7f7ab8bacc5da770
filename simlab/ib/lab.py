"""A live InfiniBand subnet without hardware: ibsim's fabric and a real OpenSM, in user space.

Everything lives in one folder and one process group each, and ends with the lab. Programs reach
the fabric through ibsim's preload library; each sees the host whose name it is given. ibsim takes
at most ten programs at a time and serves this machine (network namespace) only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Literal, Self, TypeAlias

from collectors.infiniband.netfile import format_net
from collectors.infiniband.topology import Topology
from collectors.model.errors import ConfigInvalid, NotSupported, Unavailable

_PRELOADS: Final = (
    "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so",
    "/usr/lib/aarch64-linux-gnu/umad2sim/libumad2sim.so",
    "/usr/lib/umad2sim/libumad2sim.so",
    "/usr/lib64/umad2sim/libumad2sim.so",
)
# ibsim 0.10 knows speeds up to HDR
_SPEEDS: Final = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR")

# ibsim hands requests that it does not know to the subnet manager's process, whatever their class,
# and OpenSM 3.3.23 does not survive a PerfMgt request: bring it back, it takes 50 ms.
_KEEP_RUNNING: Final = 'while :; do "$@"; sleep 0.1; done'

Manager: TypeAlias = Literal["none", "once", "keep"]


def find_tool(name: str) -> str:
    """Return the path of a program, also in /usr/sbin; raises NotSupported with the package."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        package = {"opensm": "opensm", "ibsim": "ibsim-utils"}.get(name, "infiniband-diags")
        raise NotSupported(name, "start lab", f"not installed; apt install {package}")
    return path


def find_preload() -> str:
    """Return ibsim's preload library; raises NotSupported where it is missing."""
    for path in _PRELOADS:
        if Path(path).exists():
            return path
    raise NotSupported("libumad2sim.so", "start lab", "not installed; apt install ibsim-utils")


class IbLab:
    """ibsim with a topology, and OpenSM on one of its hosts; use it with `with`."""

    def __init__(
        self,
        topology: Topology,
        *,
        manager: Manager = "once",
        opensm_options: str = "",
        folder: Path | None = None,
    ) -> None:
        """Prepare a lab. manager: run OpenSM's first sweep only, keep it running, or neither.

        opensm_options: lines of an opensm.conf.
        """
        slow = {
            port.speed
            for node in topology.nodes.values()
            for port in node.ports.values()
            if port.speed and port.speed not in _SPEEDS
        }
        if slow:
            raise ConfigInvalid("topology", "start lab", f"ibsim has no {', '.join(sorted(slow))}")
        self.topology = topology
        self.manager, self.opensm_options = manager, opensm_options
        self.socket_name = f"fabric-{os.getpid()}-{secrets.token_hex(3)}"
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="simlab-ib-"))
        self.sm_host = next(node.name for node in topology.adapters())
        self._ibsim: subprocess.Popen[bytes] | None = None
        self._opensm: subprocess.Popen[bytes] | None = None
        self._logs: list[IO[bytes]] = []
        self._runs = 0

    # --- life --------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start ibsim and wait for it, then run OpenSM; raises Unavailable when one fails."""
        ibsim, find = find_tool("ibsim"), find_preload()
        self._preload = find
        net = self.folder / "fabric.net"
        net.write_text(format_net(self.topology))
        nodes = len(self.topology.nodes)
        ports = sum(node.port_count + 1 for node in self.topology.nodes.values())
        switches = sum(1 for _ in self.topology.switches())
        argv = [
            ibsim,
            "-s",
            *("-N", str(max(nodes, 2048))),
            *("-S", str(max(switches, 256))),
            *("-P", str(max(ports, 13312))),
            str(net),
        ]
        self._ibsim = self._spawn("ibsim", argv, self.folder, {}, subprocess.PIPE)
        self._wait_for_socket()
        if self.manager != "none":
            self._start_opensm(nodes)

    def _spawn(
        self, name: str, argv: Sequence[str], folder: Path, extra: dict[str, str], stdin: int
    ) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("wb")
        self._logs.append(log)
        env = {**os.environ, "IBSIM_SOCKNAME": self.socket_name, **extra}
        # the kernel ends the program even where this process is killed outright
        leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        return subprocess.Popen(
            [*leash, *argv],
            cwd=folder,
            env=env,
            stdin=stdin,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _wait_for_socket(self, patience_s: float = 20.0) -> None:
        end = time.monotonic() + patience_s
        wanted = f"@{self.socket_name}:ctl"
        while time.monotonic() < end:
            if wanted in Path("/proc/net/unix").read_text():
                return
            if self._ibsim is not None and self._ibsim.poll() is not None:
                break
            time.sleep(0.02)
        text = (self.folder / "ibsim.log").read_text(errors="replace").strip().splitlines()
        raise Unavailable("ibsim", "start", text[-1] if text else "no socket and no message")

    def _start_opensm(self, nodes: int) -> None:
        run = self.folder / "opensm"
        run.mkdir(exist_ok=True)
        log = run / "osm.log"
        conf = run / "opensm.conf"
        conf.write_text(f"force_log_flush TRUE\n{self.opensm_options}")
        argv = [find_tool("opensm"), "-f", str(log), "-F", str(conf)]
        if self.manager == "once":
            argv.append("-o")
        else:
            argv = ["bash", "-c", _KEEP_RUNNING, "opensm", *argv]
        extra = {**self._client_env(self.sm_host), "OSM_CACHE_DIR": str(run)}
        extra["OSM_TMP_DIR"] = str(run)
        self._opensm = self._spawn("opensm", argv, run, extra, subprocess.DEVNULL)
        patience = 30.0 + nodes / 50
        if self.manager == "once":
            try:
                code = self._opensm.wait(patience)
            except subprocess.TimeoutExpired:
                raise Unavailable("opensm", "first sweep", f"not done in {patience:g} s") from None
            if code:
                raise Unavailable("opensm", "first sweep", f"exit code {code}; see {log}")
            return
        self.wait_subnet_up(patience)

    def sweeps_done(self) -> int:
        """Return how many times OpenSM has said that the subnet is up."""
        log = self.folder / "opensm" / "osm.log"
        return log.read_text(errors="replace").count("SUBNET UP") if log.exists() else 0

    def wait_subnet_up(self, patience_s: float = 30.0, times: int = 1) -> None:
        """Wait until OpenSM has said that often in all that the subnet is up."""
        log = self.folder / "opensm" / "osm.log"
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if self.sweeps_done() >= times:
                return
            if self._opensm is not None and self._opensm.poll() is not None:
                raise Unavailable(
                    "opensm", "run", f"exit code {self._opensm.returncode}; see {log}"
                )
            time.sleep(0.05)
        raise Unavailable("opensm", "sweep", f"subnet not up after {patience_s:g} s; see {log}")

    def stop(self) -> None:
        """End every process of the lab and remove its folder; harmless when repeated."""
        for process in (self._opensm, self._ibsim):
            if process is None:
                continue
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            _end(process)
        self._opensm = self._ibsim = None
        for log in self._logs:
            log.close()
        self._logs.clear()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- use ---------------------------------------------------------------------------------
    def _client_env(self, host: str) -> dict[str, str]:
        return {
            "LD_PRELOAD": self._preload,
            "SIM_HOST": host,
            "IBSIM_SOCKNAME": self.socket_name,
        }

    def environment(self, host: str = "") -> dict[str, str]:
        """Return what a program needs in its environment to be on a host of this fabric."""
        return {**os.environ, **self._client_env(host or self.sm_host)}

    @contextlib.contextmanager
    def _run_folder(self) -> Iterator[Path]:
        self._runs += 1  # the preload leaves ./sys-PID in the working directory
        folder = self.folder / f"run{self._runs}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run(
        self, argv: Sequence[str], *, host: str = "", timeout_s: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a host of the fabric; raises Unavailable when it fails."""
        with self._run_folder() as folder:
            done = subprocess.run(
                argv,
                cwd=folder,
                env=self.environment(host),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        if check and done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()
            why = f"exit code {done.returncode}: {last[-1] if last else 'no message'}"
            raise Unavailable(Path(argv[0]).name, "run in the lab", why)
        return done

    def tool(self, name: str, *args: str, host: str = "", check: bool = True) -> str:
        """Run one of the diags and return what it prints."""
        return self.run([find_tool(name), *args], host=host, check=check).stdout

    def console(self, *commands: str) -> None:
        """Type commands at ibsim's console: counters, faults, cables (see simlab.ib.script)."""
        if self._ibsim is None or self._ibsim.stdin is None:
            raise Unavailable("ibsim", "console", "the lab is not running")
        self._ibsim.stdin.write("".join(f"{line}\n" for line in commands).encode())
        self._ibsim.stdin.flush()


def _end(process: subprocess.Popen[bytes], patience_s: float = 3.0) -> None:
    """End a process and its group: politely, then not; what is left of the group, at once."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
