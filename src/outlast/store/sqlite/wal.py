"""Moving the WAL into the main file on our own schedule, never inside a COMMIT."""

import logging
from collections.abc import Callable
from typing import Protocol

import apsw

from outlast.domain.escaping import shown
from outlast.errors import InvalidInput, OutlastError
from outlast.logs import logger
from outlast.probes import probe
from outlast.settings import Settings
from outlast.store.records import FlushResult
from outlast.store.sqlite.statements import sql

PAGE_BYTES = 4096

log = logger("outlast.store")

MODES = ("passive", "full", "restart", "truncate")


def flush(connection: apsw.Connection, mode: str) -> FlushResult:
    """Flush in one of SQLite's four modes.

    A truncating flush that succeeds answers 0 of 0, so a passive pass counts the frames first.
    """
    if mode not in MODES:
        raise InvalidInput(f"flush mode must be one of {', '.join(MODES)}, not {shown(mode)}")
    probe("flush.begun")
    first = _pass(connection, "flush_passive")
    probe("flush.counted")
    if mode == "passive":
        return first
    second = _pass(connection, f"flush_{mode}")
    probe("flush.done")
    return FlushResult(
        second.busy,
        max(first.frames_in_log, second.frames_in_log),
        max(first.frames_moved, second.frames_moved),
    )


def flush_what_is_due(
    connection: apsw.Connection, mode: str, least_frames: int
) -> FlushResult | None:
    """Flush, unless another process has and fewer frames than that are left to be moved."""
    if least_frames:
        found = _pass(connection, "flush_noop")
        if not found.busy and found.frames_in_log - found.frames_moved < least_frames:
            return None
    return flush(connection, mode)


def _pass(connection: apsw.Connection, statement: str) -> FlushResult:
    try:
        row = connection.execute(sql(statement)).fetchone()
    except apsw.BusyError:
        return FlushResult(True, 0, 0)
    busy, in_log, moved = row or (1, 0, 0)
    return FlushResult(bool(busy), max(in_log, 0), max(moved, 0))


class Flusher:
    """Flushes by size and by count, between two batches: the commits before it are answered."""

    def __init__(
        self,
        flush_due: Callable[[str, int], FlushResult | None],
        who_reads: Callable[[], tuple[str, bool]],
        settings: Settings,
    ) -> None:
        self._flush_due = flush_due
        self._who_reads = who_reads
        self._limit_pages = settings.wal_limit_bytes // PAGE_BYTES
        self._flush_pages = min(settings.flush_pages, self._limit_pages)
        self._late_pages = min(self._flush_pages * 5 // 4, self._limit_pages)
        self._due_pages = self._flush_pages
        self._flush_commits = settings.flush_commits
        self._flushed_commits = 0
        self._flushed_pages = 0

    def look_at(self, log_size: "LogSize") -> None:
        """Flush when the WAL has grown enough since the last one."""
        pages = log_size.wal_pages
        if pages < self._flushed_pages:
            # The WAL began anew after it was moved.
            self._flushed_pages = 0
        enough_commits = self._flush_commits and (
            log_size.commits - self._flushed_commits >= self._flush_commits
        )
        is_due = enough_commits or pages - self._flushed_pages >= self._due_pages
        if not is_due:
            return
        mode = "truncate" if pages >= self._limit_pages else "passive"
        is_due_to_all = mode == "passive" and not enough_commits
        least_frames = self._flush_pages if is_due_to_all else 0
        self._flush(mode, least_frames, log_size)

    def _flush(self, mode: str, least_frames: int, log_size: "LogSize") -> None:
        """One that fails is logged and tried again when the WAL has grown as much once more.

        All processes see the WAL grow. Whoever came too late leaves the next flushes to those who
        were quicker, and comes again when they let the WAL grow a little longer.
        """
        try:
            result = self._flush_due(mode, least_frames)
            self._due_pages = self._flush_pages if result else self._late_pages
            if result and (result.busy or result.frames_moved < result.frames_in_log):
                who, is_usual = self._who_reads()
                log.log(
                    logging.INFO if is_usual else logging.WARNING,
                    "flushing the WAL moved %d of %d frames%s; it will be tried again",
                    result.frames_moved,
                    result.frames_in_log,
                    who,
                )
        except OutlastError as error:
            log.warning("flushing the WAL failed and will be tried again: %s", error)
        finally:
            self._flushed_pages = log_size.wal_pages
            self._flushed_commits = log_size.commits


class LogSize(Protocol):
    """What the writer knows of its log."""

    @property
    def wal_pages(self) -> int:
        """Pages in the WAL."""
        ...

    @property
    def commits(self) -> int:
        """How many commits this connection has sent."""
        ...
