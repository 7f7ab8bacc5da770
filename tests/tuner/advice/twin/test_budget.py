"""A budget is work, not time: the clock only ends what is far too slow."""

from __future__ import annotations

from types import SimpleNamespace

from tuner.advice.twin.budget import EVENT_S, PATIENCE, Budget, price_s


def plan(nodes: int, connections: int):
    traffic = SimpleNamespace(connections=(None,) * connections)
    return SimpleNamespace(topology=SimpleNamespace(node_count=nodes), traffic=traffic)


def test_work_is_charged_by_events_and_size():
    small, large = price_s(plan(10, 8), 10_000), price_s(plan(200, 128), 10_000)
    assert large > small > 10_000 * EVENT_S
    budget = Budget(1.0)
    for _ in range(3):
        budget.charge(plan(10, 8), 4_000_000)
    assert budget.left_s == 1.0 - budget.spent_s
    assert budget.affords(budget.left_s)
    assert not budget.affords(budget.left_s + 1e-9)
    budget.charge(plan(10, 8), 40_000_000)
    assert budget.left_s == 0.0


def test_the_clock_ends_work_and_says_so():
    now = [100.0]
    budget = Budget(2.0, lambda: now[0])
    assert not budget.late()
    assert not budget.cut
    now[0] += 2.0 * PATIENCE + 2.0
    assert not budget.affords(0.0)
    assert budget.cut
    assert not Budget(2.0).late()  # without a clock: never
