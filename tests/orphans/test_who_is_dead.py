"""The order of judgement as a pass of healing applies it: lock, process, silence; never a name."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.host import processes
from outlast.store.ops.recovery import loss_causes
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.testing import ManualClock
from tests.orphans.left_behind import ELSEWHERE, holding, killed, stranger
from tests.store.hand import Hand

# By default a worker beats every 30 s, is stale after three beats, and has 10 s of grace.
ALL_PATIENCE_SECONDS = 100


@pytest.fixture
def hand(app: Outlast, database: Path) -> Iterator[Hand]:
    app.open()
    by_hand = Hand(database)
    yield by_hand
    by_hand.close()


@pytest.mark.proves("HB-08")
def test_silence_alone_is_death_only_after_threshold_and_grace(
    app: Outlast, hand: Hand, clock: ManualClock
) -> None:
    stranger(app, hand, boot_id=ELSEWHERE)
    clock.advance(ALL_PATIENCE_SECONDS)
    assert app.heal().entries_reclaimed == 0
    assert [one.state for one in app.workers()] == ["stale"]
    clock.advance("1ms")
    assert app.heal().entries_reclaimed == 1


def test_a_pid_of_another_boot_says_nothing(app: Outlast, hand: Hand) -> None:
    stranger(app, hand, boot_id=ELSEWHERE, pid=2**22 + 1)
    assert app.heal().entries_reclaimed == 0
    assert app.get("t").status == "running"


def test_a_pid_of_another_namespace_says_nothing(app: Outlast, hand: Hand) -> None:
    stranger(app, hand, pid_namespace="pid:[1]", pid=2**22 + 1)
    assert app.heal().entries_reclaimed == 0
    assert app.get("t").status == "running"


def test_without_a_lock_a_pid_that_is_gone_is_death(app: Outlast, hand: Hand) -> None:
    stranger(app, hand, pid=2**22 + 1)
    assert app.heal().entries_reclaimed == 1


def test_a_pid_that_passed_to_another_process_is_death(app: Outlast, hand: Hand) -> None:
    stranger(app, hand, pid=os.getppid(), pid_started=1)
    assert app.heal().entries_reclaimed == 1


def test_a_process_that_is_there_is_never_buried_for_its_silence(
    app: Outlast, hand: Hand, clock: ManualClock
) -> None:
    found = processes.process_stat(os.getppid())
    assert found is not None
    stranger(app, hand, pid=os.getppid(), pid_started=found[1])
    clock.advance(10 * ALL_PATIENCE_SECONDS)
    assert app.heal().entries_reclaimed == 0
    assert app.get("t").status == "running"


def test_whoever_holds_its_lock_keeps_its_tasks_however_silent_it_is(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue("work", id="t")
    with holding(database):
        clock.advance(10 * ALL_PATIENCE_SECONDS)
        assert app.heal().entries_reclaimed == 0
        assert [(one.state, one.task_ids) for one in app.workers()] == [("stale", ("t",))]
        assert [one.orphaned for one in app.recovery_plan()] == [None]
    assert app.heal().entries_reclaimed == 1


def test_a_lock_file_that_is_not_the_one_registered_says_nothing(
    app: Outlast, database: Path
) -> None:
    """The lock of a file that took its place is free, and its owner never held it."""
    app.enqueue("work", id="t")
    with holding(database) as child:
        (lock,) = SideFolder(database).workers.glob("*.lock")
        # Beside the old one, whose inode would be given out again at once.
        lock.with_name("new").write_bytes(lock.read_bytes())
        lock.with_name("new").rename(lock)
        assert app.heal().entries_reclaimed == 0
        child.kill()
        assert app.heal().entries_reclaimed == 1


def test_one_that_speaks_while_it_is_being_judged_keeps_its_tasks(
    app: Outlast, hand: Hand, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the judgement and the transaction that acts on it a beat may arrive."""
    stranger(app, hand, boot_id=ELSEWHERE)
    clock.advance(10 * ALL_PATIENCE_SECONDS)
    evidence = loss_causes.evidence

    def beats_meanwhile(*given: Any) -> Any:
        hand.run("UPDATE workers SET beat_at = ?", clock.now().utc_ms)
        return evidence(*given)

    with monkeypatch.context() as patched:
        patched.setattr(loss_causes, "evidence", beats_meanwhile)
        stats = app.heal()
    assert (stats.entries_reclaimed, stats.dead_workers) == (0, ())
    assert (app.get("t").status, hand.value("SELECT state FROM workers")) == ("running", "alive")


@pytest.mark.proves("HB-18")
def test_of_two_processes_with_one_name_only_the_dead_one_loses_its_tasks(
    app: Outlast, database: Path
) -> None:
    app.enqueue_many("work", range(2), id=["of the living", "of the dead"])
    with holding(database, "twin", limit=1):
        killed(database, "twin")
        assert app.heal().entries_reclaimed == 1
        assert app.get("of the living").status == "running"
        assert app.get("of the dead").status == "pending"


def test_one_pass_takes_back_what_each_of_the_dead_held(app: Outlast, database: Path) -> None:
    app.enqueue_many("work", range(2), id=["of one", "of the other"])
    with holding(database, "one", limit=1):
        killed(database, "other")
    app.enqueue_many("work", range(1), id=["of a third"])
    killed(database, "third")
    stats = app.heal()
    assert (stats.entries_reclaimed, len(stats.dead_workers)) == (3, 3)
    assert {app.get(one).status for one in ("of one", "of the other", "of a third")} == {"pending"}


@pytest.mark.proves("HB-18")
def test_a_restart_under_the_same_name_inherits_nothing(app: Outlast, database: Path) -> None:
    app.enqueue_many("work", range(2), id=["before", "after"])
    killed(database, "phoenix", limit=1)
    assert [one.task_id for one in app.claim("phoenix", limit=9)] == ["before", "after"]
    killed(database, "phoenix")
    app.enqueue("work", id="later")
    killed(database, "phoenix")
    assert app.heal().entries_reclaimed == 1
    assert {app.get(one).status for one in ("before", "after")} == {"running"}


def test_what_one_holds_that_is_off_the_list_is_taken_back_once_it_is_dead(
    app: Outlast, hand: Hand, database: Path
) -> None:
    """Nothing makes such a row; one made by a hand or a damaged page must not stay for ever."""
    app.enqueue("work", id="t")
    with holding(database):
        hand.run("UPDATE workers SET state = 'left', ended_at = 1")
        assert app.heal().entries_reclaimed == 0
    assert app.heal().entries_reclaimed == 1


def test_the_time_of_grace_is_a_setting(
    make_app: Callable[..., Outlast], database: Path, clock: ManualClock
) -> None:
    app = make_app(heartbeat_grace_seconds=0)
    app.open()
    hand = Hand(database)
    stranger(app, hand, boot_id=ELSEWHERE)
    hand.close()
    clock.advance(ALL_PATIENCE_SECONDS - 10)
    assert app.heal().entries_reclaimed == 0
    clock.advance("1ms")
    assert app.heal().entries_reclaimed == 1
