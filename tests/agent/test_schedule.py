"""The schedule: one collector's trouble is its own."""

import itertools
import statistics
import threading
import time

import pytest

from agent.schedule import Schedule, backoff_s, read_clock
from agent.snapshot import Snapshot
from agent.sources import Job
from collectors.model.entities import Netdev
from collectors.model.errors import Denied, NotSupported, Unavailable
from collectors.model.facts import Facts, Gap
from collectors.model.metric import Column
from collectors.model.reading import Instant, Pass, Reading

COLUMN = Column("fabric_interface_rx_bytes_total", "counter", "netdev")


class Counting:
    """A collector that counts its passes, and does in each what it is told."""

    def __init__(self, name, act=lambda n: None):
        self.name, self.act, self.passes, self.closed = name, act, 0, 0

    def read(self, clock):
        self.passes += 1
        seen = self.act(self.passes)
        reading = Reading(Netdev("h", self.name), {COLUMN: self.passes}, clock())
        return seen or Pass((reading,))

    def close(self):
        self.closed += 1


def job(collector, interval=0.01, deadline=1.0, build=None, host=False):
    return Job(collector.name, build or (lambda: collector), interval, deadline, host=host)


class Run:
    def __init__(self, *jobs, clock=read_clock):
        self.snapshot, self.published = Snapshot(), []
        self.schedule = Schedule(jobs, self.snapshot, self.publish, "h", clock)

    def publish(self, name, seen):
        self.published.append((name, seen))

    def __enter__(self):
        self.schedule.start()
        return self

    def __exit__(self, *_):
        self.schedule.stop(1)

    def outcome(self, name):
        return next(o for o in self.snapshot.outcomes() if o.collector == name)

    def until(self, done, what="condition"):
        end = time.monotonic() + 10
        while not done():
            self.schedule.check_deadlines()
            assert time.monotonic() < end, f"{what} never came"
            time.sleep(0.002)


def raising(error):
    def act(_):
        raise error

    return act


@pytest.mark.parametrize("host", [False, True], ids=["own threads", "shared thread"])
def test_hanging_collector_costs_only_itself(host):
    gate = threading.Event()
    hangs = Counting("hangs", lambda n: gate.wait(20) and None)
    good = Counting("good")
    with Run(job(hangs, deadline=0.05, host=host), job(good, host=host)) as run:
        run.until(lambda: run.outcome("hangs").overruns == 1)
        before = good.passes
        run.until(lambda: good.passes > before + 5)
        assert hangs.passes == 1  # not started again while it has not returned
        assert run.outcome("hangs").overruns == 1  # counted once
        assert not run.outcome("hangs").success
        assert run.outcome("good").success
        gaps = [s.gaps[0] for n, s in run.published if n == "hangs" and s.gaps]
        assert [(g.reason, g.subject) for g in gaps] == [("deadline", "host/h")]
        gate.set()
        run.until(lambda: hangs.passes > 3)
        assert run.outcome("hangs").success


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable("mlx5_0", "read", "gone"), "unavailable"),
        (Denied("mlx5_0", "read", "no"), "denied"),
        (NotSupported("mlx5_0", "read", "never"), "not_supported"),
        (ZeroDivisionError("x"), "internal"),
    ],
)
@pytest.mark.parametrize("host", [False, True], ids=["own threads", "shared thread"])
def test_failing_collector_costs_only_itself(error, reason, host):
    bad, good = Counting("bad", raising(error)), Counting("good")
    with Run(job(bad, host=host), job(good, host=host)) as run:
        run.until(lambda: run.outcome("bad").failures and good.passes > 5)
        outcome = run.outcome("bad")
        assert set(outcome.failures) == {reason}
        assert outcome.reason == reason
        assert str(error) in outcome.error
        assert outcome.read_mono_ns is None
        assert run.outcome("good").success
    assert bad.closed >= 1
    assert good.closed == 1


def test_sources_of_this_host_follow_one_another_on_one_thread():
    threads: dict[str, set[str]] = {"a": set(), "b": set(), "switch": set()}

    def note(name):
        return lambda _: threads[name].add(threading.current_thread().name)

    fast, slow = Counting("a", note("a")), Counting("b", note("b"))
    switch = Counting("switch", note("switch"))
    jobs = (job(fast, host=True), job(slow, 0.03, host=True), job(switch))
    with Run(*jobs) as run:
        run.until(lambda: slow.passes > 3 and switch.passes)
    assert threads == {"a": {"host"}, "b": {"host"}, "switch": {"switch"}}
    assert (fast.closed, slow.closed, switch.closed) == (1, 1, 1)


def test_a_pass_that_holds_up_others_keeps_its_thread_to_itself():
    gate = threading.Event()
    seen: list[tuple[str, int]] = []

    def note(n):
        seen.append((threading.current_thread().name, threading.get_ident()))

    def stall(n):
        note(n)
        if n == 1:
            gate.wait(20)

    stalls, good = Counting("stalls", stall), Counting("good", note)
    with Run(job(stalls, deadline=5, host=True), job(good, host=True)) as run:
        run.until(lambda: good.passes > 2, "the other's pass")
        assert run.outcome("stalls").overruns == 0  # long before its deadline
        gate.set()
        run.until(lambda: stalls.passes > 2)
    first, second = seen[0], seen[1]  # the pass that stalls, and the first of the other
    assert first != second
    assert {ident for _, ident in seen} == {first[1], second[1]}


def test_source_that_cannot_be_opened_is_tried_again():
    good = Counting("late")
    tries = []

    def build():
        tries.append(1)
        if len(tries) < 3:
            raise Unavailable("socket", "open", "not yet")
        return good

    with Run(job(good, build=build)) as run:
        run.until(lambda: run.outcome("late").success)
    assert len(tries) == 3
    assert run.outcome("late").failures == {"unavailable": 2}


def test_last_good_readings_stay_and_grow_old():
    flaky = Counting("flaky", lambda n: raising(Unavailable("x", "y", "z"))(n) if n > 1 else None)
    with Run(job(flaky)) as run:
        run.until(lambda: run.outcome("flaky").failures)
        outcome = run.outcome("flaky")
        assert outcome.readings[0].values == {COLUMN: 1}
        assert outcome.read_mono_ns is not None
        assert not outcome.success


def test_repeated_failure_backs_off():
    assert [backoff_s(5, n, "unavailable") for n in (1, 2, 3, 4, 9, 99)] == [
        5, 5, 10, 20, 300, 300,
    ]  # fmt: skip
    assert backoff_s(5, 1, "not_supported") == 300
    assert backoff_s(600, 9, "unavailable") == 600
    bad = Counting("bad", raising(Unavailable("x", "y", "z")))
    with Run(job(bad, interval=0.02)):
        time.sleep(0.5)
        assert 3 <= bad.passes <= 9  # 0.02 s doubles from the third failure on; steady were 25


def test_recovery_ends_the_backoff():
    flaky = Counting("flaky", lambda n: raising(Unavailable("x", "y", "z"))(n) if n < 4 else None)
    with Run(job(flaky)) as run:
        run.until(lambda: flaky.passes > 10)
        assert run.outcome("flaky").success
        assert run.outcome("flaky").failures == {"unavailable": 3}


def test_interval_is_from_start_to_start():
    slow = Counting("slow", lambda n: time.sleep(0.05))
    with Run(job(slow, interval=0.1)) as run:
        run.until(lambda: slow.passes > 9)
    assert run.outcome("slow").duration_s >= 0.05
    times = [seen.readings[0].when.mono_ns for _, seen in run.published]
    steps = [after - before for before, after in itertools.pairwise(times)]
    assert 0.09e9 < statistics.median(steps) < 0.13e9


def test_missed_starts_are_not_made_up_for():
    stalls = Counting("stalls", lambda n: time.sleep(0.3) if n == 1 else None)
    with Run(job(stalls, interval=0.05)):
        time.sleep(0.52)
    assert stalls.passes <= 7


def test_wall_clock_going_backwards_changes_nothing():
    wall = iter(range(10**18, 0, -(10**15)))

    def clock():
        return Instant(next(wall), time.monotonic_ns())

    steady = Counting("steady")
    with Run(job(steady), clock=clock) as run:
        run.until(lambda: steady.passes > 20)
    times = [r.when for _, seen in run.published for r in seen.readings]
    assert all(a.at_ns > b.at_ns and a.mono_ns < b.mono_ns for a, b in itertools.pairwise(times))
    assert run.outcome("steady").success


def test_gaps_are_counted_by_reason_and_facts_kept():
    facts = Facts(versions=(("kernel", "6.1"),))
    gaps = (
        Gap("port/h/a/1", "x", "counters/VL15_dropped", "EINVAL", count=2),
        Gap("port/h/a/2", "x", "counters/x", "not numeric"),
    )

    def act(n):
        return Pass(gaps=gaps, facts=facts if n == 1 else None)

    collector = Counting("x", act)
    with Run(job(collector)) as run:
        run.until(lambda: run.outcome("x").passes >= 2)
    outcome = run.outcome("x")
    assert outcome.gap_counts == {"EINVAL": 2 * outcome.passes, "not numeric": outcome.passes}
    assert outcome.facts == facts
    assert outcome.success  # a partial pass is a success with gaps


@pytest.mark.parametrize("host", [False, True], ids=["own threads", "shared thread"])
def test_stop_names_what_hangs(host):
    gate = threading.Event()
    hangs, good = Counting("hangs", lambda n: gate.wait(20) and None), Counting("good")
    run = Run(job(hangs, host=host), job(good, host=host))
    run.schedule.start()
    run.until(lambda: hangs.passes and good.passes)
    began = time.monotonic()
    assert run.schedule.stop(0.2) == ("hangs",)
    assert time.monotonic() - began < 5
    gate.set()


def test_run_once_gives_up_on_the_late():
    gate = threading.Event()
    hangs, good = Counting("hangs", lambda n: gate.wait(20) and None), Counting("good")
    run = Run(job(hangs, deadline=0.1), job(good))
    began = time.monotonic()
    run.schedule.run_once(10)
    assert time.monotonic() - began < 5
    assert good.passes == hangs.passes == 1
    assert run.outcome("good").success
    assert run.outcome("hangs").overrun
    gate.set()


def test_quiet_until_the_next_pass_may_have_become_slow():
    gate = threading.Event()
    slow = Counting("slow", lambda n: gate.wait(20) and None)
    with Run(job(slow, interval=5)) as run:
        run.until(lambda: slow.passes)
        assert run.schedule.quiet_s() == 0.25  # a pass is under way: look often
        gate.set()
        run.until(lambda: run.outcome("slow").success)
        assert 4 < run.schedule.quiet_s() < 5.3
