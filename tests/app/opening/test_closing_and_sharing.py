from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import LeaseLost, Outlast
from outlast.testing import ManualClock
from tests.support.foreign import assert_sound, foreign_rows


def test_closing_gives_back_what_is_held_uncharged(app: Outlast) -> None:
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    done, *_ = app.claim("w", limit=2)
    done.complete()
    app.prefetch("w")
    app.close()
    assert app.counts() == {
        "pending": 2, "running": 0, "completed": 1, "failed": 0, "cancelled": 0,
    }  # fmt: skip
    for task_id in ("b", "c"):
        task = app.get(task_id)
        assert (task.attempt, task.retry_count, task.recovery_count) == (0, 0, 0)
        assert [move.reason for move in app.history(task_id)] == ["claimed", "released"]


def test_a_lease_of_a_closed_object_is_lost_even_after_it_is_opened_again(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    app.close()
    with pytest.raises(LeaseLost, match="was closed"):
        lease.complete()
    app.open()
    for write in (lease.renew, lease.complete, lease.release):
        with pytest.raises(LeaseLost, match="was closed"):
            write()
    with pytest.raises(LeaseLost):
        app.complete_many([(lease, None)])
    assert app.get("t1").status == "pending"


def test_closing_twice_or_before_opening_does_nothing(app: Outlast, database: Path) -> None:
    app.close()
    app.close()
    assert not database.exists()
    with app as opened:
        assert opened is app
        app.enqueue("work")
    app.close()
    assert_sound(database)


def _leaves_by(app: Outlast, error: BaseException) -> None:
    with app:
        app.claim("w")
        raise error


def test_leaving_by_an_error_charges_what_was_held_as_a_crash_does(app: Outlast) -> None:
    """Work that ends its own process by an error would otherwise come back for ever."""
    app.enqueue("work", id="t1")
    for _ in range(4):
        with pytest.raises(OSError, match="the handler broke"):
            _leaves_by(app, OSError("the handler broke"))
    task = app.get("t1")
    assert (task.status, task.attempt, task.recovery_count) == ("failed", 4, 3)
    assert "the handler broke" in (task.error or "")


def test_leaving_by_an_interrupt_charges_nothing(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    with pytest.raises(KeyboardInterrupt):
        _leaves_by(app, KeyboardInterrupt())
    assert (app.get("t1").status, app.get("t1").attempt) == ("pending", 0)


def test_objects_on_one_file_share_the_incarnation(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    first, second = make_app(), make_app()
    first.enqueue_many("work", range(2))
    first.claim("w1")
    second.claim("w2")
    (rows,) = foreign_rows(
        database, "SELECT count(*), count(DISTINCT incarnation), count(DISTINCT pid) FROM workers"
    )
    assert rows == [2, 1, 1]


@pytest.mark.proves("CLM-09")
def test_a_hot_reload_leaves_the_old_objects_tasks_alone(
    make_app: Callable[..., Outlast],
) -> None:
    """A second object's recovery at opening must not take its own process for a dead one."""
    old = make_app()
    old.enqueue_many("work", range(2), id=["a", "b"])
    (lease,) = old.claim("w")
    new = make_app().open()
    assert new.heal().entries_reclaimed == 0
    assert [one.task_id for one in new.claim("w", limit=9)] == ["b"]
    new.close()
    assert (old.get("a").status, old.get("b").status) == ("running", "pending")
    lease.renew()
    assert lease.complete("by the old code")


def test_closing_one_object_gives_back_only_what_it_handed_out(
    make_app: Callable[..., Outlast],
) -> None:
    first, second = make_app(), make_app()
    first.enqueue_many("work", range(2), id=["a", "b"])
    (mine,) = first.claim("w")
    (theirs,) = second.claim("w")
    first.close()
    assert (second.get("a").status, second.get("b").status) == ("pending", "running")
    assert theirs.complete()
    with pytest.raises(LeaseLost):
        mine.complete()


def test_another_name_for_the_same_file_is_the_same_store(
    make_app: Callable[..., Outlast], clock: ManualClock, tmp_path: Path, database: Path
) -> None:
    first = make_app()
    first.enqueue("work", id="t1")
    (lease,) = first.claim("w")
    link = tmp_path / "link.db"
    link.symlink_to(database)
    for other in (Outlast(link, clock=clock), Outlast(f"sqlite:///{database}", clock=clock)):
        with other:
            assert other.claim("w") == []
            assert other.get("t1").status == "running"
    assert lease.complete()
    assert not (tmp_path / "link.db-outlast").exists()


@pytest.mark.proves("CLM-09")
def test_start_up_takes_nothing_from_a_holder_that_lives(
    app: Outlast, make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    clock.advance("299s")
    for _ in range(3):
        make_app().open().close()
    assert app.get("t1").recovery_count == 0
    assert lease.complete()
