"""The note of begun tasks in a worker's lock file: who pays when a worker with a full bag dies."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.store.sqlite.presence.worker_lock_file import read_begun
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows

CHARGED, UNCHARGED = (1, 1), (0, 0)


def _prefetches_and_starts(path: str, count: int, started: int, slots: int) -> None:
    from outlast import Outlast
    from outlast.store.sqlite.presence import worker_lock_file
    from tests.support.childside import hear, say

    worker_lock_file.SLOTS = slots
    app = Outlast(path)
    app.enqueue_many("work", range(count), id=[f"t-{n}" for n in range(count)])
    leases = app.prefetch("w", limit=count)
    for lease in leases[:started]:
        lease.start()
    say("started")
    while (order := hear()) is not None:
        lease = leases[order["lease"]]
        say(getattr(lease, order["verb"])())


@contextmanager
def _worker(database: Path, count: int, started: int, slots: int = 4096) -> Iterator[Child]:
    with Child(_prefetches_and_starts, database, count, started, slots) as child:
        assert child.hear() == "started"
        yield child


def _bills(database: Path) -> dict[str, tuple[int, int]]:
    """What each task was charged: attempts, and crashes."""
    with Outlast(database) as app:
        assert app.counts()["running"] == 0
        return {task.id: (task.attempt, task.recovery_count) for task in app.tasks(limit=1000)}


@pytest.mark.proves("RTY-02")
def test_one_started_task_pays_for_the_crash_and_its_99_neighbours_do_not(database: Path) -> None:
    with _worker(database, 100, started=1) as worker:
        worker.kill()
    charged_by_the_claim = foreign_rows(database, "SELECT attempt FROM tasks WHERE id = 't-0'")
    assert charged_by_the_claim == [[1]], "nobody has to survive to count the attempt"
    bills = _bills(database)
    assert bills.pop("t-0") == CHARGED
    assert list(bills.values()) == [UNCHARGED] * 99
    assert_sound(database)


@pytest.mark.proves("RTY-02")
def test_a_task_that_was_claimed_to_be_worked_on_pays_without_any_note(database: Path) -> None:
    with Child(_claims_and_waits, database) as worker:
        assert worker.hear() == 1
        worker.kill()
    assert _bills(database) == {"t": CHARGED}


def _claims_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t")
    (lease,) = app.claim("w")
    say(lease.attempt)
    hear()


def test_the_tasks_of_a_live_worker_are_neither_charged_nor_put_back(database: Path) -> None:
    with _worker(database, 5, started=2) as worker, Outlast(database) as app:
        assert app.heal().entries_reclaimed == 0
        assert [task.attempt for task in app.tasks("running")] == [1] * 5
        worker.kill()


def _truncate(lock: Path) -> None:
    os.truncate(lock, lock.stat().st_size // 2)


def _flip(at: int) -> Callable[[Path], None]:
    def flip(lock: Path) -> None:
        raw = bytearray(lock.read_bytes())
        raw[at] ^= 0xFF
        with lock.open("r+b") as file:
            file.write(raw)

    return flip


def _copy(lock: Path) -> None:
    copy = lock.with_suffix(".copy")
    shutil.copy(lock, copy)
    copy.rename(lock)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "torn": _truncate,
    "header garbled": _flip(10),
    "an empty slot garbled": _flip(112 + 4095 * 24),
    "a slot garbled": _flip(112),
    "missing": Path.unlink,
    "replaced by a copy": _copy,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_nobody_is_refunded_on_the_word_of_a_damaged_note(
    database: Path, damage: Callable[[Path], Any]
) -> None:
    with _worker(database, 5, started=1) as worker:
        worker.kill()
    (lock,) = (database.parent / "work.db-outlast" / "workers").glob("*.lock")
    damage(lock)
    assert set(_bills(database).values()) == {CHARGED}


def test_a_note_of_another_boot_is_not_believed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _worker(database, 5, started=1) as worker:
        worker.kill()
    monkeypatch.setattr("outlast.host.boot.boot_id", lambda: "11111111-2222-3333-4444-555555555555")
    assert set(_bills(database).values()) == {CHARGED}


def test_more_starts_than_slots_are_noted_all_the_same(database: Path) -> None:
    with _worker(database, 6, started=4, slots=2) as worker:
        worker.kill()
    bills = _bills(database)
    assert [bills[f"t-{n}"] for n in range(6)] == [CHARGED] * 4 + [UNCHARGED] * 2


@pytest.mark.parametrize("verb", ["complete", "release"])
def test_a_note_is_cleared_when_its_task_is_settled(database: Path, verb: str) -> None:
    with _worker(database, 3, started=2) as worker:
        (lock,) = (database.parent / "work.db-outlast" / "workers").glob("*.lock")
        assert len(_noted(lock)) == 2
        worker.say({"lease": 0, "verb": verb})
        assert worker.hear() is True
        assert _noted(lock) == {(2, 1)}, "seq and token of the other one"
        worker.kill()


def _noted(lock: Path) -> frozenset[tuple[int, int]]:
    descriptor = os.open(lock, os.O_RDONLY)
    try:
        begun = read_begun(descriptor, lock.stem)
    finally:
        os.close(descriptor)
    assert begun.whole
    return begun.tasks


def test_a_slot_that_was_freed_serves_the_next_task(database: Path) -> None:
    with _worker(database, 3, started=1, slots=1) as worker:
        for lease, verb in ((0, "complete"), (1, "start")):
            worker.say({"lease": lease, "verb": verb})
            worker.hear()
        assert foreign_rows(database, "SELECT count(*) FROM tasks WHERE unstarted") == [[2]]
        worker.kill()
    bills = _bills(database)
    assert (bills["t-1"], bills["t-2"]) == (CHARGED, UNCHARGED)
