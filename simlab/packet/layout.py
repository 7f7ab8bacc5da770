"""Where everything lives in the engine's state: one int64 vector `s` and one float64 vector `f`.

A record is a row of `s` and its handle is the index of its first word, so that a field is
`s[port + PORT_BUSY_UNTIL]`. Handle 0 means none. One flat vector costs numba no reference
counting and lets any helper reach everything (tuples of arrays were measured 4-7x slower).

Time is integer picoseconds, sizes are bytes on the wire, rates are bit/s.
"""

from __future__ import annotations

# Event key = time << ENTITY_BITS | entity: ties break by entity, results never depend on the queue.
# An entity is what has at most one event pending; simlab.packet.regions numbers them.
ENTITY_BITS = 18
ENTITY_MASK = (1 << ENTITY_BITS) - 1
NEVER = (1 << (62 - ENTITY_BITS)) - 1  # 17.6 s in ps: the longest simulated time
RANDOM_RANGE = 2147483562  # random() is in 1 .. RANDOM_RANGE
RATIO_ONE = 1 << 16  # fixed point of buffer alphas

# --- Header ---
NOW = 1
LEAVES = 2  # leaves of all event trees, a power of two
PORT_COUNT = 3
OWNERS = 4  # per entity: the handle of its port or QP, and its kind of event
ROOTS = 5  # trees, a power of two, and the node of the first one's root
REGION_COUNT = 6  # 1: one tree has all events
PACKET_FREE = 7
PACKET_BRK = 8  # end of the pool in use
PACKET_LIMIT = 9  # the pool must grow when PACKET_BRK passes this
RANDOM_A = 10
RANDOM_B = 11
TRUNCATE_NS = 12  # reference simulators' 1 ns clock
EVENTS = 13
LINK_PACKETS = 14
QP_FREE = 15
START_NEXT = 16  # next row of the time-sorted start list
START_END = 17
HEAP = 18  # binary heap of (time, message) for delayed posts
HEAP_SIZE = 19
ROUTES = 21  # switch x host -> next-hop group
HOST_COUNT = 22
SAMPLE_PERIOD = 23
SAMPLE_COUNT = 24  # watched queues
SAMPLE_LIST = 25
SAMPLE_AT = 26  # next free word of the trace
SAMPLE_END = 27
ACK_HOST_QUEUE = 28
DONE_MESSAGES = 29
INFINIBAND = 30
MTU_WIRE = 31  # largest data packet on the wire
ACK_BYTES = 32
CNP_BYTES = 33
CONTROL_BYTES = 34  # PFC frame or credit update
CNP_PRIORITY = 35
ACK_PRIORITY = 36  # -1: as the data
ACK_ECT = 37  # ACKs are ECN-capable (reference simulators mark them)
CNP_MODE = 38
CNP_INTERVAL = 39
ACK_EVERY = 40
HEADER_BYTES = 41
RNR_DELAY = 42
NAK_INTERVAL = 43
RTO = 44
FLOWLET_GAP = 45
FLOWLETS = 46
SPRAY = 47  # path choice mode of dynamic groups
NAK_CNP = 48  # an out-of-order NAK also carries a CNP (conweave)
SELECTIVE = 49
SR_WORDS = 50  # words of 32 packets in each selective-repeat bitmap
RETRY_LIMIT = 51
REORDER_TOLERANT = 52
STOP_WHEN_DONE = 53
MESSAGE_COUNT = 54
PACKETS_ALIVE = 56
RECEIVE_LIMITED = 57  # a host may run short of receive requests
CNP_SENT_TOTAL = 58
REGIONS = 59  # their rows
WINDOW_PACKETS = 60
HURRY = 61  # a rate increase shortens the gap that is running (reference simulators: no)
RECYCLE = 62  # a QP slot is free again when its flow is done
DONE_TIME = 63  # of the last acknowledgement
WINDOW = 64  # ps that regions may run apart
START_ENTITY = 65  # planned and delayed posts; behind it the sampling of queues
EVEN_COUNT = 66  # regions 0 .. EVEN_COUNT-1 have cables to the others only, unless that is all
FORWARD = 67  # 1: regions run in their order this time, 0: backwards

# highest set bit of a 9-bit queue mask
HIGHEST_BIT = 80
TREE = HIGHEST_BIT + 512

# CNP_MODE
CNP_ON_ACK = 0  # a flag on the ACK of each marked packet (reference simulators)
CNP_PER_QP = 1
CNP_PER_PORT = 2

# SPRAY: how a switch picks among equal next hops when the path is not fixed
PICK_SPRAY, PICK_FLOWLET, PICK_LEAST_QUEUE = range(3)

# return codes of run()
REACHED, GROW_PACKETS, GROW_QPS, PAUSED_FOR_BUDGET, ALL_DONE, TRACE_FULL = range(6)

# An owner is a handle, which is a multiple of 16, and one of these.
ARRIVAL, DEPARTURE, PAUSE_TIMER, PACE, QP_TIMER, START, SAMPLE = range(1, 8)
OWNER_KIND = 15

# --- Region: events of nodes that run together, see simlab.packet.regions ---
REGION_FIRST_QP = 0  # its first entity of a QP: ports come before common events, QPs behind
REGION_RANDOM_A = 1
REGION_RANDOM_B = 2
REGION_WORDS = 4

# --- Directed port: the egress side at one node, with its link ---
# 32 ports are a tile. Lane k of all its ports lies together, 16 words (two cache lines, fetched as
# a pair) a port: what packets touch fills few pages, whatever else a port has. A port's handle
# is its place in lane 0, and its words of lane k are k * LANE further on.
TILE_PORTS = 32
PORT_STRIDE = 16
LANE = TILE_PORTS * PORT_STRIDE
PORT_LINK_HEAD = 0
PORT_LINK_TAIL = 1
PORT_BUSY_UNTIL = 2
PORT_READY = 3  # bits 0-7 priority queues, 8 control, 16-23 QPs by priority (hosts)
PORT_PAUSED = 4  # same bits
PORT_TX_SCHEDULED = 5
PORT_PS_BYTE = 6  # ps per byte; -1: the fraction NUM / DEN with its remainder carried
PORT_DELAY = 7
PORT_ENTITIES = 8  # first arrival of its link, end of sending, pause timer: ENTITY_BITS each
PORT_REVERSE = 9
PORT_SWITCH = 10  # switch row of the node that owns this port, 0 for a host
PORT_TX_PACKETS = 11
PORT_TX_BYTES = 12
PORT_TROUBLE = 13  # bits LINK_DOWN, LINK_LOSSY, STORMED
PORT_WAIT_SINCE = 14
PORT_DRAIN_NUM = 15  # host: ps per byte that the receiver drains; 0 as fast as the wire
PORT_QP_LIST = LANE  # 8 lists of ready QPs: head, tail
PORT_PS_NUM = 2 * LANE
PORT_PS_DEN = 2 * LANE + 1
PORT_PS_REM = 2 * LANE + 2
PORT_ERROR = 2 * LANE + 3  # loss probability x RANDOM_RANGE
PORT_LOST = 2 * LANE + 4  # packets lost on the link
PORT_LOST_BYTES = 2 * LANE + 5
PORT_STRICT = 2 * LANE + 6  # mask of strict-priority queues (control always is)
PORT_ROUND = 2 * LANE + 7  # DWRR position
PORT_WAIT = 2 * LANE + 8  # ps with data waiting and nothing sent (XmitWait)
PORT_CNP_LAST = 2 * LANE + 9
PORT_PAUSE_PS = 2 * LANE + 10  # pause length carried in sent frames; 0: until resume
PORT_WATCHDOG = 2 * LANE + 11  # detection time, 0 off
PORT_WATCH_RESTORE = 2 * LANE + 12
PORT_WATCH_UNTIL = 2 * LANE + 13  # mask of queues being dropped now; from bit 8 those without PFC
PORT_WATCH_EVENTS = 2 * LANE + 14
PORT_STORM = 2 * LANE + 15  # mask: this host's port sends pause for ever
PORT_RX_LIMIT = 3 * LANE  # host receive buffer
PORT_RX_XOFF = 3 * LANE + 1
PORT_RX_XON = 3 * LANE + 2
PORT_RX_DISCARDS = 3 * LANE + 3
PORT_NODE = 3 * LANE + 4
PORT_RESUME_RX = 3 * LANE + 5
PORT_ECT = 3 * LANE + 6  # host: what its data packets carry, ECT or 0
PORT_RECEIVE_INTERVAL = 3 * LANE + 7  # host: ps per further receive request; 0: never short
PORT_RECEIVE_REQUESTS = 3 * LANE + 8  # host: posted at the start
PORT_SILENT = 3 * LANE + 9  # host: sends no CNPs
PORT_LARGEST = 3 * LANE + 10  # bytes of the largest frame that the far end takes in
PORT_NUMBER = 3 * LANE + 11
PORT_PAUSE_END = 4 * LANE  # 8: when the received pause expires; NEVER: until resume
PORT_PAUSE_SINCE = 4 * LANE + 8  # 8
PORT_PAUSE_TIME = 5 * LANE  # 8: accumulated ps
PORT_PAUSE_RX = 5 * LANE + 8  # 8: pause frames received
PORT_PAUSE_EPISODES = 6 * LANE  # 8: transitions to paused
PORT_CREDIT = 6 * LANE + 8  # 8: bytes the far end grants per VL
PORT_CREDIT_SINCE = 7 * LANE
PORT_CREDIT_WAIT = 7 * LANE + 8  # 8: ps with data of this VL waiting for credit
PORT_WATCH_END = 8 * LANE  # 8
PORT_SUMS = 9 * LANE  # counters of the QPs whose slots were reused
PORT_QUEUES = 10 * LANE  # 9 queues, one lane each
QUEUE_WORDS = LANE  # from one queue of a port to the next
PORT_GROUPS = PORT_QUEUES + 8  # 8 ingress priority groups, each beside the queue of its priority
GROUP_WORDS = LANE
COLD_QUEUES = 9 * LANE  # from a queue's row to the lane of its rarer words
COLD_GROUPS = 18 * LANE - 8
TILE_WORDS = 36 * LANE


def port_offset(number: int) -> int:
    """Return where the handle of a directed port lies behind that of port 0."""
    return number // TILE_PORTS * TILE_WORDS + number % TILE_PORTS * PORT_STRIDE


CONTROL = 8
QP_SHIFT = 16
LINK_DOWN = 1
LINK_LOSSY = 2
STORMED = 4
DEAF_SHIFT = 8
LINK_SHORT = 8  # the far end takes in frames up to PORT_LARGEST only

QUEUE_HEAD = 0
QUEUE_TAIL = 1
QUEUE_BYTES = 2
QUEUE_WATERMARK = 3  # since the last telemetry pass
QUEUE_TX_BYTES = 4
QUEUE_TX_PACKETS = 5
QUEUE_KMIN = 6  # with QUEUE_ECN_SKIP added
QUEUE_OPTIONS = 7  # bits MARK_ENQUEUE, LIMITED
QUEUE_KMAX = COLD_QUEUES  # with QUEUE_ECN_SKIP added
QUEUE_PMAX = COLD_QUEUES + 1  # x RANDOM_RANGE
QUEUE_MARKED = COLD_QUEUES + 2
QUEUE_DROPPED = COLD_QUEUES + 3
QUEUE_DROPPED_BYTES = COLD_QUEUES + 4
QUEUE_MAX = COLD_QUEUES + 5  # watermark up to the last telemetry pass
QUEUE_QUANTUM = COLD_QUEUES + 6
QUEUE_DEFICIT = COLD_QUEUES + 7
QUEUE_LIMIT = COLD_QUEUES + 8  # static egress limit in bytes; 0 none
QUEUE_ALPHA = COLD_QUEUES + 9  # egress dynamic threshold; 0 none
QUEUE_FECN_RATE = COLD_QUEUES + 10  # IB: mark one of RATE+1
QUEUE_FECN_COUNT = COLD_QUEUES + 11
MARK_ENQUEUE = 1
LIMITED = 2

GROUP_BYTES = 0
GROUP_HEADROOM_USED = 1
GROUP_XOFF_SENT = 2
GROUP_RESERVED = 3
GROUP_ALPHA = 4  # -1: static threshold
GROUP_LOSSLESS = 5
GROUP_MAX = 6
GROUP_PORT = 7
GROUP_XOFF = COLD_GROUPS
GROUP_XON_OFFSET = COLD_GROUPS + 1
GROUP_HEADROOM = COLD_GROUPS + 2
GROUP_BIT = COLD_GROUPS + 3  # priority
GROUP_PAUSE_TX = COLD_GROUPS + 4
GROUP_RESUME_TX = COLD_GROUPS + 5
GROUP_DROPPED = COLD_GROUPS + 6
GROUP_REFRESH = COLD_GROUPS + 7  # when the pause is sent again
GROUP_FREED = COLD_GROUPS + 8  # IB: bytes to be granted again
GROUP_FREED_QUEUED = COLD_GROUPS + 9
GROUP_TIME = COLD_GROUPS + 10  # host drain: time of GROUP_BYTES
GROUP_HEADROOM_MAX = COLD_GROUPS + 11

# --- Switch ---
SWITCH_POOL = 0  # shared bytes
SWITCH_USED = 1
SWITCH_EGRESS_USED = 2
SWITCH_CLASSES = 3  # mask of queues without admission control; from bit 8 the priorities' queues
SWITCH_MAX = 4
SWITCH_PAUSE_EACH = 5  # a pause frame for every packet over the threshold (conweave)
SWITCH_INDEX = 6
SWITCH_DROPPED = 7
SWITCH_WORDS = 8

# --- Packet ---
PKT_NEXT = 0
PKT_NEXT_TIME = 1  # on a link: arrival of the packet behind, so that this row alone is read
PKT_QP = 2
PKT_PSN = 3
PKT_INFO = 4
PKT_CURSOR = 5  # next hop in the path, or -(host + 1) for a dynamic route
PKT_GROUP = 6  # ingress priority group holding it, 0 none
PKT_AUX = 7
PKT_WORDS = 8

SIZE_MASK = 0xFFFF
PRIORITY_SHIFT = 16
KIND_SHIFT = 20
DATA = 0 << KIND_SHIFT
ACK = 1 << KIND_SHIFT
NAK = 2 << KIND_SHIFT
CNP = 3 << KIND_SHIFT
RNR = 4 << KIND_SHIFT
PFC = 5 << KIND_SHIFT  # from here on: not of a QP
CREDIT = 6 << KIND_SHIFT
KIND_MASK = 15 << KIND_SHIFT
ECT = 1 << 24
CE = 1 << 25
CNP_FLAG = 1 << 26
IN_HEADROOM = 1 << 27
XOFF = 1 << 28

# --- Queue pair: sender, receiver and reaction point ---
# One cache line each: what sending and acknowledging touch, what only sending touches (two), what
# the responder touches. Pairs of lines are fetched together by the processor.
QP_STATE = 0
QP_ID = 1
QP_NEXT_PSN = 2
QP_UNACKED = 3
QP_END = 4  # first packet not yet posted
QP_ALIVE = 5  # packets in the fabric
QP_RTO_BASE = 6
QP_ACK_END = 7  # first packet behind QP_ACK_MESSAGE
QP_CAREFUL = 8  # a window, selective repeat or an error: look at more than NEXT_PSN < END
QP_PORT = 9
QP_READY_NEXT = 10
QP_NEXT_TIME = 11
QP_LEFT = 12  # packets left of the current repeat
QP_MESSAGE = 13  # message being sent
QP_GAP = 14  # ps between full packets at the current rate
QP_PATH = 15
QP_CLASS = 16  # priority, and ECT if its packets are ECN-capable
QP_GAP_REST = 17  # remainder of the gap's division, carried so that pacing does not drift
QP_GAP_CARRY = 18
QP_RATE = 19
QP_PROFILE = 20
QP_CONGESTED = 21  # first CNP was seen
QP_TIMER_AT = 22  # when the timer event is scheduled
QP_TX_PACKETS = 23
QP_EXPECTED = 24
QP_RX_LEFT = 25
QP_RX_UNACKED = 26
QP_NAK_FOR = 27
QP_RX_PORT = 28
QP_ACK_PATH = 29
QP_RX_MESSAGE = 30
QP_RX_BYTES = 31
QP_POSTING = 32  # first message of the send queue not wholly posted
QP_HELD_UNTIL = 33  # RNR
QP_WQE_USED = 34
QP_ACK_MESSAGE = 35  # oldest message not fully acknowledged
QP_BYTE_COUNT = 36
QP_CNP_LAST = 37
QP_RX_CE = 38
QP_CNP_TX = 39
QP_TARGET = 40
QP_STAGE_T = 41
QP_STAGE_B = 42
QP_CNP_SEEN = 43  # since the last monitor instant
QP_ALPHA_ORIGIN = 44
QP_ALPHA_TICKS = 45
QP_ALPHA_CNP = 46  # a CNP in the current alpha period
QP_CUT_AT = 47  # next monitor instant with work, NEVER
QP_INCREASE_AT = 48
QP_FLOAT = 49  # index in f
QP_CNP_RX = 50
QP_CUTS = 51
QP_INCREASES = 52
QP_CCTI = 53
QP_CCTI_TIME = 54
QP_INDEX = 55
QP_RETRIES = 56
QP_RETRY_PSN = 57  # QP_UNACKED at the last timeout
QP_WINDOW = 58  # packets in flight allowed; 0 no limit
QP_NAK_TIME = 59
QP_RETRANSMITTED = 60
QP_OUT_OF_ORDER = 61
QP_NAKS = 62
QP_TIMEOUTS = 63
QP_RNR = 64
QP_DUPLICATES = 65
QP_RTX = 66  # selective repeat: next packet to look at
QP_HIGH_SACK = 67
QP_SACK_MAP = 68  # sender bitmap
QP_RX_MAP = 69  # receiver bitmap
QP_ERROR = 70  # retries exhausted
QP_ACTIVE = 71
QP_WORDS = 80  # twice an odd number of cache lines
# Counters that a port keeps the sums of when slots are reused; then those of the responder.
QP_STATS = (
    QP_TX_PACKETS, QP_RETRANSMITTED, QP_CNP_RX, QP_CUTS, QP_INCREASES, QP_TIMEOUTS, QP_RNR,
    QP_RX_BYTES, QP_OUT_OF_ORDER, QP_NAKS, QP_RX_CE, QP_CNP_TX, QP_DUPLICATES,
)  # fmt: skip
QP_STATS_REQUESTER = 7

IDLE, PACING, READY = range(3)

FLOAT_ALPHA = 0
FLOAT_WORDS = 2

# --- Message: `REPEAT` equal sends on one QP, posted as their predecessors arrive ---
# What every repeat touches is in the first three lines, short lists of dependencies among them.
MSG_QP = 0
MSG_PACKETS = 1
MSG_LAST_BYTES = 2  # wire size of the last packet
MSG_REPEAT = 3
MSG_FREE = 4  # repeats that need no predecessor
MSG_POSTED = 5
MSG_RECEIVED = 6
MSG_FIRST_PSN = 7
MSG_NEXT = 8
MSG_GIVEN = 9  # repeats handed to the QP
MSG_PREDS = 10  # list: count, then message rows
MSG_SUCCS = 11
MSG_GATES = 12  # list of messages that must have arrived with all repeats before the first post
MSG_DELAY = 13
MSG_FIRST_POST_DONE = 14
MSG_RECEIVED_TIME = 15
MSG_SHORT_LISTS = 16  # 4 words
MSG_START = 20  # time of the first post
MSG_ACKED_TIME = 21
MSG_GATE_DELAY = 22
MSG_BYTES = 23
MSG_SRC_PORT = 24  # for flows that get their QP slot on arrival
MSG_DST_PORT = 25
MSG_PATH = 26
MSG_ACK_PATH = 27
MSG_PROFILE = 28
MSG_PRIORITY = 29
MSG_WORDS = 32
