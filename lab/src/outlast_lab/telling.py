"""Subscribers on the record: what they were told, and what their cursors may say of it.

A cursor that is ahead of what its subscriber was told has lost events. Within one subscription
events come in order, and under one name nobody is told while another is.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import count, pairwise

from outlast.domain.duration import Duration
from outlast.domain.events import ENQUEUED, Event
from outlast_lab.history import Call, History
from outlast_lab.stored import Stored
from outlast_lab.wholeness import Violation
from outlast_lab.witness import Witness

TOLD = "told"
PATIENCE_SECONDS = 60.0

# A subscription is known by its process and this number.
_sessions = count()


class Listening:
    """Subscribes under a name, hears what there is, and leaves."""

    patience_seconds: float = PATIENCE_SECONDS
    """How long it waits where nothing comes; experiments with broken disks have less of it."""

    def __init__(self, witness: Witness, name: str) -> None:
        self._witness = witness
        self._name = name

    def hear(self, patience: Duration | None = None) -> None:
        """Be told all that stands in the stream now, from its start when the name is new."""
        witness = self._witness
        session = f"{os.getpid()}.{next(_sessions)}"

        def tell(event: Event) -> None:
            place = {"pos": event.pos, "kind": event.kind, "task": event.task_id}
            witness.call(TOLD, {"name": self._name, "session": session, **place}, lambda: None)

        def listen() -> None:
            with witness.app.subscribe(tell, self._name, after="0.0") as subscription:
                subscription.catch_up(self.patience_seconds if patience is None else patience)

        witness.call("hear", {"name": self._name}, listen)


class Telling:
    """What a history says of subscribers, held against their cursors and against the stream."""

    def __init__(self, history: History, stored: Stored) -> None:
        self._stored = stored
        self._by_name: dict[str, list[Call]] = defaultdict(list)
        for call in history.of(TOLD):
            self._by_name[call.arguments["name"]].append(call)

    def all(self) -> Iterator[Violation]:
        """Every objection there is."""
        for name, calls in self._by_name.items():
            yield from self._overlaps(name, calls)
            sessions: dict[str, list[Call]] = defaultdict(list)
            for call in calls:
                sessions[call.arguments["session"]].append(call)
            for told in sessions.values():
                yield from self._out_of_order(name, told)
        for name, pos, task_seq in self._stored.cursors:
            if name in self._by_name:
                yield from self._untold(name, pos, task_seq)

    def _untold(self, name: str, pos: int, task_seq: int) -> Iterator[Violation]:
        """What the cursor has left behind without its subscriber having heard of it."""
        heard = [call.arguments for call in self._by_name[name] if call.is_done]
        places = {one["pos"] for one in heard if one["kind"] != ENQUEUED}
        created = {one["task"] for one in heard if one["kind"] == ENQUEUED}
        for place in sorted(set(self._stored.positions) - places):
            if place <= pos:
                yield Violation("untold", "", f"{name} is at {pos} and was not told of {place}")
                break
        for task in self._stored.tasks.values():
            if task.seq <= task_seq and task.id not in created:
                yield Violation("untold", task.id, f"was created, {name} does not know of it")
                break

    def _overlaps(self, name: str, calls: list[Call]) -> Iterator[Violation]:
        """Two processes that tell one name at the same time."""
        for earlier, later in pairwise(calls):
            if earlier.arguments["session"] == later.arguments["session"]:
                continue
            if earlier.answered_at is not None and earlier.answered_at > later.asked_at:
                yield Violation("told at once", "", f"{name} by {earlier.worker}, {later.worker}")

    def _out_of_order(self, name: str, told: list[Call]) -> Iterator[Violation]:
        last, seen = 0, set[str]()
        for call in told:
            place, kind, task = (call.arguments[part] for part in ("pos", "kind", "task"))
            if kind == ENQUEUED:
                if task in seen:
                    yield Violation("order", task, f"{name} heard of its creation too late")
            elif place <= last:
                yield Violation("order", task or "", f"{name} heard {place} after {last}")
            else:
                last = place
            if task is not None:
                seen.add(task)
