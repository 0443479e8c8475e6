"""A process that stands still in the middle of SQLite's wal-index keeps everybody out; it is named.

SQLite tries for ten seconds by itself then, which these tests wait for: nothing can shorten it.
"""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast import Outlast, QueueStalled, StoreBusy
from tests.support.children import Child

# As SQLite does for an instant: it has the readers' marks to itself while it moves one of them,
# and the first copy of the header is older than the second while it tells of a commit.
MOVING_A_MARK = ([124, 125, 126, 127], "")
TELLING_OF_A_COMMIT = ([120], "ffff")


def _stands_in_the_index(path: str, locks: list[int], torn: str) -> None:
    import os

    from outlast import _host
    from tests.support.childside import hear, say

    index = os.open(f"{path}-shm", os.O_RDWR)
    for offset in locks:
        _host.lock_byte(index, offset)
    in_second_copy, written = 48 + 8, bytes.fromhex(torn)
    as_it_was = os.pread(index, len(written), in_second_copy)
    os.pwrite(index, written, in_second_copy)
    say("inside")
    hear()
    os.pwrite(index, as_it_was, in_second_copy)
    os.close(index)
    say("outside")


@pytest.mark.parametrize("inside", [MOVING_A_MARK, TELLING_OF_A_COMMIT])
def test_who_stands_still_inside_the_index_is_named(
    database: Path, inside: tuple[list[int], str]
) -> None:
    """Guards: it was taken for a fault of the engine, and nobody said whose doing it is."""
    with Outlast(database) as app, ThreadPoolExecutor() as threads:
        app.enqueue("work", id="before")
        with Child(_stands_in_the_index, database, *inside) as child:
            assert child.hear() == "inside"
            child.signal(signal.SIGSTOP)
            write = threads.submit(app.heartbeat, "a passer-by")
            read = threads.submit(app.get, "before")
            with pytest.raises(QueueStalled, match=rf"process {child.pid} \(stopped\)") as stalled:
                write.result()
            assert stalled.value.pid == child.pid
            with pytest.raises(
                StoreBusy, match=r"stands still while it changes .*resume or end it"
            ):
                read.result()
            child.signal(signal.SIGCONT)
            child.say()
            assert child.hear() == "outside"
        app.enqueue("work", id="after")
        assert {task.id for task in app.tasks()} == {"before", "after"}
