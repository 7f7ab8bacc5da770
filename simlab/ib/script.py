"""Traffic and faults as counter scripts, for ibsim's console and for the fake subnet alike.

A script is a list of steps, each at a time: counters that grow at a rate, errors, cables that
come out, nodes that fall silent. YAML form, one mapping a step:

    - {at: 0, rate: {node: Leaf3, port: 1, PortXmitWait: 2.0e+8, PortXmitData: 5.0e+8}}
    - {at: 5, set: {node: H4, port: 1, SymbolErrorCounter: 1200}}
    - {at: 10, unlink: {node: Leaf0, port: 3}}
    - {at: 12, link: {node: Leaf0, port: 3, peer: Spine0, peer_port: 1}}
    - {at: 15, silent: {node: H6}}

ibsim keeps narrow and extended counters apart and clamps them at their width, as hardware does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from collectors.codec import mad_perf, mad_smp
from collectors.infiniband.topology import End, Topology
from collectors.model.errors import ConfigInvalid

if TYPE_CHECKING:
    from simlab.ib.fake import FakeSubnet

Verb: TypeAlias = Literal["rate", "set", "unlink", "link", "silent", "speak"]
_VERBS: Final = ("rate", "set", "unlink", "link", "silent", "speak")

_IBSIM_LAYOUTS: Final = (
    mad_perf.PORT_COUNTERS,
    mad_perf.PORT_COUNTERS_EXTENDED,
    mad_perf.PORT_XMIT_DISCARD_DETAILS,
    mad_perf.PORT_RCV_ERROR_DETAILS,
    mad_perf.PORT_FLOW_CTL_COUNTERS,
    mad_perf.PORT_OP_RCV_COUNTERS,
)
_IBSIM_EXTENDED: Final = mad_perf.PORT_COUNTERS_EXTENDED.names[3:11]
# what ibsim spells in its own way
_IBSIM_NAMES: Final = {"PortMalformedPacketErrors": "PortMalformedPktErrors"}
_VL_WAIT: Final = "PortVLXmitWait"


@dataclass(frozen=True, slots=True)
class Step:
    """One step. values: counters by the spec's field names (VL waits: PortVLXmitWait3)."""

    at_s: float
    verb: Verb
    node: str
    port: int = 0
    peer: str = ""
    peer_port: int = 0
    values: tuple[tuple[str, float], ...] = ()


def parse_script(text: str, file: str = "script") -> list[Step]:
    """Parse a YAML script; raises ConfigInvalid naming the step."""
    from collectors.user_input.yaml_text import parse_yaml

    raw = parse_yaml(text, file) or []
    if not isinstance(raw, list):
        raise ConfigInvalid(file, "parse", "not a list of steps")
    return sorted((_step(item, f"{file}: $[{i}]") for i, item in enumerate(raw)), key=_at)


def _at(step: Step) -> float:
    return step.at_s


def _step(item: Any, where: str) -> Step:
    verbs = [key for key in item if key != "at"] if isinstance(item, dict) else []
    if len(verbs) != 1 or verbs[0] not in _VERBS or not isinstance(item[verbs[0]], dict):
        raise ConfigInvalid(where, "parse", f"needs `at` and one of {', '.join(_VERBS)}")
    body = dict(item[verbs[0]])
    try:
        node, port = str(body.pop("node")), int(body.pop("port", 0))
        peer, peer_port = str(body.pop("peer", "")), int(body.pop("peer_port", 0))
        values = tuple((str(name), float(value)) for name, value in body.items())
        return Step(float(item.get("at", 0)), verbs[0], node, port, peer, peer_port, values)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigInvalid(where, "parse", f"wrong or missing value: {error}") from error


@dataclass
class ScriptState:
    """Counters as the script has made them so far: absolute values that keep growing."""

    steps: Iterable[Step]
    counters: dict[tuple[str, int, str], float] = field(default_factory=dict)
    rates: dict[tuple[str, int, str], float] = field(default_factory=dict)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self._left = sorted(self.steps, key=_at)

    def advance(self, to_s: float) -> Iterator[Step]:
        """Go on to a time; yields the steps that are no counters, for the caller to carry out."""
        while self._left and self._left[0].at_s <= to_s:
            step = self._left.pop(0)
            self._grow(step.at_s)
            if step.verb == "rate":
                self.rates.update({(step.node, step.port, n): v for n, v in step.values})
            elif step.verb == "set":
                self.counters.update({(step.node, step.port, n): v for n, v in step.values})
            else:
                yield step
        self._grow(to_s)

    def _grow(self, to_s: float) -> None:
        for key, rate in self.rates.items():
            self.counters[key] = self.counters.get(key, 0.0) + rate * (to_s - self.now_s)
        self.now_s = to_s


def ibsim_commands(state: ScriptState, steps: Iterable[Step], topology: Topology) -> Iterator[str]:
    """Write steps and all counters of a state as lines for ibsim's console."""
    for step in steps:
        place = f'"{step.node}"' + (f"[{step.port}]" if step.port else "")
        match step.verb:
            case "unlink":
                yield f"Unlink {place}"
            case "link":
                yield f'Link {place} "{step.peer}"[{step.peer_port}]'
            case "silent" | "speak":
                rate = 100 if step.verb == "silent" else 0
                node = topology.find(step.node)
                numbers = [n for n in node.ports if n] if node else []
                # for a node as a whole ibsim takes no adapter: name each port
                for number in numbers:
                    yield f'Error "{step.node}"[{number}] {rate}'
            case _:
                pass
    for (name, port, counter), value in state.counters.items():
        yield from _performance(name, port, counter, int(value))


def _performance(node: str, port: int, name: str, value: int) -> Iterator[str]:
    place = f'PerformanceSet "{node}"[{port}]'
    if name.startswith(_VL_WAIT):
        lane = name.removeprefix(_VL_WAIT)
        yield f"{place} PortVLXmitWaitCounters.PortVLXmitWaitCounters{lane}={value}"
        return
    spelled = _IBSIM_NAMES.get(name, name)
    for layout in _IBSIM_LAYOUTS:
        if name not in layout.names:
            continue
        if layout is mad_perf.PORT_COUNTERS_EXTENDED and name not in _IBSIM_EXTENDED:
            continue
        width = next(row.width for row in layout.fields if row.name == name)
        yield f"{place} {layout.name}.{spelled}={min(value, (1 << width) - 1)}"


def apply_to_fake(subnet: FakeSubnet, state: ScriptState, steps: Iterable[Step]) -> None:
    """Carry steps and counters out on a fake subnet; raises ConfigInvalid for an unknown node."""
    topology = subnet.topology

    def guid_of(name: str) -> int:
        node = topology.find(name)
        if node is None:
            raise ConfigInvalid(name, "script", "no such node")
        return node.guid

    for step in steps:
        guid = guid_of(step.node)
        if step.verb in ("silent", "speak"):
            subnet.agent_of(guid).silent = step.verb == "silent"
        elif step.verb == "unlink":
            _unplug(topology, End(guid, step.port))
        elif step.verb == "link":
            _plug(topology, End(guid, step.port), End(guid_of(step.peer), step.peer_port))
        subnet.changed()
    lanes: dict[End, list[int]] = {}
    for (name, port, counter), value in state.counters.items():
        end = End(guid_of(name), port)
        if counter.startswith(_VL_WAIT):
            waits = lanes.setdefault(end, [0] * 16)
            waits[int(counter.removeprefix(_VL_WAIT))] = int(value)
        else:
            subnet.count(end, **{counter: int(value)})
    for end, waits in lanes.items():
        subnet.count_each(end, _VL_WAIT, waits)


def _plug(topology: Topology, a: End, b: End) -> None:
    for end, peer in ((a, b), (b, a)):
        port = topology.port(end)
        if port is not None:
            port.peer, port.state, port.physical = peer, mad_smp.PORT_ACTIVE, mad_smp.LINK_UP


def _unplug(topology: Topology, end: End) -> None:
    port = topology.port(end)
    if port is None or port.peer is None:
        return
    far = topology.port(port.peer)
    for one in (port, far):
        if one is not None:
            one.peer, one.state, one.physical = None, mad_smp.PORT_DOWN, mad_smp.POLLING
