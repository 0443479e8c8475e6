from itertools import pairwise
from pathlib import Path

import pytest

from outlast import Instant, Outlast, Settings, SystemClock
from outlast.testing import ManualClock
from tests.support.children import Child

HOUR, DAY = 3600, 86_400


class Stepped(SystemClock):
    """The host's clock with its wall clock set wrong."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._step_ms = round(seconds * 1000)

    def now(self) -> Instant:
        now = super().now()
        return Instant(now.utc_ms + self._step_ms, now.mono_ms)


@pytest.mark.proves("API-11")
@pytest.mark.parametrize("step", [-10 * DAY, -HOUR, -0.001, HOUR, 10 * DAY])
def test_setting_the_wall_clock_neither_loses_nor_invents_an_orphan(
    app: Outlast, clock: ManualClock, step: float
) -> None:
    app.enqueue("work", id="t1")
    app.claim("w")
    clock.advance("100s")
    clock.step_utc(step)
    clock.advance("199.999s")
    assert app.heal().entries_reclaimed == 0
    assert app.claim("w2") == []
    clock.advance("1ms")
    assert app.heal().entries_reclaimed == 1
    assert [lease.task_id for lease in app.claim("w2")] == ["t1"]


@pytest.mark.proves("API-11")
def test_a_renewal_after_a_step_back_still_lasts_its_full_length(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    clock.advance("250s")
    clock.step_utc(-DAY)
    lease.renew()
    clock.advance("299.999s")
    assert app.heal().entries_reclaimed == 0
    clock.advance("1ms")
    assert app.heal().entries_reclaimed == 1


@pytest.mark.proves("API-11")
def test_a_tasks_times_never_run_backwards(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    for _ in range(4):
        clock.step_utc(-HOUR)
        (lease,) = app.claim("w")
        clock.step_utc(-HOUR)
        lease.fail("broken", delay=0)
    task, moves = app.get("t1"), app.history("t1")
    assert task.status == "failed"
    assert all(before.at <= after.at for before, after in pairwise(moves))
    assert task.started_at is not None
    assert task.completed_at is not None
    assert task.created_at <= task.started_at <= task.state_changed_at <= task.updated_at
    assert task.completed_at == task.state_changed_at


def test_order_is_by_insertion_even_when_the_clock_steps_back(
    app: Outlast, clock: ManualClock
) -> None:
    for n in range(5):
        app.enqueue("work", id=f"t{n}")
        clock.step_utc(-HOUR)
    assert [lease.task_id for lease in app.claim("w", limit=9)] == ["t0", "t1", "t2", "t3", "t4"]


def _claims_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t1")
    app.claim("w1")
    say("claimed")
    hear()


@pytest.mark.proves("API-11")
@pytest.mark.parametrize("step", [-DAY, 0, DAY])
def test_another_processs_worker_is_judged_by_its_life_and_not_by_the_wall_clock(
    database: Path, step: float
) -> None:
    app = Outlast(database, settings=Settings(detection_interval_seconds=0), clock=Stepped(step))
    with Child(_claims_and_waits, database) as child:
        assert child.hear() == "claimed"
        assert app.heal().entries_reclaimed == 0
        assert app.claim("w2") == []
        child.kill()
        assert app.heal().entries_reclaimed == 1
    app.close()


def test_the_hosts_clock_moves_forward_on_both_hands() -> None:
    clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert second.mono_ms >= first.mono_ms
    assert abs(second.utc_ms - first.utc_ms) < 60_000
