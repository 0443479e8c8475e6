"""Callers who share a transaction share nothing else: each task has the time of its own call."""

import threading

import pytest

from outlast import Outlast, Task
from outlast.store.sqlite.file_guard import FileGuard
from outlast.testing import ManualClock
from tests.store.commit.test_late_comers import PATIENCE_SECONDS, wait_until
from tests.store.hand import store_of


def test_what_each_caller_got_is_what_was_stored(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against one time for all of a merged group, which no caller's record would have."""
    app.open()
    inside, goes_on = threading.Event(), threading.Event()
    stand = FileGuard.locks_stand

    def slowly(guard: FileGuard) -> bool:
        inside.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        return stand(guard)

    monkeypatch.setattr(FileGuard, "locks_stand", slowly)
    got: list[Task] = []
    threads = []
    for number in range(5):
        call = threading.Thread(target=lambda n=number: got.append(app.enqueue("work", {"n": n})))
        call.start()
        threads.append(call)
        wait_until(inside.is_set)
        wait_until(lambda behind=number: _behind(app) == behind)  # type: ignore[misc]
        clock.advance("5s")
    goes_on.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert len({task.created_at for task in got}) == 5
    assert [app.get(task.id) for task in got] == got


def _behind(app: Outlast) -> int:
    """How many wait behind the first."""
    return len(store_of(app).tasks._access.queue.shared)
