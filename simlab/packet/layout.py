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
CNP_SENT_TOTAL = 58
WINDOW_PACKETS = 60
HURRY = 61  # a rate increase shortens the gap that is running (reference simulators: no)
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
# Every row keeps what each packet touches in its first cache lines (8 words).
PORT_LINK_HEAD = 0
PORT_LINK_TAIL = 1
PORT_BUSY_UNTIL = 2
PORT_READY = 3  # bits 0-7 priority queues, 8 control, 16-23 QPs by priority (hosts)
PORT_PAUSED = 4  # same bits
PORT_TX_SCHEDULED = 5
PORT_PS_BYTE = 6  # ps per byte; -1: the fraction NUM / DEN with its remainder carried
PORT_DELAY = 7
PORT_ID = 8
PORT_REVERSE = 9
PORT_SWITCH = 10  # switch row of the node that owns this port, 0 for a host
PORT_TX_PACKETS = 11
PORT_TX_BYTES = 12
PORT_TROUBLE = 13  # bits LINK_DOWN, LINK_LOSSY, STORMED
PORT_WAIT_SINCE = 14
PORT_DRAIN_NUM = 15  # host: ps per byte that the receiver drains; 0 as fast as the wire
PORT_QP_LIST = 16  # 8 lists of ready QPs: head, tail
PORT_PS_NUM = 32
PORT_PS_DEN = 33
PORT_PS_REM = 34
PORT_ERROR = 35  # loss probability x RANDOM_RANGE
PORT_LOST = 36  # packets lost on the link
PORT_LOST_BYTES = 37
PORT_STRICT = 38  # mask of strict-priority queues (control always is)
PORT_ROUND = 39  # DWRR position
PORT_WAIT = 40  # ps with data waiting and nothing sent (XmitWait)
PORT_CNP_LAST = 41
PORT_PAUSE_PS = 42  # pause length carried in sent frames; 0: until resume
PORT_WATCHDOG = 43  # detection time, 0 off
PORT_WATCH_RESTORE = 44
PORT_WATCH_UNTIL = 45  # mask of queues being dropped now; from bit 8 those without PFC
PORT_WATCH_EVENTS = 46
PORT_STORM = 47  # mask: this host's port sends pause for ever
PORT_RX_LIMIT = 48  # host receive buffer
PORT_RX_XOFF = 49
PORT_RX_XON = 50
PORT_RX_DISCARDS = 51
PORT_NODE = 52
PORT_RESUME_RX = 53
PORT_ECT = 54  # host: what its data packets carry, ECT or 0
PORT_RECEIVE_INTERVAL = 55  # host: ps per further receive request; 0: never short of them
PORT_PAUSE_END = 56  # 8: when the received pause expires; NEVER: until resume
PORT_PAUSE_SINCE = 64  # 8
PORT_PAUSE_TIME = 72  # 8: accumulated ps
PORT_PAUSE_RX = 80  # 8: pause frames received
PORT_PAUSE_EPISODES = 88  # 8: transitions to paused
PORT_CREDIT = 96  # 8: bytes the far end grants per VL
PORT_CREDIT_SINCE = 104
PORT_CREDIT_WAIT = 112  # 8: ps with data of this VL waiting for credit
PORT_WATCH_END = 120  # 8
PORT_QUEUES = 128  # 9 rows of QUEUE_WORDS
QUEUE_WORDS = 24
PORT_GROUPS = PORT_QUEUES + 9 * QUEUE_WORDS  # 8 ingress priority groups
GROUP_WORDS = 24
PORT_SUMS = PORT_GROUPS + 8 * GROUP_WORDS  # counters of the QPs whose slots were reused
PORT_RECEIVE_REQUESTS = PORT_SUMS + 13  # host: posted at the start
PORT_SILENT = PORT_SUMS + 14  # host: sends no CNPs
PORT_LARGEST = PORT_SUMS + 15  # bytes of the largest frame that the far end takes in
# An odd number of cache lines: equal fields of neighbouring ports fall into different L1 sets.
PORT_WORDS = PORT_GROUPS + 8 * GROUP_WORDS + 16
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
QUEUE_KMAX = 8  # with QUEUE_ECN_SKIP added
QUEUE_PMAX = 9  # x RANDOM_RANGE
QUEUE_MARKED = 10
QUEUE_DROPPED = 11
QUEUE_DROPPED_BYTES = 12
QUEUE_MAX = 13  # watermark up to the last telemetry pass
QUEUE_QUANTUM = 14
QUEUE_DEFICIT = 15
QUEUE_LIMIT = 16  # static egress limit in bytes; 0 none
QUEUE_ALPHA = 17  # egress dynamic threshold; 0 none
QUEUE_FECN_RATE = 18  # IB: mark one of RATE+1
QUEUE_FECN_COUNT = 19
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
GROUP_XOFF = 8
GROUP_XON_OFFSET = 9
GROUP_HEADROOM = 10
GROUP_BIT = 11  # priority
GROUP_PAUSE_TX = 12
GROUP_RESUME_TX = 13
GROUP_DROPPED = 14
GROUP_REFRESH = 15  # when the pause is sent again
GROUP_FREED = 16  # IB: bytes to be granted again
GROUP_FREED_QUEUED = 17
GROUP_TIME = 18  # host drain: time of GROUP_BYTES
GROUP_HEADROOM_MAX = 19

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
QP_STATE = 0
QP_ID = 1
QP_PORT = 2
QP_PRIORITY = 3
QP_NEXT_PSN = 4
QP_UNACKED = 5
QP_END = 6  # first packet not yet posted
QP_LEFT = 7  # packets left of the current repeat
QP_MESSAGE = 8  # message being sent
QP_NEXT_TIME = 9
QP_GAP = 10  # ps between full packets at the current rate
QP_GAP_REST = 11  # remainder of the gap's division, carried so that pacing does not drift
QP_GAP_CARRY = 12
QP_RATE = 13
QP_READY_NEXT = 14
QP_PATH = 15
QP_PROFILE = 16
QP_CAREFUL = 17  # a window, selective repeat or an error: look at more than NEXT_PSN < END
QP_ALIVE = 18  # packets in the fabric
QP_CONGESTED = 19  # first CNP was seen
QP_RTO_BASE = 20
QP_ACK_END = 21  # first packet behind QP_ACK_MESSAGE
QP_TIMER_AT = 22  # when the timer event is scheduled
QP_BYTE_COUNT = 23
QP_EXPECTED = 24
QP_RX_LEFT = 25
QP_RX_UNACKED = 26
QP_NAK_FOR = 27
QP_RX_PORT = 28
QP_ACK_PATH = 29
QP_RX_MESSAGE = 30
QP_RECYCLE = 31  # the slot is free again when its flow is done
QP_ACK_MESSAGE = 32  # oldest message not fully acknowledged
QP_RETRIES = 33
QP_RETRY_PSN = 34  # QP_UNACKED at the last timeout
QP_WINDOW = 35  # packets in flight allowed; 0 no limit
QP_TARGET = 36
QP_STAGE_T = 37
QP_STAGE_B = 38
QP_CNP_SEEN = 39  # since the last monitor instant
QP_ALPHA_ORIGIN = 40
QP_ALPHA_TICKS = 41
QP_ALPHA_CNP = 42  # a CNP in the current alpha period
QP_CUT_AT = 43  # next monitor instant with work, NEVER
QP_INCREASE_AT = 44
QP_FLOAT = 45  # index in f
QP_CNP_LAST = 46
QP_NAK_TIME = 47
QP_TX_PACKETS = 48
QP_RETRANSMITTED = 49
QP_RX_BYTES = 50
QP_CNP_RX = 51
QP_CUTS = 52
QP_INCREASES = 53
QP_OUT_OF_ORDER = 54
QP_NAKS = 55
QP_TIMEOUTS = 56
QP_RX_CE = 57
QP_CNP_TX = 58
QP_RNR = 59
QP_DUPLICATES = 60
QP_RTX = 61  # selective repeat: next packet to look at
QP_HIGH_SACK = 62
QP_SACK_MAP = 63  # sender bitmap
QP_RX_MAP = 64  # receiver bitmap
QP_HELD_UNTIL = 65  # RNR
QP_WQE_USED = 66
QP_CCTI = 67
QP_CCTI_TIME = 68
QP_ERROR = 69  # retries exhausted
QP_ACTIVE = 70
QP_INDEX = 71
QP_POSTING = 72  # first message of the send queue not wholly posted
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
MSG_GATES = 24  # list of messages that must have arrived with all repeats before the first post
MSG_GATE_DELAY = 25
MSG_WORDS = 32
