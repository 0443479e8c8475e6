"""The stream by the file alone: no change without its event, no event without its change.

Every move is its own event, and every task its own creation. What is left to hold against each
other are the changes that have a row of their own in `events`, and the places of all of them.
"""

import json
from collections import Counter
from collections.abc import Iterator

from outlast_lab.judge.foreign_reader import Stored
from outlast_lab.judge.recovery_rules import is_whole


def stream_faults(stored: Stored) -> Iterator[str]:
    """What the events and the rest of the store say differently."""
    if not stored.counters:
        return
    places = Counter(stored.positions)
    if twice := [pos for pos, count in places.items() if count > 1]:
        yield f"has two things at positions {twice[:3]}"
    last = max(places, default=0)
    if (counter := stored.counters.get("transitions", 0)) < last:
        yield f"will use positions again: its counter is {counter}, its last position {last}"
    # Only with a task that was removed, places become empty again.
    empty = sorted(set(range(1, counter + 1)) - places.keys())
    if empty and is_whole(stored):
        yield f"has left positions {empty[:3]} empty"
    yield from _of_queues(stored)
    yield from _of_takes(stored)


def _of_queues(stored: Stored) -> Iterator[str]:
    told = {
        json.loads(event.data)["queue"]: event.kind == "queue.paused"
        for event in stored.events
        if event.kind.startswith("queue.")
    }
    paused = {name for name, is_paused in told.items() if is_paused}
    for name in paused ^ stored.paused:
        is_so = "is" if name in stored.paused else "is not"
        yield f"differs about queue {name!r}, which {is_so} paused"


def _of_takes(stored: Stored) -> Iterator[str]:
    """A task that is not there any more was taken, and one that was taken is not there."""
    there = {task.seq for task in stored.tasks.values()}
    about = stored.event_tasks
    taken = {about.get(event.pos) for event in stored.events if event.kind == "task.taken"}
    if both := there & taken:
        yield f"says of rows {sorted(both)[:3]}, which are there, that they were taken"
    gone = set(range(1, stored.counters.get("tasks", 0) + 1)) - there
    if silent := gone - taken:
        yield f"does not say what became of rows {sorted(silent)[:3]}"
