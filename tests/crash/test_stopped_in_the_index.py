"""A process that stands still in the middle of SQLite's wal-index keeps everybody out; it is named.

SQLite tries for ten seconds by itself then, which these tests wait for: nothing can shorten it.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast import Outlast, QueueStalled, Settings, StoreBusy
from tests.support.children import Child

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60
# SQLite's own ten seconds are longer than this.
SHORT = Settings(write_timeout_seconds=5)

# What SQLite does for an instant: it has marks of readers to itself while it moves them, and the
# two copies of the header differ while it tells of a commit.
MOVING_A_MARK = ([124], "")
MOVING_ALL_MARKS = ([124, 125, 126, 127], "")
TELLING_OF_A_COMMIT = ([120], "ffff")


def _stands_in_the_index(path: str, locks: list[int], torn: str) -> None:
    import os

    from outlast.host import file_locks
    from tests.support.childside import hear, say

    index = os.open(f"{path}-shm", os.O_RDWR)
    for offset in locks:
        file_locks.lock_byte(index, offset)
    in_second_copy, written = 48 + 8, bytes.fromhex(torn)
    as_it_was = os.pread(index, len(written), in_second_copy)
    os.pwrite(index, written, in_second_copy)
    say("inside")
    hear()
    os.pwrite(index, as_it_was, in_second_copy)
    os.close(index)
    say("outside")


@contextmanager
def stopped_inside(database: Path, inside: tuple[list[int], str]) -> Iterator[int]:
    with Child(_stands_in_the_index, database, *inside) as child:
        assert child.hear() == "inside"
        child.signal(signal.SIGSTOP)
        yield child.pid
        child.signal(signal.SIGCONT)
        child.say()
        assert child.hear() == "outside"


def beats(app: Outlast) -> None:
    app.heartbeat("a passer-by")


def enqueues(app: Outlast) -> None:
    app.enqueue("work", id="refused")


@pytest.mark.parametrize(
    ("inside", "write"), [(MOVING_ALL_MARKS, beats), (TELLING_OF_A_COMMIT, enqueues)]
)
def test_who_stands_still_inside_the_index_is_named(
    database: Path, inside: tuple[list[int], str], write: Callable[[Outlast], None]
) -> None:
    """Guards: it was taken for a fault of the engine, and nobody said whose doing it is."""
    with Outlast(database, settings=SHORT) as app, ThreadPoolExecutor() as threads:
        app.enqueue("work", id="before")
        with stopped_inside(database, inside) as pid:
            written = threads.submit(write, app)
            read = threads.submit(app.get, "before")
            with pytest.raises(
                QueueStalled, match=rf"process {pid} \(stopped\).* 1\d\.\d s"
            ) as said:
                written.result(PATIENCE_SECONDS)
            assert said.value.pid == pid
            with pytest.raises(StoreBusy, match=r"keeps .* locked; if it was stopped, resume"):
                read.result(PATIENCE_SECONDS)
        app.enqueue("work", id="after")
        assert {task.id for task in app.tasks()} == {"before", "after"}


@pytest.mark.parametrize("write", [beats, enqueues])
def test_a_commit_that_cannot_begin_a_new_log_is_certain_not_to_be(
    database: Path, write: Callable[[Outlast], None]
) -> None:
    """When all of the log was moved, a writer needs a mark only as it commits.

    Guards: the outcome was called unknown, and nobody was named.
    """
    with Outlast(database, settings=SHORT) as app, ThreadPoolExecutor() as threads:
        app.enqueue("work", id="before")
        app.flush_wal("passive")
        with stopped_inside(database, MOVING_A_MARK) as pid:
            written = threads.submit(write, app)
            with pytest.raises(QueueStalled, match=rf"process {pid} \(stopped\)"):
                written.result(PATIENCE_SECONDS)
            assert app.get("before").status == "pending", "readers do without a mark"
        app.enqueue("work", id="after")
        assert {task.id for task in app.tasks()} == {"before", "after"}
