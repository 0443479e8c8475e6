"""Tasks enter the store: groups, idempotency keys, rows and large payloads in one transaction."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter

from outlast.clock import Instant
from outlast.errors import IdempotencyConflict, InvalidInput, StoreError
from outlast.probes import probe
from outlast.store.new_tasks import AlikeTasks, Key, NewTask
from outlast.store.records import Trace
from outlast.store.transaction import KEPT_OUT, ROWS_AT_ONCE, Row, Transaction, chunks

INLINE_BYTES = 2048

# A character takes four bytes at most.
SURELY_INLINE = INLINE_BYTES // 4

# Asked of each task of a crowd, by the engine of the interpreter rather than by its code.
_ID_OF, _PAYLOAD_OF, _NOT_BEFORE_OF = itemgetter(0), itemgetter(5), itemgetter(9)
_TASKS_OF, _MOMENT_OF = itemgetter(0), itemgetter(1)
# A group, an original and a key: never empty, and never false.
_TIES_OF = itemgetter(4, 11, 12)
# The same, and a time before which it is not due.
_MORE_THAN_A_ROW_OF = itemgetter(4, 9, 11, 12)


def add_tasks(tx: Transaction, new: Sequence[NewTask], now: Instant) -> list[str]:
    """Insert what is new; returns, in order, the id each entry now stands for."""
    if isinstance(new, AlikeTasks) and new.template.group is None:
        _insert_alike(tx, new)
        probe("enqueue.inserted")
        return list(new.ids)
    if any(map(any, map(_TIES_OF, new))):
        return _add_with_ties(tx, new, now)
    _insert(tx, new)
    probe("enqueue.inserted")
    return list(map(_ID_OF, new))


def _add_with_ties(tx: Transaction, new: Sequence[NewTask], now: Instant) -> list[str]:
    for group in {task.group for task in new if task.group is not None}:
        tx.run("add_group", {"group": group, "now": now.utc_ms})
    known = [_reserve(tx, task, task.key, now) if task.key else None for task in new]
    fresh = [task for task, twin in zip(new, known, strict=True) if twin is None]
    _insert(tx, [task if task.key is None else (*task[:12], "a key") for task in fresh])
    _inherit_keys(tx, fresh)
    probe("enqueue.inserted")
    return [twin or task.id for task, twin in zip(new, known, strict=True)]


def add_traces(tx: Transaction, new: Sequence[NewTask], trace: Trace) -> None:
    """Note in which context the new ones among these were enqueued."""
    tx.run_many("add_trace", [{"id": task.id} | trace._asdict() for task in new])


def add_together(
    tx: Transaction, calls: Sequence[tuple[Sequence[NewTask], Instant]]
) -> list[list[str]]:
    """The tasks of several callers in one pass; an error says nothing of whose it was."""
    latest = max(map(_MOMENT_OF, calls))
    tasks = list(chain.from_iterable(map(_TASKS_OF, calls)))
    ids = add_tasks(tx, tasks, latest)
    if len(tasks) == len(calls):
        return list(map(list, zip(ids, strict=True)))
    rest = iter(ids)
    return [[next(rest) for _ in new] for new, _ in calls]


def as_statement(
    calls: Sequence[tuple[Sequence[NewTask], Instant]],
) -> tuple[str, Sequence[Row], Row, list[list[str]]] | None:
    """The same as one statement, its rows and answers; None unless all are few, small and due,
    and have no ties to other rows."""
    if not 0 < sum(map(len, map(_TASKS_OF, calls))) <= ROWS_AT_ONCE:
        return None
    tasks = list(chain.from_iterable(map(_TASKS_OF, calls)))
    if any(map(any, map(_MORE_THAN_A_ROW_OF, tasks))):
        return None
    if max(map(len, filter(None, map(_PAYLOAD_OF, tasks))), default=0) > SURELY_INLINE:
        return None
    if len(tasks) == 1:
        return "add_task", tasks, (), [[tasks[0].id]]
    return "add_tasks", tasks, (INLINE_BYTES,), [[one.id for one in new] for new, _ in calls]


def _insert(tx: Transaction, new: Sequence[Row]) -> None:
    """Rows as NewTask has them, with anything in place of a key."""

    def insert(part: slice) -> int:
        rows = new[part]
        if len(rows) == 1 and len(rows[0][5] or "") <= SURELY_INLINE:
            return tx.run_row("add_task", rows[0])
        return tx.run_rows_at_once("add_tasks", rows, (INLINE_BYTES,))

    _insert_in_parts(tx, len(new), insert, lambda: list(map(_ID_OF, new)))
    if list(map(_NOT_BEFORE_OF, new)).count(None) < len(new):
        tx.run("add_task_dues", {"inserted": len(new)})
    _add_large(tx, map(_ID_OF, new), list(map(_PAYLOAD_OF, new)))


def _insert_alike(tx: Transaction, new: AlikeTasks) -> None:
    """What they share is bound once for each statement."""
    shared = (INLINE_BYTES, *new.template[1:4], *new.template[7:11])

    def insert(part: slice) -> int:
        rows = list(zip(new.ids[part], new.payloads[part], new.sums[part], strict=True))
        return tx.run_rows_at_once("add_alike_tasks", rows, shared)

    _insert_in_parts(tx, len(new), insert, lambda: new.ids)
    if new.template.not_before_ms is not None:
        tx.run("add_task_dues", {"inserted": len(new)})
    _add_large(tx, new.ids, new.payloads)


def _insert_in_parts(
    tx: Transaction, count: int, insert: Callable[[slice], int], ids: Callable[[], Sequence[str]]
) -> None:
    """Many with each statement; an id that is taken is named."""
    inserted = 0
    try:
        for part in chunks(count):
            inserted += insert(part)
    except tx.constraint_error as error:
        _refuse_twin(tx, ids()[inserted:], error)
        raise
    if inserted != count:
        raise StoreError(KEPT_OUT)


def _add_large(tx: Transaction, ids: Iterable[str], texts: Sequence[str | None]) -> None:
    """What a row has no place for is kept apart, by the id of its task."""
    if max(map(len, filter(None, texts)), default=0) <= SURELY_INLINE:
        return
    large = [
        (text, task_id)
        for task_id, text in zip(ids, texts, strict=True)
        if text is not None and is_large(text)
    ]
    if large:
        tx.run_many("add_payload_blob", large)


def _refuse_twin(tx: Transaction, rest: Sequence[str], error: Exception) -> None:
    if tx.is_taken(error):
        twin = _twin(tx, rest)
        raise InvalidInput(
            f"a task with id {twin!r} exists already; leave id out, or choose another"
        ) from error


def _twin(tx: Transaction, rest: Sequence[str]) -> str:
    """The first of those not inserted whose id is in use, or was given twice."""
    seen: set[str] = set()
    for task_id in rest:
        if task_id in seen or tx.value("status_of", {"id": task_id}) is not None:
            return task_id
        seen.add(task_id)
    return ""


def _inherit_keys(tx: Transaction, new: Sequence[NewTask]) -> None:
    """The clone of a failed task answers for its key from now on, so that no third one is made."""
    for task in new:
        if task.retry_of is not None and task.key is None:
            values = {"original": task.retry_of, "clone": task.id}
            if tx.run("inherit_key", values):
                tx.run("mark_keyed", {"id": task.id})


def _reserve(tx: Transaction, task: NewTask, key: Key, now: Instant) -> str | None:
    """Reserve the key for this task, or find the task it already stands for."""
    values = {
        "key": key.text,
        "task_id": task.id,
        "group": task.group,
        "request_hash": key.request_hash,
        "now": now.utc_ms,
        "expires_at": now.utc_ms + key.ttl_ms,
    }
    if tx.value("reserve_key", values) is not None:
        return None
    found = tx.row("read_key", {"key": key.text})
    stored_hash, task_id = found or (None, None)
    if stored_hash != key.request_hash or task_id is None:
        raise IdempotencyConflict(key.text, task_id)
    return str(task_id)


def is_large(text: str | None) -> bool:
    """Whether a text lives in blobs: a row this size would be rewritten by every update."""
    return text is not None and len(text) > SURELY_INLINE and stored_bytes(text) > INLINE_BYTES


def stored_bytes(text: str | None) -> int:
    """What a text takes; zero tells an absent one from one kept in blobs."""
    if text is None:
        return 0
    return len(text) if text.isascii() else len(text.encode())
