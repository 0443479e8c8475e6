"""What must be possible with any store that was broken off: open it twice, and finish everything.

To be called in a process that may open the store by Outlast; the file itself is read elsewhere.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from outlast.api import Outlast
from outlast.clock import Clock
from outlast.errors import OutlastError
from outlast.lab.lives import SetClock
from outlast.lab.replay import FINAL
from outlast.lab.stored import Stored, changed_tables, foreign_stored
from outlast.lab.wholeness import Violation, violations_of_file

LIMIT = 500


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


def after_finishing(path: Path) -> list[Violation]:
    """Two days later all that is not final can be finished; what was final stays as it was."""
    before = foreign_stored(path)
    try:
        _finish(path)
    except OutlastError as error:
        return [Violation("stuck", "", f"cannot go on: {type(error).__name__}: {error}")]
    after = foreign_stored(path)
    return [
        *violations_of_file(after),
        *_changed(before, after),
        *(
            Violation("stuck", task_id, f"is {status} although all was finished")
            for task_id, status in after.statuses().items()
            if status not in FINAL
        ),
    ]


def _finish(path: Path) -> None:
    clock = SetClock(days=2)
    with Outlast(path, clock=clock) as app:
        for queue in {task.queue for task in app.tasks("pending", limit=LIMIT)}:
            app.unpause(queue)
        for task in app.tasks("pending", limit=LIMIT):
            app.unpark(task.id)
        clock.advance("1h")
        queues = sorted({task.queue for task in app.tasks("pending", limit=LIMIT)})
        while queues and (leases := app.claim("finisher", limit=LIMIT, queue=queues)):
            app.complete_many([(lease, None) for lease in leases])
