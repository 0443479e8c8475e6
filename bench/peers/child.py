"""The other side of a Peer: runs one measurement in this process and prints its rate."""

import importlib
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

FULL = 2
DONE_SECONDS = 10.0


def rate_of(count: int, put: Callable[[], object]) -> float:
    """Calls a second; the one before them opens what is opened lazily."""
    put()
    began = time.perf_counter()
    for _ in range(count):
        put()
    return count / (time.perf_counter() - began)


def write_back() -> None:
    """What filling left unsynced goes to the disk before the clock runs."""
    os.sync()


def require_synced(path: Path) -> None:
    """Refuse to measure a library that leaves syncing to defaults where those do not sync."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    if (journal, synchronous) != ("wal", FULL):
        raise RuntimeError(f"{path.name}: journal {journal}, synchronous {synchronous}")


def require_count(path: Path, query: str, expected: int) -> None:
    """Hold the queue's own table against the count: a rate of work not done is none."""
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute(query).fetchone()
    if found != expected:
        raise RuntimeError(f"{path.name} has {found} tasks where {expected} were expected")


def wait_for_count(path: Path, query: str, expected: int) -> float:
    """The time when the queue's own table came to the count."""
    deadline = time.perf_counter() + DONE_SECONDS
    with closing(sqlite3.connect(path)) as connection:
        while connection.execute(query).fetchone()[0] != expected:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{path.name} never came to {expected} tasks")
            time.sleep(0.001)
        return time.perf_counter()


def main(module: str, verb: str, folder: str, count: str) -> None:
    peer = importlib.import_module(f"bench.peers.{module}")
    print(getattr(peer, verb)(Path(folder), int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
