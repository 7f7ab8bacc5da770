"""The model of a twin: what the settings of switches and NICs say, place by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from collectors.model.catalogue import interface, rdma
from collectors.model.dcqcn import NVIDIA_FIRMWARE, DcqcnParameters
from collectors.model.ecmp_hash import HashAlgorithm, HashField, HashSpec
from collectors.model.ecn import EcnThresholds
from collectors.model.entities import Entity, Interface, Port, Slot, Switch, priority
from collectors.model.facts import Scalar, Value
from simlab.packet.limits import DRAIN, LONGEST_S
from simlab.packet.parameters import (
    NS3_HASH,
    Balancing,
    CongestionControl,
    EcnAt,
    Form,
    HostModel,
    Model,
    NicModel,
    Spread,
    SwitchModel,
    Transport,
)
from simlab.packet.traffic import DATA_PRIORITY
from tuner.advice.twin.change import HOST, Assignment
from tuner.advice.twin.load import active_seconds
from tuner.advice.twin.wiring import Wiring
from tuner.diagnosis.view import FabricView, Telemetry

WINDOW: Final = 256  # packets that a NIC which places them out of order has under way
PAUSED: Final = 0.02  # a host that pauses its switch for longer than this is the bottleneck itself
_SPREADS: Final = {
    "static": Spread.ECMP,
    "flowlet": Spread.FLOWLET,
    "per_packet": Spread.SPRAY,
    "spray": Spread.SPRAY,
    "adaptive": Spread.LEAST_QUEUE,
    "least_queue": Spread.LEAST_QUEUE,
}
T = TypeVar("T")


@dataclass(frozen=True)
class _Book:
    """Settings by entity, changed ones first, and the names of those that nobody told."""

    telemetry: Telemetry
    changes: tuple[Assignment, ...]
    unknown: set[str]

    def value(self, entity: Entity, name: str) -> Value | None:
        """Return what a setting of an entity is to be, or is."""
        for change in reversed(self.changes):
            if change.knob == name and change.holds_for(entity):
                return change.value
        found = self.telemetry.settings(entity).get(name)
        return None if found is None else found.value

    def newest(self, entity: Entity, *names: str) -> str:
        """Return which of several names for one thing was changed last at an entity, or ''."""
        for change in reversed(self.changes):
            if change.knob in names and change.holds_for(entity):
                return change.knob
        return ""

    def number(
        self, entities: Iterable[Entity], name: str, *, needed: bool = False
    ) -> float | None:
        """Return the first number of this name; where there is none that is needed, note it."""
        for entity in entities:
            value = self.value(entity, name)
            if isinstance(value, (int, float)):
                return float(value)
        if needed:
            self.unknown.add(name)
        return None


def model_of(
    telemetry: Telemetry, fabric: FabricView, wiring: Wiring, changes: Iterable[Assignment] = ()
) -> tuple[Model, tuple[str, ...]]:
    """Return the model of a wired twin with some settings changed, and what had to be assumed.

    What most places have is the rule, every other place an exception to it.
    """
    book = _Book(telemetry, tuple(changes), set())
    switch, switches, ports = _switches(book, wiring)
    controls = {
        node: _control(book, port, fabric.attached(port)) for node, port in enumerate(wiring.hosts)
    }
    control, _ = _usual({node: one for node, (one, _) in controls.items()}, CongestionControl())
    nics = {}
    for node, (own, nic) in controls.items():
        made = nic if own == control else replace(nic, congestion=own)
        if made != NicModel():
            nics[node] = made
    model = Model(
        congestion=control,
        transport=_transport(book, fabric, wiring),
        switch=switch,
        switches=switches,
        ports=ports,
        nics=nics,
        host=HostModel(slow=_slow_hosts(book, fabric, wiring)),
        balancing=_balancing(book, wiring),
    )
    return model, _assumed(book, model)


def _switches(
    book: _Book, wiring: Wiring
) -> tuple[SwitchModel, dict[int, SwitchModel], dict[int, SwitchModel]]:
    """Return what holds for most ports, for most of single switches, and for single ports."""
    cables = wiring.topology.cables
    made = {
        port: _port(book, wire, cables[port // 2].rate_bps) for wire, port in wiring.switch_ports()
    }
    usual, odd = _usual(made, SwitchModel())
    nodes = {wiring.topology.end(port) for port in odd}
    switches: dict[int, SwitchModel] = {}
    ports: dict[int, SwitchModel] = {}
    for node in nodes:
        own = {port: one for port, one in made.items() if wiring.topology.end(port) == node}
        here, others = _usual(own, usual)
        if here != usual:
            switches[node] = here
        ports |= others
    return usual, switches, ports


def _usual(values: Mapping[int, T], default: T) -> tuple[T, dict[int, T]]:
    """Return what most have and, by place, what others have instead."""
    counted: list[tuple[T, int]] = []  # records with dicts in them have no hash
    for value in values.values():
        for i, (known, times) in enumerate(counted):
            if known == value:
                counted[i] = (known, times + 1)
                break
        else:
            counted.append((value, 1))
    usual = max(counted, key=lambda item: item[1])[0] if counted else default
    return usual, {place: value for place, value in values.items() if value != usual}


def _port(book: _Book, wire: Interface, rate_bps: float) -> SwitchModel:
    made = SwitchModel()
    lossless = _priorities(book.value(wire, "pfc_priorities"))
    if lossless is None:
        book.unknown.add("pfc_priorities")
    else:
        made = replace(made, lossless=lossless or made.lossless, pfc=bool(lossless))
    data = made.lossless[0] if DATA_PRIORITY not in made.lossless else DATA_PRIORITY
    group = (Slot(wire, "priority_group", data), wire, wire.switch)
    pools = (Slot(wire.switch, "pool", 0), wire.switch)
    numbers: dict[str, Any] = {
        "buffer_bytes": book.number(pools, "pool_size_bytes", needed=True),
        "headroom_bytes": book.number(group, "xoff_bytes", needed=True),
        "xon_offset_bytes": book.number(group, "xon_offset_bytes"),
    }
    known: dict[str, Any] = {name: int(v) for name, v in numbers.items() if v is not None}
    made = replace(made, **known)
    made = _stop_at(book, group, made)
    limit = book.number((Slot(wire, "queue", data),), "queue_limit_bytes")
    if limit:
        made = replace(made, queue_limit_bytes=int(limit))
    if book.value(wire, "pfc_watchdog_enabled"):
        detect = book.number((wire, wire.switch), "pfc_watchdog_detection_seconds") or 0.2
        restore = book.number((wire, wire.switch), "pfc_watchdog_restoration_seconds") or 0.2
        detect, restore = (min(time, LONGEST_S) for time in (detect, restore))
        made = replace(made, watchdog_s=detect, watchdog_restore_s=restore)
    return replace(made, ecn=_ecn(book, wire, data, rate_bps))


def _stop_at(book: _Book, group: tuple[Entity, ...], made: SwitchModel) -> SwitchModel:
    """Return the model with the point at which a priority group stops its peer."""
    names = ("pause_threshold_bytes", "buffer_alpha_exponent", "buffer_alpha")
    chosen = book.newest(group[0], *names)
    for name in [chosen] if chosen else names:
        value = book.number(group, name)
        if value is None:
            continue
        if name == "pause_threshold_bytes":
            return replace(made, xoff_bytes=int(value))
        return replace(made, alpha=2.0**value if name.endswith("exponent") else value)
    book.unknown.add("buffer_alpha")
    return made


def _ecn(book: _Book, wire: Interface, data: int, rate_bps: float) -> tuple[EcnAt, ...]:
    queues = [Slot(wire, "queue", index) for index in (data, *range(8))]
    for queue in queues:
        enabled = book.value(queue, "ecn_enabled")
        if enabled is None:
            continue
        if not enabled:
            return ()
        low, high, most = (
            book.number((queue,), name) for name in ("kmin_bytes", "kmax_bytes", "pmax_ratio")
        )
        if low is None or high is None or not most:
            break
        try:
            return (EcnAt(rate_bps=rate_bps, thresholds=EcnThresholds(low, high, most)),)
        except ValueError:  # a device may hold what makes no sense; it then marks nothing useful
            break
    book.unknown.add("kmin_bytes, kmax_bytes, pmax_ratio")
    return ()


def _priorities(value: Value | None) -> tuple[int, ...] | None:
    if not isinstance(value, tuple):
        return None
    return tuple(index for index, on in enumerate(value) if on)


def _control(book: _Book, port: Port, wire: Entity) -> tuple[CongestionControl, NicModel]:
    """Return the reaction point of a NIC and what else is particular about it."""
    algorithm = book.value(port, "congestion_control")
    if algorithm is None:
        book.unknown.add("congestion_control")
    reacts = _at(book.value(port, "dcqcn_rp_enabled"), DATA_PRIORITY)
    form = Form.FIRMWARE if algorithm != "off" and reacts is not False else Form.OFF
    lossless = _priorities(book.value(wire, "pfc_priorities"))
    nic = NicModel(
        pfc=True if lossless is None else DATA_PRIORITY in lossless,
        sends_cnps=_at(book.value(port, "dcqcn_np_enabled"), DATA_PRIORITY) is not False,
        ecn_capable=book.value(port, "roce_ecn_codepoint") != 0,
    )
    if form is Form.OFF:
        return CongestionControl(form=form), nic
    return CongestionControl(form=form, dcqcn=_dcqcn(book, port)), nic


def _at(value: Value | None, index: int) -> Scalar | None:
    if isinstance(value, tuple):
        return value[index] if index < len(value) else None
    return value


def _dcqcn(book: _Book, port: Port) -> DcqcnParameters:
    """Return the DCQCN parameters of a port; NVIDIA's defaults where they are not told."""
    told: dict[str, Any] = {}
    for field in fields(DcqcnParameters):
        value: Any = book.value(port, f"dcqcn_{field.name}")
        if value is None:
            book.unknown.add("dcqcn_*")
            continue
        if field.name in _OFF_AT_ZERO and not value:
            value = None
        elif isinstance(getattr(NVIDIA_FIRMWARE, field.name), bool):
            value = bool(value)
        elif field.name == "recovery_stages":
            value = int(value)
        told[field.name] = value
    return replace(NVIDIA_FIRMWARE, **told)


_OFF_AT_ZERO: Final = ("byte_counter_bytes", "max_rate_bps", "first_cnp_rate_bps")


def _transport(book: _Book, fabric: FabricView, wiring: Wiring) -> Transport:
    wire = Transport()
    mtus = [book.value(port, "rdma_mtu_bytes") for port in wiring.hosts]
    sizes = [int(mtu) for mtu in mtus if isinstance(mtu, (int, float))]
    if not sizes:
        links = [book.value(fabric.attached(port), "mtu_bytes") for port in wiring.hosts]
        # RoCE takes the largest path MTU that fits with its headers (kernel iboe_get_mtu).
        sizes = [
            max((size for size in (4096, 2048, 1024, 512, 256) if size + 58 <= mtu), default=256)
            for mtu in links
            if isinstance(mtu, (int, float))
        ]
    if sizes:
        wire = replace(wire, payload_bytes=Counter(sizes).most_common(1)[0][0])
    else:
        book.unknown.add("rdma_mtu_bytes")
    if all(book.value(port, "out_of_order_placement") for port in wiring.hosts):
        wire = replace(wire, selective_repeat=True, reorder_tolerant=True, window_packets=WINDOW)
    cnps = [book.value(port, "cnp_priority") for port in wiring.hosts]
    known = [int(cnp) for cnp in cnps if isinstance(cnp, int) and 0 <= cnp < 8]
    if known:
        wire = replace(wire, cnp_priority=Counter(known).most_common(1)[0][0])
    return wire


def _slow_hosts(book: _Book, fabric: FabricView, wiring: Wiring) -> dict[int, float]:
    """Return the drain rates of hosts that pause their switch: what they took in meanwhile."""
    telemetry = book.telemetry
    slow = {}
    for node, port in enumerate(wiring.hosts):
        near = fabric.attached(port)
        far = fabric.peer(near)
        taken = telemetry.growth(rdma.RX_BYTES.name, port)
        repaired = book.newest(near, HOST) or book.newest(port, HOST)
        if far is None or taken is None or not taken.seconds or repaired:
            continue
        paused = [
            growth.total / growth.seconds
            for index in range(8)
            if (growth := telemetry.growth(interface.PFC_RX_PAUSE.name, priority(far, index)))
            and growth.seconds
        ]
        busy = active_seconds(telemetry, rdma.RX_BYTES.name, port)
        if max(paused, default=0.0) > PAUSED and busy:
            slow[node] = max(DRAIN[0], taken.total * 8 / busy)
    return slow


def _balancing(book: _Book, wiring: Wiring) -> Balancing:
    spread = Spread.ECMP
    hashes: dict[int, HashSpec] = {}
    for node, switch in enumerate(wiring.switches, start=len(wiring.hosts)):
        spread = _SPREADS.get(str(book.value(switch, "load_balancing")), spread)
        spec = _hash(book, switch)
        if spec is not None:
            hashes[node] = spec
    if len(hashes) < len(wiring.switches):
        book.unknown.add("ecmp_hash_algorithm")
    weights = {
        port: int(weight)
        for wire, port in wiring.switch_ports()
        if isinstance(weight := book.value(wire, "ecmp_weight"), (int, float))
    }
    return Balancing(spread=spread, switches=hashes, weights=weights)


def _hash(book: _Book, switch: Switch) -> HashSpec | None:
    named = book.value(switch, "ecmp_hash_algorithm")
    try:
        algorithm = HashAlgorithm(str(named).lower())
    except ValueError:  # unknown, or a vendor's own
        return None
    told = book.value(switch, "ecmp_hash_fields")
    words = told if isinstance(told, tuple) else str(told or "").split()
    known = {field.value: field for field in HashField}
    chosen = tuple(known[str(word)] for word in words if str(word) in known)
    if book.value(switch, "ecmp_hash_rdma_qp") and HashField.DST_QP not in chosen:
        chosen = (*chosen, HashField.DST_QP)
    seed, rotate = (
        int(value) if isinstance(value := book.value(switch, name), (int, float)) else 0
        for name in ("ecmp_hash_seed", "ecmp_hash_offset")
    )
    return HashSpec(algorithm=algorithm, fields=chosen or NS3_HASH.fields, seed=seed, rotate=rotate)


def _assumed(book: _Book, model: Model) -> tuple[str, ...]:
    texts: list[str] = []
    defaults: dict[str, Callable[[], str]] = {
        "pfc_priorities": lambda: f"PFC is on for priority {model.switch.lossless}",
        "pool_size_bytes": lambda: f"switches have {model.switch.buffer_bytes / 2**20:.0f} MiB",
        "buffer_alpha": lambda: f"PFC threshold is {model.switch.alpha:g} of the free buffer",
        "xoff_bytes": lambda: "headroom is three times rate times delay",
        "kmin_bytes, kmax_bytes, pmax_ratio": lambda: "queues of unknown thresholds do not mark",
        "congestion_control": lambda: "NICs of unknown congestion control run DCQCN",
        "dcqcn_*": lambda: "DCQCN parameters that are not told are NVIDIA's defaults",
        "rdma_mtu_bytes": lambda: f"packets carry {model.transport.payload_bytes} bytes",
        "ecmp_hash_algorithm": lambda: "the ECMP hash is unknown: paths differ from the real ones",
    }
    texts += [text() for name, text in defaults.items() if name in book.unknown]
    if model.host.slow:
        texts.append(f"{len(model.host.slow)} hosts drain as slowly as they did")
    return tuple(texts)
