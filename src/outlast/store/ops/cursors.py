"""The stored places of named subscribers: where each is, and what must be kept for them."""

from outlast.clock import Instant
from outlast.domain.events import START, Cursor, Place, Subscriber, cursor_of
from outlast.domain.task import utc_of
from outlast.store.sqlite.transaction import Transaction

_FORGOTTEN = "stream_forgotten"
_BEGUN = "cursors_begun"


def begin(tx: Transaction, name: str, start: Cursor, now: Instant) -> Place:
    """The place of a name, which is new if nobody subscribed under it before."""
    born = int(tx.value("counter", {"name": _BEGUN}) or 0) + 1
    values = {"name": name, "born": born, "now": now.utc_ms}
    if tx.run("begin_cursor", values | start._asdict()):
        tx.run("add_to_counter", {"name": _BEGUN, "by": 1})
    found = place(tx, name)
    assert found is not None
    return found


def place(tx: Transaction, name: str) -> Place | None:
    """The stored place of a name."""
    row = tx.row("cursor", {"name": name})
    return None if row is None else Place(Cursor(*row[:3]), row[3])


def move(tx: Transaction, name: str, to: Place, now: Instant) -> bool:
    """Store that a name is behind this place; False when it is further, gone, or another's."""
    values = {"name": name, "born": to.born, "now": now.utc_ms}
    return tx.run("move_cursor", values | to.cursor._asdict()) == 1


def listed(tx: Transaction, end: Cursor, now: Instant, idle_seconds: float) -> list[Subscriber]:
    """All names with a stored place."""
    since_ms = _alive_since(now, idle_seconds)
    return [
        Subscriber(
            name,
            Cursor(pos, task_seq, told),
            max(0, end.pos - pos) + max(0, end.task_seq - task_seq),
            utc_of(created_at),
            utc_of(moved_at),
            moved_at < since_ms,
        )
        for name, pos, task_seq, told, created_at, moved_at in tx.rows("cursors")
    ]


def oldest_needed(tx: Transaction, now: Instant, idle_seconds: float) -> Cursor | None:
    """The place behind which everything must be kept; None when no living cursor needs anything.

    A cursor that did not move for so long has lapsed: nothing is kept for it any more.
    """
    row = tx.row("oldest_needed", {"since": _alive_since(now, idle_seconds)})
    return None if row is None or row[0] is None else Cursor(*row)


def note_forgotten(tx: Transaction, upto: Cursor) -> None:
    """Say, in the transaction that removes them, up to where parts of the stream are gone.

    Whoever comes back with an older place is told first what it missed.
    """
    before = forgotten(tx)
    mark = Cursor(max(before.pos, upto.pos), max(before.task_seq, upto.task_seq))
    tx.run("set_meta", {"key": _FORGOTTEN, "value": str(mark)})


def forgotten(tx: Transaction) -> Cursor:
    """Up to where parts of the stream may be gone."""
    text = tx.value("get_meta", {"key": _FORGOTTEN})
    return START if text is None else cursor_of(str(text))


def _alive_since(now: Instant, idle_seconds: float) -> int:
    return now.utc_ms - round(idle_seconds * 1000)
