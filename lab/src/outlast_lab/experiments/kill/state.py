"""The content of a store that must be the same in every run of the same life, row by row.

Ids made by the library, error texts with pids in them, and the clock of the machine are left out.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

State = dict[str, list[list[Any]] | None]

CONTENT = {
    "tasks": """
        SELECT seq, coalesce('clone of ' || retry_of, id), status, queue, kind, priority, group_id,
               parked, not_before, stage, attempt, retry_count, recovery_count, crashes_in_row,
               max_retries, max_recoveries, token, holder, worker_id, last_worker_id,
               lease_acquired_at, lease_expires_at, lease_expires_mono_ms, heartbeat_at, unstarted,
               keyed, created_at, started_at, state_changed_at, completed_at, payload_bytes,
               payload, result_bytes, result, error IS NULL
        FROM tasks ORDER BY seq""",
    "transitions": """
        SELECT pos, task_seq, from_status, to_status, actor, reason, attempt, token, worker_id,
               error IS NULL, at
        FROM transitions ORDER BY pos""",
    "checkpoints": """
        SELECT pos, task_seq, group_id, checkpoint_type, sequence_number, attempt, snapshot_data,
               snapshot_sum, metadata, created_at
        FROM task_checkpoints ORDER BY pos""",
    "keys": """
        SELECT idempotency_key, task_id, group_id, request_hash, status, created_at, completed_at,
               expires_at,
               CASE status WHEN 'failed' THEN response_data IS NULL ELSE response_data END
        FROM task_keys ORDER BY idempotency_key""",
    "blobs": "SELECT task_seq, part, length(data) FROM blobs ORDER BY task_seq, part",
    "groups": "SELECT * FROM groups ORDER BY id",
    "queues": "SELECT * FROM queues ORDER BY name",
    "locks": """
        SELECT name, holder, worker_id, token, acquired_at, expires_at, expires_mono_ms
        FROM locks ORDER BY name""",
    # How often the write lock was taken depends on who else is at it.
    "counters": "SELECT * FROM counters WHERE name <> 'busy_retries' ORDER BY name",
    "sums": "SELECT * FROM metric_rollup ORDER BY 1, 2, 3, 4, 5, 6, 7",
    "pairs": "SELECT * FROM metric_pairs ORDER BY queue, kind",
    "traces": "SELECT * FROM task_traces ORDER BY task_seq",
    "dues": "SELECT * FROM task_dues ORDER BY task_seq",
    "cursors": "SELECT * FROM cursors ORDER BY name",
    "workers": "SELECT seq, name, state, registered_at, ended_at FROM workers ORDER BY seq",
    "meta": "SELECT * FROM meta ORDER BY key",
    "runs": """
        SELECT id, trigger, started_at, completed_at, session_ended_at, previous,
               crashed_at IS NULL, put_back, failed, held, skipped, found_running
        FROM recovery_runs ORDER BY id""",
    "moves of runs": """
        SELECT t.pos, t.run_id FROM transitions t JOIN recovery_runs r ON r.id = t.run_id
        ORDER BY t.pos""",
    "events": """
        SELECT pos, kind, worker_id, run_id, json_remove(data, '$.pid', '$.host'), at
        FROM events ORDER BY pos""",
    "audit": """
        SELECT id, at, actor, source, action, status,
               subject, run_id,
               json_remove(data, '$.pid', '$.host', '$.because', '$.incarnation', '$.new_id')
        FROM audit ORDER BY id""",
    "the caller's own rows": "SELECT * FROM ledger ORDER BY rowid",
    "migrations": "SELECT number, name, checksum FROM migrations ORDER BY number",
    "schema": "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name",
}


# What recovery is for; the record of how often it was tried is another matter.
_RECOVERED = ("tasks", "keys", "blobs", "groups", "queues", "workers", "the caller's own rows")


def recovered(state: State) -> State:
    """The part of a content that does not tell how often recovery began: without places."""
    found = {name: state[name] for name in _RECOVERED}
    for name in ("transitions", "checkpoints"):
        found[name] = sorted((row[1:] for row in state[name] or []), key=lambda row: int(row[0]))
    return found


def own_state(path: Path) -> State:
    """The content as this process's own engine sees it, also where it has the store open."""
    return _state_by(apsw.Connection, path)


def state_of(path: Path) -> State:
    """The content of a file that is nobody's, as the standard library's SQLite sees it."""
    return _state_by(sqlite3.connect, path)


def _state_by(connect: Callable[[str], Any], path: Path) -> State:
    """None for a table that is not there."""

    def rows_of(query: str) -> list[list[Any]] | None:
        try:
            return [list(row) for row in connection.execute(query)]
        except (apsw.SQLError, sqlite3.OperationalError) as error:
            if "no such table" not in str(error):
                raise
            return None

    with closing(connect(str(path) if path.exists() else ":memory:")) as connection:
        return {name: rows_of(query) for name, query in CONTENT.items()}


def difference(found: list[list[Any]] | None, wanted: list[list[Any]] | None) -> str:
    """What of the rows of a table is not as it should be."""
    extra = [row for row in found or [] if row not in (wanted or [])]
    missing = [row for row in wanted or [] if row not in (found or [])]
    return f"{extra[:2]} too much and {missing[:2]} too little"
