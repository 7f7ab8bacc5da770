"""The one place where a configuration becomes collectors on a schedule.

To add a kind of source, add its section to `agent/config.py`, a function from the configuration
to jobs here, and that function to `_SECTIONS`. Building is left to the worker that will run the
collector, so that a source that cannot be opened costs only itself and is tried again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.config import CollectorConfig, Config, Pushed, required_secret
from agent.subnets import subnet_builder
from collectors.host.context import Ethtool, FrameSocket, HostContext, NetlinkSocket
from collectors.host.inventory import Inventory
from collectors.host.registry import HOST_COLLECTORS
from collectors.model.errors import ConfigInvalid
from collectors.model.reading import Collector

if TYPE_CHECKING:
    from collectors.host.remote_kernel import RemoteKernel
    from collectors.targets.pushed import Exporter

_FAST_S: Final = 5.0
PUSH_PORTS: Final = {"otlp": 4317, "gnmi_dialout": 57500}
_ANY: Final = {"0.0.0.0", "::", ""}  # noqa: S104  compared, not bound
_BEAT_NS: Final = 100_000_000  # in which the collectors of a beat have begun


@dataclass(frozen=True, slots=True)
class Job:
    """A collector on a schedule.

    name: unique in the agent. build: opens the source; may raise FabricError. interval_s: from
    start to start. deadline_s: how long a pass may take before it counts as overrun. host: it
    reads this host's RDMA devices.
    """

    name: str
    build: Callable[[], Collector]
    interval_s: float
    deadline_s: float
    host: bool = False


def jobs(config: Config, file: str = "configuration") -> tuple[Job, ...]:
    """Return the jobs of a configuration, in the order of precedence of their values.

    file: for errors. Raises ConfigInvalid for a collector that does not exist.
    """
    found = [job for section in _SECTIONS for job in section(config, file)]
    twice = {job.name for job in found if sum(other.name == job.name for other in found) > 1}
    if twice:
        raise ConfigInvalid(file, "$", f"two sources are called {min(twice)!r}")
    return tuple(found)


def host_context(config: Config) -> HostContext:
    """Return this host as its collectors see it."""
    kernel = _kernel(config.paths.kernel)
    return HostContext(
        host=config.agent,
        sysfs=Path(config.paths.sysfs),
        procfs=Path(config.paths.procfs),
        include=config.devices.include,
        exclude=config.devices.exclude,
        boot_id=read_boot_id(Path(config.paths.procfs)),
        open_netlink=kernel.open_netlink if kernel else _open_netlink,
        open_ethtool=kernel.open_ethtool if kernel else _open_ethtool,
        open_frames=kernel.open_frames if kernel else _open_frames,
    )


def _kernel(path: str) -> RemoteKernel | None:
    if not path:
        return None
    from collectors.host.remote_kernel import RemoteKernel

    return RemoteKernel(Path(path))


def _open_netlink(family: int) -> NetlinkSocket:
    from collectors.host.netlink_socket import open_netlink

    return open_netlink(family)


def _open_frames(netdev: str) -> FrameSocket:
    from collectors.host.frame_socket import open_frames

    return open_frames(netdev)


def _open_ethtool() -> Ethtool:
    from collectors.host.ethtool_ioctl import open_ethtool

    return open_ethtool()


def read_boot_id(procfs: Path) -> str:
    """Return the kernel's boot id, '' where it cannot be read."""
    try:
        return (procfs / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def read_rdma_devices(context: HostContext) -> tuple[str, ...]:
    """Return the names of the RDMA devices that may be touched; lists a folder, opens none."""
    folder = context.sysfs / "class/infiniband"
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return ()
    return tuple(name for name in names if context.wants(name))


def software_version() -> str:
    """Return the version of the installed distribution, '0' where it runs uninstalled."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("fabric-tuner")
    except PackageNotFoundError:
        return "0"


def _host(config: Config, file: str) -> Iterator[Job]:
    rows = {row.name: row for row in HOST_COLLECTORS}
    for name in config.collectors:
        if name not in rows:
            close = difflib.get_close_matches(name, rows, 1)
            hint = f"is {close[0]!r} meant?" if close else f"known: {', '.join(sorted(rows))}"
            raise ConfigInvalid(file, f"$.collectors.{name}", f"no such collector; {hint}")
    context = host_context(config)
    context = replace(context, inventory=Inventory(context, _BEAT_NS))
    for row in HOST_COLLECTORS:
        chosen = config.collectors.get(row.name, CollectorConfig())
        if row.on if chosen.on is None else chosen.on:
            yield Job(
                row.name,
                _builder(row.build, replace(context, options=chosen.options)),
                chosen.interval or _interval_s(config.interval, row.interval_s),
                chosen.deadline or row.deadline_s,
                host=True,
            )


def _interval_s(common: float | None, own: float) -> float:
    """Return the interval of a source: the common one, but never faster for a slow source.

    Those with a slow interval of their own cost the device commands; only their own entry in
    the configuration makes them faster.
    """
    if common is None:
        return own
    return common if own <= _FAST_S else max(common, own)


def _builder(
    build: Callable[[HostContext], Collector], context: HostContext
) -> Callable[[], Collector]:
    return lambda: build(context)


def _infiniband(config: Config, file: str) -> Iterator[Job]:
    for place, subnet in enumerate(config.infiniband):
        yield Job(
            subnet.name,
            subnet_builder(subnet, f"{file}: $.infiniband[{place}]"),
            subnet.interval,
            subnet.deadline,
        )


def _switches(config: Config, file: str) -> Iterator[Job]:
    if config.switches is None:
        return
    from agent.switches import builders

    inventory = Path(file).parent / config.switches.inventory
    for name, build, interval_s in builders(inventory):
        yield Job(name, build, interval_s, interval_s * 0.95)


def _sflow(config: Config, file: str) -> Iterator[Job]:
    if config.sflow is None:
        return
    row = config.sflow
    inventory = None
    if config.switches is not None:
        inventory = Path(file).parent / config.switches.inventory

    def build() -> Collector:
        from agent.switches import exporters
        from collectors.capture.receiver import SflowCollector

        known = exporters(inventory) if inventory is not None else {}
        return SflowCollector(row.address, row.port, known)

    yield Job("sflow", build, row.interval, row.interval)


def _pushed(config: Config, file: str) -> Iterator[Job]:
    taken = [("metrics", config.metrics.address, config.metrics.port)] if config.metrics else []
    for name, row in (("otlp", config.otlp), ("gnmi_dialout", config.gnmi_dialout)):
        if row is None:
            continue
        port = row.port or PUSH_PORTS[name]
        for other, address, used in taken:
            if port == used and (address == row.address or _ANY & {address, row.address}):
                raise ConfigInvalid(file, f"$.{name}.port", f"{port} is that of {other}, too")
        taken.append((name, row.address, port))
        yield Job(name, partial(_receiver, name, row, config, file), row.interval, row.interval)


def _receiver(name: str, row: Pushed, config: Config, file: str) -> Collector:
    from agent.schedule import read_clock
    from agent.switches import pushers
    from collectors.targets.pushed import Options, ServerTls

    token = None
    if row.token_file or row.token_env:
        token = required_secret(row.token_env, row.token_file, f"{file}: $.{name}")
    options = Options(
        row.address,
        row.port or PUSH_PORTS[name],
        ServerTls(row.tls.cert, row.tls.key, row.tls.client_ca) if row.tls else None,
        token,
        row.interval,
        row.max_message_bytes,
    )
    known: tuple[Exporter, ...] = ()
    if config.switches is not None:
        known = pushers(Path(file).parent / config.switches.inventory, name)
    if name == "otlp":
        from collectors.otlp.receiver import OtlpReceiver

        return OtlpReceiver(read_clock, options, known)
    from collectors.gnmi.dialout import DialOutReceiver

    return DialOutReceiver(read_clock, options, known)


_SECTIONS: Final[tuple[Callable[[Config, str], Iterator[Job]], ...]] = (
    _host,
    _infiniband,
    _switches,
    _sflow,
    _pushed,
)
