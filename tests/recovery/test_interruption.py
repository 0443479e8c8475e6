"""Recovery broken off: killed at each batch and between any two statements, or cancelled.

One warm process forks a victim for each point, before it has opened any store; each victim works
on its own copy of the same crashed store.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Settings
from outlast.testing import ManualClock
from tests.recovery.stage import assert_sound_inside, content, crash, rows
from tests.support.children import Child
from tests.support.foreign import assert_sound

Make = Callable[..., Outlast]
HEAL_BATCH = 2
TASKS = 7


class GivenUp(Exception):
    """Somebody does not want to wait for the end."""


def _recovers_until_told_to_die() -> None:
    """Forks a victim for each order it hears, and says how it ended; an empty order ends it."""
    import os

    from outlast import Outlast, Settings
    from outlast.store.sqlite.transaction import SqliteTransaction
    from outlast.store.transaction import Values
    from outlast.testing import ManualClock
    from tests.support.childside import die, hear, say

    def recover(path: str, batches: int, statements: int) -> None:
        left = {"batches": batches, "statements": statements}

        def count(what: str) -> None:
            left[what] -= 1
            if left[what] == 0:
                die()

        genuine = SqliteTransaction.run

        def counting(tx: SqliteTransaction, name: str, values: Values | None = None) -> int:
            changed = genuine(tx, name, values)
            count("statements")
            return changed

        SqliteTransaction.run = counting  # type: ignore[method-assign, assignment]
        settings = Settings(heal_batch=2, detection_interval_seconds=0)
        app = Outlast(path, settings=settings, clock=ManualClock())
        app.recover(on_batch=lambda batch: count("batches"))
        os._exit(0)

    while order := hear():
        victim = os.fork()
        if victim == 0:
            recover(*order)
        say(os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]))


class Victims:
    """Recoveries of copies of one crashed store, each of which is killed at some point."""

    def __init__(self, child: Child, crashed: Path) -> None:
        self._child = child
        self._crashed = crashed
        self._made = 0

    def copy(self) -> Path:
        self._made += 1
        folder = self._crashed.parent / f"copy{self._made}"
        folder.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{self._crashed}{suffix}", folder)
        return folder / self._crashed.name

    def is_killed(self, path: Path, batches: int = 0, statements: int = 0) -> bool:
        self._child.say([str(path), batches, statements])
        code: int = self._child.hear()
        assert code in (0, -9)
        return code == -9


@pytest.fixture
def crashed(make_app: Make, database: Path) -> Path:
    """Seven orphans of two dead workers, in a store that nobody has open."""
    app = make_app()
    app.enqueue_many("work", range(TASKS - 1))
    app.enqueue("hopeless", id="hopeless", max_retries=0)
    app.close()
    crash(database, "first", 4)
    crash(database, "second", 3)
    return database


@pytest.fixture
def victims(crashed: Path) -> Iterator[Victims]:
    with Child(_recovers_until_told_to_die) as child:
        yield Victims(child, crashed)
        child.say("")


def recovered(path: Path) -> dict[str, list[Any]]:
    """The content after a whole recovery, without the places in the stream and what made them."""
    with Outlast(path, clock=ManualClock()) as app:
        app.recover()
    assert_sound_inside(path)
    return end_state(path)


def end_state(path: Path) -> dict[str, list[Any]]:
    """Tasks and moves, whatever run they belong to; and who is dead."""
    moves = """
        SELECT task_seq, from_status, to_status, actor, reason, attempt, token, worker_id
        FROM transitions ORDER BY task_seq, pos"""
    return {
        "tasks": content(path)["tasks"],
        "moves": rows(path, moves),
        "workers": rows(path, "SELECT name, state FROM workers ORDER BY seq"),
    }


@pytest.mark.proves("REC-30")
def test_recovery_killed_at_each_batch_boundary_converges_to_the_same_end(
    victims: Victims,
) -> None:
    undisturbed = recovered(victims.copy())
    assert len(undisturbed["moves"]) == 2 * TASKS
    killed = 0
    while victims.is_killed(path := victims.copy(), batches=killed + 1):
        killed += 1
        pending = rows(path, "SELECT count(*) FROM tasks WHERE status = 'pending'")
        assert pending == [(min(killed * HEAL_BATCH, TASKS),)], "what was done stays done"
        newest = "SELECT completed_at FROM recovery_runs ORDER BY id DESC LIMIT 1"
        assert rows(path, newest) == [(None,)], "and the run is on record, without an end"
        assert recovered(path) == undisturbed
    assert killed == 4
    assert end_state(path) == undisturbed


@pytest.mark.proves("REC-30")
def test_recovery_killed_again_and_again_converges_too(victims: Victims) -> None:
    undisturbed = recovered(victims.copy())
    path, deaths = victims.copy(), 0
    while victims.is_killed(path, batches=1):
        deaths += 1
    assert deaths == 4
    assert recovered(path) == undisturbed


@pytest.mark.slow
@pytest.mark.proves("REC-29")
def test_a_reset_killed_between_any_two_statements_leaves_no_task_failed_or_lost(
    victims: Victims,
) -> None:
    undisturbed = recovered(victims.copy())
    killed = 0
    while victims.is_killed(path := victims.copy(), statements=killed + 1):
        killed += 1
        found = rows(path, "SELECT status, count(*) FROM tasks GROUP BY status")
        assert set(dict(found)) <= {"pending", "running"}
        assert sum(dict(found).values()) == TASKS
        assert_whole(path)
        if killed % 5 == 0:
            assert recovered(path) == undisturbed
    assert killed > 20


def assert_whole(path: Path) -> None:
    """Each task rests where its last move led, and nothing is half done."""
    torn = """
        SELECT t.id FROM tasks t JOIN transitions x ON x.pos =
            (SELECT max(pos) FROM transitions WHERE task_seq = t.seq)
        WHERE x.to_status <> t.status
           OR (t.status = 'running') <> (t.holder IS NOT NULL)
           OR (t.status = 'pending') <> (t.recovery_count = 1)"""
    assert rows(path, torn) == []


@pytest.mark.proves("REC-35")
@pytest.mark.parametrize("is_opening", [True, False])
def test_recovery_cancelled_after_a_batch_does_no_harm_and_the_next_one_goes_on(
    make_app: Make, crashed: Path, is_opening: bool
) -> None:
    app = make_app(heal_batch=HEAL_BATCH)
    if not is_opening:
        make_app(recovery_mode="off").open()

    def cancel(batch: object) -> None:
        raise GivenUp

    with pytest.raises(GivenUp):
        app.recover(on_batch=cancel)
    assert rows(crashed, "SELECT count(*) FROM tasks WHERE status = 'pending'") == [(HEAL_BATCH,)]
    report = app.recover()
    assert report.tasks_put_back == TASKS - HEAL_BATCH
    assert report.was_successful()
    assert len(app.claim("w", limit=TASKS)) == TASKS
    assert {task.recovery_count for task in app.tasks(status="running")} == {1}


@pytest.mark.proves("REC-35")
def test_the_content_after_a_cancelled_recovery_and_another_is_that_of_one(
    victims: Victims,
) -> None:
    undisturbed = recovered(victims.copy())
    path = victims.copy()
    app = Outlast(path, settings=Settings(heal_batch=HEAL_BATCH), clock=ManualClock())

    def cancel(batch: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.recover(on_batch=cancel)
    app.close()
    assert recovered(path) == undisturbed


def _dies_in_a_transaction(path: str, probe: str) -> None:
    from outlast import Outlast, probes
    from outlast.testing import ManualClock
    from tests.support.childside import die, say

    app = Outlast(path, clock=ManualClock())
    (lease,) = app.claim("victim", kinds=["first"])
    say(lease.task_id)
    probes.arm(lambda name: die() if name == probe else None)
    app.enqueue_many("work", range(50)) if probe.startswith("enqueue") else lease.complete("done")


@pytest.mark.proves("REC-28")
@pytest.mark.parametrize("probe", ["enqueue.written", "settle.written"])
def test_of_a_transaction_that_was_open_at_the_crash_there_is_no_trace(
    make_app: Make, database: Path, probe: str
) -> None:
    app = make_app()
    app.enqueue("first", id="t")
    app.close()
    with Child(_dies_in_a_transaction, database, probe) as child:
        assert child.hear() == "t"
        child.wait()
    app.open()
    assert app.counts() == {
        "pending": 1, "running": 0, "completed": 0, "failed": 0, "cancelled": 0,
    }  # fmt: skip
    assert [move.reason for move in app.history("t")] == ["claimed", "crash_retry"]
    assert (app.get("t").result, app.get("t").completed_at) == (None, None)
    assert app.enqueue("work").status == "pending", "and nothing is locked"
    app.close()
    assert_sound(database)
