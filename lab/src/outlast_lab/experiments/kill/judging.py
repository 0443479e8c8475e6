"""The judge: what was acknowledged before a kill against what a foreign reader finds after it.

Then Outlast has to deal with what the dead left: open it, put back what they held, finish all
that is unfinished, and change nothing that was final. Opening it twice must equal opening it once.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from outlast.app.app import Outlast
from outlast.clock import SystemClock
from outlast.errors import OutlastError
from outlast_lab.judge.foreign_reader import Stored, copied_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.judge.reopening import changed_tables
from outlast_lab.judge.replay import FINAL
from outlast_lab.judge.row_rules import violations_of_file
from outlast_lab.record.history import History, Line, history_of
from outlast_lab.record.set_clock import SetClock

_AT_ONCE = 20


def of_the_dead(lines: Iterable[Line]) -> History:
    """The history of processes none of which lives any more; who did not leave was killed.

    When, the kernel alone knows: not before the last thing it did.
    """
    history = history_of(lines)
    for call in history.calls:
        if call.worker not in history.left_at:
            history.killed_at[call.worker] = call.answered_at or call.asked_at
    return history


def acknowledged(history: History) -> int:
    """How many calls were answered before the end."""
    return sum(call.is_done for call in history.calls)


def complaints(history: History, stored: Stored) -> list[str]:
    """What the invariants say, in words."""
    return [str(one) for one in violations(history, stored)]


def troubles_of_going_on(database: Path, found: Stored, clock: SetClock | None = None) -> list[str]:
    """What is wrong with a store after it was opened, recovered and worked to its end."""
    app = Outlast(database, clock=clock or SystemClock())
    said: list[str] = []
    try:
        app.open()
        if left := app.counts()["running"]:
            said.append(f"recovery left {left} tasks with the dead")
        said += [f"recovery left lock {one.name} with {one.holder}" for one in app.locks()]
        app.close()
        once = copied_stored(database, with_content=True)
        app.open()
        app.close()
        said += _differences(once, copied_stored(database, with_content=True))
        said += overcharged(found, once)
        _finish(app, clock)
    except OutlastError as error:
        return [*said, f"it cannot go on: {type(error).__name__}: {error}"]
    finally:
        app.close()
    return [*said, *_unfinished(database, found)]


def _finish(app: Outlast, clock: SetClock | None) -> None:
    app.unpause("default")
    for task in app.tasks("pending", limit=100_000):
        if task.parked:
            app.unpark(task.id)
    if clock is not None:
        clock.advance("1h")
    while leases := app.claim("next", limit=_AT_ONCE):
        app.complete_many([(lease, None) for lease in leases])


# What an opening may write down about itself: who opened, and when.
_OF_THE_OPENING = frozenset({"workers", "meta"})


def _differences(once: Stored, twice: Stored) -> Iterator[str]:
    """Opening a store a second time finds nothing more to do."""
    for name in changed_tables(once, twice):
        if name not in _OF_THE_OPENING:
            yield f"a second opening changed the table {name}"


def overcharged(found: Stored, recovered: Stored) -> Iterator[str]:
    """A death costs the tasks that its process held one recovery each, and nobody else any."""
    for task_id, task in recovered.tasks.items():
        before = found.tasks.get(task_id)
        if before is None:
            yield f"{task_id} came from nowhere"
            continue
        spent = task.recovery_count - before.recovery_count
        allowed = 1 if before.status == "running" else 0
        if not 0 <= spent <= allowed:
            yield f"{task_id} was {before.status} and was charged {spent} recoveries"


def unfair(history: History, found: Stored, final: Stored) -> Iterator[str]:
    """Who was at work when its process died pays for it once; who was only taken ahead does not."""
    begun = {(call.arguments["ids"][0], call.arguments["token"]) for call in history.of("start")}
    for call in history.of("claim", "prefetch"):
        for task_id, token, *_ in call.value if call.is_done else ():
            task, then = found.tasks.get(task_id), final.tasks.get(task_id)
            if task is None or then is None or (task.status, task.token) != ("running", token):
                continue
            owed = int(call.verb == "claim" or (task_id, token) in begun)
            if then.recovery_count - task.recovery_count != owed:
                yield f"{task_id} was held by {call.verb} and was charged {then.recovery_count}"


def _unfinished(database: Path, found: Stored) -> Iterator[str]:
    folder = database.with_name(f"{database.name}-outlast") / "workers"
    if left := os.listdir(folder):
        yield f"lock files of the dead are left behind: {left}"
    after = copied_stored(database)
    yield from (f"after all was finished: {one}" for one in complaints_of_file(after))
    if missing := set(found.tasks) - set(after.tasks):
        yield f"recovery lost {sorted(missing)[:5]}"
    if added := set(after.tasks) - set(found.tasks):
        yield f"recovery made up {sorted(added)[:5]}"
    for task_id, task in after.tasks.items():
        before = found.tasks.get(task_id)
        if task.status not in FINAL:
            yield f"{task_id} is {task.status} and cannot be finished"
        elif before is not None and before.status in FINAL and before.status != task.status:
            yield f"{task_id} was {before.status} and is {task.status}"


def complaints_of_file(stored: Stored) -> Iterable[str]:
    """What the file alone shows to be broken."""
    return (str(one) for one in violations_of_file(stored))
