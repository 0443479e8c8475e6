"""What must be possible with any store that was broken off: open it by Outlast, twice.

To be called in a process that may open the store by Outlast; the file itself is read elsewhere.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from outlast.app.app import Outlast
from outlast.clock import Clock
from outlast.errors import OutlastError
from outlast_lab.replay import FINAL
from outlast_lab.stored import Rows, Stored, foreign_stored
from outlast_lab.wholeness import Violation, violations_of_file

# What an opening writes down about itself: its run, the run's events, and the counters of both.
_OF_THE_OPENING = frozenset({"recovery_runs", "sqlite_sequence"})


def changed_tables(once: Stored, twice: Stored) -> list[str]:
    """The tables that differ between two openings of which the second had nothing to do."""
    before, after = (
        {name: _beside_runs(name, rows) for name, rows in one.content.items()}
        for one in (once, twice)
    )
    return [
        name
        for name in sorted(before.keys() | after.keys())
        if name not in _OF_THE_OPENING and before.get(name) != after.get(name)
    ]


def _beside_runs(table: str, rows: Rows) -> Rows:
    """A run says when it begins and ends; a worker found dead by the second one is a difference."""
    if table != "events":
        return rows
    return [row for row in rows if not str(row[1]).startswith("recovery.")]


def after_reopening(
    path: Path, clock: Clock | None = None, read: Callable[[Path, bool], Stored] = foreign_stored
) -> list[Violation]:
    """Open by Outlast twice: nothing final changes, and the second time changes nothing at all."""
    before = read(path, False)
    try:
        once = _opened(path, clock, read)
        twice = _opened(path, clock, read)
    except OutlastError as error:
        return [Violation("stuck", "", f"cannot be opened: {type(error).__name__}: {error}")]
    return [
        *violations_of_file(twice),
        *_changed(before, once),
        *(
            Violation("reopening", "", f"twice is not once in table {table}")
            for table in changed_tables(once, twice)
        ),
    ]


def _opened(path: Path, clock: Clock | None, read: Callable[[Path, bool], Stored]) -> Stored:
    with Outlast(path, clock=clock):
        pass
    return read(path, True)


def _changed(before: Stored, after: Stored) -> Iterator[Violation]:
    for task_id, status in before.statuses().items():
        now = after.statuses().get(task_id)
        if now is None or (status in FINAL and now != status):
            yield Violation("lost", task_id, f"was {status} and is {now} after reopening")
