"""The invariants, written once: what a history and a store together show to be broken.

They complain only of what nothing explains: a call that was not answered may have happened or not,
and between asking and being answered at any moment. So a slow machine makes no false alarm.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from outlast_lab.acts import FORCING, Acts, may_concern
from outlast_lab.decisions import Decisions
from outlast_lab.history import Call, History
from outlast_lab.holding import Holding
from outlast_lab.locks import Locks
from outlast_lab.stored import Stored, StoredTask
from outlast_lab.telling import Telling
from outlast_lab.wholeness import Violation, violations_of_file
from outlast_lab.writes import REASONS, Writes, claims_and_ends, differs


def violations(history: History, stored: Stored, *, is_steady: bool = True) -> list[Violation]:
    """Every promise that history and store together show to be broken.

    `is_steady` is whether the wall clock went on as time does: then its stamps tell how long each
    lease was held.
    """
    writes = Writes(history)
    return list(
        chain(
            violations_of_file(stored),
            _Checker(history, stored, writes).all(),
            Decisions(history, stored, writes).all(),
            Holding(history, stored, writes, is_steady).all(),
            Locks(history, stored).all(),
            Telling(history, stored).all(),
            Acts(history, stored).all(),
        )
    )


class _Checker:
    def __init__(self, history: History, stored: Stored, writes: Writes) -> None:
        self._history = history
        self._stored = stored
        self._leases = writes.leases
        self._written = writes.written
        self._claims, self._ends = claims_and_ends(stored)

    def all(self) -> Iterator[Violation]:
        for call in self._history.calls:
            if call.outcome == "raised":
                yield Violation("surprise", "", f"{call.worker} {call.verb}: {call.value}")
        yield from self._lost_tasks()
        yield from self._halves()
        yield from self._phantoms()
        yield from self._lost_leases()
        yield from self._lost_writes()

    # Acknowledged is stored, and nothing else is

    def _lost_tasks(self) -> Iterator[Violation]:
        taken = {task_id for call in self._history.of("take") for task_id in call.value or ()}
        may_be_missing = sum(
            call.arguments["limit"]
            for call in self._history.of("take")
            if not call.is_done and call.may_have_happened
        )
        missing: set[str] = set()
        for call in self._history.of("enqueue", "enqueue_many", "retry"):
            asked = dict(
                zip(call.arguments["ids"], call.arguments.get("payloads", ()), strict=False)
            )
            for task_id in call.value or () if call.is_done else ():
                task = self._stored.tasks.get(task_id)
                if task is None and task_id not in taken | missing:
                    # One task may be acknowledged many times, to all who name its key.
                    missing.add(task_id)
                    may_be_missing -= 1
                    if may_be_missing < 0:
                        yield Violation("lost", task_id, f"was stored by {call} and is not there")
                elif task is not None and task_id in asked:
                    yield from _unlike(task, call, asked[task_id])
        for task_id in taken & set(self._stored.tasks):
            if not self._is_asked_for_after_taking(task_id):
                yield Violation("twice", task_id, "was taken and is still there")

    def _is_asked_for_after_taking(self, task_id: str) -> bool:
        taken_at = max(
            call.asked_at for call in self._history.of("take") if task_id in (call.value or ())
        )
        return any(
            task_id in call.arguments["ids"] and (call.answered_at or taken_at) >= taken_at
            for call in self._history.of("enqueue", "enqueue_many")
        )

    def _halves(self) -> Iterator[Violation]:
        """A call that stores many tasks stores all of them or none, answered or not."""
        takes = list(self._history.of("take"))
        taken = {task_id for call in takes for task_id in call.value or ()}
        if any(call.may_have_happened and not call.is_done for call in takes):
            return
        for call in self._history.of("enqueue_many"):
            ids = [one for one in call.arguments["ids"] if one not in taken]
            there = [task_id for task_id in ids if task_id in self._stored.tasks]
            # With keys, some of them may stand for tasks that were there before.
            is_plain = "idempotency_key" not in call.arguments
            if is_plain and not call.is_done and there and len(there) < len(ids):
                yield Violation("torn", there[0], f"{len(there)} of {len(ids)} by {call}")
            if call.is_done and len(call.value) != len(call.arguments["ids"]):
                yield Violation("lost", "", f"{call} answers for fewer than were asked")

    def _phantoms(self) -> Iterator[Violation]:
        """What is there was asked for, and not refused."""
        asked: dict[str, bool] = defaultdict(bool)
        for call in self._history.of("enqueue", "enqueue_many"):
            for task_id in call.arguments["ids"]:
                asked[task_id] |= call.may_have_happened
        cloning = list(self._history.of("retry", *FORCING))
        for task in self._stored.tasks.values():
            if task.retry_of is not None:
                if not any(may_concern(call, task.retry_of) for call in cloning):
                    yield Violation("phantom", task.id, f"clone of {task.retry_of}, unasked for")
            elif not asked.get(task.id, False):
                how = "was refused" if task.id in asked else "was never asked for"
                yield Violation("phantom", task.id, f"{how} and is there")

    def _is_gone(self, task_id: str) -> bool:
        """Whether a task is missing as a whole, which is told elsewhere."""
        return task_id not in self._stored.tasks

    def _lost_leases(self) -> Iterator[Violation]:
        for (task_id, token), lease in self._leases.items():
            claim = self._claims.get((task_id, token))
            if self._is_gone(task_id):
                continue
            if claim is None or (claim.attempt, claim.worker) != (lease.attempt, lease.worker):
                yield Violation("lost", task_id, f"{lease} and the store says {claim}")

    def _lost_writes(self) -> Iterator[Violation]:
        for wrote in self._written:
            if self._is_gone(wrote.task_id):
                continue
            end = self._ends.get((wrote.task_id, wrote.token))
            if wrote.verb in REASONS and (
                end is None or end.actor != "worker" or end.reason not in REASONS[wrote.verb]
            ):
                yield Violation("lost", wrote.task_id, f"{wrote} and the store says {end}")
            if wrote.verb == "complete":
                task = self._stored.tasks[wrote.task_id]
                if differs(task.result, wrote.result):
                    yield Violation("lost", wrote.task_id, f"{wrote}; the result is {task.result}")


def _unlike(task: StoredTask, call: Call, payload: Any) -> Iterator[Violation]:
    """Whether a task is what was asked for."""
    if differs(task.payload, payload):
        yield Violation("lost", task.id, f"has payload {task.payload!r}, not that of {call}")
    given = call.arguments
    asked = (given.get("queue", "default"), given.get("priority", 0), given.get("group"))
    if (task.queue, task.priority, task.group) != asked:
        yield Violation("lost", task.id, f"lies in {task.queue!r}, not where {call} put it")


def words(found: Iterable[Violation], at_most: int = 5) -> str:
    """The first few violations in words."""
    listed = [str(one) for one in found]
    more = f" and {len(listed) - at_most} more" if len(listed) > at_most else ""
    return "; ".join(listed[:at_most]) + more
