"""Flushes that are not made: one that fails, and those that another process has made already."""

from pathlib import Path

import pytest

from outlast import Settings
from outlast.store.records import FlushResult
from outlast.store.sqlite.wal import Flusher, flush_what_is_due
from tests.store.sqlite.flush_stage import FRAME_BYTES, NEVER, MakeApp, log_bytes, writer_of
from tests.support.children import Child
from tests.support.foreign import foreign_rows


def _writes_while_the_main_file_cannot_be_written(path: str) -> None:
    import errno
    import logging
    import os
    import threading

    from outlast import Outlast, Settings
    from outlast_lab.experiments.kill.writes import watch_writes
    from tests.support.childside import say

    told: list[str] = []
    logged = threading.Event()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())
            logged.set()

    logging.getLogger("outlast").addHandler(Ear())
    broken = False

    def on_write(name: str, point: str, data: bytes) -> int:
        return errno.EIO if broken and name == os.path.basename(path) else 0

    watch_writes(on_write)
    app = Outlast(path, settings=Settings(flush_commits=20)).open()
    broken = True
    ids = [app.enqueue("work").id for _ in range(50)]
    say([ids, logged.wait(60), told[:1]])
    broken = False
    app.close()


@pytest.mark.proves("INT-26", "INT-23")
def test_a_flush_that_fails_fails_no_commit(database: Path) -> None:
    with Child(_writes_while_the_main_file_cannot_be_written, database) as child:
        ids, was_logged, told = child.hear()
        assert was_logged
        assert "flushing the WAL failed and will be tried again" in told[0]
        assert child.wait() == 0, child.error()
    stored = foreign_rows(database, "SELECT id FROM tasks")
    assert {task_id for (task_id,) in stored} == set(ids)


def test_what_another_process_has_moved_is_not_moved_again(make_app: MakeApp) -> None:
    app = make_app(flush_pages=NEVER)
    app.enqueue_many("work", range(500))
    sqlite = writer_of(app).connection
    frames = log_bytes(app) // FRAME_BYTES
    assert flush_what_is_due(sqlite, "passive", frames + 1) is None
    assert flush_what_is_due(sqlite, "passive", frames) == (False, frames, frames)
    assert flush_what_is_due(sqlite, "passive", 1) is None
    assert flush_what_is_due(sqlite, "passive", 0) == (False, frames, frames)


class _Log:
    """A log that is as long as we say."""

    def __init__(self) -> None:
        self.wal_pages = 0
        self.commits = 0


def test_who_came_too_late_to_flush_leaves_the_next_one_to_others_but_not_for_ever() -> None:
    log, asked = _Log(), list[tuple[int, str, int]]()
    answers: list[FlushResult | None] = [None, FlushResult(False, 125, 125), None]

    def flush_due(mode: str, least_frames: int) -> FlushResult | None:
        asked.append((log.wal_pages, mode, least_frames))
        return answers.pop(0)

    flusher = Flusher(flush_due, lambda: ("", False), Settings(flush_pages=100))
    for _ in range(3):
        for pages in range(1, 130):
            log.wal_pages = pages
            if len(asked) < 3:
                flusher.look_at(log)
    assert asked == [(100, "passive", 100), (125, "passive", 100), (100, "passive", 100)]
