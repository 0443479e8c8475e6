"""huey: SqliteHuey with fsync on, and its own consumer."""

import logging
import threading
import time
from pathlib import Path
from typing import Any

from huey import SqliteHuey

from bench.load import PAYLOAD
from bench.peers.child import rate_of, require_count, write_back

# One thread and 1 ms between polls: a no-op task is nearly all database, which its threads share
# under one lock and its processes under one file lock; two threads had three quarters of the
# speed of one, one process 0.95, two 0.8. No results are stored, so a task costs one commit, which
# deletes it before it runs: unlike the others huey does not acknowledge, and a crash loses it.
WORKERS = 1
POLL_SECONDS = 0.001
LEFT = "SELECT count(*) FROM task"


def open_queue(folder: Path, fsync: bool = True) -> Any:
    return SqliteHuey(
        filename=str(folder / "huey.db"), fsync=fsync, journal_mode="wal", results=False
    )


def enqueue_singly(folder: Path, count: int) -> float:
    queue = open_queue(folder)
    task = queue.task()(_nothing)
    rate = rate_of(count, lambda: task(PAYLOAD))
    require_count(folder / "huey.db", LEFT, count + 1)
    return rate


def consume(folder: Path, count: int) -> float:
    logging.getLogger("huey").setLevel(logging.WARNING)
    _fill(folder, count)
    queue = open_queue(folder)
    times: list[float] = []
    is_over = threading.Event()

    def note_time(payload: dict[str, Any]) -> None:
        times.append(time.perf_counter())
        if len(times) == count:
            is_over.set()

    queue.task(name="noted")(note_time)
    consumer = queue.create_consumer(
        workers=WORKERS, worker_type="thread", periodic=False,
        initial_delay=POLL_SECONDS, max_delay=POLL_SECONDS, backoff=1.0,
    )  # fmt: skip
    consumer.start()
    if not is_over.wait(timeout=60 + count / 20):
        raise TimeoutError(f"huey ran {len(times)} of {count} tasks")
    consumer.stop(graceful=True)
    require_count(folder / "huey.db", LEFT, 0)
    # Each task is noted after its deletion was synced, so the first one's is not in the interval.
    return (count - 1) / (times[-1] - times[0])


def _fill(folder: Path, count: int) -> None:
    queue = open_queue(folder, fsync=False)
    task = queue.task(name="noted")(_nothing)
    for _ in range(count):
        task(PAYLOAD)
    queue.storage.close()
    write_back()


def _nothing(payload: dict[str, Any]) -> None:
    pass
