"""Topology, flow and config files of the HPCC and conweave simulators: read as they are, written.

Formats (refsim.md): whitespace-separated, counted rows, trailing text ignored. The conweave flow
file lacks the destination port.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from collectors.model.dcqcn import NVIDIA_FIRMWARE
from collectors.model.ecn import EcnThresholds
from collectors.model.errors import Malformed, NotSupported, Unavailable
from simlab.packet.compat import conweave_model, hpcc_model
from simlab.packet.parameters import MIB, EcnAt, Form, Model, Spread
from simlab.packet.topology import MOST_CABLES, Cable, Topology
from simlab.packet.traffic import Traffic
from simlab.packet.workloads import Flow, traffic_of_flows

UNITS = {"bps": 0, "Kbps": 3, "Mbps": 6, "Gbps": 9, "b/s": 0, "Mb/s": 6, "Gb/s": 9}
TIMES = {"ns": -9, "us": -6, "ms": -3, "s": 0}
BASE_S = 2.0  # both simulators begin their traffic at two seconds
FIRST_SPORT = 10000
FIRST_DPORT = 100
US = 1e-6
_SPREADS = {"0": Spread.ECMP, "2": Spread.LEAST_QUEUE, "6": Spread.FLOWLET}
# What the simulators can do otherwise, and the values of it that we simulate, the usual one first.
_SIMULATED = {
    "CC_MODE": ("1", "0"),
    "LB_MODE": tuple(_SPREADS),
    "ENABLE_IRN": ("0",),
    "HAS_WIN": ("0",),
    "L2_BACK_TO_ZERO": ("0",),
    "L2_ACK_INTERVAL": ("1",),
}
# Keys without a counterpart in the model that the programs want to read.
_ALWAYS = (
    "L2_CHUNK_SIZE 4000", "L2_ACK_INTERVAL 1", "L2_BACK_TO_ZERO 0", "HAS_WIN 0", "VAR_WIN 0",
    "GLOBAL_T 1", "FAST_REACT 0", "U_TARGET 0.95", "MI_THRESH 0", "INT_MULTI 1", "MULTI_RATE 0",
    "SAMPLE_FEEDBACK 0", "RATE_BOUND 1", "ERROR_RATE_PER_LINK 0.0000", "LINK_DOWN 0 0 0",
)  # fmt: skip
_ONLY_HPCC = ("PINT_LOG_BASE 1.01", "PINT_PROB 1.0", "ACK_HIGH_PRIO 1", "ENABLE_TRACE 0")
_ONLY_CONWEAVE = ("FLOWGEN_START_TIME 2.0", "ENABLE_IRN 0", "LOAD 50", "RANDOM_SEED 1")


def _quantity(text: str, units: dict[str, int], where: str) -> float:
    for unit in sorted(units, key=len, reverse=True):
        if text.endswith(unit):
            try:
                # "1000ns" is read as 1000e-9, which is exactly 1e-6; a product would not be.
                return float(f"{text[: -len(unit)]}e{units[unit]}")
            except ValueError:
                break
    raise Malformed(where, "quantity", f"{text!r} is not a number with one of {', '.join(units)}")


def read_text(path: Path) -> str:
    """Read a text file, gzipped or not; Unavailable or Malformed where that fails."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt") as stream:
                return stream.read()
        return path.read_text()
    except OSError as error:
        raise Unavailable(str(path), "read", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise Malformed(str(path), "read", str(error)) from None


def _words(text: str, where: str) -> Iterator[str]:
    yield from text.split()
    raise Malformed(where, "file", "it ends before all announced rows")


def parse_topology(text: str, where: str = "topology") -> Topology:
    """Parse a topology file; Malformed names the file."""
    words = _words(text, where)
    try:
        nodes, switch_count, link_count = (int(next(words)) for _ in range(3))
        if nodes > MOST_CABLES:
            raise Malformed(where, "topology file", f"{nodes} nodes are more than {MOST_CABLES}")
        switches = tuple(int(next(words)) for _ in range(switch_count))
        cables = []
        for _ in range(link_count):
            a, b = int(next(words)), int(next(words))
            rate = _quantity(next(words), UNITS, where)
            delay = _quantity(next(words), TIMES, where)
            cables.append(Cable(a, b, rate, delay, float(next(words))))
    except ValueError as error:
        raise Malformed(where, "topology file", str(error)) from None
    if any(not 0 <= node < nodes for c in cables for node in (c.a, c.b)):
        raise Malformed(where, "topology file", f"a link names a node outside 0..{nodes - 1}")
    return Topology(nodes, switches, tuple(cables), _tiers(nodes, switches, cables), name=where)


def _tiers(nodes: int, switches: Sequence[int], cables: Sequence[Cable]) -> tuple[int, ...]:
    """Tier = hops to the nearest host."""
    forwarding = set(switches)
    tier = {node: 0 for node in range(nodes) if node not in forwarding}
    ring, distance = set(tier), 0
    while ring:
        distance += 1
        near = {c.b if c.a in ring else c.a for c in cables if (c.a in ring) != (c.b in ring)}
        ring = {node for node in near if node not in tier}
        tier.update(dict.fromkeys(ring, distance))
    return tuple(tier.get(node, 0) for node in range(nodes))


def format_topology(topology: Topology) -> str:
    """Write a topology file."""
    lines = [f"{topology.node_count} {len(topology.switches)} {len(topology.cables)}"]
    lines.append(" ".join(map(str, topology.switches)))
    lines += [
        f"{c.a} {c.b} {c.rate_bps / 1e9:g}Gbps {c.delay_s * 1e9:.0f}ns {c.error_rate:.6f}"
        for c in topology.cables
    ]
    return "\n".join(lines) + "\n"


def parse_flows(text: str, *, conweave: bool = False, where: str = "flows") -> Traffic:
    """Parse a flow file; source (conweave: both) ports are numbered as the simulator does."""
    words = _words(text, where)
    flows = []
    pairs: dict[tuple[int, int], int] = {}
    sources: dict[int, int] = {}
    targets: dict[int, int] = {}
    try:
        for _ in range(int(next(words))):
            src, dst, priority = int(next(words)), int(next(words)), int(next(words))
            dport = FIRST_DPORT + targets.get(dst, 0) if conweave else int(next(words))
            earlier = sources.get(src, 0) if conweave else pairs.get((src, dst), 0)
            size, start = int(next(words)), float(next(words)) - BASE_S
            sources[src] = sources.get(src, 0) + 1
            targets[dst] = targets.get(dst, 0) + 1
            pairs[src, dst] = pairs.get((src, dst), 0) + 1
            flows.append(
                Flow(
                    src=src, dst=dst, size_bytes=size, start_s=max(0.0, start),
                    priority=priority, sport=FIRST_SPORT + earlier, dport=dport,
                )
            )  # fmt: skip
    except ValueError as error:
        raise Malformed(where, "flow file", str(error)) from None
    return traffic_of_flows(flows, name=where)


def format_flows(traffic: Traffic, *, conweave: bool = False) -> str:
    """Write a flow file of the messages that have a start time of their own."""
    rows = []
    for message in traffic.messages:
        one = traffic.connections[message.connection]
        port = "" if conweave else f"{one.dport} "
        size = message.size_bytes * message.repeat
        start = BASE_S + message.start_s
        rows.append((start, f"{one.src} {one.dst} {one.priority} {port}{size} {start:.9f}"))
    rows.sort(key=lambda row: row[0])
    return "\n".join([str(len(rows)), *(row for _, row in rows)]) + "\n"


def config_keys(text: str) -> dict[str, list[str]]:
    """Return the words behind every key of a config file; the last of a key holds."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: words[1:] for words in lines if words}


def _check_simulated(keys: dict[str, list[str]], where: str) -> None:
    """Raise NotSupported for a setting that would give another simulation than ours."""
    for key, known in _SIMULATED.items():
        word = keys.get(key, [known[0]])[:1]
        if word != [] and word[0] not in known:
            raise NotSupported(where, key, f"{word[0]} is not simulated; known: {', '.join(known)}")


def parse_config(text: str, *, conweave: bool = False, where: str = "config") -> Model:
    """Parse a config file into the model variant of that simulator.

    Malformed for a key that is missing or wrong, NotSupported for an algorithm that we lack.
    """
    keys = config_keys(text)
    _check_simulated(keys, where)

    def number(key: str) -> float:
        try:
            value = float(keys[key][0])
        except (KeyError, IndexError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise Malformed(where, key, "missing or not a number")
        return value

    def rate(key: str) -> float:
        if not keys.get(key):
            raise Malformed(where, key, "missing")
        return _quantity(keys[key][0], UNITS, f"{where}: {key}")

    dcqcn = replace(
        NVIDIA_FIRMWARE,
        g=number("EWMA_GAIN"),
        alpha_period_s=number("ALPHA_RESUME_INTERVAL") * US,
        cut_window_s=number("RATE_DECREASE_INTERVAL") * US,
        increase_timer_s=number("RP_TIMER") * US,
        byte_counter_bytes=None,
        recovery_stages=int(number("FAST_RECOVERY_TIMES")),
        ai_bps=rate("RATE_AI"),
        hai_bps=rate("RATE_HAI"),
        initial_alpha=1.0,
        min_decrease_ratio=0.0,
        min_rate_bps=rate("MIN_RATE"),
        clamp_target=bool(number("CLAMP_TARGET_RATE")),
        clamp_target_after_timer=True,
        cnp_interval_s=0.0,
    )
    ecn = tuple(_thresholds(keys, where)) if _is_on(keys, "ENABLE_QCN") else ()
    make = conweave_model if conweave else hpcc_model
    model = make(dcqcn, ecn, buffer_mib=int(number("BUFFER_SIZE")))
    if "PACKET_PAYLOAD_SIZE" in keys:
        payload = int(number("PACKET_PAYLOAD_SIZE"))
        model = replace(model, transport=replace(model.transport, payload_bytes=payload))
    if not _is_on(keys, "ENABLE_PFC"):
        model = replace(model, switch=replace(model.switch, pfc=False))
    if not _is_on(keys, "CC_MODE"):
        model = replace(model, congestion=replace(model.congestion, form=Form.OFF))
    spread = _SPREADS[keys.get("LB_MODE", ["0"])[0]]
    return replace(model, balancing=replace(model.balancing, spread=spread))


def _is_on(keys: dict[str, list[str]], key: str) -> bool:
    return keys.get(key, ["1"])[:1] != ["0"]


def _thresholds(keys: dict[str, list[str]], where: str) -> Iterator[EcnAt]:
    maps: dict[str, dict[float, float]] = {}
    for name in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"):
        try:
            values = [float(word) for word in keys[name][1:]]
        except (KeyError, ValueError):
            raise Malformed(where, name, "missing or not numbers") from None
        if len(values) % 2:
            raise Malformed(where, name, "must be a count, then pairs of a rate and a value")
        maps[name] = dict(zip(values[::2], values[1::2], strict=True))
    for rate_bps, kmin in maps["KMIN_MAP"].items():
        others = [maps[name].get(rate_bps, math.nan) for name in ("KMAX_MAP", "PMAX_MAP")]
        try:
            limits = EcnThresholds(kmin * 1000, others[0] * 1000, others[1])
        except ValueError as error:
            place = f"KMIN_MAP, KMAX_MAP and PMAX_MAP at {rate_bps:g} bit/s"
            raise Malformed(where, place, str(error)) from None
        yield EcnAt(rate_bps=rate_bps, thresholds=limits)


def format_config(
    model: Model, name: str, *, conweave: bool = False, duration_s: float = 2.0
) -> str:
    """Write a config file for `NAME.topology` and `NAME.flows` (HPCC also: `NAME.trace`).

    They have neither a CNP interval nor a byte counter: what the model says of these is lost. With
    reactions off (CC_MODE 0) the DCQCN keys are written all the same.
    """
    control, dcqcn = model.congestion, model.congestion.dcqcn

    def by_rate(key: str, values: list[str]) -> str:
        pairs = (f"{at.rate_bps:.0f} {value}" for at, value in zip(ecn, values, strict=True))
        return f"{key} {len(ecn)} {' '.join(pairs)}"

    ecn = model.switch.ecn
    limits = [at.thresholds for at in ecn]
    end = f"{BASE_S + duration_s:.9g}"
    modes = {spread: mode for mode, spread in _SPREADS.items()}
    own: tuple[str, ...]
    if conweave:
        own = (
            *_ONLY_CONWEAVE, f"FLOWGEN_STOP_TIME {end}",
            f"LB_MODE {modes.get(model.balancing.spread, 0)}",
            f"ENABLE_PFC {int(model.switch.pfc)}", f"CNP_OUTPUT_FILE {name}.cnp",
        )  # fmt: skip
    else:
        traces = (f"TRACE_FILE {name}.trace", f"TRACE_OUTPUT_FILE {name}.tr")
        own = (*_ONLY_HPCC, *traces, f"SIMULATOR_STOP_TIME {end}")
    lines = [
        f"TOPOLOGY_FILE {name}.topology",
        f"FLOW_FILE {name}.flows",
        f"FCT_OUTPUT_FILE {name}.fct",
        f"PFC_OUTPUT_FILE {name}.pfc",
        f"QLEN_MON_FILE {name}.qlen",
        *own,
        f"CC_MODE {0 if control.form is Form.OFF else 1}",
        f"ALPHA_RESUME_INTERVAL {dcqcn.alpha_period_s / US:g}",
        f"RATE_DECREASE_INTERVAL {dcqcn.cut_window_s / US:g}",
        f"CLAMP_TARGET_RATE {int(dcqcn.clamp_target)}",
        f"RP_TIMER {dcqcn.increase_timer_s / US:g}",
        f"EWMA_GAIN {dcqcn.g:.10g}",
        f"FAST_RECOVERY_TIMES {dcqcn.recovery_stages}",
        f"RATE_AI {dcqcn.ai_bps / 1e6:g}Mb/s",
        f"RATE_HAI {dcqcn.hai_bps / 1e6:g}Mb/s",
        f"MIN_RATE {dcqcn.min_rate_bps / 1e6:g}Mb/s",
        f"ENABLE_QCN {int(bool(ecn))}",
        "USE_DYNAMIC_PFC_THRESHOLD 1",
        f"PACKET_PAYLOAD_SIZE {model.transport.payload_bytes}",
        f"BUFFER_SIZE {model.switch.buffer_bytes // MIB}",
        *_ALWAYS,
        by_rate("KMAX_MAP", [f"{one.kmax_bytes / 1000:g}" for one in limits]),
        by_rate("KMIN_MAP", [f"{one.kmin_bytes / 1000:g}" for one in limits]),
        by_rate("PMAX_MAP", [f"{one.pmax_ratio:g}" for one in limits]),
    ]
    return "\n".join(lines) + "\n"
