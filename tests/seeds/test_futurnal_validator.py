"""futurnal's recovery validator: nothing lost, nothing left with the dead; and no false alarms.

The seed's own took a job of a living worker, a job that was claimed again, and a job that was
added meanwhile for failures.
"""

from contextlib import closing
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from tests.seeds.crashing import claims_and_waits, crash
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.foreign import assert_sound
from tests.support.recovery_validator import Seen, SeenTask, seen, troubles, validated

PENDING = SeenTask("pending", "job", 1, 1, 0)
OF_THE_DEAD = SeenTask("running", "job", 1, 1, 0, "gone", holder_lives=False)
OF_THE_LIVING = SeenTask("running", "job", 1, 1, 0, "here", holder_lives=True)
CLAIMED_AGAIN = SeenTask("running", "job", 2, 2, 1, "here", holder_lives=True)
OF_NOBODY = SeenTask("running", "job", 1, 1, 0)
DONE = SeenTask("completed", "job", 1, 1, 0)
DONE_AGAIN = SeenTask("completed", "job", 2, 2, 0)


def of(task: SeenTask | None) -> Seen:
    return Seen({} if task is None else {"t": task}, {})


@pytest.mark.proves("TST-21")
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (PENDING, None, "task t is lost"),
        (DONE, None, "task t is lost"),
        (None, PENDING, "task t came from nowhere"),
        (OF_THE_DEAD, OF_THE_DEAD, "task t is still running and its holder is gone"),
        (PENDING, OF_NOBODY, "task t is still running and its holder is gone"),
        (DONE, DONE_AGAIN, "task t was completed and was touched again"),
        (CLAIMED_AGAIN, PENDING, "the token of task t fell"),
    ],
)
def test_validate_recovery_tells_what_is_wrong(
    before: SeenTask | None, after: SeenTask | None, told: str
) -> None:
    """VAL-1, VAL-2."""
    assert troubles(of(before), of(after)) == [told]


@pytest.mark.proves("TST-21")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PENDING, PENDING),
        (OF_THE_DEAD, PENDING),
        (OF_THE_DEAD, CLAIMED_AGAIN),
        (OF_THE_LIVING, OF_THE_LIVING),
        (OF_THE_LIVING, DONE),
        (DONE, DONE),
    ],
)
def test_validate_recovery_gives_no_false_alarm(before: SeenTask, after: SeenTask) -> None:
    assert troubles(of(before), of(after)) == []


def test_validate_recovery_knows_what_was_added_and_what_was_spared() -> None:
    assert troubles(of(None), of(PENDING), added={"t"}) == []
    assert troubles(of(OF_THE_DEAD), of(OF_THE_DEAD), spared={"job"}) == []


def test_validate_recovery_tells_of_a_file_that_is_unsound() -> None:
    assert troubles(of(DONE), Seen({"t": DONE}, {"tokens rise": [[1]]})) == ["tokens rise: [[1]]"]


@pytest.mark.slow
@pytest.mark.proves("TST-21")
def test_validate_recovery_is_red_on_a_store_that_nobody_recovered(database: Path) -> None:
    """A real crash; recovery is switched off, and what the dead process held stays with it."""
    with Outlast(database) as app:
        app.enqueue_many("job", range(3), id=["theirs", "lost", "waiting"])
    with Child(claims_and_waits, database, "living", 1) as living:
        assert living.hear() == ["theirs"]
        assert crash(database, limit=1) == ["lost"]
        assert seen(database).stuck == {"lost"}
        with (
            pytest.raises(AssertionError, match="task lost is still running"),
            validated(database),
            Outlast(database, settings=Settings(recovery_enabled=False)),
        ):
            pass
        with validated(database), Outlast(database):
            pass
        assert seen(database).ids("running") == {"theirs"}


@pytest.mark.proves("TST-21")
def test_validate_recovery_leaves_the_log_of_a_crash_for_recovery_to_find(database: Path) -> None:
    """A foreign reader that may write would replay and remove it."""
    with Outlast(database) as app:
        app.enqueue("job", id="a")
    crash(database)
    log = database.with_name(f"{database.name}-wal")
    size_bytes = log.stat().st_size
    assert size_bytes > 0
    assert seen(database).stuck == {"a"}
    assert log.stat().st_size == size_bytes
    with Outlast(database) as app:
        report = app.last_report()
        assert report is not None
        assert report.wal_frames_moved


@pytest.mark.slow
@pytest.mark.proves("TST-21")
def test_what_all_crash_tests_ask_refuses_a_stuck_task_and_a_lost_one(database: Path) -> None:
    """Guards the question that crash tests end with: it is the validator's, and no weaker one."""
    with Outlast(database) as app:
        app.enqueue_many("job", range(2), id=["a", "b"])
    crash(database, limit=1)
    with pytest.raises(AssertionError, match="task a is still running and its holder is gone"):
        assert_sound(database)
    assert_sound(database, left=["a"])
    with Outlast(database):
        pass
    assert_sound(database)
    with pytest.raises(AssertionError, match="task b is not with the dead"):
        assert_sound(database, left=["b"])
    with closing(Hand(database)) as hand:
        hand.run("DELETE FROM tasks WHERE id = 'b'")
    with pytest.raises(AssertionError, match="2 tasks were made, and 1 are there"):
        assert_sound(database)
    assert_sound(database, deleted=1)
