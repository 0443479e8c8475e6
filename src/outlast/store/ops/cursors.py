"""The stored places of named subscribers: where each is, and whether it has lapsed."""

from outlast.clock import Instant
from outlast.domain.events import START, Cursor, Place, Subscriber, cursor_of
from outlast.domain.task import utc_of
from outlast.store.transaction import Transaction

FORGOTTEN = "stream_forgotten"
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
    since_ms = now.utc_ms - round(idle_seconds * 1000)
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


def forgotten(tx: Transaction) -> Cursor:
    """Up to where parts of the stream may be gone."""
    text = tx.value("get_meta", {"key": FORGOTTEN})
    return START if text is None else cursor_of(str(text))
