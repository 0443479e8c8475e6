"""The invariants of recovery's own record: runs, events, deaths, and leases that ran out.

They look at the file alone, like those of single tasks, and are told with them.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from outlast_lab.judge.foreign_reader import Move, Stored, StoredRun

SPARED_KIND = "spared"
"""The kind that the laboratory's own settings leave alone: its tasks may stay with the dead."""

RECOVERY = "system/recovery"
STARTED, PROGRESS, COMPLETED = "recovery.started", "recovery.progress", "recovery.completed"
DIED = "worker.dead"
EXPIRED, TAKEN, BOUNDARY = "lease_expired", "taken", "error_boundary"
# Of a task that was lost too often only the words say in which way it was lost last.
LOST_TOO_OFTEN, BY_ITS_LEASE = "max_retries_exceeded", "the lease of "

# The queue forgets runs that are older than so many others.
_RUNS_KEPT = 1000

Objection = tuple[str, str, str]
"""The kind of violation, the task it is about if any, and how it is broken."""


class _Moved(NamedTuple):
    task_id: str
    move: Move


def objections(stored: Stored) -> Iterator[Objection]:
    """Everything that is odd about the record; nothing where there is none yet."""
    if stored.runs is None:
        return
    yield from _of_runs(stored, stored.runs)
    yield from _of_runs_at_once(stored)
    yield from _of_moves_by_runs(stored)
    yield from _of_the_dead(stored)
    yield from _of_expiries(stored)


def is_whole(stored: Stored) -> bool:
    """Whether no task was ever removed: with a task its moves go."""
    return stored.counters.get("tasks", 0) == len(stored.tasks)


def _of_runs(stored: Stored, runs: Mapping[int, StoredRun]) -> Iterator[Objection]:
    """A run begins once, ends once or not at all, and says what it did."""
    told = Counter((event.run_id, event.kind) for event in stored.events)
    for run_id, run in runs.items():
        is_over = run.completed_at is not None
        if told[run_id, STARTED] != 1:
            yield "runs", "", f"run {run_id} began {told[run_id, STARTED]} times"
        if told[run_id, COMPLETED] != is_over:
            state = "over" if is_over else "under way"
            yield "runs", "", f"run {run_id} is {state} and ended {told[run_id, COMPLETED]} times"
        moved = _moved_by(stored, run_id)
        noted = _noted(stored, run_id)
        if is_whole(stored) and noted != moved:
            yield "runs", "", f"run {run_id} noted {noted} on its way and moved {moved}"
        if is_whole(stored) and is_over and (run.put_back, run.failed) != moved:
            yield "runs", "", f"run {run_id} says {run.put_back, run.failed} and moved {moved}"
    for event in stored.events:
        if event.run_id is not None and not _is_known(event.run_id, stored):
            yield "runs", "", f"{event.kind} is told of run {event.run_id}, which is none"


def _of_runs_at_once(stored: Stored) -> Iterator[Objection]:
    """One recovers at a time: between a run's begin and its end no other begins or ends."""
    under_way: int | None = None
    ended = {event.run_id for event in stored.events if event.kind == COMPLETED}
    for event in stored.events:
        if event.kind == STARTED:
            if under_way in ended and under_way is not None:
                yield "runs", "", f"run {event.run_id} began while run {under_way} was under way"
            under_way = event.run_id
        elif event.kind == COMPLETED:
            if under_way != event.run_id:
                yield "runs", "", f"run {event.run_id} ended while run {under_way} was under way"
            under_way = None


def _moved_by(stored: Stored, run_id: int) -> tuple[int, int]:
    """How many tasks a run put back, and how many it failed."""
    own = {pos for pos, by in stored.moved_by_runs.items() if by == run_id}
    to = Counter(
        move.to_status for moves in stored.moves.values() for move in moves if move.pos in own
    )
    return to["pending"], to["failed"]


def _noted(stored: Stored, run_id: int) -> tuple[int, int]:
    """The same by what it noted after each batch."""
    said = [
        json.loads(event.data)
        for event in stored.events
        if (event.run_id, event.kind) == (run_id, PROGRESS)
    ]
    return sum(one["put_back"] for one in said), sum(one["failed"] for one in said)


def _is_known(run_id: int, stored: Stored) -> bool:
    runs = stored.runs or {}
    return run_id in runs or run_id <= max(runs, default=0) - _RUNS_KEPT


def _of_moves_by_runs(stored: Stored) -> Iterator[Objection]:
    """What a run moved, recovery moved, and while the run was under way."""
    began = {event.run_id: event.pos for event in stored.events if event.kind == STARTED}
    ended = {event.run_id: event.pos for event in stored.events if event.kind == COMPLETED}
    moves = {
        move.pos: _Moved(task_id, move) for task_id, moves in stored.moves.items() for move in moves
    }
    for pos, run_id in stored.moved_by_runs.items():
        task_id, move = moves[pos]
        if not _is_known(run_id, stored):
            yield "runs", task_id, f"was moved by run {run_id}, which is none: {move}"
        elif move.actor != RECOVERY or move.from_status != "running":
            yield "runs", task_id, f"was not recovered, and yet by run {run_id}: {move}"
        elif not began.get(run_id, 0) < pos < ended.get(run_id, pos + 1):
            yield "runs", task_id, f"was moved by run {run_id}, but not while it ran: {move}"


def _of_the_dead(stored: Stored) -> Iterator[Objection]:
    """Each death is told once, and whoever is gone holds nothing."""
    told = Counter(event.incarnation for event in stored.events if event.kind == DIED)
    states: dict[str, set[str]] = defaultdict(set)
    for worker in stored.workers.values():
        states[worker.incarnation].add(worker.state)
    for incarnation, found in states.items():
        if told[incarnation] != ("dead" in found):
            yield "deaths", "", f"{incarnation} is {found} and died {told[incarnation]} times"
        if told[incarnation] and "alive" in found:
            yield "deaths", "", f"{incarnation} died and is {found}"
    for task in stored.tasks.values():
        holder = None if task.holder is None else stored.workers.get(task.holder)
        if holder is not None and holder.state != "alive" and task.kind != SPARED_KIND:
            yield "deaths", task.id, f"is held by {holder.name}, who is {holder.state}"


def _of_expiries(stored: Stored) -> Iterator[Objection]:
    """A lease that ran out or was taken leaves one checkpoint, whatever became of its task."""
    for task_id, moves in stored.moves.items():
        kept = stored.checkpoints.get(task_id, [])
        if kept and kept[0].number > 1:
            # Whoever trims checkpoints may trim these.
            continue
        found = sum(one.type == BOUNDARY for one in kept)
        wanted = sum(map(_is_expiry, moves))
        if found != wanted:
            yield "expiries", task_id, f"ran out {wanted} times and left {found} checkpoints of it"


def _is_expiry(move: Move) -> bool:
    if move.reason == LOST_TOO_OFTEN and move.actor != "worker":
        return BY_ITS_LEASE in (move.error or "")
    return move.reason.startswith((EXPIRED, TAKEN))
