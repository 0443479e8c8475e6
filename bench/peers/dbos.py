"""dbos: no-op workflows on one of its queues, in its SQLite system database."""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from dbos import DBOS

from bench.load import PAYLOAD
from bench.peers.child import rate_of, require_count, require_synced, wait_for_count

# The file is put into WAL mode before dbos sees it, which makes it 1.7 times as fast (it would take
# the rollback journal); one executor thread, because a no-op is nearly all database and more
# threads only contend for the write lock (8 had 0.65 of the speed, async workflows about the same);
# no limit on the queue, so that one poll claims all. A workflow without steps has the fewest
# commits: one in, one share of a claim, one out. It keeps inputs and results and resumes after a
# crash, but knows no leases: whoever starts under the same executor name takes over what is
# pending.
FILE = "dbos.db"
QUEUE = "bench"
POLL_SECONDS = 0.01
THREADS = 1
WAITING = "SELECT count(*) FROM workflow_status WHERE status = 'ENQUEUED'"
DONE = "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'"


def launch(folder: Path, queues: list[str]) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder / FILE}",
            "log_level": "WARNING",
            "max_executor_threads": THREADS,
        }
    )
    DBOS.listen_queues(queues)
    DBOS.launch()


def launch_to_fill(folder: Path) -> Any:
    """Launch on a new file without listening to the queue; returns the queue."""
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    launch(folder, [])
    require_synced(folder / FILE)
    return DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)


def enqueue_singly(folder: Path, count: int) -> float:
    noop = DBOS.workflow()(_nothing)
    queue = launch_to_fill(folder)
    rate = rate_of(count, lambda: queue.enqueue(noop, PAYLOAD))
    require_count(folder / FILE, WAITING, count + 1)
    return rate


def consume(folder: Path, count: int) -> float:
    started: list[float] = []
    is_over = threading.Event()

    def note_start(payload: dict[str, Any]) -> None:
        started.append(time.perf_counter())
        if len(started) == count:
            is_over.set()

    noop = DBOS.workflow(name="noted")(note_start)
    queue = launch_to_fill(folder)
    for _ in range(count):
        queue.enqueue(noop, PAYLOAD)
    DBOS.destroy(destroy_registry=False)
    launch(folder, [QUEUE])
    # From here, not from the first start: all are claimed before that one.
    began = time.perf_counter()
    if not is_over.wait(timeout=60 + count / 20):
        raise TimeoutError(f"dbos started {len(started)} of {count} workflows")
    ended = wait_for_count(folder / FILE, DONE, count)
    return count / (ended - began)


def _nothing(payload: dict[str, Any]) -> None:
    pass
