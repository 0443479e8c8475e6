"""A later Outlast, played by this one: of stores that are marked it knows one more migration.

Which store is meant must be told by the store itself: whoever opens it next, in whatever process
and after whatever cut, has to know the same migrations.
"""

from collections.abc import Sequence
from pathlib import Path

import apsw

from outlast.store.sqlite import migrate
from outlast.store.sqlite.migrate import Migration

# What migrations do: add tables, columns and indexes, make a view anew, write rows.
NEXT = Migration(
    migrate.all_migrations()[-1].number + 1,
    "next",
    """
CREATE TABLE later (
    task_seq INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    note     TEXT NOT NULL
) STRICT;
ALTER TABLE tasks ADD COLUMN later_note TEXT;
ALTER TABLE workers ADD COLUMN later_count INTEGER NOT NULL DEFAULT 0;
CREATE INDEX idx_later_note ON tasks (later_note) WHERE later_note IS NOT NULL;
INSERT INTO later (task_seq, note) SELECT seq, 'it was there before' FROM tasks;
DROP VIEW merge_queue;
CREATE VIEW merge_queue AS
SELECT t.seq AS id, t.queue AS workspace, t.status AS status, t.later_note AS note FROM tasks t;
CREATE TRIGGER later_is_never_changed BEFORE UPDATE ON later
BEGIN
    SELECT RAISE(ABORT, 'later is append-only');
END;
""",
)

_MARK = "CREATE TABLE for_a_later_outlast (x)"
_IS_MARKED = "SELECT 1 FROM sqlite_schema WHERE name = 'for_a_later_outlast'"

_pending_as_shipped = migrate.pending


def mark(path: Path) -> None:
    """From now on a store is opened by the later Outlast."""
    connection = apsw.Connection(str(path))
    connection.execute(_MARK)
    connection.close()


def _pending(
    connection: apsw.Connection, known: Sequence[Migration] | None = None
) -> list[Migration]:
    if known is None and connection.execute(_IS_MARKED).get:
        known = (*migrate.all_migrations(), NEXT)
    return _pending_as_shipped(connection, known)


def play() -> None:
    """Be the later Outlast in this process, where it is asked for."""
    vars(migrate)["pending"] = _pending
