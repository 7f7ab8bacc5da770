"""Where everything lives in the engine's state: one int64 vector `s` and one float64 vector `f`.

A record is a row of `s` and its handle is the index of its first word, so that a field is
`s[port + PORT_BUSY_UNTIL]`. Handle 0 means none. One flat vector costs numba no reference
counting and lets any helper reach everything (tuples of arrays were measured 4-7x slower).

Time is integer picoseconds, sizes are bytes on the wire, rates are bit/s.
"""

from __future__ import annotations

# Event key = time << ENTITY_BITS | entity: ties break by entity, results never depend on the queue.
ENTITY_BITS = 18
ENTITY_MASK = (1 << ENTITY_BITS) - 1
NEVER = (1 << (62 - ENTITY_BITS)) - 1  # 17.6 s in ps: the longest simulated time
RANDOM_RANGE = 2147483562  # random() is in 1 .. RANDOM_RANGE
RATIO_ONE = 1 << 16  # fixed point of buffer alphas

# --- Header ---
NOW = 1
LEAVES = 2  # leaves of the tournament tree, a power of two
PORT_COUNT = 3
FIRST_PORT = 4
FIRST_QP = 5
QP_COUNT = 6
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
HEAP_CAPACITY = 20
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
STATUS = 55
PACKETS_ALIVE = 56
NO_CNP_PATH = 57
CNP_SENT_TOTAL = 58
HEADER_WORDS = 64

# highest set bit of a 9-bit queue mask
HIGHEST_BIT = 64
TREE = HIGHEST_BIT + 512

# CNP_MODE
CNP_ON_ACK = 0  # a flag on the ACK of each marked packet (reference simulators)
CNP_PER_QP = 1
CNP_PER_PORT = 2

# SPRAY: how a switch picks among equal next hops when the path is not fixed
PICK_SPRAY = 0
PICK_FLOWLET = 1
PICK_LEAST_QUEUE = 2

# return codes of run()
REACHED = 0
GROW_PACKETS = 1
GROW_QPS = 2
PAUSED_FOR_BUDGET = 3
ALL_DONE = 4
TRACE_FULL = 5

# --- Directed port: the egress side at one node, with its link ---
PORT_LINK_HEAD = 0
PORT_LINK_TAIL = 1
PORT_BUSY_UNTIL = 2
PORT_READY = 3  # bits 0-7 priority queues, 8 control, 16-23 QPs by priority (hosts)
PORT_PAUSED = 4  # same bits
PORT_TX_SCHEDULED = 5
PORT_PS_NUM = 6  # ps per byte = NUM / DEN, remainder carried in REM
PORT_PS_DEN = 7
PORT_PS_REM = 8
PORT_DELAY = 9
PORT_TO_SWITCH = 10
PORT_ID = 11
PORT_REVERSE = 12
PORT_SWITCH = 13  # switch row of the node that owns this port, 0 for a host
PORT_TX_PACKETS = 14
PORT_TX_BYTES = 15
PORT_ERROR = 16  # loss probability x RANDOM_RANGE
PORT_DOWN = 17
PORT_STRICT = 18  # mask of strict-priority queues (control always is)
PORT_ROUND = 19  # DWRR position
PORT_LOST = 20  # packets lost on the link
PORT_WAIT_SINCE = 21
PORT_WAIT = 22  # ps with data waiting and nothing sent (XmitWait)
PORT_CNP_LAST = 23
PORT_QP_HEAD = 24  # 8 lists of ready QPs
PORT_QP_TAIL = 32
PORT_PAUSE_END = 40  # 8: when the received pause expires; NEVER: until resume
PORT_PAUSE_SINCE = 48  # 8
PORT_PAUSE_TIME = 56  # 8: accumulated ps
PORT_PAUSE_RX = 64  # 8: pause frames received
PORT_PAUSE_EPISODES = 72  # 8: transitions to paused
PORT_CREDIT = 80  # 8: bytes the far end grants per VL
PORT_CREDIT_SINCE = 88
PORT_CREDIT_WAIT = 96  # 8: ps with data of this VL waiting for credit
PORT_PAUSE_PS = 104  # pause length carried in sent frames; 0: until resume
PORT_PEER_PAUSE_PS = 105  # unused by hosts
PORT_WATCHDOG = 106  # detection time, 0 off
PORT_WATCH_RESTORE = 107
PORT_WATCH_UNTIL = 108  # mask of queues being dropped now
PORT_STORM = 109  # mask: this host's port sends pause for ever
PORT_DRAIN_NUM = 110  # host: ps per byte that the receiver drains; 0 as fast as the wire
PORT_RX_LIMIT = 111  # host receive buffer
PORT_RX_XOFF = 112
PORT_RX_XON = 113
PORT_RX_DISCARDS = 114
PORT_NODE = 115
PORT_RX_PACKETS = 116
PORT_RX_BYTES = 117
PORT_WATCH_EVENTS = 118
PORT_RESUME_RX = 119
PORT_WATCH_END = 120  # 8
PORT_QUEUES = 128  # 9 rows of QUEUE_WORDS
QUEUE_WORDS = 24
PORT_GROUPS = PORT_QUEUES + 9 * QUEUE_WORDS  # 8 ingress priority groups
GROUP_WORDS = 24
PORT_SUMS = PORT_GROUPS + 8 * GROUP_WORDS  # counters of the QPs whose slots were reused
# An odd number of cache lines: equal fields of neighbouring ports fall into different L1 sets.
PORT_WORDS = PORT_GROUPS + 8 * GROUP_WORDS + 16
CONTROL = 8
QP_SHIFT = 16

QUEUE_HEAD = 0
QUEUE_TAIL = 1
QUEUE_BYTES = 2
QUEUE_KMIN = 3
QUEUE_KMAX = 4
QUEUE_PMAX = 5  # x RANDOM_RANGE
QUEUE_MAX = 6  # watermark since the start
QUEUE_MARKED = 7
QUEUE_DROPPED = 8
QUEUE_TX_BYTES = 9
QUEUE_TX_PACKETS = 10
QUEUE_QUANTUM = 11
QUEUE_DEFICIT = 12
QUEUE_LIMIT = 13  # static egress limit in bytes; 0 none
QUEUE_ALPHA = 14  # egress dynamic threshold; 0 none
QUEUE_ECN_SKIP = 15  # bytes that ECN does not count (conweave's guaranteed part)
QUEUE_ECN_ENQUEUE = 16
QUEUE_FECN_RATE = 17  # IB: mark one of RATE+1
QUEUE_FECN_COUNT = 18
QUEUE_WATERMARK = 19  # since the last telemetry pass
QUEUE_DROPPED_BYTES = 20

GROUP_BYTES = 0
GROUP_HEADROOM_USED = 1
GROUP_XOFF_SENT = 2
GROUP_RESERVED = 3
GROUP_HEADROOM = 4
GROUP_ALPHA = 5  # -1: static threshold
GROUP_XOFF = 6
GROUP_XON_OFFSET = 7
GROUP_LOSSLESS = 8
GROUP_PORT = 9
GROUP_BIT = 10  # priority
GROUP_PAUSE_TX = 11
GROUP_RESUME_TX = 12
GROUP_DROPPED = 13
GROUP_MAX = 14
GROUP_REFRESH = 15  # when the pause is sent again
GROUP_FREED = 16  # IB: bytes to be granted again
GROUP_FREED_QUEUED = 17
GROUP_TIME = 18  # host drain: time of GROUP_BYTES
GROUP_HEADROOM_MAX = 19
GROUP_RX_PACKETS = 20

# --- Switch ---
SWITCH_POOL = 0  # shared bytes
SWITCH_USED = 1
SWITCH_PAUSE_EACH = 2  # a pause frame for every packet over the threshold (conweave)
SWITCH_BYPASS = 3  # mask of priorities that are not admission-controlled
SWITCH_ROUTES = 4  # row of the routing table
SWITCH_INDEX = 5
SWITCH_MAX = 6
SWITCH_DROPPED = 7
SWITCH_EGRESS_USED = 8
SWITCH_WORDS = 16

# --- Packet ---
PKT_NEXT = 0
PKT_TIME = 1
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
QP_PORT = 0
QP_NEXT_PSN = 1
QP_UNACKED = 2
QP_END = 3  # first packet not yet posted
QP_STATE = 4
QP_GAP = 5  # ps between full packets at the current rate
QP_NEXT_TIME = 6
QP_MESSAGE = 7  # message being sent
QP_LEFT = 8  # packets left of the current repeat
QP_READY_NEXT = 9
QP_PATH = 10
QP_ID = 11
QP_PRIORITY = 12
QP_BYTE_COUNT = 13
QP_RATE = 14
QP_TIMER_AT = 15  # when the timer event is scheduled
QP_ACK_MESSAGE = 16  # oldest message not fully acknowledged
QP_RTO_BASE = 17
QP_RETRIES = 18
QP_WINDOW = 19  # packets in flight allowed; 0 no limit
QP_TARGET = 20
QP_STAGE_T = 21
QP_STAGE_B = 22
QP_CNP_SEEN = 23  # since the last monitor instant
QP_ALPHA_ORIGIN = 24
QP_ALPHA_TICKS = 25
QP_ALPHA_CNP = 26  # a CNP in the current alpha period
QP_CUT_AT = 27  # next monitor instant with work, NEVER
QP_INCREASE_AT = 28
QP_PROFILE = 29
QP_FLOAT = 30  # index in f
QP_CONGESTED = 31  # first CNP was seen
QP_EXPECTED = 32
QP_RX_MESSAGE = 33
QP_RX_LEFT = 34
QP_RX_UNACKED = 35
QP_ACK_PATH = 36
QP_CNP_LAST = 37
QP_NAK_FOR = 38
QP_NAK_TIME = 39
QP_RX_PORT = 40
QP_ALIVE = 41  # packets in the fabric
QP_RTX = 42  # selective repeat: next packet to look at
QP_HIGH_SACK = 43
QP_SACK_MAP = 44  # sender bitmap
QP_RX_MAP = 45  # receiver bitmap
QP_HELD_UNTIL = 46  # RNR
QP_LAST_MESSAGE = 47  # tail of the send queue
QP_WQE_INIT = 48
QP_WQE_INTERVAL = 49
QP_WQE_USED = 50
QP_TX_PACKETS = 51
QP_RETRANSMITTED = 52
QP_RX_BYTES = 53
QP_CNP_RX = 54
QP_CUTS = 55
QP_INCREASES = 56
QP_OUT_OF_ORDER = 57
QP_NAKS = 58
QP_TIMEOUTS = 59
QP_RX_CE = 60
QP_CNP_TX = 61
QP_RNR = 62
QP_DUPLICATES = 63
QP_CCTI = 64
QP_CCTI_TIME = 65
QP_ERROR = 66  # retries exhausted
QP_RECYCLE = 67  # the slot is free again when its flow is done
QP_ACTIVE = 68
QP_SRC = 69
QP_DST = 70
QP_INDEX = 71
QP_POSTING = 72  # first message of the send queue not wholly posted
QP_GAP_REST = 73  # remainder of the gap's division, carried so that pacing does not drift
QP_GAP_CARRY = 74
QP_STATS = QP_TX_PACKETS  # 13 words; those of the responder side by bit:
QP_STATS_WORDS = 13
QP_STATS_RESPONDER = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 9 | 1 << 10 | 1 << 12
QP_WORDS = 88  # an odd number of cache lines

IDLE = 0
PACING = 1
READY = 2

FLOAT_ALPHA = 0
FLOAT_WORDS = 2

# --- Reaction-point profile (integers; its floats are at RP_FLOAT in f) ---
RP_FORM = 0
RP_ALPHA_PERIOD = 1
RP_WINDOW = 2
RP_WINDOW_OFFSET = 3  # the reference's monitor runs 1 ns after the alpha timer
RP_TIMER = 4
RP_BYTES = 5
RP_STAGES = 6
RP_AI = 7
RP_HAI = 8
RP_MIN = 9
RP_MAX = 10
RP_FIRST = 11
RP_CLAMP = 12
RP_CLAMP_TIMER = 13
RP_FLOAT = 14
RP_CCT = 15  # IB: delay table in 1/256 of the packet time
RP_CCT_LIMIT = 16
RP_CCT_INCREASE = 17
RP_CCT_MIN = 18
RP_CCT_TIMER = 19
RP_HYPER_SCALED = 20
RP_WORDS = 24

RP_G = 0
RP_GAIN = 1
RP_MIN_DECREASE = 2
RP_ALPHA_START = 3
RP_FLOATS = 4

OFF = 0
PAPER = 1
FIRMWARE = 2
IB_CCT = 3

# --- Message: `REPEAT` equal sends on one QP, posted as their predecessors arrive ---
MSG_QP = 0
MSG_PACKETS = 1
MSG_LAST_BYTES = 2  # wire size of the last packet
MSG_REPEAT = 3
MSG_FREE = 4  # repeats that need no predecessor
MSG_POSTED = 5
MSG_RECEIVED = 6
MSG_FIRST_PSN = 7
MSG_NEXT = 8
MSG_START = 9  # time of the first post
MSG_ACKED_TIME = 10
MSG_RECEIVED_TIME = 11
MSG_PREDS = 12  # list: count, then message rows
MSG_SUCCS = 13
MSG_DELAY = 14
MSG_GIVEN = 15  # repeats handed to the QP
MSG_SRC_PORT = 16  # for flows that get their QP slot on arrival
MSG_DST_PORT = 17
MSG_PATH = 18
MSG_ACK_PATH = 19
MSG_PROFILE = 20
MSG_PRIORITY = 21
MSG_BYTES = 22
MSG_FIRST_POST_DONE = 23
MSG_WORDS = 24
