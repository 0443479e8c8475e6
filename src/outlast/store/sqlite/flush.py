"""Moving the WAL into the main file on our own schedule, never inside a COMMIT."""

import apsw

from outlast._probe import probe
from outlast.errors import InvalidInput
from outlast.store.base import FlushResult
from outlast.store.sqlite.statements import sql

MODES = ("passive", "full", "restart", "truncate")


def flush(connection: apsw.Connection, mode: str) -> FlushResult:
    """Flush in one of SQLite's four modes.

    A truncating flush that succeeds answers 0 of 0, so a passive pass counts the frames first.
    """
    if mode not in MODES:
        raise InvalidInput(f"flush mode must be one of {', '.join(MODES)}, not {mode!r}")
    probe("flush.begun")
    first = _pass(connection, "passive")
    probe("flush.counted")
    if mode == "passive":
        return first
    second = _pass(connection, mode)
    probe("flush.done")
    return FlushResult(second.busy, first.frames_in_log, first.frames_moved)


def _pass(connection: apsw.Connection, mode: str) -> FlushResult:
    try:
        row = connection.execute(sql(f"flush_{mode}")).fetchone()
    except apsw.BusyError:
        return FlushResult(True, 0, 0)
    busy, in_log, moved = row or (1, 0, 0)
    return FlushResult(bool(busy), max(in_log, 0), max(moved, 0))
