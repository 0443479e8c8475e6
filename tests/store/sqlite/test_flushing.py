"""The log is moved into the main file on our own schedule, off everybody's way, and in words."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import InvalidInput, Outlast, Settings, probes
from outlast.store.records import FlushResult
from tests.store.hand import store_of
from tests.store.sqlite.flush_stage import FRAME_BYTES, NEVER, MakeApp, log_bytes, writer_of
from tests.support.children import Child

PATIENCE_SECONDS = 60


class Flushes(list[str]):
    """The flushes of this process: the name of each one's thread."""

    def wait_for(self, count: int, app: Outlast) -> None:
        """Until so many have come and the last is over."""
        queue = store_of(app).tasks._access.queue
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self) < count or queue.under_way is not None:
            assert time.monotonic() < deadline, f"{len(self)} flushes instead of {count}"
            time.sleep(0.001)


Watch = Callable[[Outlast], Flushes]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Opens a store, which flushes what it finds, and notes the flushes that come after."""
    seen = Flushes()

    def note(name: str) -> None:
        if name == "flush.begun":
            seen.append(threading.current_thread().name)

    def start(app: Outlast) -> Flushes:
        app.open()
        probes.arm(note)
        return seen

    yield start
    probes.arm(None)


def _reads(path: str) -> None:
    """Stays in one old state of the file until told otherwise."""
    import sqlite3

    from tests.support.childside import hear, say

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    say(connection.execute("SELECT count(*) FROM tasks").fetchone()[0])
    hear()
    connection.execute("ROLLBACK")
    say("ended")
    hear()


@pytest.fixture
def reader(database: Path) -> Iterator[Callable[[], Child]]:
    started: list[Child] = []

    def start() -> Child:
        child = Child(_reads, database)
        started.append(child)
        child.hear()
        return child

    yield start
    for child in started:
        child.kill()


@pytest.mark.proves("CFG-08")
def test_the_log_is_flushed_at_1000_pages_and_emptied_at_64_mib_and_every_commit_is_synced(
    app: Outlast,
) -> None:
    settings = Settings()
    assert (settings.flush_pages, settings.flush_commits) == (1000, 0)
    assert settings.wal_limit_bytes == 64 * 1024 * 1024
    assert settings.synchronous == "full"
    app.open()
    assert writer_of(app).connection.pragma("synchronous") == 2


@pytest.mark.proves("INT-25", "INT-36")
def test_each_mode_moves_every_frame_and_only_truncate_empties_the_file(make_app: MakeApp) -> None:
    app = make_app(flush_pages=NEVER)
    app.enqueue_many("work", range(500))
    app.flush_wal("truncate")
    for mode in ("passive", "full", "restart", "truncate"):
        app.enqueue_many("work", range(500))
        before = log_bytes(app)
        result = app.flush_wal(mode)
        assert result == (False, before // FRAME_BYTES, before // FRAME_BYTES)
        assert result._fields == ("busy", "frames_in_log", "frames_moved")
        assert result.frames_in_log > 10
        assert log_bytes(app) == (0 if mode == "truncate" else before)
        app.flush_wal("truncate")


@pytest.mark.proves("INT-25")
def test_the_modes_differ_in_what_a_reader_may_keep_them_from(
    make_app: MakeApp, reader: Callable[[], Child]
) -> None:
    """One who reads the end of the log holds up none of its frames, only its reuse."""
    app = make_app(flush_pages=NEVER)
    app.enqueue_many("work", range(500))
    reader()
    size = log_bytes(app)
    frames = size // FRAME_BYTES
    answers = {mode: app.flush_wal(mode) for mode in ("passive", "full", "restart", "truncate")}
    assert answers == {
        "passive": (False, frames, frames),
        "full": (False, frames, frames),
        "restart": (True, frames, frames),
        "truncate": (True, frames, frames),
    }
    assert log_bytes(app) == size


@pytest.mark.proves("INT-23", "INT-36")
def test_an_old_reader_holds_up_frames_and_the_report_says_so(
    make_app: MakeApp, reader: Callable[[], Child]
) -> None:
    app = make_app(flush_pages=NEVER)
    app.enqueue_many("work", range(500))
    old = reader()
    app.enqueue_many("work", range(500))
    frames = log_bytes(app) // FRAME_BYTES
    for mode, busy in (("passive", False), ("full", True), ("restart", True), ("truncate", True)):
        result = app.flush_wal(mode)
        assert (result.busy, result.frames_in_log) == (busy, frames), mode
        assert result.frames_moved < frames
    old.say()
    assert old.hear() == "ended"
    assert app.flush_wal("truncate") == FlushResult(False, frames, frames)
    assert log_bytes(app) == 0


def test_an_unknown_mode_is_refused_in_a_sentence_that_names_the_four(app: Outlast) -> None:
    with pytest.raises(InvalidInput, match="one of passive, full, restart, truncate, not 'some'"):
        app.flush_wal("some")


@pytest.mark.proves("INT-26")
def test_by_option_a_pass_follows_the_hundredth_commit_and_none_comes_before(
    make_app: MakeApp, watch: Watch
) -> None:
    app = make_app(flush_commits=100, flush_pages=NEVER)
    flushes = watch(app)
    for round_ in (1, 2):
        while writer_of(app).commits < round_ * 100 - 1:
            app.enqueue("work")
        flushes.wait_for(round_ - 1, app)
        assert len(flushes) == round_ - 1
        app.enqueue("work")
        flushes.wait_for(round_, app)
        assert len(flushes) == round_
    assert log_bytes(app) > 0, "a pass leaves the file as long as it was"


@pytest.mark.proves("INT-26")
@pytest.mark.parametrize(("settings", "pages"), [({}, 1000), ({"flush_pages": 200}, 200)])
def test_a_passive_pass_follows_so_many_pages(
    make_app: MakeApp, watch: Watch, settings: dict[str, int], pages: int
) -> None:
    app = make_app(**settings)
    flushes = watch(app)
    while writer_of(app).wal_pages < pages:
        assert flushes == []
        app.enqueue("work", "x" * 20_000)
    flushes.wait_for(1, app)
    assert len(flushes) == 1
    assert log_bytes(app) > 0
    result = app.flush_wal("passive")
    assert result.frames_moved == result.frames_in_log >= pages


@pytest.mark.proves("INT-26")
def test_sqlites_own_flushing_is_off(make_app: MakeApp, watch: Watch) -> None:
    """It would begin at a thousand pages, inside a COMMIT."""
    app = make_app(flush_pages=NEVER)
    flushes = watch(app)
    before = os.stat(app.path).st_size
    assert writer_of(app).connection.pragma("wal_autocheckpoint") == 0
    while writer_of(app).wal_pages < 3000:
        app.enqueue("work", "x" * 500_000)
    assert os.stat(app.path).st_size == before
    assert flushes == []


def test_the_caller_whose_commit_made_it_due_does_not_flush(
    make_app: MakeApp, watch: Watch
) -> None:
    app = make_app(flush_commits=1, flush_pages=NEVER)
    flushes = watch(app)
    app.enqueue("work")
    flushes.wait_for(1, app)
    assert threading.current_thread().name not in flushes


def test_a_commit_is_acknowledged_while_its_flush_is_still_under_way(make_app: MakeApp) -> None:
    app = make_app(flush_commits=1, flush_pages=NEVER)
    app.open()
    begun, go_on = threading.Event(), threading.Event()

    def hold_up(name: str) -> None:
        if name == "flush.begun":
            begun.set()
            assert go_on.wait(PATIENCE_SECONDS)

    probes.arm(hold_up)
    try:
        assert app.enqueue("work", id="t").id == "t"
        assert begun.wait(PATIENCE_SECONDS)
        assert app.get("t").status == "pending", "a reader does not wait for it either"
    finally:
        probes.arm(None)
        go_on.set()
    assert app.enqueue("work", id="u").id == "u"


@pytest.mark.proves("INT-22")
def test_a_log_past_its_limit_is_emptied_while_work_goes_on(
    make_app: MakeApp,
    reader: Callable[[], Child],
    watch: Watch,
) -> None:
    """A reader keeps it from being reused, so that it grows; when it has gone, no call of ours is
    needed but the ordinary ones."""
    limit = 1 << 20
    app = make_app(flush_pages=50, wal_limit_bytes=limit)
    flushes = watch(app)
    app.enqueue("work")
    old = reader()
    while log_bytes(app) < 2 * limit:
        app.enqueue("work", "x" * 20_000)
    old.say()
    assert old.hear() == "ended"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while log_bytes(app) > limit:
        assert time.monotonic() < deadline, "the log was never emptied"
        app.enqueue("work", "x" * 20_000)
    assert threading.current_thread().name not in flushes


@pytest.mark.proves("INT-22")
def test_a_log_below_its_limit_keeps_its_length(make_app: MakeApp, watch: Watch) -> None:
    app = make_app(flush_pages=50, wal_limit_bytes=1 << 20)
    flushes = watch(app)
    app.enqueue("work", "x" * 300_000)
    flushes.wait_for(1, app)
    assert log_bytes(app) > 300_000


@pytest.mark.proves("INT-23")
def test_a_flush_that_a_reader_held_up_is_logged_with_its_pid_and_tried_again(
    make_app: MakeApp,
    reader: Callable[[], Child],
    watch: Watch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app(flush_pages=50)
    app.open().flush_wal("truncate")
    flushes = watch(app)
    old = reader()
    app.enqueue("work", "x" * 300_000)
    flushes.wait_for(1, app)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not caplog.records:
        # The flush is over a moment before it is told of.
        assert time.monotonic() < deadline
        time.sleep(0.001)
    (warning,) = caplog.records
    assert (warning.name, warning.levelno) == ("outlast.store", logging.WARNING)
    assert "moved 0 of" in warning.getMessage()
    assert f"being read by process {old.pid};" in warning.getMessage()
    assert "tried again" in warning.getMessage()
    old.say()
    assert old.hear() == "ended"
    app.enqueue("work", "x" * 300_000)
    flushes.wait_for(2, app)
    assert len(caplog.records) == 1, "now it could be done"
    result = app.flush_wal("passive")
    assert result.frames_moved == result.frames_in_log
