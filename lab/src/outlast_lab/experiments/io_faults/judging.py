"""What is held against a case: the invariants of all experiments, and what faults must not do."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from outlast_lab.judge.foreign_reader import Stored, copied_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import History, Line, history_of

# Names that may stand beside the database, by what follows its own.
_KNOWN = ("", "-wal", "-shm", "-journal", "-outlast")


class Left(NamedTuple):
    """What a case left behind: how its process ended, what it noted, and its files."""

    lines: Sequence[Line]
    notes: dict[str, Any]
    status: int
    database: Path
    inode: int | None = None
    was_to_die: bool = False


def judge(left: Left) -> list[str]:
    """Everything that is wrong with a case that was played, each in a sentence."""
    found = list(_ending(left))
    found += _repairs(left.notes, left.database, left.inode)
    history = history_of(left.lines)
    stored = copied_stored(left.database)
    found += [str(one) for one in violations(history, stored)]
    found += _changed_though_refused(history, stored)
    found += _untrue_answers(history, stored)
    return found


def _ending(left: Left) -> Iterator[str]:
    """It goes on to its end, and serves, unless it was to be killed."""
    if os.WIFSIGNALED(left.status):
        number = os.WTERMSIG(left.status)
        is_asked_for = left.was_to_die and "struck" in left.notes and number == signal.SIGKILL
        if number == signal.SIGALRM:
            yield "it hangs"
        elif not is_asked_for:
            yield f"it ended by signal {number}"
    elif os.WEXITSTATUS(left.status):
        yield f"it ended with exit code {os.WEXITSTATUS(left.status)}"
    elif not left.notes["openings"]:
        yield "the store does not serve again once the fault is gone"


def _repairs(notes: dict[str, Any], database: Path, inode: int | None) -> Iterator[str]:
    """Nothing of the store is removed, replaced or moved aside because of a fault."""
    if inode is not None and (not database.exists() or database.stat().st_ino != inode):
        yield "the database is another file than before"
    for sort in set(notes.get("removed", ())) & {"db", "wal"}:
        yield f"SQLite removed the store's {sort}"
    for name in os.listdir(database.parent):
        if name.removeprefix(database.name) not in _KNOWN:
            yield f"{name} was left beside the store"


_TRACES = {"cancel": "cancelled", "fail_task": "failed_by_operator"}


def _changed_though_refused(history: History, stored: Stored) -> Iterator[str]:
    """What was refused has left no trace; of the verbs whose traces nothing else explains."""
    for verb, reason in _TRACES.items():
        allowed = {
            task_id
            for call in history.of(verb)
            if call.may_have_happened
            for task_id in call.arguments["ids"]
        }
        for call in history.of(verb):
            (task_id,) = call.arguments["ids"]
            moves = stored.moves.get(task_id, [])
            if task_id not in allowed and any(move.reason == reason for move in moves):
                yield f"phantom: {task_id} was refused its {verb}, which happened: {call.value}"
    # Healing writes one of its own for each lease that ran out.
    kept = {
        task_id: [one.type for one in all_ if one.type != "error_boundary"]
        for task_id, all_ in stored.checkpoints.items()
    }
    for task_id, types in kept.items():
        calls = [one for one in history.of("checkpoint") if task_id in one.arguments["ids"]]
        may_be = sum(call.may_have_happened for call in calls)
        if len(types) > may_be:
            yield f"phantom: {task_id} has {len(types)} checkpoints, {may_be} were not refused"


def _untrue_answers(history: History, stored: Stored) -> Iterator[str]:
    """What resolve() said last stays true when the process is gone."""
    last = {call.arguments["ids"][0]: call for call in history.of("resolve") if call.is_done}
    ended_at = max((call.asked_at for call in history.calls if call.verb != "resolve"), default=0.0)
    for task_id, call in last.items():
        task = stored.tasks.get(task_id)
        status = None if task is None else task.status
        if call.asked_at > ended_at and call.value != status:
            yield f"untrue: resolve({task_id}) said {call.value}, and it is {status}"
