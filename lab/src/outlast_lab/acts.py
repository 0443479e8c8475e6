"""Operators' acts: the calls that experiments make by name, and what these must leave behind.

An act that was acknowledged has its effect and its entry in the audit; one that was not has both
or neither. That the two go together is seen by the file alone, in `audited`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from outlast_lab import audited
from outlast_lab.audited import OF_A_TASK, OPERATOR, Entry
from outlast_lab.history import Call, History
from outlast_lab.locks import FORCE as FREE
from outlast_lab.locks import MARK_DEAD
from outlast_lab.stored import Stored
from outlast_lab.wholeness import Violation
from outlast_lab.witness import Witness

if TYPE_CHECKING:
    from outlast.domain.operator_acts import Forced

FORCE, FORCE_MANY, APPROVE = "force", "force_many", "approve"
FORCING = (FORCE, FORCE_MANY)
# What the same verbs are called in the audit.
_ACTIONS = {
    "cancel": "task.cancel",
    "fail_task": "task.fail",
    "park_task": "task.park",
    "unpark_task": "task.unpark",
    "retry": "task.retry",
    "pause": audited.PAUSED,
    "unpause": audited.RESUMED,
    APPROVE: "task.approve",
    MARK_DEAD: audited.MARKED_DEAD,
    FREE: audited.LOCK_FREED,
}
# Stands for the tasks of a call that named none.
ANY = "*"


class Operator:
    """The verbs of one who gives a name: that of the witness."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._app = witness.app
        self._by = witness.worker

    def force(self, task_id: str, action: str, reason: str | None = None) -> None:
        """Retry, fail or put back one task, whoever holds it."""
        self._call(
            FORCE, {"ids": [task_id], "action": action},
            lambda: [self._app.force(task_id, action, by=self._by, reason=reason)], _told_of,
        )  # fmt: skip

    def force_many(self, action: str, task_ids: list[str] | None = None, **fits: Any) -> None:
        """The same for many, by their ids or by what they fit."""
        ids = [ANY] if task_ids is None else task_ids
        self._call(
            FORCE_MANY, {"ids": ids, "action": action, **fits},
            lambda: self._app.force_many(action, task_ids, by=self._by, **fits), _told_of,
        )  # fmt: skip

    def approve(self, task_id: str | None = None) -> None:
        """Let go what recovery holds: one task, or all."""
        self._call(
            APPROVE, {"ids": [task_id or ANY]},
            lambda: self._app.approve_recovery(task_id, by=self._by), lambda ids: ids,
        )  # fmt: skip

    def cancel(self, task_id: str) -> None:
        """Stop a task for good."""
        self._on("cancel", task_id, lambda: self._app.cancel(task_id, by=self._by))

    def fail(self, task_id: str, error: str) -> None:
        """Fail a task, whoever holds it."""
        self._on("fail_task", task_id, lambda: self._app.fail(task_id, error, by=self._by))

    def park(self, task_id: str) -> None:
        """Keep a pending task from being claimed."""
        self._on("park_task", task_id, lambda: self._app.park(task_id, by=self._by))

    def unpark(self, task_id: str) -> None:
        """Let a parked task run."""
        self._on("unpark_task", task_id, lambda: self._app.unpark(task_id, by=self._by))

    def retry(self, task_id: str) -> None:
        """Run a final task anew, as a clone."""
        arguments = {"ids": [task_id]}
        retry = self._app.retry
        self._call("retry", arguments, lambda: retry(task_id, by=self._by), lambda one: [one.id])

    def pause(self, queue: str) -> None:
        """Hand out nothing from a queue."""
        pause = self._app.pause
        self._call("pause", {"queue": queue}, lambda: pause(queue, by=self._by), bool)

    def unpause(self, queue: str) -> None:
        """Hand out tasks of a queue again."""
        unpause = self._app.unpause
        self._call("unpause", {"queue": queue}, lambda: unpause(queue, by=self._by), bool)

    def mark_dead(self, incarnation: str | None, force: bool = False) -> None:
        """Declare a process dead; None stands for one that was not found."""
        if incarnation is not None:
            self._call(
                MARK_DEAD, {"incarnation": incarnation, "force": force},
                lambda: self._app.mark_dead(incarnation, self._by, force),
                lambda dead: dead is not None,
            )  # fmt: skip

    def _on(self, verb: str, task_id: str, action: Callable[[], Any]) -> None:
        self._call(verb, {"ids": [task_id]}, action, lambda value: value is not False)

    def _call(
        self,
        verb: str,
        arguments: dict[str, Any],
        action: Callable[[], Any],
        told: Callable[[Any], Any],
    ) -> None:
        self._witness.call(verb, {**arguments, "by": self._by}, action, told)


def _told_of(done: "list[Forced]") -> Any:
    return [[one.task_id, one.is_changed, one.new_id] for one in done]


def forced(call: Call) -> set[str]:
    """The tasks that a call surely made eligible, failed or cloned: none holds them since."""
    return {task_id for task_id, changed, _ in call.value if changed} if call.is_done else set()


def may_concern(call: Call, task_id: str) -> bool:
    """Whether a call may have done something to a task: it named it, or none."""
    return call.may_have_happened and bool({task_id, ANY} & set(call.arguments["ids"]))


class Acts:
    """What a history says of operators who gave their names, held against the audit."""

    def __init__(self, history: History, stored: Stored) -> None:
        self._history = history
        self._stored = stored
        self._calls = [call for call in history.calls if "by" in call.arguments]
        self._calls += history.of(FREE)

    def all(self) -> Iterator[Violation]:
        """Every act that is lost, made up, or done without being asked for."""
        yield from self._entries()
        yield from self._effects()
        yield from self._clones()

    def _entries(self) -> Iterator[Violation]:
        """As many as were acknowledged, and no more than were asked for."""
        sure: Counter[Entry] = Counter()
        perhaps: Counter[Entry] = Counter()
        for call in self._calls:
            is_open = call.may_have_happened and not call.is_done
            (perhaps if is_open else sure).update(_entries_of(call))
        found = audited.entries(self._stored)
        for entry in sure - found:
            yield Violation("lost", _task(entry), f"{entry} was told and is not in the audit")
        for entry in found - (sure + perhaps):
            if not perhaps[entry._replace(subject=ANY)]:
                yield Violation("phantom", _task(entry), f"{entry} is in the audit, unasked for")

    def _effects(self) -> Iterator[Violation]:
        """What was forced to fail has failed, and what runs in a task's place is there."""
        has_taken = any(self._history.of("take"))
        for call in self._history.of(*FORCING):
            for task_id, changed, new_id in call.value if call.is_done else ():
                task, clone = self._stored.tasks.get(task_id), self._stored.tasks.get(new_id)
                is_failed = call.arguments["action"] == "fail" and changed
                if task is not None and is_failed and task.status != "failed":
                    yield Violation("lost", task_id, f"{call} and it is {task.status}")
                if new_id is not None and clone is None and not has_taken:
                    yield Violation("lost", task_id, f"{call} and {new_id} is not there")

    def _clones(self) -> Iterator[Violation]:
        """A clone is on record, or was asked for by one who gave no name."""
        nameless = Counter(
            call.arguments["ids"][0]
            for call in self._history.of("retry")
            if call.may_have_happened and "by" not in call.arguments
        )
        on_record = audited.clones_on_record(self._stored)
        clones = Counter(task.retry_of for task in self._stored.tasks.values() if task.retry_of)
        for task_id, count in clones.items():
            if count > nameless[task_id] + on_record[task_id]:
                told = f"was run anew {count} times, and the audit says {on_record[task_id]}"
                yield Violation("unrecorded", task_id, told)


def _entries_of(call: Call) -> Iterator[Entry]:
    """What a call that was answered has surely left in the audit, or another may have left."""
    if not call.may_have_happened:
        return
    actor, given = OPERATOR + call.worker, call.arguments
    action = f"{OF_A_TASK}{given['action']}" if call.verb in FORCING else _ACTIONS[call.verb]
    for subject in _subjects(call):
        yield Entry(actor, action, subject)


def _subjects(call: Call) -> list[str]:
    given = call.arguments
    if call.is_done and call.verb in FORCING:
        return sorted(forced(call))
    if call.is_done and call.verb == APPROVE:
        return list(call.value)
    if call.is_done and not call.value:
        return []
    named = (given.get(one) for one in ("incarnation", "queue", "name"))
    return list(given.get("ids") or [one for one in named if one is not None])


def _task(entry: Entry) -> str:
    return entry.subject if entry.action.startswith(OF_A_TASK) else ""


def asked_by(history: History) -> dict[str, list[Call]]:
    """By actor, the calls by which an operator may have ended leases."""
    found: dict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if "by" in call.arguments and call.may_have_happened:
            found[OPERATOR + call.worker].append(call)
    return found
