"""A whole simulation as one YAML file: topology, model, workload, events, what to record.

Keys are the field names of the records they fill, units in the names; unknown keys are errors.
"""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from collectors.model.dcqcn import (
    DcqcnRangeError,
    FirmwareDcqcn,
    parameters_of_firmware,
    profile,
)
from collectors.model.errors import ConfigInvalid
from collectors.user_input.text_file import read_text
from collectors.user_input.yaml_text import parse_yaml
from simlab.packet import hpcc_files, topology, workloads
from simlab.packet.collectives import Collective, Kind, QpMode, collective
from simlab.packet.interventions import Intervention
from simlab.packet.interventions import check as check_event
from simlab.packet.limits import LONGEST_S, check_model
from simlab.packet.overrides import changed, made
from simlab.packet.parameters import Model
from simlab.packet.topology import Topology
from simlab.packet.traffic import DATA_PRIORITY, Traffic

MOST_PASSES = 1_000_000  # of telemetry in one run


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: unknown keys are errors."""


class Star(Part, frozen=True, tag="star", tag_field="kind"):
    """All hosts on one switch."""

    hosts: int
    rate_bps: float = 100e9
    delay_s: float = 1e-6


class LeafSpine(Part, frozen=True, tag="leaf_spine", tag_field="kind"):
    """Two tiers."""

    leaves: int
    spines: int
    hosts_per_leaf: int
    rate_bps: float = 100e9
    fabric_bps: float | None = None
    delay_s: float = 1e-6
    parallel: int = 1


class FatTree(Part, frozen=True, tag="fat_tree", tag_field="kind"):
    """Three tiers of k-port switches."""

    ports: int
    rate_bps: float = 100e9
    fabric_bps: float | None = None
    delay_s: float = 1e-6
    hosts_per_leaf: int | None = None


class Rails(Part, frozen=True, tag="rail_optimised", tag_field="kind"):
    """NIC r of every host on rail switch r."""

    hosts: int
    rails: int
    spines: int
    rate_bps: float = 100e9
    fabric_bps: float | None = None
    delay_s: float = 1e-6
    hosts_per_block: int | None = None


class TopologyFile(Part, frozen=True, tag="file", tag_field="kind"):
    """A topology file of the HPCC format."""

    path: str


class Load(Part, frozen=True, kw_only=True):
    """What all workloads but a flow file take; `sports` are the UDP source ports that a host gives
    to its queue pairs in turn, none: the kernel's function of their numbers.
    """

    priority: int = DATA_PRIORITY
    sports: list[int] | None = None


class Incast(Load, frozen=True, kw_only=True, tag="incast", tag_field="kind"):
    """Some hosts (default: all others) send to one."""

    receiver: int
    size_bytes: int
    senders: list[int] | None = None
    qps: int = 1
    gap_s: float = 0.0


class Permutation(Load, frozen=True, kw_only=True, tag="permutation", tag_field="kind"):
    """Every host sends to one other."""

    size_bytes: int
    qps: int = 1
    shift: int | None = None


class Poisson(Load, frozen=True, kw_only=True, tag="poisson", tag_field="kind"):
    """Random flows; sizes as [bytes, cumulative probability], default web search."""

    load: float
    duration_s: float
    sizes: list[tuple[float, float]] | None = None


class FlowFile(Part, frozen=True, tag="file", tag_field="kind"):
    """A flow file of the HPCC or conweave format."""

    path: str
    conweave: bool = False


class CollectiveLoad(Load, frozen=True, kw_only=True, tag="collective", tag_field="kind"):
    """A collective operation; ranks default to all hosts in order."""

    operation: Kind
    size_bytes: int
    ranks: list[int] | None = None
    channels: int = 1
    qps: int = 1
    mode: QpMode = QpMode.SPLIT
    iterations: int = 1
    compute_s: float = 0.0
    reduce_s: float = 0.0
    rails: int = 1
    nvlink_bps: float = 0.0
    chunks: int = 8
    window: int = 1


TopologyChoice: TypeAlias = Star | LeafSpine | FatTree | Rails | TopologyFile
Workload: TypeAlias = Incast | Permutation | Poisson | FlowFile | CollectiveLoad


class Watch(Part, frozen=True):
    """Sample these [directed port, priority] queues; none given: the four that fill most."""

    period_s: float = 1e-6
    queues: list[tuple[int, int]] = []


class Record(Part, frozen=True):
    """How telemetry is read: every `interval_s`, switch counters refreshed less often."""

    interval_s: float = 0.01
    switch_refresh_s: float = 0.01


class Config(Part, frozen=True):
    """The file."""

    topology: TopologyChoice
    workload: Workload
    duration_s: float
    name: str = "run"
    seed: int = 1
    stop_when_done: bool = True
    reference_config: str | None = None  # an HPCC config file; `model` then changes it
    conweave: bool = False
    model: dict[str, Any] = {}
    events: list[dict[str, Any]] = []
    watch: Watch | None = None
    telemetry: Record = Record()


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A decoded configuration, ready to build."""

    config: Config
    topology: Topology
    model: Model
    traffic: Traffic
    events: tuple[Intervention, ...]


def load_config(path: Path, *, changes: dict[str, Any] | None = None) -> Plan:
    """Read a YAML file; `changes` maps dotted keys to other values (sweeps).

    Raises ConfigInvalid naming the file and the key.
    """
    data = parse_yaml(read_text(path, "read"), str(path))
    if not isinstance(data, dict):
        raise ConfigInvalid(str(path), "YAML", "must be a mapping")
    for key, value in (changes or {}).items():
        _set(data, key, value, str(path))
    return plan_of(data, str(path), path.parent)


def plan_of(data: dict[str, Any], where: str, home: Path) -> Plan:
    """Decode a configuration that was already read; paths in it are relative to `home`."""
    try:
        config = msgspec.convert(data, Config, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigInvalid(where, "configuration", _explained(str(error))) from None
    if not 0 < config.duration_s <= LONGEST_S:
        why = f"{config.duration_s:g} s is not above 0 and at most {LONGEST_S:g} s"
        raise ConfigInvalid(where, "duration_s", why)
    if not 0 <= config.seed < 2**64:
        raise ConfigInvalid(where, "seed", f"{config.seed} is not in 0..2**64-1")
    _check_telemetry(config, where)
    fabric = _topology(config.topology, home)
    model = Model()
    if config.reference_config:
        text = hpcc_files.read_text(home / config.reference_config)
        model = hpcc_files.parse_config(
            text, conweave=config.conweave, where=config.reference_config
        )
    given = _with_seed(_with_profile(config.model, fabric, where))
    model = changed(model, given, f"{where}: model")
    check_model(model, f"{where}: model")
    events = tuple(
        made(Intervention, one, f"{where}: events[{i}]") for i, one in enumerate(config.events)
    )
    for event in events:
        check_event(event)
    traffic, load = _traffic(config, fabric, home), config.workload
    if isinstance(load, Load):
        traffic = workloads.on_priority(traffic, load.priority)
        traffic = traffic if load.sports is None else workloads.from_ports(traffic, load.sports)
    return Plan(config, fabric, model, traffic, events)


def _check_telemetry(config: Config, where: str) -> None:
    wanted = config.telemetry
    least = config.duration_s / MOST_PASSES
    if not max(1e-9, least) <= wanted.interval_s <= LONGEST_S:
        why = f"{wanted.interval_s:g} s is not {max(1e-9, least):.2g} to {LONGEST_S:g} s"
        raise ConfigInvalid(where, "telemetry.interval_s", why)
    if not 0 <= wanted.switch_refresh_s <= LONGEST_S:
        why = f"{wanted.switch_refresh_s:g} s is not 0 to {LONGEST_S:g} s"
        raise ConfigInvalid(where, "telemetry.switch_refresh_s", why)


def _explained(error: str) -> str:
    """Add to msgspec's sentence what would be right, where it does not say so."""
    kinds = {"topology": TopologyChoice, "workload": Workload}
    for key, choices in kinds.items():
        if f"$.{key}.kind`" in error:
            tags = (str(one.__struct_config__.tag) for one in typing.get_args(choices))
            return f"{error}; known: {', '.join(tags)}"
    if "got `str`" in error and ("`float`" in error or "`int`" in error):
        return f"{error}; a plain number, in the unit that the key's name ends with"
    return error


def _set(data: dict[str, Any], key: str, value: Any, where: str) -> None:
    place = data
    *parents, last = key.split(".")
    for name in parents:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise ConfigInvalid(where, key, f"{name} is not a mapping")
    place[last] = value


def _with_profile(model: dict[str, Any], fabric: Topology, where: str) -> dict[str, Any]:
    """Replace `congestion.profile` or `congestion.registers` by the parameters that they mean.

    A profile is a published set for this line rate; registers are a NIC's own, in its own units,
    on top of the firmware's defaults. `congestion.dcqcn` then changes single parameters.
    """
    congestion = model.get("congestion")
    if not isinstance(congestion, dict) or not {"profile", "registers"} & set(congestion):
        return model
    rest = {key: value for key, value in congestion.items() if key not in ("profile", "registers")}
    if {"profile", "registers"} <= set(congestion):
        raise ConfigInvalid(where, "model.congestion", "has both profile and registers")
    try:
        if "profile" in congestion:
            line = max(cable.rate_bps for cable in fabric.cables)
            found = profile(str(congestion["profile"]), line)
        else:
            place = f"{where}: model.congestion.registers"
            found = parameters_of_firmware(changed(FirmwareDcqcn(), congestion["registers"], place))
    except (KeyError, DcqcnRangeError) as error:
        raise ConfigInvalid(where, "model.congestion", str(error.args[0])) from None
    own = rest.get("dcqcn", {})
    return {**model, "congestion": {**rest, "dcqcn": {**dataclasses.asdict(found), **own}}}


def _with_seed(model: dict[str, Any]) -> dict[str, Any]:
    """Let a seed that the file gives hold, unless it also says that nodes have their own."""
    balancing = model.get("balancing")
    given = isinstance(balancing, dict) and balancing.get("hash")
    if not isinstance(balancing, dict) or not isinstance(given, dict) or "seed" not in given:
        return model
    return {**model, "balancing": {"seed_by_node": False, **balancing}}


def _topology(choice: TopologyChoice, home: Path) -> Topology:
    if isinstance(choice, TopologyFile):
        path = home / choice.path
        return hpcc_files.parse_topology(hpcc_files.read_text(path), choice.path)
    builders = {
        Star: topology.star,
        LeafSpine: topology.leaf_spine,
        FatTree: topology.fat_tree,
        Rails: topology.rail_optimised,
    }
    build: Any = builders[type(choice)]
    built: Topology = build(**{key: getattr(choice, key) for key in choice.__struct_fields__})
    return built


def _traffic(config: Config, fabric: Topology, home: Path) -> Traffic:
    hosts = fabric.hosts
    load = config.workload
    match load:
        case Incast():
            senders = load.senders
            if senders is None:
                senders = [h for h in hosts if h != load.receiver]
            return workloads.incast(
                senders, load.receiver, load.size_bytes, qps=load.qps, gap_s=load.gap_s
            )
        case Permutation():
            return workloads.permutation(
                hosts, load.size_bytes, qps=load.qps, shift=load.shift, seed=config.seed
            )
        case Poisson():
            sizes = workloads.WEB_SEARCH
            if load.sizes is not None:
                sizes = workloads.SizeDistribution(
                    tuple(size for size, _ in load.sizes), tuple(share for _, share in load.sizes)
                )
            rate = min(c.rate_bps for c in fabric.cables if c.a in hosts or c.b in hosts)
            return workloads.poisson(
                hosts, sizes, load=load.load, rate_bps=rate, duration_s=load.duration_s,
                seed=config.seed,
            )  # fmt: skip
        case FlowFile():
            text = hpcc_files.read_text(home / load.path)
            return hpcc_files.parse_flows(text, conweave=load.conweave, where=load.path)
        case CollectiveLoad():
            fields = {key: getattr(load, key) for key in load.__struct_fields__}
            chosen, _ = fields.pop("ranks"), fields.pop("sports")
            ranks = hosts if chosen is None else tuple(chosen)
            return collective(Collective(kind=fields.pop("operation"), ranks=ranks, **fields))
