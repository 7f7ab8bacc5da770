"""Cures of uneven paths: what the hash sees, its seed by tier, queue pairs, rank order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.ecmp_hash import FIVE_TUPLE, HashField
from collectors.model.entities import Device, Entity, Host, Interface, Switch, display
from collectors.model.facts import Value
from tuner.advice.cure import GOODPUT, Cure, recommend_change
from tuner.advice.cures import queue_pairs
from tuner.advice.cures.configuration import aligned
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.fabric.natural import natural
from tuner.models.balls_in_bins import spread

WISH: Final = 16  # flows for each pair of NICs (Llama 3; Baidu: 16 to 64 bring 95 of 100 Gb/s)
_FIELDS: Final = "ecmp_hash_fields"
_RING: Final = 3  # of as many hosts a ring and an all-to-all look alike
_ROTATION: Final = 8  # bits: another half of the hash for every second tier


def _spread_effect(flows: float, links: int, wanted: float) -> Effect:
    """Predict what more flows over the same links do to the fullest (balls in bins)."""
    before, after = (spread(round(max(n, 1)), links).max_over_mean for n in (flows, wanted))
    return Effect(
        GOODPUT, "ratio", 1.0, 1.0, max(1.0, before / after),
        "balls in bins", f"{flows:.0f} then {wanted:.0f} equal flows hashed at random on {links} "
        "links; the fullest link sets the pace",
    )  # fmt: skip


def spread_out(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Give the hash more to see, more queue pairs to spread, or the choice to each packet.

    In this order: fields that all its like hash, source ports, the queue pair (E-ECMP); a bound on
    channels lifted, more queue pairs, whole messages dealt to them. Where queue pairs are plenty
    already: source ports chosen for the hash, or packets sprayed where the NICs tolerate it.
    """
    switch = _switch(finding.subject)
    links = sorted(uplinks(fabric, switch), key=lambda w: natural(w.name)) if switch else []
    count = max(2, len(links))
    flows = _flows(telemetry)
    effects = [_spread_effect(flows[0], count, WISH * flows[1])]
    seen: list[Recommendation] = []
    if switch is not None:
        seen += aligned(finding, telemetry, fabric, (_FIELDS, "ecmp_hash_algorithm"))
        fields = telemetry.settings(switch).get(_FIELDS)
        if not seen and fields is not None and _blind(fields.value):
            seen.append(
                recommend_change(
                    finding, _FIELDS, switch, fields.value, tuple(f.value for f in FIVE_TUPLE),
                    f"let {display(switch)} hash ports, too: addresses alone tell few flows apart",
                    effects, confidence=finding.confidence, risk="low",
                )
            )  # fmt: skip
        seen += queue_pairs.hash_queue_pairs(finding, telemetry, like(telemetry, switch), effects)
    yield from seen
    pairs = max(1, round(flows[0] / max(flows[1], 1)))
    yield from queue_pairs.more_channels(finding, telemetry, fabric, effects)
    yield from queue_pairs.whole_messages(finding, telemetry, fabric, count, pairs)
    if pairs < WISH:
        wanted = 8 if pairs < 4 else WISH
        yield from _for_hosts(
            finding, telemetry, "qps_per_connection", pairs, wanted,
            f"{wanted} queue pairs for each connection: more flows, more even", effects,
        )  # fmt: skip
    elif switch is not None and not seen:
        yield from queue_pairs.planned_ports(finding, telemetry, fabric, switch, links)
        yield from queue_pairs.spray(finding, telemetry, fabric, held_switches(telemetry), effects)


def like(telemetry: Telemetry, switch: Switch) -> list[Switch]:
    """Return a switch and the others of its tier, whose hashes must see the same."""
    tier = _tier(telemetry, switch)
    others = [one for one in held_switches(telemetry) if _tier(telemetry, one) == tier]
    return [switch, *(one for one in others if one != switch and tier is not None)]


def _blind(value: Value) -> bool:
    fields = value if isinstance(value, tuple) else tuple(str(value).split())
    return HashField.SRC_PORT.value not in fields


def depolarise(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Let each tier choose by another part of the hash: rotation for CRCs, a seed for others.

    A CRC's seed only renumbers its results (see collectors.model.ecmp_hash), so two tiers stay as
    polarised as they were.
    """
    switch = _switch(finding.subject)
    if switch is None:
        return
    like = [
        one for one in held_switches(telemetry) if _tier(telemetry, one) == _tier(telemetry, switch)
    ]
    algorithm = telemetry.settings(switch).get("ecmp_hash_algorithm")
    murmur = algorithm is not None and not str(algorithm.value).lower().startswith("crc")
    name = "ecmp_hash_seed" if murmur else "ecmp_hash_offset"
    now = telemetry.settings(switch).get(name)
    old = int(now.value) if now is not None and isinstance(now.value, (int, float)) else 0
    others = [one for one in like if one != switch and _value(telemetry, one, name) == old]
    links = max(2, len(uplinks(fabric, switch)))
    effect = Effect(
        GOODPUT, "ratio", 1.0, 1.0, float(links), "reachable links of two equal hashes",
        "one hash at two tiers reaches M2/gcd(M1, M2) of the links, two reach all",
    )  # fmt: skip
    yield recommend_change(
        finding,
        name,
        switch,
        None if now is None else old,
        (old + 0x9E37) % 65_536 if murmur else (old + _ROTATION) % 16,
        f"another hash at the tier of {display(switch)} than below it",
        [effect],
        confidence=finding.confidence,
        risk="low",
        also=others,
    )


def by_leaf(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Order the ranks of a job so that neighbours share a leaf: few hops cross the tier above."""
    leaves: dict[str, str] = {}
    for port in fabric.ports():
        far = fabric.peer(fabric.attached(port))
        if isinstance(far, Interface):
            leaves.setdefault(port.device.host, display(far.switch))
    for job, chains in _chains(telemetry, fabric).items():
        hosts = [host for chain in chains for host in chain]
        order = sorted(hosts, key=lambda host: (natural(leaves.get(host, "")), natural(host)))
        hops = [at for chain in chains for at in _hops(hosts, chain)]
        crossing = sum(leaves.get(hosts[a]) != leaves.get(hosts[b]) for a, b in hops)
        least = sum(leaves.get(order[a]) != leaves.get(order[b]) for a, b in hops)
        if least >= crossing:
            continue
        effect = Effect(
            GOODPUT, "ratio", 1.0, 1.0, crossing / max(least, 1), "hops that cross leaves",
            f"{crossing} hops between neighbours cross now, then {least}",
        )  # fmt: skip
        yield recommend_change(
            finding,
            "rank_order",
            Host(order[0]),
            None,
            tuple(order),
            f"start {job or 'the job'} with its ranks leaf by leaf",
            [effect],
            confidence=min(finding.confidence, 0.7),
            risk="low",
            missing=["the order of ranks now: only who sends to whom is visible"],
        )


def _hops(hosts: list[str], chain: list[str]) -> Iterable[tuple[int, int]]:
    """Yield the places, in the order of all hosts, of neighbours in a chain; a ring closes."""
    first = hosts.index(chain[0])
    for step in range(len(chain) - 1):
        yield first + step, first + step + 1
    if len(chain) > 2 and len(chain) == len(hosts):
        yield first + len(chain) - 1, first


def in_order(
    finding: Finding, telemetry: Telemetry, _fabric: FabricView
) -> Iterable[Recommendation]:
    """Keep a flow on one path where NICs do not place packets that come out of order."""
    groups: dict[Value, list[Switch]] = {}
    for switch in held_switches(telemetry):
        setting = telemetry.settings(switch).get("load_balancing")
        if setting is not None and setting.value in ("per_packet", "adaptive", "flowlet"):
            groups.setdefault(setting.value, []).append(switch)
    effect = Effect(
        GOODPUT, "ratio", 1.0, 1.0, 10.0, "go-back-N accounting",
        "packets out of order are sent again; packets in order are not",
    )  # fmt: skip
    for now, switches in groups.items():
        yield recommend_change(
            finding,
            "load_balancing",
            switches[0],
            now,
            "static",
            "one path for each flow: its NICs ask again for what comes out of order",
            [effect],
            confidence=finding.confidence,
            risk="low",
            also=switches[1:],
        )


def _switch(entity: Entity) -> Switch | None:
    if isinstance(entity, Interface):
        return entity.switch
    return entity if isinstance(entity, Switch) else None


def held_switches(telemetry: Telemetry) -> list[Switch]:
    """Return the switches whose load balancing or hash is known."""
    found: dict[Switch, None] = {}
    for name in ("load_balancing", "ecmp_hash_algorithm", _FIELDS):
        for entity in telemetry.setting_all(name):
            if isinstance(entity, Switch):
                found.setdefault(entity)
    return list(found)


def _tier(telemetry: Telemetry, switch: Switch) -> Value | None:
    named = telemetry.attributes(switch).get("platform")
    return None if named is None else named.value


def _value(telemetry: Telemetry, switch: Switch, name: str) -> int:
    setting = telemetry.settings(switch).get(name)
    known = setting is not None and isinstance(setting.value, (int, float))
    return int(setting.value) if setting is not None and known else 0  # type: ignore[arg-type]


def uplinks(fabric: FabricView, switch: Switch) -> list[Interface]:
    """Return the interfaces of a switch that face other switches."""
    return [
        end
        for cable in fabric.links()
        for end in (cable.a, cable.b)
        if isinstance(end, Interface) and end.switch == switch
        if isinstance(fabric.peer(end), Interface)
    ]


def _flows(telemetry: Telemetry) -> tuple[int, int]:
    """Return queue pairs and connections (one way from device to peer) that are known.

    Agents list the queue pairs of both ends. Where all of a job talk to all, as in an all-to-all,
    each two have a connection each way; elsewhere (rings, incasts) one.
    """
    pairs = telemetry.queue_pairs()
    peers: dict[str, dict[Device, set[str]]] = {}
    for pair in pairs:
        peers.setdefault(pair.job, {}).setdefault(pair.device, set()).add(pair.remote_address)
    connections = 0
    for of_device in peers.values():
        mutual = len(of_device) > _RING and all(
            len(others) == len(of_device) - 1 for others in of_device.values()
        )
        connections += sum(map(len, of_device.values())) * (2 if mutual else 1)
    return len(pairs), connections


def _chains(telemetry: Telemetry, fabric: FabricView) -> dict[str, list[list[str]]]:
    """Return who sends to whom in each job, as chains of hosts; none where one sends to several."""
    owner = {
        gid.gid.removeprefix("::ffff:"): port.device.host
        for port in fabric.ports()
        for gid in telemetry.gids(port)
    }
    following: dict[str, dict[str, set[str]]] = {}
    for pair in telemetry.queue_pairs():
        there = owner.get(pair.remote_address.removeprefix("::ffff:"))
        if there is not None and there != pair.device.host:
            steps = following.setdefault(pair.job, {})
            steps.setdefault(pair.device.host, set()).add(there)
    found = {}
    for job, many in following.items():
        if all(len(there) == 1 for there in many.values()):
            found[job] = _followed({host: min(there) for host, there in many.items()})
    return found


def _followed(steps: Mapping[str, str]) -> list[list[str]]:
    """Return the chains of a next-host table, those that nobody leads to first."""
    led = set(steps.values())
    starts = sorted(steps, key=lambda host: (host in led, natural(host)))
    passed: set[str] = set()
    chains = []
    for start in starts:
        if start in passed:
            continue
        chain = [start]
        passed.add(start)
        while (then := steps.get(chain[-1])) is not None and then not in passed:
            chain.append(then)
            passed.add(then)
        chains.append(chain)
    return chains


def _for_hosts(
    finding: Finding,
    telemetry: Telemetry,
    knob: str,
    now: Value,
    proposed: Value,
    summary: str,
    effects: list[Effect],
) -> Iterable[Recommendation]:
    hosts = list(dict.fromkeys(Host(pair.device.host) for pair in telemetry.queue_pairs()))
    if hosts:
        yield recommend_change(
            finding, knob, hosts[0], now, proposed, summary, effects,
            confidence=min(finding.confidence, 0.8), risk="low", also=hosts[1:],
        )  # fmt: skip


CURES: Final[Mapping[str, Cure]] = MappingProxyType(
    {
        "ecmp-imbalance": spread_out,
        "hash-polarisation": depolarise,
        "pinned-paths": spread_out,
        "oversubscription": by_leaf,
        "reordering": in_order,
    }
)
