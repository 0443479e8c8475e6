"""The five failures that healing exists for, one test each: nobody does more than claim."""

import signal
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.crash.workers.working import stopped
from tests.healing.stage import Holder, add_lock, lock_names, moves_to_another_host
from tests.store.hand import Hand
from tests.support.foreign import assert_sound


@pytest.fixture
def holder(app: Outlast, database: Path) -> Holder:
    app.enqueue("work", id="t")
    return Holder(database, "agent")


def goes_to_another(app: Outlast, database: Path) -> None:
    (lease,) = app.claim("another")
    assert (lease.task_id, lease.attempt) == ("t", 2)
    assert lease.complete("by another")
    assert app.get("t").result == "by another"
    assert_sound(database)


@pytest.mark.proves("HEAL-27")
def test_a_crash_with_the_lock_in_hand(
    app: Outlast, clock: ManualClock, hand: Hand, holder: Holder, database: Path
) -> None:
    """The process ends by an error of its own; task and named lock are free at the next claim."""
    with holder:
        assert holder.claims(lease="1h") == ["t"]
        add_lock(hand, "merge", clock, 3600, holder.pid)
        holder.say(["no such verb", [], {}])
        assert "AttributeError" in holder.error()
        assert holder.wait() == 1
        goes_to_another(app, database)
    assert lock_names(hand) == []


@pytest.mark.proves("HEAL-27")
def test_a_kill_that_nothing_in_the_process_can_notice(
    app: Outlast, holder: Holder, database: Path
) -> None:
    with holder:
        assert holder.claims(lease="1h") == ["t"]
        holder.signal(signal.SIGKILL)
        assert holder.wait() == -signal.SIGKILL
        goes_to_another(app, database)


@pytest.mark.proves("HEAL-27")
def test_a_partition_between_a_worker_and_everybody_else(
    app: Outlast, clock: ManualClock, holder: Holder, database: Path
) -> None:
    """Cut off, it lives and works on; once it is back, it finds its work given away."""
    with holder:
        assert holder.claims(lease="1h") == ["t"]
        moves_to_another_host(database, holder.pid)
        with stopped(holder.pid):
            clock.advance("100s")
            assert app.claim("another") == []
            clock.advance("1.001s")
            goes_to_another(app, database)
        holder.asks("advance", "101s")
        assert holder.asks("complete", "t", "by the one cut off") == "LeaseLost"
    assert app.get("t").result == "by another"


@pytest.mark.proves("HEAL-27")
def test_the_loss_of_a_whole_machine(
    app: Outlast, clock: ManualClock, holder: Holder, database: Path
) -> None:
    """Nothing of it is left to ask, not even its lock file."""
    with holder:
        assert holder.claims(lease="1h") == ["t"]
        moves_to_another_host(database, holder.pid)
        holder.kill()
        clock.advance("100s")
        assert app.claim("another") == []
        clock.advance("1.001s")
        goes_to_another(app, database)


@pytest.mark.proves("HEAL-27")
def test_a_time_to_live_that_passed_while_the_task_is_still_marked_active(
    app: Outlast, clock: ManualClock, hand: Hand, holder: Holder, database: Path
) -> None:
    """The holder lives and beats; it only never came back to this task."""
    with holder:
        assert holder.claims() == ["t"]
        add_lock(hand, "merge", clock, 300, holder.pid)
        for _ in range(10):
            clock.advance("30s")
            holder.asks("advance", "30s")
            holder.asks("heartbeat")
        assert app.is_alive("agent")
        assert app.get("t").status == "running"
        goes_to_another(app, database)
        assert lock_names(hand) == []
        assert holder.asks("complete", "t") == "LeaseLost"
