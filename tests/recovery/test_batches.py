"""A run goes in batches, so that it holds up nobody: its memory, its hooks, and what can wait."""

import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Batch, Outlast
from outlast.store.ops.keys import Keys
from outlast.testing import ManualClock
from tests.recovery.stage import assert_sound_inside, crash, rows
from tests.support.children import Child

Make = Callable[..., Outlast]


def _loses_many(path: str, count: int) -> None:
    from outlast import Outlast
    from outlast.testing import ManualClock
    from tests.support.childside import die

    app = Outlast(path, clock=ManualClock())
    app.enqueue_many("work", range(count))
    app.claim("victim", limit=count)
    die()


@pytest.mark.proves("REC-22")
def test_ten_thousand_orphans_go_back_in_batches_with_progress_and_within_bounds(
    make_app: Make, database: Path
) -> None:
    with Child(_loses_many, database, 10_000) as child:
        child.wait()
    heard: list[Batch] = []
    app = make_app(heal_batch=500)
    tracemalloc.start()
    try:
        report = app.recover(on_batch=heard.append)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.tasks_put_back == 10_000
    assert [one.put_back for one in heard] == list(range(500, 10_001, 500))
    assert {one.worker for one in heard} == {"victim"}
    told = """
        SELECT json_extract(data, '$.put_back') FROM events
        WHERE kind = 'recovery.progress' AND run_id = ? ORDER BY pos"""
    assert rows(database, told, report.run_id) == [(500,)] * 20
    assert peak_bytes < 8 << 20, "a batch at a time, however many there are"
    assert len(app.recovered(report.run_id, limit=100)) == 100, "listed by the page"
    app.close()
    assert_sound_inside(database)


@pytest.mark.proves("REC-22")
def test_a_batch_takes_as_many_statements_however_many_tasks_are_in_it(
    make_app: Make, tmp_path: Path, clock: ManualClock
) -> None:
    assert _statements_to_put_back(tmp_path / "small.db", clock, 20) == _statements_to_put_back(
        tmp_path / "large.db", clock, 400
    )


def _statements_to_put_back(path: Path, clock: ManualClock, count: int) -> int:
    from outlast.store.sqlite.transaction import SqliteTransaction

    with Outlast(path, clock=clock) as app:
        app.enqueue_many("work", range(count))
        app.claim("w", limit=count, lease="10s")
        clock.advance("1m")
        ran: list[str] = []
        genuine = SqliteTransaction.run

        def counting(tx: SqliteTransaction, name: str, values: Any = None) -> int:
            ran.append(name)
            return genuine(tx, name, values)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(SqliteTransaction, "run", counting)
            assert app.recover().tasks_put_back == count
        return len(ran)


def _writes(path: str) -> None:
    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    # Else it takes back itself what the test is about to recover.
    app = Outlast(path, settings=Settings(detection_interval_seconds=0), clock=ManualClock())
    app.open()
    say("open")
    hear()
    say(app.enqueue("other", id="meanwhile").id)
    app.close()


@pytest.mark.proves("REC-23")
def test_a_hook_runs_outside_of_every_transaction(make_app: Make, database: Path) -> None:
    """While it takes its time, another process writes; and so may the hook itself."""
    app = make_app(heal_batch=1, detection_interval_seconds=0).open()
    app.enqueue_many("work", range(2))
    answers: list[Any] = []
    with Child(_writes, database) as child:
        assert child.hear() == "open"
        crash(database)

        def hook(batch: Batch) -> None:
            if not answers:
                child.say("write")
                answers.append(child.hear())
                answers.append(app.enqueue("own", id="own").id)

        assert app.recover(on_batch=hook).tasks_put_back == 2
    assert answers == ["meanwhile", "own"]


def test_keys_are_purged_once_the_run_is_on_record_and_never_many_at_once(
    make_app: Make, database: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    app.enqueue("work", id="t", idempotency_key="k")
    app.close()
    ended = "SELECT count(*) FROM recovery_runs WHERE completed_at IS NOT NULL"
    (before,) = rows(database, ended)
    seen: list[tuple[int, int]] = []
    genuine = Keys.purge

    def watched(keys: Keys, now: Any, limit: int, looks_first: bool) -> int:
        seen.append((rows(database, ended)[0][0] - before[0], limit))
        return genuine(keys, now, limit, looks_first)

    monkeypatch.setattr(Keys, "purge", watched)
    app.open()
    assert seen == [(1, 500)]


@pytest.mark.proves("REC-23")
def test_what_can_wait_does_not_hold_up_the_start(
    make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards readiness: old keys are cleared away by another thread, and nobody waits for it."""
    slow = Slow()

    def purge(store: Keys, now: Any, limit: int, looks_first: bool) -> int:
        slow.run()
        return 0

    monkeypatch.setattr(Keys, "purge", purge)
    with slow:
        app = make_app(detection_interval_seconds=60).open()
        slow.has_begun_and_not_ended()
        assert app.enqueue("work", id="served").status == "pending"
        slow.has_begun_and_not_ended()


@pytest.mark.proves("REC-23")
def test_a_slow_subscriber_does_not_hold_up_the_start(make_app: Make, database: Path) -> None:
    """Guards readiness: a hook that hears of a recovery takes its time, and the store is served."""
    slow = Slow()
    app = make_app(detection_interval_seconds=0)
    app.subscribe(lambda event: None, name="hook", kinds="task.recovered").close()
    app.enqueue_many("work", range(2))
    app.close()
    crash(database, limit=2)
    again = make_app(detection_interval_seconds=0)
    with slow:
        again.subscribe(lambda event: slow.run(), name="hook", kinds="task.recovered")
        assert again.open().counts()["pending"] == 2
        slow.has_begun_and_not_ended()
        assert again.enqueue("work", id="served").status == "pending"
        assert len(again.claim("w", limit=3)) == 3
        slow.has_begun_and_not_ended()


class Slow:
    """Something that takes as long as the test does, unless it holds up the test itself."""

    def __init__(self) -> None:
        self._test = threading.current_thread()
        self._begun, self._may_end, self._ended = (threading.Event() for _ in range(3))

    def run(self) -> None:
        """Called by whoever is tested; somebody who waits for it waits for a while in vain."""
        self._begun.set()
        if threading.current_thread() is not self._test:
            self._may_end.wait(20)
        self._ended.set()

    def has_begun_and_not_ended(self) -> None:
        assert self._begun.wait(60)
        assert not self._ended.is_set()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *details: object) -> None:
        self._may_end.set()
