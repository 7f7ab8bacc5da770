"""Posting of messages: at their start time, or when the messages they depend on have arrived."""

from __future__ import annotations

from simlab.packet.events import schedule
from simlab.packet.jit import Ints, jit
from simlab.packet.layout import (
    HEAP,
    HEAP_SIZE,
    MSG_DELAY,
    MSG_FIRST_POST_DONE,
    MSG_FIRST_PSN,
    MSG_FREE,
    MSG_GATE_DELAY,
    MSG_GATES,
    MSG_GIVEN,
    MSG_NEXT,
    MSG_PACKETS,
    MSG_POSTED,
    MSG_PREDS,
    MSG_QP,
    MSG_RECEIVED,
    MSG_REPEAT,
    MSG_START,
    MSG_SUCCS,
    NEVER,
    QP_END,
    QP_POSTING,
    START_END,
    START_ENTITY,
    START_NEXT,
)
from simlab.packet.sender import wake


@jit
def heap_push(s: Ints, time: int, message: int) -> None:
    """Remember to post one more repeat of `message` at `time`."""
    base = s[HEAP]
    child = s[HEAP_SIZE] + 1
    s[HEAP_SIZE] = child
    while child > 1:
        parent = child >> 1
        if s[base + 2 * parent] <= time:
            break
        s[base + 2 * child] = s[base + 2 * parent]
        s[base + 2 * child + 1] = s[base + 2 * parent + 1]
        child = parent
    s[base + 2 * child] = time
    s[base + 2 * child + 1] = message


@jit
def heap_pop(s: Ints) -> int:
    """Take the earliest entry out and return its message."""
    base = s[HEAP]
    top = s[base + 3]
    size = s[HEAP_SIZE]
    time = s[base + 2 * size]
    message = s[base + 2 * size + 1]
    size -= 1
    s[HEAP_SIZE] = size
    parent = 1
    while 2 * parent <= size:
        child = 2 * parent
        if child < size and s[base + 2 * child + 2] < s[base + 2 * child]:
            child += 1
        if time <= s[base + 2 * child]:
            break
        s[base + 2 * parent] = s[base + 2 * child]
        s[base + 2 * parent + 1] = s[base + 2 * child + 1]
        parent = child
    s[base + 2 * parent] = time
    s[base + 2 * parent + 1] = message
    return top


@jit
def next_start(s: Ints) -> int:
    """Return the time of the next planned post: start list or delay heap."""
    time = NEVER
    if s[START_NEXT] < s[START_END]:
        time = s[s[START_NEXT]]
    if s[HEAP_SIZE] > 0:
        time = min(time, s[s[HEAP] + 2])
    return time


@jit
def post(s: Ints, message: int, count: int, now: int) -> None:
    """Give `count` more repeats of `message` to the hardware."""
    qp = s[message + MSG_QP]
    if s[message + MSG_FIRST_POST_DONE] == 0:
        s[message + MSG_FIRST_POST_DONE] = 1
        s[message + MSG_START] = now
    s[message + MSG_GIVEN] += count
    head = s[qp + QP_POSTING]  # an RC send queue goes in order: a blocked head holds the rest
    while s[head + MSG_GIVEN] == s[head + MSG_REPEAT] and s[head + MSG_NEXT] != 0:
        head = s[head + MSG_NEXT]
    s[qp + QP_POSTING] = head
    s[qp + QP_END] = s[head + MSG_FIRST_PSN] + s[head + MSG_GIVEN] * s[head + MSG_PACKETS]
    wake(s, qp, now)


@jit
def allowed_repeats(s: Ints, message: int) -> int:
    """Return how many repeats of a message may be posted by what has arrived so far."""
    gates = s[message + MSG_GATES]
    if gates != 0:
        for i in range(s[gates]):
            gate = s[gates + 1 + i]
            if s[gate + MSG_RECEIVED] < s[gate + MSG_REPEAT]:
                return 0
    arrived = 0
    predecessors = s[message + MSG_PREDS]
    if predecessors != 0:
        arrived = s[s[predecessors + 1] + MSG_RECEIVED]
        for i in range(1, s[predecessors]):
            arrived = min(arrived, s[s[predecessors + 1 + i] + MSG_RECEIVED])
    return min(s[message + MSG_REPEAT], arrived + s[message + MSG_FREE])


@jit
def delivered(s: Ints, message: int, now: int) -> None:
    """A repeat of `message` arrived whole: post what waited for it."""
    successors = s[message + MSG_SUCCS]
    if successors == 0:
        return
    for i in range(s[successors]):
        waiting = s[successors + 1 + i]
        posted = s[waiting + MSG_POSTED]
        more = allowed_repeats(s, waiting) - posted
        if more > 0:
            delay = s[waiting + MSG_DELAY]
            if posted == 0 and s[waiting + MSG_GATES] != 0:
                delay = s[waiting + MSG_GATE_DELAY]
            s[waiting + MSG_POSTED] = posted + more
            if delay == 0:
                post(s, waiting, more, now)
            else:
                for _ in range(more):
                    heap_push(s, now + delay, waiting)
                schedule(s, s[START_ENTITY], next_start(s))
