"""Mutants of plain modules that cannot change a result, with the reason: `Mutant.key` -> why."""

_EVEN = "the count of events is even, and the mask odd"
_BELOW = "every use asks whether it is below 0"
_HOPS = "a path crosses one switch at least"
_GROWS = "only when, and by how much, the pool of packets grows"
_ROOM = "more room than is needed"
_REST = 'numpy takes any negative number for "what is left"'
_LONG_AGO = "both are longer ago than the 17.6 s that a run may last"
_UNLIMITED = "without a limit none is exceeded"
_BEGIN = "_begin sets it again"
_CURSOR = "a path is never at word 0: that is of the header"
_PICOSECOND = "nothing arrives within 1 ps"

EQUIVALENT_PLAIN: dict[str, str] = {
    "limits: if 3 * ports + 2 + 2 * pairs > ENTITY_MASK:: 2 -> 3": _EVEN,
    "limits: if 3 * ports + 2 + 2 * pairs > ENTITY_MASK:: Gt -> GtE: 3 * ports + 2 + 2 * "
    "pairs > ENTITY_MASK": _EVEN,
    "topology: numbers = [0] * (2 * len(self.cables)): 0 -> 1": ("every port is given its number"),
    "topology: distance = dict.fromkeys(targets, 0): 0 -> 1": (
        "only differences of distances count"
    ),
    "routing: switch_of = np.full(topology.node_count, -1, dtype=np.int64): 1 -> 2": _BELOW,
    "routing: known: dict[tuple[int, ...], int] = {(): 0}: 0 -> 1": (
        "no switch has an empty list of next hops"
    ),
    "routing: flows = np.zeros((count, len(hashing.FIELDS) + 1), dtype=np.int64): 1 -> 2": (
        "the last column is the host in both; the one before it is not read"
    ),
    "routing: for lost in np.flatnonzero(lengths < 0).tolist():: 0 -> 1": _HOPS,
    "routing: for lost in np.flatnonzero(lengths < 0).tolist():: Lt -> LtE: lengths < 0": _HOPS,
    "regions: LARGE = 4096  # entities with which everything stays in the second-level "
    "cache anyway: 4096 -> 4097": ("the number of events is even"),
    "regions: window = min(gaps, default=0): 0 -> 1": ("both are below the least window"),
    "regions: fits = _power(count + 1) * block <= at.ENTITY_MASK: LtE -> Lt: _power(count"
    " + 1) * block <= at.ENTITY_MASK": (
        "a power of two is not the mask, which is one less than one"
    ),
    "regions: return 1 << max(1, (least - 1).bit_length()): 1 -> 2 (2)": (
        "no region has fewer than three events"
    ),
    "regions: room = 0: 0 -> 1": ("every switch has more than one event"),
    "regions: if head in busy or sizes[head] > room:: Gt -> GtE: sizes[head] > room": (
        "events of switches without hosts are multiples of three, and blocks powers of two"
    ),
    "regions: number, room = number + 1, 0 if head in busy else block: 0 -> 1": (
        "a region with hosts is full: every switch has more than one event"
    ),
    "build: SLACK_PACKETS = 64: 64 -> 65": _GROWS,
    "build: space = _Space(at.TREE + 2 * entities.leaves): 2 -> 3": _ROOM,
    "build: tables = [space.take(max(1, len(control.cct))) for control in controls]: 1 -> 2": _ROOM,
    "build: spare = 4 * hops + 1024  # for paths that change when a link fails: 4 -> 5": _ROOM,
    "build: spare = 4 * hops + 1024  # for paths that change when a link fails: 1024 -> "
    "1025": _ROOM,
    "build: start_at = space.take(2 * starts): 2 -> 3": _ROOM,
    "build: delayed = (m for m in traffic.messages if m.delay_s > 0 or m.gate_delay_s > "
    "0): Gt -> GtE: m.delay_s > 0": _ROOM,
    "build: delayed = (m for m in traffic.messages if m.delay_s > 0 or m.gate_delay_s > "
    "0): Gt -> GtE: m.gate_delay_s > 0": _ROOM,
    "build: heap_words = 2 * (2 + sum(m.repeat for m in delayed)): 2 -> 3": _ROOM,
    "build: heap_words = 2 * (2 + sum(m.repeat for m in delayed)): 2 -> 3 (2)": _ROOM,
    "build: words = _window(model) // 32 + 1 if model.transport.selective_repeat else 0: "
    "1 -> 2": _ROOM,
    "build: maps = space.take(2 * words * slots): 2 -> 3": _ROOM,
    "build: flowlets = space.take(1 + 2 * slots * len(topology.switches) if flowlet else "
    "1): 1 -> 2": _ROOM,
    "build: flowlets = space.take(1 + 2 * slots * len(topology.switches) if flowlet else "
    "1): 2 -> 3": _ROOM,
    "build: flowlets = space.take(1 + 2 * slots * len(topology.switches) if flowlet else "
    "1): 1 -> 2 (2)": _ROOM,
    "build: pool = space.take(1024 * at.PKT_WORDS): 1024 -> 1025": _ROOM,
    "build: for mask in range(1, 512):: 1 -> 2": (
        "the highest bit of 1 is 0, as memory is at first"
    ),
    "build: for mask in range(1, 512):: 512 -> 513": (
        "the word behind the masks is node 0 of the trees, which begin at 1"
    ),
    "build: index = 0: 0 -> 1": (
        "no packet comes to a switch without a route to its host, which group 0 stands for"
    ),
    "build: at.ACK_PRIORITY: -1 if wire.ack_priority is None else wire.ack_priority,: 1 "
    "-> 2": _BELOW,
    "build: at.ACK_HOST_QUEUE: at.CONTROL if wire.ack_jumps_host_queue else -1,: 1 -> 2": _BELOW,
    "build: rows = state.port_handles[np.where(counts, 0, routes.groups)]: 0 -> 1": (
        "the next line takes the count in its place"
    ),
    "build: rows = s[state.qps : state.qps + state.qp_slots * at.QP_WORDS].reshape(-1, "
    "at.QP_WORDS): 1 -> 2": _REST,
    "build: (entities.start + 1, 0, at.SAMPLE),: 0 -> 1": ("what is of no other kind is a sample"),
    "build: level = np.minimum(level[0::2], level[1::2]) if size > 1 else level: Gt -> "
    "GtE: size > 1": ("the root is written, and nothing comes behind it"),
    "build_ports: at.PORT_PS_BYTE: per_byte.numerator if per_byte.denominator == 1 else "
    "-1,: 1 -> 2 (2)": _BELOW,
    "build_ports: at.PORT_CNP_LAST: -(10**15),: 10 -> 11": _LONG_AGO,
    "build_ports: at.PORT_CNP_LAST: -(10**15),: 15 -> 16": _LONG_AGO,
    "build_ports: s[at.RECEIVE_LIMITED] |= values[at.PORT_RECEIVE_INTERVAL] > 0: 0 -> 1": (
        "with one more receive request each picosecond no host runs short"
    ),
    "build_ports: s[at.RECEIVE_LIMITED] |= values[at.PORT_RECEIVE_INTERVAL] > 0: Gt -> "
    "GtE: values[at.PORT_RECEIVE_INTERVAL] > 0": (
        "only a shortcut: every port is asked for its interval as well"
    ),
    "build_ports: s[row + at.PORT_PAUSE_END : row + at.PORT_PAUSE_END + 8] = at.NEVER: 8 -> 9": (
        "the word behind is when a pause began, written before it is read"
    ),
    "build_ports: s[row + at.PORT_WATCH_END : row + at.PORT_WATCH_END + 8] = at.NEVER: 8 -> 9": (
        "the word behind is of nothing"
    ),
    "build_ports: limited = s[queue + at.QUEUE_ALPHA] > 0 or switch.queue_limit_bytes > "
    "0: Gt -> GtE: s[queue + at.QUEUE_ALPHA] > 0": _UNLIMITED,
    "build_ports: limited = s[queue + at.QUEUE_ALPHA] > 0 or switch.queue_limit_bytes > "
    "0: Gt -> GtE: switch.queue_limit_bytes > 0": _UNLIMITED,
    "build_ports: host_rate = min(host_rates) if host_rates else 0.0: 0.0 -> 1.0": (
        "traffic without hosts is refused before"
    ),
    "build_ports: if switch.alpha_doubles_with_rate and cable.rate_bps > host_rate:: Gt "
    "-> GtE: cable.rate_bps > host_rate": ("at the rate of the hosts the factor is 1"),
    "build_ports: s[group + at.GROUP_ALPHA] = -1: 1 -> 2": _BELOW,
    "build_ports: switch.classes.get(p, p) << 8 + 4 * p for p in range(8): 8 -> 9 (2)": (
        "no packet is of a ninth priority"
    ),
    "build_messages: words = 0: 0 -> 1": _ROOM,
    "build_messages: words += 1 + len(message.gates): 1 -> 2": _ROOM,
    "build_messages: words += 0 if _short(message.after) else 1 + len(message.after): 0 "
    "-> 1": _ROOM,
    "build_messages: words += 0 if _short(message.after) else 1 + len(message.after): 1 "
    "-> 2": _ROOM,
    "build_messages: return successors, words + sum(1 + len(row) for row in successors if"
    " not _short(row)): 1 -> 2": _ROOM,
    "build_messages: return len(others) <= 1: LtE -> Lt: len(others) <= 1": (
        "only where a list lies: counted and written by the same rule"
    ),
    "build_messages: return topology.cables[port // 2].rate_bps, node if own else -1: 1 -> 2": (
        "neither is the number of a host"
    ),
    "simulation: BUDGET = 2_000_000  # events between looks at the clock: 2000000 -> 2000001": (
        "only how often it looks up"
    ),
    "simulation: period = ps(period_s) if 0 < period_s <= LONGEST_S else 0: Lt -> LtE: 0 < "
    "period_s <= LONGEST_S": ("0 s is 0 ps either way"),
    "simulation: self.wall_s = 0.0: 0.0 -> 1.0": _BEGIN,
    "simulation: self.cpu_s = 0.0: 0.0 -> 1.0": _BEGIN,
    "simulation: self.trace = np.zeros(0, dtype=np.int64): 0 -> 1": (
        "no sample is planned that could be written there"
    ),
    "simulation: taken: Ints = self.trace[: int(self._s[at.SAMPLE_AT])].reshape(-1, "
    "count): 1 -> 2": _REST,
    "simulation: extra = max(1024 * at.PKT_WORDS, len(self._s) // 4): 1024 -> 1025": _GROWS,
    "simulation: extra = max(1024 * at.PKT_WORDS, len(self._s) // 4): 4 -> 5": _GROWS,
    "simulation: self._s.extend([0] * extra): 0 -> 1": (
        "words of a packet are written before they are read"
    ),
    "interventions: if sim.word(row + at.MSG_PATH) < 0:: 0 -> 1": _CURSOR,
    "interventions: if sim.word(row + at.MSG_PATH) < 0:: Lt -> LtE: sim.word(row + "
    "at.MSG_PATH) < 0": _CURSOR,
    "results: done = rows[:, at.MSG_ACKED_TIME] > 0: 0 -> 1": _PICOSECOND,
    "results: known = times.get(message.label, (at.NEVER, 0)): 0 -> 1": _PICOSECOND,
}
