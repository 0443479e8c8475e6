"""Reading the stream: a page of it, from one consistent snapshot that is let go at once."""

import json
from collections.abc import Callable
from typing import Protocol, TypeVar

from outlast.clock import Instant
from outlast.domain.events import (
    MISSED,
    START,
    Created,
    Cursor,
    Event,
    Page,
    Place,
    Placed,
    Subscriber,
    name_of_move,
    woven,
)
from outlast.domain.task import utc_of
from outlast.store.ops import cursors
from outlast.store.sqlite.transaction import Row, Transaction
from outlast.store.sqlite.wakeups.listener import Topic, Waiter
from outlast.store.sqlite.wakeups.notify import Wakeups

T = TypeVar("T")


class Asked(Protocol):
    """What the questions below are asked of."""

    _wakeups: Wakeups

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T: ...


class StreamReads:
    """The part of looking that follows the stream."""

    def stream(self: Asked, after: Cursor, limit: int, now: Instant) -> Page:
        """What comes behind a place, up to so many events; gone parts are told first."""
        return self._read("reading the stream", lambda tx: page(tx, after, limit, now))

    def stream_end(self: Asked) -> Cursor:
        """The place behind all there is."""
        return self._read("reading the stream", end)

    def ear_for_news(self: Asked) -> Waiter:
        """Listen for anything that comes to stand in the stream."""
        return self._wakeups.waiter(frozenset({Topic.NEWS}))

    def cursor(self: Asked, name: str) -> Place | None:
        """The stored place of a name."""
        return self._read("reading a cursor", lambda tx: cursors.place(tx, name))

    def subscribers(self: Asked, now: Instant, idle_seconds: float) -> list[Subscriber]:
        """The names that have a stored place, and how far each is."""

        def query(tx: Transaction) -> list[Subscriber]:
            return cursors.listed(tx, end(tx), now, idle_seconds)

        return self._read("reading cursors", query)


def end(tx: Transaction) -> Cursor:
    """The place behind all there is."""
    row = tx.row("stream_end")
    assert row is not None
    return Cursor(*row)


def page(tx: Transaction, after: Cursor, limit: int, now: Instant) -> Page:
    """A piece of the stream; short only at its end."""
    first = _missed(tx, after, now)
    if first is not None:
        after = first.cursor
    values = {"pos": after.pos, "task_seq": after.task_seq, "limit": limit}
    created = [_created(row) for row in tx.rows("stream_creations", values)]
    placed = [_moved(row) for row in tx.rows("stream_moves", values)]
    placed += [_happened(row) for row in tx.rows("stream_events", values)]
    placed.sort()
    events = woven(after, created, placed, limit)
    is_last = len(events) < limit
    behind = _furthest(after, end(tx)) if is_last else events[-1].cursor
    return Page(events if first is None else [first, *events], behind, is_last)


def _furthest(after: Cursor, behind: Cursor) -> Cursor:
    pos, task_seq = max(after.pos, behind.pos), max(after.task_seq, behind.task_seq)
    return after._replace(pos=pos, task_seq=task_seq)


def _missed(tx: Transaction, after: Cursor, now: Instant) -> Event | None:
    """What to tell a reader first, behind whose place parts of the stream are gone.

    Whoever begins at the start asks for what is there, and has missed nothing.
    """
    gone = cursors.forgotten(tx)
    if after == START or after.forgotten >= gone.pos or after.reaches(gone):
        return None
    left = tx.row(
        "stream_left",
        {
            "from_pos": after.pos, "to_pos": gone.pos,
            "from_seq": after.task_seq, "to_seq": gone.task_seq,
        },
    )  # fmt: skip
    assert left is not None
    positions = max(0, gone.pos - after.pos - left[0])
    creations = max(0, gone.task_seq - after.task_seq - left[1])
    if not positions + creations:
        return None
    data = {"positions": positions, "creations": creations, "up_to": str(gone)}
    return Event(after._replace(forgotten=gone.pos), MISSED, utc_of(now.utc_ms), data=data)


def _created(row: Row) -> Created:
    seq, at_ms, task_id, kind, queue, group, priority, retry_of = row
    data = {"group": group, "priority": priority, "retry_of": retry_of}
    return Created(seq, at_ms, task_id, kind, queue, data)


def _moved(row: Row) -> Placed:
    (
        pos, at_ms, seq, task_id, task_kind, queue, worker, run_id,
        start, to, actor, reason, attempt, error, exit_signal, peak_memory_bytes,
        parked,
    ) = row  # fmt: skip
    data = {
        "from": start,
        "to": to,
        "actor": actor,
        "reason": reason,
        "attempt": attempt,
        "error": error,
        "exit_signal": exit_signal,
        "peak_memory_bytes": peak_memory_bytes,
        "parked": parked,
    }
    kind = name_of_move(start, to, reason, actor)
    return Placed(pos, at_ms, kind, seq, task_id, task_kind, queue, worker, run_id, data)


def _happened(row: Row) -> Placed:
    pos, at_ms, kind, seq, task_id, task_kind, queue, worker, run_id, text = row
    data = json.loads(text)
    # A task that was taken is not there any more to be asked.
    task_kind, queue = data.pop("task_kind", task_kind), data.pop("queue", queue)
    return Placed(pos, at_ms, kind, seq, task_id, task_kind, queue, worker, run_id, data)
