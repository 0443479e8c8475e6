"""Watching our own connections from outside the code: every statement, and every write lock."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apsw

# A statement's text, and the seconds from its first step to its end.
Noted = Callable[[str, float], None]


@contextmanager
def connections(note: Noted, *, is_timed: bool = True) -> Iterator[None]:
    """Notes every statement at its end, on connections that are opened meanwhile.

    SQLite's own figure counts whole milliseconds, so the time is taken here. That takes a call at
    the begin of every statement and of every trigger for every row; who can do with whole
    milliseconds spares the work that is measured two thousand calls for a thousand rows.
    """
    began: dict[int, float] = {}

    def trace(event: dict[str, Any]) -> None:
        if event["code"] == apsw.SQLITE_TRACE_STMT:
            began.setdefault(event["id"], time.perf_counter())
        elif event["id"] in began:
            note(event["sql"], time.perf_counter() - began.pop(event["id"]))
        elif not is_timed:
            note(event["sql"], event["nanoseconds"] / 1e9)

    def hook(connection: apsw.Connection) -> None:
        codes = apsw.SQLITE_TRACE_PROFILE | (apsw.SQLITE_TRACE_STMT if is_timed else 0)
        connection.trace_v2(codes, trace, id=note)

    apsw.connection_hooks.append(hook)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)


class Overhead(NamedTuple):
    """Seconds that watching adds to a statement: to what is noted of it, and to the work."""

    noted: float
    whole: float


def overhead(times: int = 2000) -> Overhead:
    """Found with a statement that has nothing to do."""

    def seconds(connection: apsw.Connection) -> float:
        began = time.perf_counter()
        for _ in range(times):
            connection.execute("SELECT 1 WHERE 0").fetchall()
        connection.close()
        return (time.perf_counter() - began) / times

    noted: list[float] = []
    alone = seconds(apsw.Connection(":memory:"))
    with connections(lambda sql, spent: noted.append(spent)):
        watched = apsw.Connection(":memory:")
    together = seconds(watched)
    return Overhead(statistics.median(noted), max(together - alone, 0.0))


@dataclass(slots=True)
class Locks:
    """How long write transactions were open, and how long flushes took; one writer at a time."""

    longest: float = 0
    longest_flush: float = 0
    flushing: float = 0
    _since: float = field(default=0, repr=False)

    def note(self, sql: str, seconds: float) -> None:
        text = sql.lstrip().upper()
        now = time.perf_counter()
        if text.startswith("BEGIN IMMEDIATE"):
            self._since = now
        elif text.startswith(("COMMIT", "ROLLBACK")) and "TO " not in text and self._since:
            self.longest = max(self.longest, now - self._since)
            self._since = 0
        elif "WAL_CHECKPOINT" in text:
            self.longest_flush = max(self.longest_flush, seconds)
            self.flushing += seconds


@dataclass(slots=True)
class Statements:
    """Time and number of every statement, by its text."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    times: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def note(self, sql: str, seconds: float) -> None:
        self.seconds[sql] += seconds
        self.times[sql] += 1

    def clear(self) -> None:
        self.seconds.clear()
        self.times.clear()
