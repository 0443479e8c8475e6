"""Lists of tasks, newest first: by an index where few match, else along the table from its end."""

from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

from outlast.domain.lifecycle import Status
from outlast.domain.task import Task
from outlast.store.ops.rows import task_from
from outlast.store.sqlite.readers import LongRead
from outlast.store.sqlite.statements import sql
from outlast.store.sqlite.transaction import Row, Transaction, Values, int_array

# As many row numbers are sorted in no time; of more, the newest are soon met along the table.
FEW = 5000
# Tasks of a mebibyte each are still few enough to be held at once.
ROWS_AT_ONCE = 100
_END = (1 << 63) - 1


class Wanted(NamedTuple):
    """Which tasks: None does not narrow."""

    status: Status | None
    queue: str | None
    group: str | None

    def values(self, limit: int) -> Values:
        """What the statements bind."""
        status = None if self.status is None else self.status.value
        return {"status": status, "queue": self.queue, "group": self.group, "limit": limit}


def newest(tx: Transaction, wanted: Wanted, limit: int) -> list[Row]:
    """The newest tasks that are wanted."""
    seqs = _seqs(tx, wanted, limit)
    if seqs is None:
        return tx.rows("tasks_before", wanted.values(limit) | {"before": _END})
    return _records(tx, seqs[:limit])


class Listing:
    """Every task that is wanted, of the moment at which this was made."""

    def __init__(self, read: LongRead, wanted: Wanted, check: Callable[[], None]) -> None:
        self._read = read
        self._wanted = wanted
        self._check = check
        self._before = _END
        self._done = 0
        self._seqs = read.read("a snapshot", lambda tx: _seqs(tx, wanted, _END))

    def more(self) -> list[Task]:
        """The next ones; none when all were listed."""
        self._check()
        tasks = [task_from(row) for row in self._read.read("a snapshot", self._next)]
        if not tasks:
            self.close()
        return tasks

    def _next(self, tx: Transaction) -> list[Row]:
        if self._seqs is None:
            values = self._wanted.values(ROWS_AT_ONCE) | {"before": self._before}
            rows = tx.rows("tasks_before", values)
            self._before = rows[-1][-1] if rows else 0
            return rows
        seqs = self._seqs[self._done : self._done + ROWS_AT_ONCE]
        self._done += len(seqs)
        return _records(tx, seqs)

    def close(self) -> None:
        """Let go of the moment."""
        self._read.end("it was listed to its end, or closed")


def _records(tx: Transaction, seqs: "array[int]") -> list[Row]:
    return tx.rows("records_by_seq", {"seqs": int_array(seqs)}) if seqs else []


def _seqs(tx: Transaction, wanted: Wanted, limit: int) -> "array[int] | None":
    """The rows of a group, or of a status that few tasks are in, newest first; else None."""
    if wanted.group is not None:
        return _numbers(tx, "seqs_of_group", wanted.values(limit))
    if wanted.status is None:
        return None
    found = _numbers(tx, _name(wanted), wanted.values(FEW + 1))
    return None if len(found) > FEW else array("q", sorted(found, reverse=True))


def _name(wanted: Wanted) -> str:
    if wanted.status is Status.RUNNING:
        return "seqs_running"
    if wanted.status is Status.PENDING:
        return "seqs_pending" if wanted.queue is None else "seqs_pending_of_queue"
    return "seqs_ended"


def _numbers(tx: Transaction, name: str, values: Values) -> "array[int]":
    rows: Iterable[Row] = tx.connection.execute(sql(name), values)
    return array("q", (seq for (seq,) in rows))
