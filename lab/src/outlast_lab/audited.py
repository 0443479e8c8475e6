"""The audit by the file alone: no act of an operator without its entry, no entry without its act.

The same of what recovery and healing account for. Of what was removed with a task nothing is said.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from outlast_lab.recorded import COMPLETED, DIED, RECOVERY, is_whole
from outlast_lab.stored import Move, Stored, StoredAct, StoredEvent

OPERATOR = "operator/"
HEALED, RECLAIMED = "heal", "queue.reclaim"
RECOVERED, MARKED_DEAD = "recover_from_crash", "worker.mark_dead"
LOCK_FREED, PAUSED, RESUMED = "lock.release", "queue.pause", "queue.unpause"
OF_A_TASK = "task."
# By what event each act is told that moves no task.
_TOLD_BY = {
    "worker.dead": MARKED_DEAD,
    "lock.released": LOCK_FREED,
    "queue.paused": PAUSED,
    "queue.resumed": RESUMED,
}
# What each act does to a task, and what tells that it was done; all others make it run anew, at
# once or as a clone.
_CANCEL, _FAIL, _PARK, _GO = "cancel", "fail", "park", "go"
_SORTS = {
    "task.cancel": _CANCEL,
    "cancelled": _CANCEL,
    "task.fail": _FAIL,
    "failed_by_operator": _FAIL,
    "task.park": _PARK,
    "task.parked": _PARK,
}
_WAITING = ("task.parked", "task.unparked")

Objection = tuple[str, str]
"""The task it is about, if any, and what is wrong."""


class Entry(NamedTuple):
    """Who did what to what."""

    actor: str
    action: str
    subject: str


def is_operators(actor: str | None) -> bool:
    """Whether somebody acted who gave a name."""
    return actor is not None and actor.startswith(OPERATOR)


def is_death(move: Move) -> bool:
    """Whether a task was taken from one who was found dead, or said to be, or by force."""
    return (
        move.reason.startswith(("crash", "lease_expired", "taken")) or move.reason in _OF_THE_DEAD
    )


_OF_THE_DEAD = ("never_started", "max_retries_exceeded")


def entries(stored: Stored) -> Counter[Entry]:
    """The acts of operators that are on record, task by task."""
    found: Counter[Entry] = Counter()
    for act in stored.audit or ():
        if is_operators(act.actor) and act.action not in (HEALED, RECLAIMED):
            found.update(Entry(act.actor, act.action, one) for one in _subjects(act))
    return found


def _subjects(act: StoredAct) -> list[str]:
    data = json.loads(act.data)
    named = [data["incarnation"]] if act.action == MARKED_DEAD else data.get("task_ids")
    return [act.subject or ""] if named is None else list(named)


def clones_on_record(stored: Stored) -> Counter[str]:
    """How many clones of each task the audit speaks of: entries that moved nothing."""
    found: Counter[str] = Counter()
    for (_, task_id, sort), left in _balance(stored).items():
        if sort == _GO:
            found[task_id] += max(left, 0)
    return found


def objections(stored: Stored) -> Iterator[Objection]:
    """Everything that acts and entries say differently; nothing where there is no audit yet."""
    if stored.audit is None:
        return
    yield from _of_tasks(stored)
    yield from _of_clones(stored, stored.audit)
    yield from _of_the_rest(stored)
    yield from _of_locks(stored, stored.audit)
    yield from _of_healing(stored, stored.audit)
    yield from _of_runs(stored, stored.audit)


def _balance(stored: Stored) -> Counter[tuple[str, str, str]]:
    """By operator, task and sort of act: entries, less what is seen to have been done."""
    left: Counter[tuple[str, str, str]] = Counter()
    for entry, count in entries(stored).items():
        if entry.action.startswith(OF_A_TASK) and entry.subject in stored.tasks:
            left[entry.actor, entry.subject, _SORTS.get(entry.action, _GO)] += count
    for task_id, moves in stored.moves.items():
        for move in moves:
            if is_operators(move.actor) and not is_death(move):
                left[move.actor, task_id, _SORTS.get(move.reason, _GO)] -= 1
    ids = {task.seq: task.id for task in stored.tasks.values()}
    for event in stored.events:
        actor, about = _actor(event), ids.get(stored.event_tasks.get(event.pos, 0))
        if event.kind in _WAITING and is_operators(actor) and about is not None:
            left[str(actor), about, _SORTS.get(event.kind, _GO)] -= 1
    return left


def _of_tasks(stored: Stored) -> Iterator[Objection]:
    """Each entry has its move, its parking or unparking, or its clone."""
    clones = Counter(task.retry_of for task in stored.tasks.values() if task.retry_of)
    for (actor, task_id, sort), left in _balance(stored).items():
        if left < 0:
            yield task_id, f"was changed by {actor} ({sort}), and the audit does not say so"
        elif left and sort != _GO:
            yield task_id, f"was not changed by {actor} ({sort}), although the audit says so"
    for task_id, left in clones_on_record(stored).items():
        if left > clones[task_id] and is_whole(stored):
            yield task_id, f"has {left} entries that say more than {clones[task_id]} clones"


def _of_clones(stored: Stored, audit: list[StoredAct]) -> Iterator[Objection]:
    """A clone that is named is there, and an entry about many names as many as it counts."""
    for act in audit:
        data = json.loads(act.data)
        clone = stored.tasks.get(data.get("new_id", ""))
        is_there = clone is not None and clone.retry_of == act.subject
        if "new_id" in data and not is_there and is_whole(stored):
            yield act.subject or "", f"has no clone as {act} says"
        if "task_ids" in data and data["changed"] != len(data["task_ids"]):
            yield "", f"says {data['changed']} and names {len(data['task_ids'])}: {act}"


def _of_the_rest(stored: Stored) -> Iterator[Objection]:
    """Deaths that were declared, locks that were freed, queues that were paused."""
    told = Counter(
        Entry(str(_actor(event)), _TOLD_BY[event.kind], _about(event))
        for event in stored.events
        if event.kind in _TOLD_BY and is_operators(_actor(event))
    )
    noted = Counter({
        entry: count for entry, count in entries(stored).items()
        if entry.action in _TOLD_BY.values()
    })  # fmt: skip
    for entry in told - noted:
        yield "", f"{entry} was done, and the audit does not have it"
    for entry in noted - told:
        yield "", f"{entry} stands in the audit and was not done"


def _of_locks(stored: Stored, audit: list[StoredAct]) -> Iterator[Objection]:
    """A lock that was freed is not held by the token it was taken from."""
    for act in audit:
        held = stored.locks.get(act.subject or "") if act.action == LOCK_FREED else None
        if held is not None and held.token == json.loads(act.data)["token"]:
            yield "", f"lock {held.name} was freed and is held: {act}"


def _of_healing(stored: Stored, audit: list[StoredAct]) -> Iterator[Objection]:
    """What was taken back outside of a recorded run is accounted for, batch by batch."""
    noted: Counter[tuple[str, str]] = Counter()
    for act in audit:
        if act.action in (HEALED, RECLAIMED):
            if (act.actor == RECOVERY) != (act.source == "self_healing"):
                yield "", f"nobody healed by itself: {act}"
            data = json.loads(act.data)
            noted[act.actor, "pending"] += data["put_back"]
            noted[act.actor, "failed"] += data["failed"]
    moved = Counter(
        (move.actor, move.to_status)
        for moves in stored.moves.values()
        for move in moves
        if _is_healing(move) and move.pos not in stored.moved_by_runs
    )
    for key in noted.keys() | moved.keys():
        if moved[key] > noted[key] or (moved[key] < noted[key] and is_whole(stored)):
            yield "", f"{key} was taken back {moved[key]} times, and the audit says {noted[key]}"


def _is_healing(move: Move) -> bool:
    """Not what a store gives back itself, because nobody was told that it was claimed."""
    taken_back = move.actor == RECOVERY and move.reason != "released"
    return taken_back or (move.actor != "worker" and is_death(move))


def _of_runs(stored: Stored, audit: list[StoredAct]) -> Iterator[Objection]:
    """A recovery that is over and took something back is accounted for once."""
    noted = {act.run_id: json.loads(act.data) for act in audit if act.action == RECOVERED}
    if len(noted) != sum(act.action == RECOVERED for act in audit):
        yield "", "a recovery is accounted for twice"
    ended = {event.run_id for event in stored.events if event.kind == COMPLETED}
    for run_id in noted.keys() - ended:
        yield "", f"run {run_id} is accounted for and not over"
    for run in (stored.runs or {}).values():
        said = noted.get(run.id)
        figures = None if said is None else (said["put_back"], said["failed"])
        has_acted = run.completed_at is not None and (run.put_back or run.failed)
        if (has_acted or figures) and figures != (run.put_back, run.failed):
            yield "", f"run {run.id} did {run.put_back, run.failed}, and the audit says {figures}"


def _actor(event: StoredEvent) -> str | None:
    actor: str | None = _data(event).get("actor")
    return actor


def _about(event: StoredEvent) -> str:
    if event.kind == DIED:
        return event.incarnation or ""
    data = _data(event)
    return str(data.get("lock", data.get("queue", "")))


def _data(event: StoredEvent) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event.data)
    return found
