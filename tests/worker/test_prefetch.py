"""How many a worker takes ahead goes by what ends in a tenth of a second, not by bursts."""

import pytest

from outlast.worker import prefetch
from outlast.worker.prefetch import PrefetchPace


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(prefetch, "time", clock)
    return clock


@pytest.mark.parametrize("task_seconds", [0.3, 0.9, 2.0])
def test_slots_that_end_together_are_no_pace(clock: Clock, task_seconds: float) -> None:
    """Guards against a worker that takes a minute of work ahead while others idle."""
    of_eight = PrefetchPace(8, 512)
    most = 0
    for _ in range(20):
        clock.now += task_seconds
        for _ in range(8):
            clock.now += 0.0005
            of_eight.ended(1, clock.now)
            most = max(most, of_eight.ahead())
    assert most <= 8 * prefetch.AHEAD_SECONDS / task_seconds + 1


def test_quick_tasks_are_taken_ahead_within_a_tenth_of_a_second(clock: Clock) -> None:
    """Ten thousand a second, told of every two milliseconds."""
    quick = PrefetchPace(4, 512)
    for _ in range(50):
        clock.now += 0.002
        quick.ended(20, clock.now)
    assert quick.ahead() == 512
