"""What the hosts send: connections (QP pairs) and messages, with dependencies between them."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.model.errors import ConfigInvalid
from simlab.packet.layout import ENTITY_MASK

DATA_PRIORITY = 3
MOST_PAIRS = ENTITY_MASK // 2  # two events a queue pair
MOST_MESSAGES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One RC queue pair from host node `src` to `dst`.

    `path` fixes the switch egress ports (directed) instead of hashing; `ack_path` those back.
    """

    src: int
    dst: int
    sport: int = 49152
    dport: int = 4791
    priority: int = DATA_PRIORITY
    src_qp: int = 0
    dst_qp: int = 0
    path: tuple[int, ...] | None = None
    ack_path: tuple[int, ...] | None = None
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`repeat` equal sends of `size_bytes` payload on one connection.

    The first `free` repeats are posted at `start_s`; each further one when every message of
    `after` has arrived once more, `delay_s` later (compute time). With free = 0 nothing is
    posted before the first arrivals. The messages of `gates` must have arrived with all their
    repeats before anything is posted, which is then done `gate_delay_s` later.
    """

    connection: int
    size_bytes: int
    repeat: int = 1
    free: int = 1
    start_s: float = 0.0
    after: tuple[int, ...] = ()
    delay_s: float = 0.0
    gates: tuple[int, ...] = ()
    gate_delay_s: float = 0.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Traffic:
    """All connections and messages; the messages of one connection go in the order given.

    `flows` says that every connection carries one message and may share QP slots in time.
    """

    connections: tuple[Connection, ...]
    messages: tuple[Message, ...]
    flows: bool = False
    name: str = "traffic"


def check_counts(name: str, *, pairs: float, messages: float) -> None:
    """Raise ConfigInvalid for more traffic than can be held, before any of it is made."""
    for what, count, most in (
        ("queue pairs", pairs, MOST_PAIRS),
        ("messages", messages, MOST_MESSAGES),
    ):
        if count > most:
            why = f"some {count:.3g} {what} are more than the {most} that can be simulated"
            raise ConfigInvalid(name, "size", why)
