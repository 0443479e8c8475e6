"""Tasks enter the store: groups, idempotency keys, rows and large payloads in one transaction."""

from collections.abc import Sequence

import apsw

from outlast._probe import probe
from outlast.clock import Instant
from outlast.domain.lifecycle import Parked
from outlast.errors import IdempotencyConflict, InvalidInput
from outlast.store.records import Key, NewTask
from outlast.store.sqlite.transaction import Transaction, Values

INLINE_BYTES = 2048


def add_tasks(tx: Transaction, new: Sequence[NewTask], now: Instant) -> list[str]:
    """Insert what is new; returns, in order, the id each entry now stands for."""
    for group in {task.group for task in new if task.group is not None}:
        tx.run("add_group", {"group": group, "now": now.utc_ms})
    known = [_reserve(tx, task, task.key, now) if task.key else None for task in new]
    fresh = [task for task, twin in zip(new, known, strict=True) if twin is None]
    _insert(tx, fresh, now)
    _inherit_keys(tx, fresh, now)
    probe("enqueue.inserted")
    return [twin or task.id for task, twin in zip(new, known, strict=True)]


def add_together(
    tx: Transaction, calls: Sequence[tuple[Sequence[NewTask], Instant]]
) -> list[list[str]]:
    """The tasks of several callers in one pass; an error says nothing of whose it was."""
    latest = max(now for _, now in calls)
    ids = iter(add_tasks(tx, [task for new, _ in calls for task in new], latest))
    return [[next(ids) for _ in new] for new, _ in calls]


def _insert(tx: Transaction, new: Sequence[NewTask], now: Instant) -> None:
    before = tx.connection.total_changes()
    try:
        tx.run_many("add_task", [_row(task, now) for task in new])
    except apsw.ConstraintError as error:
        if getattr(error, "extendedresult", None) != apsw.SQLITE_CONSTRAINT_UNIQUE:
            raise
        twin = new[tx.connection.total_changes() - before].id
        raise InvalidInput(
            f"a task with id {twin!r} exists already; leave id out, or choose another"
        ) from error
    tx.run_many(
        "add_payload_blob", [(task.payload, task.id) for task in new if is_large(task.payload)]
    )


def _row(task: NewTask, now: Instant) -> Values:
    return {
        "id": task.id,
        "queue": task.queue,
        "kind": task.kind,
        "priority": task.priority,
        "group": task.group,
        "parked": None if task.not_before_ms is None else Parked.DELAY.value,
        "not_before": task.not_before_ms,
        "max_retries": task.max_retries,
        "max_recoveries": task.max_recoveries,
        "keyed": int(task.key is not None),
        "now": now.utc_ms,
        "retry_of": task.retry_of,
        "payload_bytes": stored_bytes(task.payload),
        "payload_sum": task.payload_sum,
        "payload": None if is_large(task.payload) else task.payload,
    }


def _inherit_keys(tx: Transaction, new: Sequence[NewTask], now: Instant) -> None:
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
    return stored_bytes(text) > INLINE_BYTES


def stored_bytes(text: str | None) -> int:
    """What a text takes; zero tells an absent one from one kept in blobs."""
    return 0 if text is None else len(text.encode())
