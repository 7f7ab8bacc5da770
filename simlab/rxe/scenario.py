"""What a lab run is: the fabric, its traffic, and the truth a diagnosis is checked against.

Scenarios are YAML files decoded into these frozen structs; an unknown key, a wrong type or an
impossible value is one error that names the file and the path of the key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from collectors.model.errors import ConfigInvalid
from collectors.user_input.yaml_text import parse_yaml

SCENARIOS = Path(__file__).resolve().parent / "scenarios"

HostName = Annotated[str, Meta(pattern=r"^h[1-8]$")]
Bytes = Annotated[int, Meta(ge=1, le=1 << 31)]
Bps = Annotated[int, Meta(ge=100_000, le=100_000_000_000)]
Ratio = Annotated[float, Meta(ge=0.0, le=1.0)]
Mtu = Annotated[int, Meta(ge=1280, le=9216)]


class ScenarioError(Exception):
    """A scenario or a change to it makes no sense; the text names the file and the key."""


class Queue(Struct, frozen=True, forbid_unknown_fields=True):
    """The egress queue of a switch port (tbf limit with RED above it)."""

    limit_bytes: Bytes = 1_000_000
    ecn: bool = True  # mark ECN-capable packets; others are dropped (RFC 3168)
    kmin_bytes: Bytes = 50_000
    kmax_bytes: Bytes = 150_000
    pmax_ratio: Ratio = 0.1


class Port(Struct, frozen=True, forbid_unknown_fields=True):
    """The link between host hN and switch port pN; an unset field takes the fabric's value."""

    rate_bps: Bps | UnsetType = UNSET
    host_mtu: Mtu | UnsetType = UNSET
    switch_mtu: Mtu | UnsetType = UNSET
    delay_s: Annotated[float, Meta(ge=0.0, le=1.0)] | UnsetType = UNSET
    loss_ratio: Ratio | UnsetType = UNSET  # in the cable: no counter of the switch shows it
    queue: Queue | UnsetType = UNSET


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """A link with every value filled in."""

    rate_bps: int
    host_mtu: int
    switch_mtu: int
    delay_s: float
    loss_ratio: float
    queue: Queue


class Fabric(Struct, frozen=True, forbid_unknown_fields=True):
    """Defaults of all links; rates under emulation are tens of Mbit/s."""

    hosts: Annotated[int, Meta(ge=2, le=8)] = 4
    rate_bps: Bps = 5_000_000
    mtu: Mtu = 1500
    delay_s: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    queue: Queue = Queue()


class Traffic(Struct, frozen=True, forbid_unknown_fields=True):
    """Flows of one kind: every sender to the one receiver (incast) or in pairs (pairwise)."""

    pattern: Literal["incast", "pairwise"]
    senders: Annotated[list[HostName], Meta(min_length=1)]
    receivers: Annotated[list[HostName], Meta(min_length=1)]
    verb: Literal["write", "send"] = "write"
    tclass: Annotated[int, Meta(ge=0, le=255)] = 2  # ECT(0)
    message_bytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 16_384
    qps: Annotated[int, Meta(ge=1, le=16)] = 1
    depth: Annotated[int, Meta(ge=1, le=128)] = 16  # messages in flight per QP
    recv_buffers: Annotated[int, Meta(ge=1, le=512)] = 64  # posted per QP (send only)
    # The receiving application looks at its completions this often, and only then posts again.
    drain_interval_s: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    rate_bps: Bps | None = None  # paces each flow; None: as fast as it goes
    timeout: Annotated[int, Meta(ge=1, le=31)] = 17  # ack time-out 4.096 us * 2^timeout
    retry_cnt: Annotated[int, Meta(ge=0, le=7)] = 7
    rnr_retry: Annotated[int, Meta(ge=0, le=7)] = 7  # 7: for ever
    min_rnr_timer: Annotated[int, Meta(ge=0, le=31)] = 12  # 12: 0.64 ms


class Place(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the fault is, in the lab's own names."""

    kind: Literal["host", "port", "link"]
    host: HostName
    interface: str = ""  # the switch port, for kind port and link


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """One knob of the lab set to a value: what an applied recommendation comes down to.

    Knobs (target): port.loss_ratio, port.ecn, port.rate_bps, port.queue_bytes, port.kmin_bytes,
    port.kmax_bytes, port.pmax_ratio, port.delay_s, port.mtu (pN), host.mtu (hN),
    flow.tclass, flow.recv_buffers, flow.depth (hA-hB, or hB for all flows to it, or `*`).
    """

    knob: str
    target: str
    value: bool | int | float


class Truth(Struct, frozen=True, forbid_unknown_fields=True):
    """What a diagnosis must find: a cause with its place, or nothing (`none`)."""

    cause: str
    place: Place | None = None
    harmed: list[str] = []
    cure: list[Change] = []


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """A declarative lab run."""

    name: str
    summary: str
    traffic: Annotated[list[Traffic], Meta(min_length=1)]
    truth: Truth
    fabric: Fabric = Fabric()
    ports: dict[HostName, Port] = {}
    duration_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 10.0

    def link(self, host: str) -> Link:
        """Return the link of a host with the fabric's values filled in."""
        port = self.ports.get(host, Port())
        return Link(
            rate_bps=_or(port.rate_bps, self.fabric.rate_bps),
            host_mtu=_or(port.host_mtu, self.fabric.mtu),
            switch_mtu=_or(port.switch_mtu, self.fabric.mtu),
            delay_s=_or(port.delay_s, self.fabric.delay_s),
            loss_ratio=_or(port.loss_ratio, 0.0),
            queue=_or(port.queue, self.fabric.queue),
        )

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts: h1 … hN."""
        return host_names(self.fabric.hosts)


class Flow(Struct, frozen=True):
    """One sender-receiver pair of a traffic entry; `name` is `hA-hB` (`hA-hB.2` for a second)."""

    name: str
    sender: str
    receiver: str
    traffic: Traffic


def host_names(count: int) -> list[str]:
    """Return the names h1 … hN."""
    return [f"h{number}" for number in range(1, count + 1)]


def flows(scenario: Scenario) -> list[Flow]:
    """Spell out the flows of a scenario."""
    found: list[Flow] = []
    seen: dict[str, int] = {}
    for entry in scenario.traffic:
        receivers = entry.receivers * (len(entry.senders) if entry.pattern == "incast" else 1)
        for sender, receiver in zip(entry.senders, receivers, strict=True):
            base = f"{sender}-{receiver}"
            seen[base] = seen.get(base, 0) + 1
            name = base if seen[base] == 1 else f"{base}.{seen[base]}"
            found.append(Flow(name, sender, receiver, entry))
    return found


def parse_scenario(text: str, source: str) -> Scenario:
    """Decode a scenario; raises ScenarioError naming the source and the path in it."""
    try:
        scenario = msgspec.convert(parse_yaml(text, source), Scenario)
    except ConfigInvalid as error:
        raise ScenarioError(f"{error.subject}: not YAML: {error.why}") from error
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{source}: {error}") from error
    _check(scenario, source)
    return scenario


def read_scenario(name_or_path: str) -> Scenario:
    """Read a scenario by its name among the shipped ones or by the path of a file."""
    path = Path(name_or_path)
    if path.suffix not in {".yaml", ".yml"}:
        path = SCENARIOS / f"{name_or_path}.yaml"
        if not path.exists():
            known = ", ".join(scenario_names())
            raise ScenarioError(f"no scenario {name_or_path!r}; there are: {known}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error
    return parse_scenario(text, str(path))


def scenario_names() -> list[str]:
    """Return the names of the shipped scenarios."""
    return sorted(path.stem for path in SCENARIOS.glob("*.yaml"))


def with_hosts(scenario: Scenario, count: int) -> Scenario:
    """Return the scenario on another number of hosts; its flows must still fit."""
    fabric = msgspec.convert({**msgspec.to_builtins(scenario.fabric), "hosts": count}, Fabric)
    changed = structs.replace(scenario, fabric=fabric)
    _check(changed, scenario.name)
    return changed


def with_change(scenario: Scenario, change: Change) -> Scenario:
    """Return the scenario with one knob changed. Raises ScenarioError: unknown knob or target."""
    area, _, knob = change.knob.partition(".")
    where = f"change of {change.knob} on {change.target!r}"
    raw: dict[str, Any] = msgspec.to_builtins(scenario)
    if area in {"port", "host"}:
        host = "h" + change.target.removeprefix("sw:")[1:]
        if change.target[-2:-1] != area[0] or host not in scenario.hosts:
            raise ScenarioError(f"{where}: no such {area} in {scenario.name}")
        fields = raw.setdefault("ports", {}).setdefault(host, {})
        if change.knob in _QUEUE_FIELDS:
            queue = msgspec.to_builtins(scenario.link(host).queue)
            fields["queue"] = {**queue, _QUEUE_FIELDS[change.knob]: change.value}
        elif change.knob in _PORT_FIELDS:
            fields[_PORT_FIELDS[change.knob]] = change.value
        else:
            raise ScenarioError(f"{where}: unknown knob")
    elif change.knob in _FLOW_FIELDS:
        entries = _flow_entries(scenario, change.target)
        if not any(matched for _, matched in entries):
            raise ScenarioError(f"{where}: no such flow in {scenario.name}")
        raw["traffic"] = [
            {**entry, knob: change.value} if matched else entry for entry, matched in entries
        ]
    else:
        raise ScenarioError(f"{where}: unknown knob")
    try:
        changed = msgspec.convert(raw, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{where}: {error}") from error
    _check(changed, where)
    return changed


_PORT_FIELDS = {
    "port.loss_ratio": "loss_ratio",
    "port.rate_bps": "rate_bps",
    "port.delay_s": "delay_s",
    "port.mtu": "switch_mtu",
    "host.mtu": "host_mtu",
}
_QUEUE_FIELDS = {
    "port.ecn": "ecn",
    "port.queue_bytes": "limit_bytes",
    "port.kmin_bytes": "kmin_bytes",
    "port.kmax_bytes": "kmax_bytes",
    "port.pmax_ratio": "pmax_ratio",
}
_FLOW_FIELDS = frozenset({"flow.tclass", "flow.recv_buffers", "flow.depth"})


def _flow_entries(scenario: Scenario, target: str) -> list[tuple[dict[str, Any], bool]]:
    """Split traffic into one entry a flow, each with whether the target names it."""
    split: list[tuple[dict[str, Any], bool]] = []
    for flow in flows(scenario):
        entry = msgspec.to_builtins(flow.traffic)
        entry |= {"pattern": "pairwise", "senders": [flow.sender], "receivers": [flow.receiver]}
        split.append((entry, target in {"*", flow.name, flow.receiver, f"{flow.sender}-*"}))
    return split


def _check(scenario: Scenario, source: str) -> None:
    """Refuse what the types cannot: hosts that are not there, lists that do not pair up."""
    known = set(scenario.hosts)
    for index, entry in enumerate(scenario.traffic):
        path = f"{source}: traffic[{index}]"
        if stranger := next((h for h in entry.senders + entry.receivers if h not in known), None):
            raise ScenarioError(f"{path}: {stranger} is not one of {len(known)} hosts")
        if entry.pattern == "incast" and len(entry.receivers) != 1:
            raise ScenarioError(f"{path}.receivers: an incast has one receiver")
        if entry.pattern == "pairwise" and len(entry.receivers) != len(entry.senders):
            raise ScenarioError(f"{path}.receivers: as many as senders, for pairwise")
    if (stranger := next((host for host in scenario.ports if host not in known), None)) is not None:
        raise ScenarioError(f"{source}: ports.{stranger}: not one of {len(known)} hosts")
    for host in scenario.hosts:
        queue = scenario.link(host).queue
        if not queue.kmin_bytes < queue.kmax_bytes < queue.limit_bytes:
            raise ScenarioError(f"{source}: {host}: queue needs kmin < kmax < limit")
    for flow in flows(scenario):
        if flow.sender == flow.receiver:
            raise ScenarioError(f"{source}: flow {flow.name} sends to itself")


def _or(value: Any, default: Any) -> Any:
    return default if value is UNSET else value
