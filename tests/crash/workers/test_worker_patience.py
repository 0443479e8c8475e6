"""A store that cannot be written for a while costs no finished work."""

import threading
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.worker.messages import News
from tests.crash.workers.working import write_lock_held
from tests.worker.shift import PATIENCE_SECONDS, Shift, eventually

pytestmark = pytest.mark.slow


def test_finished_work_outlasts_any_trouble_of_the_store(database: Path) -> None:
    """Guards against giving an outcome up because of what the store is going through: five tries
    and more fail here, and none of them says anything about the outcome."""
    with Outlast(database, settings=Settings(lease_seconds=60, write_timeout_seconds=2)) as app:
        began, is_locked = threading.Semaphore(0), threading.Event()
        troubles: list[str] = []

        @app.task(max_retries=0)
        def work(n: int) -> int:
            began.release()
            is_locked.wait(PATIENCE_SECONDS)
            return n

        ids = work.enqueue_many(range(4))
        with Shift(app.worker(concurrency=4)) as shift:
            for _ in ids:
                assert began.acquire(timeout=PATIENCE_SECONDS)
            _listen(shift, troubles)
            with write_lock_held(database):
                is_locked.set()
                eventually(lambda: len(troubles) >= 6)
            eventually(lambda: app.counts()["completed"] == 4)
        assert [app.get(one).result for one in ids] == [0, 1, 2, 3]


def _listen(shift: Shift, troubles: list[str]) -> None:
    dispatcher = shift.worker._dispatcher
    assert dispatcher is not None
    hear = dispatcher._hear_of_trouble

    def hear_and_note(news: News) -> None:
        if news.trouble is not None:
            troubles.append(news.trouble)
        hear(news)

    dispatcher._hear_of_trouble = hear_and_note  # type: ignore[method-assign]
