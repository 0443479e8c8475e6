"""Stores full of rows, written by SQL into a file that Outlast made: a million take seconds."""

import shutil
import stat
from pathlib import Path

import apsw

CHUNK = 100_000
FAR_MS = 4_000_000_000_000

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last)"

# Ids rise, as ours do: inserting at random would make another tree.
SHARED_COLUMNS = (
    "id, queue, kind, created_at, state_changed_at, payload_bytes, payload_sum, payload"
)
SHARED = "printf('00000000-%012d', i), 'default', :kind, :now, :now, length(:payload), 1, :payload"

FINISHED = f"""{NUMBERS}
INSERT INTO tasks ({SHARED_COLUMNS}, status, attempt, token, last_worker_id, started_at,
                   completed_at, result_sum)
SELECT {SHARED}, 'completed', 1, 1, 'w', :now, :now, 1 FROM n
"""
LOG = f"""{NUMBERS}
INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,
                         worker_id, at)
SELECT (SELECT seq FROM tasks WHERE id = printf('00000000-%012d', i)), :from, :to, 'worker',
       :reason, 1, 1, 'w', :now FROM n
"""
DELAYED = f"""{NUMBERS}
INSERT INTO tasks ({SHARED_COLUMNS}, parked, not_before)
SELECT {SHARED}, 'delay', {FAR_MS} + i FROM n
"""
PENDING = f"{NUMBERS} INSERT INTO tasks ({SHARED_COLUMNS}) SELECT {SHARED} FROM n"
RUNNING = f"""{NUMBERS}
INSERT INTO tasks ({SHARED_COLUMNS}, status, attempt, token, holder, worker_id, last_worker_id,
                   lease_acquired_at, lease_expires_at, lease_expires_mono_ms, heartbeat_at,
                   started_at)
SELECT {SHARED}, 'running', 1, 1, :holder, :worker, :worker, :now, {FAR_MS}, {FAR_MS}, :now, :now
FROM n
"""


class Filler:
    """Writes rows in chunks, unsynced, and leaves the log empty."""

    def __init__(self, path: Path, payload: str, now_ms: int, last: int = 0) -> None:
        """Rows are numbered on from `last`."""
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("synchronous", "OFF")
        self._shared = {"payload": payload, "now": now_ms}
        self._last = last

    def add(self, statement: str, count: int, **values: object) -> range:
        """Run a statement for the next `count` numbers; returns them."""
        numbers = range(self._last + 1, self._last + count + 1)
        self.run(statement, numbers, **values)
        self._last += count
        return numbers

    def run(self, statement: str, numbers: range, **values: object) -> None:
        for first in range(numbers.start, numbers.stop, CHUNK):
            last = min(first + CHUNK, numbers.stop) - 1
            bound = self._shared | values | {"first": first, "last": last}
            self._connection.execute(statement, bound)

    def add_finished(self, count: int, kind: str) -> None:
        """Finished tasks with the two moves that each of them made."""
        numbers = self.add(FINISHED, count, kind=kind)
        for before, after, reason in (
            ("pending", "running", "claimed"),
            ("running", "completed", "completed"),
        ):
            self.run(LOG, numbers, **{"from": before, "to": after, "reason": reason})

    def close(self) -> None:
        self._connection.pragma("wal_checkpoint(truncate)")
        self._connection.close()


def copy_store(source: Path, target: Path) -> Path:
    """A copy of a folder with a store in it, side files and all; returns the copy's file."""

    def specials(folder: str, names: list[str]) -> list[str]:
        modes = {name: (Path(folder) / name).lstat().st_mode for name in names}
        plain = (stat.S_IFREG, stat.S_IFDIR)
        return [name for name, mode in modes.items() if stat.S_IFMT(mode) not in plain]

    shutil.copytree(source, target, ignore=specials)
    return target / "work.db"
